package sqlite

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/internal/ledger"
)

// The wall clock was set ten minutes back, or forth, while no process had the file open. A lease that was in force lasts
// one term from the opening, no more and no less; what was ready is ready; and no token is used twice.
func TestClockStepBetweenTwoLives(t *testing.T) {
	for _, step := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		t.Run(step.String(), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "queue.db")
			synctest.Test(t, func(t *testing.T) { clockStep(t, path, step) })
		})
	}
}

func clockStep(t *testing.T, path string, step time.Duration) {
	const lease = 10 * time.Second
	policy := queue.Policy{Lease: lease, MaxLease: time.Minute}
	var before []queue.Lease
	var db *DB
	var q *Queue
	open := func(wall time.Time) {
		var err error
		if db, err = Open(t.Context(), path, Options{}); err != nil {
			t.Fatal(err)
		}
		if err := db.doAlone(t.Context(), func(int64) error { db.clock = ledger.StartClock(wall); return nil }); err != nil {
			t.Fatal(err)
		}
		if q, err = db.Queue(t.Context(), "jobs", policy); err != nil {
			t.Fatal(err)
		}
	}
	receive := func(wait time.Duration) []queue.Lease {
		t.Helper()
		ls, err := q.Receive(t.Context(), queue.Request{Worker: "w", Max: 1, Wait: wait})
		if err != nil {
			t.Fatal(err)
		}
		return ls
	}
	open(time.Now())
	q.Publish(t.Context(), make([]queue.Job, 2))
	before = receive(0)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	open(time.Now().Add(step))
	defer db.Close()
	start := time.Now()
	ready := receive(0)
	if len(ready) != 1 || ready[0].Token <= before[0].Token {
		t.Fatalf("received %+v, want the ready job under a new token", ready)
	}
	if err := q.Settle(t.Context(), []queue.Settlement{{Receipt: ready[0].Receipt(), Verdict: queue.Ack}})[0]; err != nil {
		t.Fatal(err)
	}
	if s, err := q.Stats(t.Context()); err != nil || !s.InFlight.At.Equal(time.Now()) {
		t.Errorf("measured at %v, %v; the wall clock shows %v: readers take that for stale", s.InFlight.At, err, time.Now())
	}
	if ls := receive(lease - time.Second); len(ls) != 0 {
		t.Fatalf("the lease ended %v after the opening", time.Since(start))
	}
	if ls := receive(2 * time.Second); len(ls) != 1 || ls[0].JobID != before[0].JobID {
		t.Fatalf("%v after the opening: received %+v", time.Since(start), ls)
	}
	if e := q.Extend(t.Context(), []queue.Receipt{before[0].Receipt()}, 0)[0]; e.Err == nil {
		t.Error("the old lease may still be extended")
	}
}
