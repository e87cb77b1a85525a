package sqlite_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/journal"
	"github.com/headrace/headrace/internal/journal/journaltest"
	"github.com/headrace/headrace/internal/journal/sqlite"
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

func TestContract(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) journal.Journal { return open(t, filepath.Join(t.TempDir(), "j.db")) })
}

func TestEverythingSurvivesReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?.db") // a name that a careless URL would break
	j := open(t, path)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	if err := j.Append(t.Context(), []journal.Record{{Pool: "a", At: at}}); err != nil {
		t.Fatal(err)
	}
	if err := j.SaveStates(t.Context(), map[string]json.RawMessage{"a": json.RawMessage(`1`)}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the file is not where it was asked for: %v", err)
	}
	j = open(t, path)
	if rs, err := j.List(t.Context(), journal.Filter{Limit: 5}); len(rs) != 1 || !rs[0].At.Equal(at) || err != nil {
		t.Errorf("records %+v and %v, want the one", rs, err)
	}
	if states, err := j.LoadStates(t.Context()); string(states["a"]) != "1" || err != nil {
		t.Errorf("states %s and %v, want the one", states, err)
	}
}

func TestOpenRefusesWhatIsNotAJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	text := "this is no database, but a text that is long enough to be read as the header of one, twice over ............"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if j, err := sqlite.Open(t.Context(), path); err == nil {
		j.Close()
		t.Error("a text file was opened as a journal")
	}
}
