package journaltest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/journal"
	"github.com/headrace/headrace/scale"
)

// Run holds a journal to its contract. open returns an empty one, closed when the test ends.
func Run(t *testing.T, open func(t *testing.T) journal.Journal) {
	t.Run("records come back whole, newest first", func(t *testing.T) { testList(t, open(t)) })
	t.Run("states are replaced one by one", func(t *testing.T) { testStates(t, open(t)) })
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

func testList(t *testing.T, j journal.Journal) {
	rs := []journal.Record{record("a", 0, 1, 2), record("b", 1, 1, 1), record("a", 2, 2, 2), record("a", 3, 2, 5)}
	if err := j.Append(t.Context(), rs); err != nil {
		t.Fatal(err)
	}
	outcome := journal.Outcome{Applied: true, Error: `refused: "no"`}
	if err := j.SetOutcome(t.Context(), rs[3].Seq, outcome); err != nil {
		t.Fatal(err)
	}
	rs[3].Outcome = outcome
	for name, tc := range map[string]struct {
		filter journal.Filter
		want   []int // indexes into rs
	}{
		"all":     {journal.Filter{Limit: 10}, []int{3, 2, 1, 0}},
		"a pool":  {journal.Filter{Pool: "a", Limit: 2}, []int{3, 2}},
		"a page":  {journal.Filter{Pool: "a", Limit: 2, Before: rs[2].Seq}, []int{0}},
		"changes": {journal.Filter{Changes: true, Limit: 10}, []int{3, 0}},
		"at":      {journal.Filter{Pool: "a", At: noon.Add(150 * time.Second), Limit: 1}, []int{2}},
		"nothing": {journal.Filter{Pool: "c", Limit: 1}, nil},
	} {
		got, err := j.List(t.Context(), tc.filter)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(got) != len(tc.want) {
			t.Errorf("%s: %d records, want %d", name, len(got), len(tc.want))
			continue
		}
		for i, k := range tc.want {
			if a, b := text(t, got[i]), text(t, rs[k]); a != b {
				t.Errorf("%s, record %d:\ngot  %s\nwant %s", name, i, a, b)
			}
		}
	}
	if err := j.Prune(t.Context(), noon.Add(2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got, err := j.List(t.Context(), journal.Filter{Limit: 10}); len(got) != 2 || err != nil {
		t.Errorf("after pruning: %d records and %v, want 2", len(got), err)
	}
}

func text(t *testing.T, r journal.Record) string {
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func testStates(t *testing.T, j journal.Journal) {
	save := func(pool, state string) {
		if err := j.SaveStates(t.Context(), map[string]json.RawMessage{pool: json.RawMessage(state)}); err != nil {
			t.Fatal(err)
		}
	}
	save("a", `{"n":1}`)
	save("b", `{"n":2}`)
	save("a", `{"n":3}`)
	got, err := j.LoadStates(t.Context())
	if err != nil || len(got) != 2 || string(got["a"]) != `{"n":3}` || string(got["b"]) != `{"n":2}` {
		t.Errorf("states %s and %v, want a:3 and b:2", got, err)
	}
}
