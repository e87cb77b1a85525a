package queuetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headrace/headrace/queue"
)

// StressConfig says how hard to press.
type StressConfig struct {
	Jobs  int           // to publish, roughly
	Lease time.Duration // default 400 ms
}

// StressPolicy returns the policy that [Stress] wants.
func (c StressConfig) StressPolicy() queue.Policy {
	if c.Lease == 0 {
		c.Lease = 400 * time.Millisecond
	}
	return queue.Policy{
		Lease: c.Lease, MaxLease: 4 * c.Lease, Attempts: 4, AfterCrashes: 3,
		BackoffMin: 10 * time.Millisecond, BackoffMax: 100 * time.Millisecond, KeepResults: time.Hour,
	}
}

// stress is a run of [Stress] and what it has seen.
type stress struct {
	t     *testing.T
	q     full
	lease time.Duration

	published, acked, stale, falseLost, double atomic.Int64
	stop                                       chan struct{} // publishing is over
	lives                                      sync.Map      // job id + redrives → acked
}

// Stress lets publishers, workers that end their jobs in every way or in none, extensions in tight loops, cancels, redrives
// and abandonment loose on one queue. Then it lets all end and checks that no job is stranded, that each life of a job
// succeeded at most once, that no lease was refused while it was well in force, and that the numbers add up.
func Stress(t *testing.T, h *Harness, c StressConfig) {
	c.Lease = c.StressPolicy().Lease
	q, ok := h.Queue.(full)
	if !ok {
		t.Fatalf("%T lacks an optional interface that this test uses", h.Queue)
	}
	s := &stress{t: t, q: q, lease: c.Lease, stop: make(chan struct{})}
	var publishers, workers, others sync.WaitGroup
	for range 3 {
		publishers.Go(func() { s.publish(c.Jobs / 3) })
	}
	for w := range 8 {
		workers.Go(func() { s.work(fmt.Sprint("w", w)) })
	}
	others.Go(s.meddle)
	publishers.Wait()
	close(s.stop)
	workers.Wait()
	others.Wait()
	s.verify(h)
}

func (s *stress) publish(jobs int) {
	for n := 0; n < jobs; {
		batch := make([]queue.Job, 1+rand.IntN(40))
		for i := range batch {
			batch[i].Payload = []byte("x")
			switch rand.IntN(12) {
			case 0, 1:
				batch[i].Delay = rand.N(s.lease)
			case 2:
				batch[i].ExpiresIn = time.Millisecond + rand.N(2*s.lease)
			}
		}
		for _, p := range s.q.Publish(s.t.Context(), batch) {
			if p.Err != nil {
				s.t.Errorf("publish: %v", p.Err)
				return
			}
			s.published.Add(1)
			if rand.IntN(25) == 0 {
				s.cancel(p.ID)
			}
		}
		n += len(batch)
		time.Sleep(rand.N(20 * time.Millisecond)) // even the fastest queue is meddled with while jobs still come
	}
}

func (s *stress) cancel(id string) {
	if _, err := s.q.Cancel(s.t.Context(), id); err != nil && !errors.Is(err, queue.ErrConflict) {
		s.t.Errorf("cancel: %v", err)
	}
}

func (s *stress) meddle() {
	for {
		select {
		case <-s.stop:
			return
		case <-time.After(10 * time.Millisecond):
		}
		if _, err := s.q.Redrive(s.t.Context(), 50, rand.IntN(3) == 0); err != nil {
			s.t.Errorf("redrive: %v", err)
		}
		if _, err := s.q.Abandon(s.t.Context(), "zombie", "abandoned"); err != nil {
			s.t.Errorf("abandon: %v", err)
		}
		if st, err := s.q.Stats(s.t.Context()); err != nil || st.Backlog.Value < 0 || st.InFlight.Value < 0 || st.Delayed.Value < 0 {
			s.t.Errorf("stats: %+v, %v", st, err)
		}
	}
}

func (s *stress) work(me string) {
	for {
		name := me
		calm := s.over() // in the end everybody behaves, so that all ends
		if !calm && rand.IntN(12) == 0 {
			name = "zombie"
		}
		called := time.Now()
		ls, err := s.q.Receive(s.t.Context(), queue.Request{Worker: name, Max: 1 + rand.IntN(10), Wait: 30 * time.Millisecond})
		if err != nil {
			s.t.Errorf("receive: %v", err)
			return
		}
		if len(ls) == 0 {
			if st, err := s.q.Stats(s.t.Context()); err != nil || calm && st.Backlog.Value+st.Delayed.Value+st.InFlight.Value == 0 {
				return
			}
			continue
		}
		if name == "zombie" {
			continue // whatever becomes of them
		}
		s.end(ls, called, calm)
	}
}

