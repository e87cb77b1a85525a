package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/queue"
)

// crash is the file as a server leaves it that is killed right before a statement, and what had been acknowledged by then.
type crash struct {
	path  string
	stmt  statement
	acked map[string]queue.State
}

// acks is what callers were told. The writer looks at it while they go on.
type acks struct {
	mu    sync.Mutex
	state map[string]queue.State
}

func (a *acks) note(id string, s queue.State) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state[id] = s
}

func (a *acks) forget(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.state, id)
}

func (a *acks) now() map[string]queue.State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.state)
}

// The server is killed between any two statements of a run that does everything a queue can do. Each time the file opens,
// has no drift and everything that was acknowledged, and all jobs come to an end.
func TestW4_KilledBetweenAnyTwoStatements(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "queue.db")
	db, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	policy := queue.Policy{Lease: time.Minute, BackoffMin: time.Microsecond, BackoffMax: time.Microsecond, KeepResults: time.Nanosecond}
	q, err := db.Queue(t.Context(), "jobs", policy)
	if err != nil {
		t.Fatal(err)
	}
	var crashes []crash
	acked := &acks{state: map[string]queue.State{}}
	hook := func(f func(statement)) {
		if err := db.doAlone(t.Context(), func(int64) error { db.w.before = f; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	hook(func(s statement) {
		c := crash{path: filepath.Join(dir, fmt.Sprint("crash", len(crashes))), stmt: s, acked: acked.now()}
		for _, suffix := range []string{"", "-wal"} {
			b, err := os.ReadFile(path + suffix)
			if err == nil {
				err = os.WriteFile(c.path+suffix, b, 0o600)
			}
			if err != nil {
				t.Error(err)
			}
		}
		crashes = append(crashes, c)
	})
	liveFully(t, q, acked)
	hook(nil)
	seen := map[statement]int{}
	for i, c := range crashes {
		if seen[c.stmt]++; Raced && i%5 != 0 {
			continue
		}
		recovers(t, c, policy)
		if t.Failed() {
			t.Fatalf("killed before statement %d, number %d of %d", c.stmt, seen[c.stmt], len(crashes))
		}
	}
	for s := range numStatements + 1 {
		if seen[s] == 0 {
			t.Errorf("statement %d was never reached: %s", s, append(statements[:], "the answer")[s])
		}
	}
	t.Logf("%d moments to die", len(crashes))
}

// liveFully does one of everything, and notes in acked what it was told is durable.
func liveFully(t *testing.T, q *Queue, acked *acks) {
	ctx := t.Context()
	var ids []string
	for _, p := range q.Publish(ctx, []queue.Job{{Key: "a"}, {Key: "b"}, {ID: "0197f000-0000-7000-8000-00000000abcd"}, {}, {}, {ExpiresIn: time.Millisecond, Delay: time.Hour}, {Delay: time.Millisecond}}) {
		if p.Err != nil {
			t.Fatal(p.Err)
		}
		ids = append(ids, p.ID)
		acked.note(p.ID, queue.Ready)
	}
	acked.forget(ids[5]) // it expires, and this one is cancelled
	acked.forget(ids[6])
	q.Publish(ctx, []queue.Job{{Key: "a"}}) // known
	ls, err := q.Receive(ctx, queue.Request{Worker: "w", Max: 5})
	if err != nil || len(ls) != 5 {
		t.Fatal(ls, err)
	}
	for i, v := range []queue.Verdict{queue.Ack, queue.Nack, queue.Dead, queue.Crash} {
		if v == queue.Ack {
			acked.forget(ls[i].JobID) // it will be forgotten at once
		}
		if err := q.Settle(ctx, []queue.Settlement{{Receipt: ls[i].Receipt(), Verdict: v, Result: []byte("r")}})[0]; err != nil {
			t.Fatal(err)
		}
		if v == queue.Dead {
			acked.note(ls[i].JobID, queue.DeadState)
		}
	}
	for _, worker := range []string{"w", "x"} { // the suspect alone, and the one beside which it may not run
		if _, err := q.Abandon(ctx, worker, "killed"); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Receive(ctx, queue.Request{Worker: "x", Max: 5}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.Cancel(ctx, ids[6]); err != nil && !errors.Is(err, queue.ErrConflict) && !errors.Is(err, queue.ErrNotFound) {
		t.Fatal(err)
	}
	for id, s := range acked.now() { // it has another life
		if s == queue.DeadState {
			acked.note(id, queue.Ready)
		}
	}
	if n, err := q.Redrive(ctx, 10, false); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	time.Sleep(1100 * time.Millisecond) // for the janitor
	if _, err := q.Receive(ctx, queue.Request{Worker: "y", Max: 1}); err != nil {
		t.Fatal(err)
	}
}

func recovers(t *testing.T, c crash, policy queue.Policy) {
	policy.KeepResults = time.Hour
	db, err := Open(t.Context(), c.path, Options{})
	if err != nil {
		t.Error(err)
		return
	}
	defer db.Close()
	q, err := db.Queue(t.Context(), "jobs", policy)
	if err != nil {
		t.Error(err)
		return
	}
	ctx := context.Background()
	drift := func() {
		if d, err := db.Drift(ctx); err != nil || len(d) > 0 {
			t.Errorf("drift %v, %v", d, err)
		}
	}
	drift()
	for id, want := range c.acked {
		if r, err := q.Get(ctx, id); err != nil || want == queue.DeadState && r.State != want {
			t.Errorf("an acknowledged job that is %s: %+v, %v", want, r, err)
		}
	}
	for _, w := range []string{"w", "x", "y"} { // the workers died too
		if _, err := q.Abandon(ctx, w, "killed"); err != nil {
			t.Error(err)
		}
	}
	for end := time.Now().Add(10 * time.Second); ; {
		ls, err := q.Receive(ctx, queue.Request{Worker: "z", Max: 100, Wait: time.Millisecond})
		if err != nil {
			t.Error(err)
			return
		}
		for _, l := range ls {
			if err := q.Settle(ctx, []queue.Settlement{{Receipt: l.Receipt(), Verdict: queue.Ack}})[0]; err != nil {
				t.Error(err)
			}
		}
		s, err := q.Stats(ctx)
		if err != nil || time.Now().After(end) {
			t.Errorf("not all jobs came to an end: %+v, %v", s, err)
			return
		}
		if s.Backlog.Value+s.Delayed.Value+s.InFlight.Value == 0 {
			break
		}
	}
	drift()
}
