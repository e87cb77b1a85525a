package sqlite_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/internal/journal"
	"github.com/headrace/headrace/internal/journal/sqlite"
	"github.com/headrace/headrace/scale"
)

func open(t *testing.T, path string) *sqlite.Journal {
	t.Helper()
	j, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func record(pool string, minute, from, to int) journal.Record {
	at := noon.Add(time.Duration(minute) * time.Minute)
	return journal.Record{
		At: at, Pool: pool,
		Observation: scale.Observation{At: at, Backlog: scale.Read(12.5, at)},
		Decision:    scale.Decision{Pool: pool, At: at, Current: from, Desired: to, Reason: scale.DemandMet},
	}
}

func TestRecordsComeBackWholeNewestFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?.db") // a name that a careless URL would break
	j := open(t, path)
	rs := []journal.Record{record("a", 0, 1, 2), record("b", 1, 1, 1), record("a", 2, 2, 2), record("a", 3, 2, 5)}
	if err := j.Append(t.Context(), rs); err != nil {
		t.Fatal(err)
	}
	outcome := journal.Outcome{Applied: true, Error: "refused: \"no\""}
	if err := j.SetOutcome(t.Context(), rs[3].Seq, outcome); err != nil {
		t.Fatal(err)
	}
	rs[3].Outcome = outcome
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the file is not where it was asked for: %v", err)
	}
	j = open(t, path)
	for name, tc := range map[string]struct {
		filter journal.Filter
		want   []journal.Record
	}{
		"all":     {journal.Filter{Limit: 10}, []journal.Record{rs[3], rs[2], rs[1], rs[0]}},
		"a pool":  {journal.Filter{Pool: "a", Limit: 2}, []journal.Record{rs[3], rs[2]}},
		"a page":  {journal.Filter{Pool: "a", Limit: 2, Before: rs[2].Seq}, []journal.Record{rs[0]}},
		"changes": {journal.Filter{Changes: true, Limit: 10}, []journal.Record{rs[3], rs[0]}},
		"at":      {journal.Filter{Pool: "a", At: noon.Add(150 * time.Second), Limit: 1}, []journal.Record{rs[2]}},
	} {
		got, err := j.List(t.Context(), tc.filter)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	if err := j.Prune(t.Context(), noon.Add(2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got, _ := j.List(t.Context(), journal.Filter{Limit: 10}); len(got) != 2 {
		t.Errorf("after pruning: %d records, want 2", len(got))
	}
}

func TestStatesSurviveReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	j := open(t, path)
	for _, v := range []string{`{"n":1}`, `{"n":2}`} {
		if err := j.SaveStates(t.Context(), map[string]json.RawMessage{"a": json.RawMessage(v)}); err != nil {
			t.Fatal(err)
		}
	}
	j.Close()
	got, err := open(t, path).LoadStates(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]json.RawMessage{"a": json.RawMessage(`{"n":2}`)}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestOpenRefusesWhatIsNotAJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	if err := os.WriteFile(path, []byte("this is no database, but a text that is long enough to be read as one's header, twice over............"), 0o600); err != nil {
		t.Fatal(err)
	}
	if j, err := sqlite.Open(t.Context(), path); err == nil {
		j.Close()
		t.Error("a text file was opened as a journal")
	}
}