func (s *stress) over() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// end ends a batch of leases in one of many ways.
func (s *stress) end(ls []queue.Lease, called time.Time, calm bool) {
	receipts := make([]queue.Receipt, len(ls))
	for i, l := range ls {
		receipts[i] = l.Receipt()
	}
	var extending sync.WaitGroup
	if rand.IntN(3) == 0 {
		extending.Go(func() {
			for range 20 {
				s.q.Extend(s.t.Context(), receipts, 0)
			}
		})
	}
	defer extending.Wait()
	if rand.IntN(10) == 0 {
		s.cancel(ls[0].JobID)
	}
	verdict := queue.Ack
	if !calm {
		switch rand.IntN(20) {
		case 0, 1, 2:
			verdict = queue.Nack
		case 3, 4:
			verdict = queue.Release
		case 5:
			verdict = queue.Dead
		case 6:
			verdict = queue.Crash
		case 7:
			return // dies in silence
		case 8:
			time.Sleep(s.lease + s.lease/8) // too long
		}
	}
	settlements := make([]queue.Settlement, len(ls))
	for i, l := range ls {
		settlements[i] = queue.Settlement{Receipt: l.Receipt(), Verdict: verdict, Result: []byte(l.JobID)}
		if rand.IntN(2) == 0 {
			settlements[i].Delay = new(time.Duration)
		}
	}
	// Any lease that has a good part of its time left when it is settled is in force, unless it was cancelled: a cancelled
	// job keeps its lease too.
	errs := s.q.Settle(s.t.Context(), settlements)
	well := time.Since(called) < s.lease*3/4
	for i, err := range errs {
		switch {
		case err == nil && verdict == queue.Ack:
			s.acked.Add(1)
			r, err := s.q.Get(context.WithoutCancel(s.t.Context()), ls[i].JobID)
			if err != nil {
				s.t.Errorf("get: %v", err)
				continue
			}
			if !r.State.Terminal() || string(r.Result) != r.ID {
				s.t.Errorf("acked job is %+v", r)
			}
			if _, twice := s.lives.LoadOrStore(fmt.Sprint(r.ID, r.Redrives), true); twice {
				s.double.Add(1)
			}
		case errors.Is(err, queue.ErrLost):
			s.stale.Add(1)
			if well {
				s.falseLost.Add(1)
			}
		case err != nil:
			s.t.Errorf("settle: %v", err)
		}
	}
}

func (s *stress) verify(h *Harness) {
	t := s.t
	st, err := s.q.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d published, %d acked, %d stale settlements refused, totals %v", s.published.Load(), s.acked.Load(), s.stale.Load(), st.Totals)
	if n := st.Backlog.Value + st.Delayed.Value + st.InFlight.Value; n != 0 {
		t.Errorf("%v jobs are stranded", n)
	}
	if n := s.double.Load(); n != 0 {
		t.Errorf("%d jobs were completed twice", n)
	}
	if n := s.falseLost.Load(); n != 0 {
		t.Errorf("%d settlements were refused well inside the lease", n)
	}
	ends := st.Totals["succeeded"] + st.Totals["dead"] + st.Totals["cancelled"] + st.Totals["expired"]
	if in := s.published.Load() + st.Totals["redriven"]; in != ends || float64(ends) != st.Completions.Value {
		t.Errorf("%d published and redriven, %d ended, %v completions", in, ends, st.Completions.Value)
	}
	if left := float64(st.Totals["dead"] - st.Totals["redriven"]); left != st.Dead.Value {
		t.Errorf("%v dead letters, want %v", st.Dead.Value, left)
	}
	for _, total := range []string{"nacked", "released", "crashed", "lost", "dead", "cancelled", "expired", "redriven"} {
		if st.Totals[total] == 0 {
			t.Errorf("the run had nothing %s: it proves little", total)
		}
	}
	if drift, err := h.Drift(); err != nil || len(drift) != 0 {
		t.Errorf("drift: %v %v", drift, err)
	}
}
