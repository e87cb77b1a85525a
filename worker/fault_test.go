package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/downstream"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/memory"
	"github.com/headrace/headrace/worker"
	"github.com/headrace/headrace/worker/protocol"
)

// faulty is a connection that can be cut.
type faulty struct {
	worker.Conn
	noBeats, noSettles, loseAnswers atomic.Bool
}

var errCut = errors.New("connection cut")

func (f *faulty) Heartbeat(ctx context.Context, r protocol.HeartbeatRequest) (protocol.HeartbeatAnswer, error) {
	if f.noBeats.Load() {
		<-ctx.Done() // accepted, never answered
		return protocol.HeartbeatAnswer{}, ctx.Err()
	}
	return f.Conn.Heartbeat(ctx, r)
}

func (f *faulty) Settle(ctx context.Context, items []protocol.Settlement) ([]protocol.Settled, error) {
	if f.noSettles.Load() {
		return nil, errCut
	}
	a, err := f.Conn.Settle(ctx, items)
	if f.loseAnswers.CompareAndSwap(true, false) {
		return nil, errCut
	}
	return a, err
}

// TestW8_FinishedJobsAreKeptUntilTheQueueConfirms: settlements do not arrive for a minute, twelve leases long, while
// 300 jobs finish. None runs twice, and none waits for a lease to run out.
func TestW8_FinishedJobsAreKeptUntilTheQueueConfirms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{Lease: 5 * time.Second})
		f := &faulty{Conn: r.conn()}
		f.noSettles.Store(true)
		const n = 300
		for range n {
			r.publish("x")
		}
		var starts atomic.Int32
		w := start(t, f, func(context.Context, *worker.Job) ([]byte, error) {
			starts.Add(1)
			time.Sleep(time.Second)
			return []byte("r"), nil
		}, worker.Options{Slots: n})
		time.Sleep(time.Minute)
		if s := r.stats(); s.InFlight.Value != n || starts.Load() != n {
			t.Errorf("got %v in flight, %d starts, want %d and %d", s.InFlight.Value, starts.Load(), n, n)
		}
		f.noSettles.Store(false)
		time.Sleep(6 * time.Second) // the longest pause between two tries
		if s := r.stats(); s.Totals["succeeded"] != n {
			t.Errorf("succeeded: got %d, want %d", s.Totals["succeeded"], n)
		}
		w.endCleanly()
		if starts.Load() != n {
			t.Errorf("starts: got %d, want %d", starts.Load(), n)
		}
	})
}

// Results that cannot be delivered hold claiming back: more work would only add to them.
func TestW8_UndeliveredResultsHoldClaimingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{})
		f := &faulty{Conn: r.conn()}
		f.noSettles.Store(true)
		for range 100 {
			r.publish("x")
		}
		w := start(t, f, work(time.Second), worker.Options{Slots: 2})
		time.Sleep(3 * time.Minute)
		if s := r.stats(); s.InFlight.Value < 2 || s.InFlight.Value > 6 {
			t.Errorf("%v jobs held after three minutes without an answer, want about two a slot at most", s.InFlight.Value)
		}
		f.noSettles.Store(false)
		time.Sleep(2 * time.Minute)
		if s := r.stats(); s.Totals["succeeded"] != 100 {
			t.Errorf("%d jobs succeeded once answers came, want 100", s.Totals["succeeded"])
		}
		w.endCleanly()
	})
}

// A settlement whose lease ended a whole lease ago cannot matter any more, and is not offered for ever.
func TestASettlementThatCannotMatterIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{Lease: 5 * time.Second})
		f := &faulty{Conn: r.conn()}
		f.noSettles.Store(true)
		f.noBeats.Store(true)
		r.publish("a")
		w := start(t, f, work(time.Second), worker.Options{})
		time.Sleep(30 * time.Second)
		f.noBeats.Store(false)
		w.drain()
		if err := <-w.done; err != nil && strings.Contains(err.Error(), "settlements could not be delivered") {
			t.Errorf("run: got %v, want that nothing is left to deliver", err)
		}
	})
}

func TestW8_SIGTERMFlushesBeforeExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{Lease: 5 * time.Second})
		f := &faulty{Conn: r.conn()}
		f.noSettles.Store(true)
		ids := r.publish("a", "b")
		w := start(t, f, work(time.Second), worker.Options{Slots: 2})
		time.Sleep(20 * time.Second)
		w.drain()
		time.AfterFunc(10*time.Second, func() { f.noSettles.Store(false) })
		if err := <-w.done; err != nil {
			t.Errorf("run: got %v, want nil", err)
		}
		for _, id := range ids {
			if rec := r.state(id, queue.Succeeded); rec.Attempts != 1 {
				t.Errorf("attempts: got %d, want 1", rec.Attempts)
			}
		}
	})
}

func TestUndeliveredSettlementIsAnErrorOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{})
		f := &faulty{Conn: r.conn()}
		f.noSettles.Store(true)
		r.publish("a")
		w := start(t, f, work(time.Second), worker.Options{Grace: 10 * time.Second})
		time.Sleep(3 * time.Second)
		if err := w.end(); err == nil || !strings.Contains(err.Error(), "1 settlements could not be delivered") {
			t.Errorf("run: got %v, want the settlement that is missing", err)
		}
	})
}

func TestLostAnswerToASettlementIsHarmless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{})
		f := &faulty{Conn: r.conn()}
		f.loseAnswers.Store(true)
		id := r.publish("a")[0]
		var totals protocol.Totals
		w := start(t, &watching{f, func(h protocol.HeartbeatRequest) { totals = h.Totals }}, work(time.Second), worker.Options{})
		time.Sleep(10 * time.Second)
		w.endCleanly()
		if rec := r.state(id, queue.Succeeded); rec.Attempts != 1 || totals.Acked != 1 {
			t.Errorf("got %d attempts, %d counted, want 1 and 1", rec.Attempts, totals.Acked)
		}
	})
}

// TestW10_HandlerLearnsThatItsLeaseIsLost: when no heartbeat gets through, the handler is cancelled when its lease has
// surely ended, not before, and its success is not reported.
func TestW10_HandlerLearnsThatItsLeaseIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{Lease: 9 * time.Second})
		f := &faulty{Conn: r.conn()}
		id := r.publish("a")[0]
		type end struct {
			after time.Duration
			cause error
		}
		ends := make(chan end, 2)
		var runs atomic.Int32
		w := start(t, f, func(ctx context.Context, job *worker.Job) ([]byte, error) {
			if runs.Add(1) > 1 {
				return []byte("second"), nil
			}
			began := time.Now()
			f.noBeats.Store(true)
			<-ctx.Done()
			ends <- end{time.Since(began), context.Cause(ctx)}
			f.noBeats.Store(false)
			return []byte("stale"), nil // done all the same
		}, worker.Options{})
		e := <-ends
		if !errors.Is(e.cause, worker.ErrLeaseLost) {
			t.Errorf("cause: got %v, want ErrLeaseLost", e.cause)
		}
		if e.after < 8900*time.Millisecond || e.after > 9*time.Second {
			t.Errorf("cancelled after %v, want at the end of the lease of 9s", e.after)
		}
		time.Sleep(time.Minute)
		w.endCleanly()
		if rec := r.state(id, queue.Succeeded); string(rec.Result) != "second" {
			t.Errorf("result: got %q, want that of the second run", rec.Result)
		}
	})
}

func TestLeaseSurvivesAShortOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{Lease: 9 * time.Second})
		f := &faulty{Conn: r.conn()}
		id := r.publish("a")[0]
		w := start(t, f, work(time.Minute), worker.Options{})
		for range 5 {
			time.Sleep(6 * time.Second)
			f.noBeats.Store(true) // each hangs for as long as a heartbeat may take
			time.Sleep(4 * time.Second)
			f.noBeats.Store(false)
		}
		time.Sleep(20 * time.Second)
		w.endCleanly()
		if rec := r.state(id, queue.Succeeded); rec.Attempts != 1 {
			t.Errorf("attempts: got %d, want 1", rec.Attempts)
		}
	})
}

// TestW16_JobIsTakenFromAHandlerThatHangs: at lease.max the job is failed with the reason, in time to be no crash.
func TestW16_JobIsTakenFromAHandlerThatHangs(t *testing.T) {
	policy := queue.Policy{Lease: 5 * time.Second, MaxLease: 20 * time.Second, BackoffMin: time.Hour, BackoffMax: time.Hour}
	t.Run("obeys", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, policy)
			id := r.publish("a")[0]
			w := start(t, r.conn(), work(time.Hour), worker.Options{Slots: 2})
			time.Sleep(21 * time.Second)
			rec := r.state(id, queue.Delayed)
			if !strings.HasPrefix(rec.Error, "held longer than lease.max") || rec.Crashes != 0 || rec.Attempts != 1 {
				t.Errorf("got %q, %d attempts, %d crashes, want the reason, 1 and 0", rec.Error, rec.Attempts, rec.Crashes)
			}
			w.endCleanly()
		})
	})
	t.Run("ignores", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, policy)
			id := r.publish("a")[0]
			var stray, busy atomic.Int32
			hang := make(chan struct{})
			w := start(t, &watching{r.conn(), func(h protocol.HeartbeatRequest) {
				stray.Store(int32(h.Busy - len(h.Leases)))
				busy.Store(int32(h.Totals.BusySeconds))
			}},
				func(context.Context, *worker.Job) ([]byte, error) { <-hang; return nil, nil }, worker.Options{Slots: 2})
			time.Sleep(30 * time.Second)
			rec := r.state(id, queue.Delayed)
			if !strings.Contains(rec.Error, "its handler ignored the cancellation") || rec.Crashes != 0 {
				t.Errorf("got %q, %d crashes, want the reason and 0", rec.Error, rec.Crashes)
			}
			if stray.Load() != 1 {
				t.Errorf("busy slots without a lease: got %d, want the one whose handler hangs", stray.Load())
			}
			if busy.Load() != 19 {
				t.Errorf("busy seconds: got %d, want the 19 until it was taken away", busy.Load())
			}
			// The other slot goes on working.
			other := r.publish("b")[0]
			close(hang)
			time.Sleep(time.Second)
			r.state(other, queue.Succeeded)
			time.Sleep(6 * time.Second)
			if stray.Load() != 0 {
				t.Errorf("busy slots without a lease after the handler returned: got %d, want 0", stray.Load())
			}
			w.endCleanly()
		})
	})
	t.Run("all slots", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, policy)
			r.publish("a", "b")
			hang := make(chan struct{})
			w := start(t, r.conn(), func(context.Context, *worker.Job) ([]byte, error) { <-hang; return nil, nil }, worker.Options{Slots: 2})
			if err := <-w.done; !errors.Is(err, worker.ErrWedged) || !strings.Contains(fmt.Sprint(err), "2 jobs ignore that they were cancelled") {
				t.Errorf("run: got %v, want ErrWedged and an error about the handlers", err)
			}
			close(hang)
			w.drain()
		})
	})
}

func TestCancelledJobStopsItsHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{Lease: 9 * time.Second})
		id := r.publish("a")[0]
		causes := make(chan error, 1)
		w := start(t, r.conn(), func(ctx context.Context, _ *worker.Job) ([]byte, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil, ctx.Err()
		}, worker.Options{})
		time.Sleep(time.Second)
		if _, err := r.q.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if cause := <-causes; !errors.Is(cause, worker.ErrCancelled) {
			t.Errorf("cause: got %v, want ErrCancelled", cause)
		}
		time.Sleep(time.Second)
		r.state(id, queue.Cancelled)
		w.endCleanly()
	})
}

// refusing answers claims with a refusal, except for the first good ones.
type refusing struct {
	worker.Conn
	good, calls atomic.Int32
}

func (f *refusing) Claim(ctx context.Context, r protocol.ClaimRequest) (protocol.ClaimAnswer, error) {
	if n := f.calls.Add(1); n > f.good.Load() && n <= f.good.Load()+3 {
		return protocol.ClaimAnswer{}, fmt.Errorf("claim: %w: no pool", worker.ErrRefused)
	}
	return f.Conn.Claim(ctx, r)
}

func TestRefusedFirstClaimEndsTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{})
		w := start(t, &refusing{Conn: r.conn()}, work(0), worker.Options{})
		if err := <-w.done; !errors.Is(err, worker.ErrRefused) {
			t.Errorf("run: got %v, want ErrRefused", err)
		}
		w.drain()
	})
}

func TestRefusalAfterAGoodClaimIsWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{})
		f := &refusing{Conn: r.conn()}
		f.good.Store(1)
		first := r.publish("a")[0]
		w := start(t, f, work(0), worker.Options{})
		time.Sleep(10 * time.Second)
		second := r.publish("b")[0]
		time.Sleep(10 * time.Second)
		r.state(first, queue.Succeeded)
		r.state(second, queue.Succeeded)
		w.endCleanly()
	})
}

// permits is a downstream store that grants one use in two, after a pause.
type permits struct {
	downstream.Store // Take, Return and Report are all that is called
	mu               sync.Mutex
	asked            int
	returned         []downstream.Ask
	reports          []downstream.Report
}

func (p *permits) Take(_ context.Context, asks []downstream.Ask) (downstream.Permit, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked++; p.asked%2 == 1 {
		return downstream.Permit{RetryIn: 4 * time.Second}, nil
	}
	return downstream.Permit{Granted: asks[0].Max}, nil
}

func (p *permits) Return(_ context.Context, asks []downstream.Ask, _ int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.returned = append(p.returned, asks...)
	return nil
}

func (p *permits) Report(_ context.Context, rs []downstream.Report) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reports = append(p.reports, rs...)
	return nil
}

func TestPermitsAreWaitedForAndTheWaitIsNotWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{})
		p := &permits{}
		id := r.publish("a")[0]
		var totals protocol.Totals
		c := &watching{worker.Local(r.q, worker.LocalOptions{Downstreams: p}), func(h protocol.HeartbeatRequest) { totals = h.Totals }}
		w := start(t, c, func(ctx context.Context, job *worker.Job) ([]byte, error) {
			if err := job.Take(ctx, "llm", map[string]float64{"tokens": 50}); err != nil {
				return nil, err
			}
			time.Sleep(2 * time.Second)
			job.Used("llm", "tokens", 30)
			job.Used("llm", "tokens", 12)
			return nil, nil
		}, worker.Options{})
		time.Sleep(10 * time.Second)
		w.endCleanly()
		r.state(id, queue.Succeeded)
		if totals.BusySeconds != 2 {
			t.Errorf("busy: got %vs, want the 2s of work without the wait", totals.BusySeconds)
		}
		if len(p.reports) != 1 {
			t.Fatalf("reports: got %+v, want one", p.reports)
		}
		rep := p.reports[0]
		if rep.Reserved["tokens"] != 50 || rep.Used["tokens"] != 42 || rep.Outcome != downstream.OK {
			t.Errorf("report: got %+v, want 50 reserved, 42 used, ok", rep)
		}
	})
}

func TestTakeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{})
		id := r.publish("a")[0]
		w := start(t, worker.Local(r.q, worker.LocalOptions{Downstreams: &permits{asked: 0}}), func(ctx context.Context, job *worker.Job) ([]byte, error) {
			return nil, job.Take(ctx, "llm", map[string]float64{"tokens": 50})
		}, worker.Options{})
		time.Sleep(time.Second)
		w.Stop()
		if err := <-w.done; err != nil {
			t.Errorf("run: %v", err)
		}
		r.state(id, queue.Ready)
		w.drain()
	})
}

// TestThrottledIsReportedForTheFleet: the store learns the Retry-After, the job comes back after it, no attempt.
func TestThrottledIsReportedForTheFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{})
		p := &permits{}
		id := r.publish("a")[0]
		w := start(t, worker.Local(r.q, worker.LocalOptions{Downstreams: p}), func(context.Context, *worker.Job) ([]byte, error) {
			return nil, &worker.Throttled{Downstream: "llm", RetryAfter: time.Hour}
		}, worker.Options{})
		time.Sleep(time.Second)
		w.endCleanly()
		if rec := r.state(id, queue.Delayed); rec.Attempts != 0 {
			t.Errorf("attempts: got %d, want 0", rec.Attempts)
		}
		if len(p.reports) != 1 || p.reports[0].Outcome != downstream.Throttled || p.reports[0].RetryAfter != time.Hour {
			t.Errorf("reports: got %+v, want one throttle for an hour", p.reports)
		}
	})
}

// reserving hands out permits with its leases, after the drain has begun.
type reserving struct{ slowClaims }

func (c *reserving) Claim(ctx context.Context, r protocol.ClaimRequest) (protocol.ClaimAnswer, error) {
	a, err := c.slowClaims.Claim(ctx, r)
	for i := range a.Leases {
		a.Leases[i].Permits = map[string]map[string]float64{"llm": {"tokens": 62}}
	}
	return a, err
}

func TestPermitsOfAJobThatIsNeverBegunGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{})
		p := &permits{}
		ids := r.publish("runs", "late")
		c := &reserving{slowClaims{Conn: worker.Local(r.q, worker.LocalOptions{Downstreams: p})}}
		w := start(t, c, work(20*time.Second), worker.Options{Slots: 2})
		time.Sleep(time.Second)
		w.endCleanly()
		r.state(ids[1], queue.Ready)
		if len(p.returned) != 1 || p.returned[0].Units["tokens"] != 62 {
			t.Errorf("returned: got %+v, want the 62 tokens of the late job", p.returned)
		}
		if len(p.reports) != 1 || p.reports[0].Outcome != downstream.OK {
			t.Errorf("reports: got %+v, want that of the job that ran", p.reports)
		}
	})
}

// TestW25_NoSlotLeaksOnAnyExit: thousands of jobs that end in every way there is leave nothing in flight, all slots
// free, and the queue's counters true.
func TestW25_NoSlotLeaksOnAnyExit(t *testing.T) {
	n := 5000
	if testing.Short() {
		n = 500
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{Lease: time.Second, MaxLease: 3 * time.Second, Attempts: 3, AfterCrashes: 3, BackoffMin: 10 * time.Millisecond, BackoffMax: time.Second})
		f := &faulty{Conn: r.conn()}
		var stuck atomic.Int32
		w := start(t, f, func(ctx context.Context, job *worker.Job) ([]byte, error) {
			if string(job.Payload) == "probe" {
				time.Sleep(2 * time.Second)
				return nil, nil
			}
			switch i := int(job.ID[len(job.ID)-1]+job.ID[len(job.ID)-2]) % 11; i {
			case 0:
				return nil, errors.New("failed")
			case 1:
				panic("panicked")
			case 2:
				return nil, worker.Permanent(errors.New("dead"))
			case 3:
				return nil, worker.Crashed(errors.New("crashed"))
			case 4:
				if job.Attempt < 2 && stuck.Add(1)%2 == 0 {
					return nil, worker.ErrRelease
				}
			case 5:
				if job.Attempt < 2 { // until lease.max
					<-ctx.Done()
					return nil, ctx.Err()
				}
			case 6:
				if job.Attempt < 2 && stuck.Add(1)%5 == 0 { // loses its lease
					f.noBeats.Store(true)
					<-ctx.Done()
					f.noBeats.Store(false)
				}
			case 7:
				f.loseAnswers.Store(true)
			case 8:
				if _, err := r.q.Cancel(context.Background(), job.ID); err != nil {
					return nil, err
				}
			}
			time.Sleep(10 * time.Millisecond)
			return nil, nil
		}, worker.Options{Slots: 16})
		for range n {
			r.publish("x")
		}
		var s queue.Stats
		for range 24 * 60 {
			time.Sleep(time.Minute)
			if s = r.stats(); s.Completions.Value == float64(n) {
				break
			}
		}
		if s.Completions.Value != float64(n) || s.InFlight.Value != 0 || s.Backlog.Value != 0 {
			t.Errorf("got %v ended, %v in flight, %v ready, want %d, 0 and 0", s.Completions.Value, s.InFlight.Value, s.Backlog.Value, n)
		}
		for range 20 {
			r.publish("probe")
		}
		time.Sleep(time.Second)
		if got := r.stats().InFlight.Value; got != 16 {
			t.Errorf("jobs at a time afterwards: got %v, want all 16 slots", got)
		}
		time.Sleep(time.Minute)
		w.endCleanly()
		if drift, err := r.q.Drift(context.Background()); err != nil || len(drift) > 0 {
			t.Errorf("drift: got %v, %v, want none", drift, err)
		}
	})
}

// hasty answers claims with nothing, at once.
type hasty struct {
	worker.Conn
	calls atomic.Int32
}

func (h *hasty) Claim(context.Context, protocol.ClaimRequest) (protocol.ClaimAnswer, error) {
	h.calls.Add(1)
	return protocol.ClaimAnswer{Order: protocol.Run}, nil
}

func TestClaimsThatDoNotWaitAreNotASpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{})
		h := &hasty{Conn: r.conn()}
		w := start(t, h, work(0), worker.Options{})
		time.Sleep(time.Minute)
		if got := h.calls.Load(); got < 50 || got > 150 {
			t.Errorf("got %d claims in a minute, want about one a second", got)
		}
		w.endCleanly()
	})
}

// revoking is a queue whose broker takes jobs away on its own.
type revoking struct {
	*memory.Queue
	lost chan struct{}
}

func (q *revoking) Receive(ctx context.Context, r queue.Request) ([]queue.Lease, error) {
	ls, err := q.Queue.Receive(ctx, r)
	for i := range ls {
		ls[i].Lost = q.lost
	}
	return ls, err
}

func TestJobThatTheBrokerTakesAwayIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{Lease: 9 * time.Second})
		r.publish("a")
		q := &revoking{r.q, make(chan struct{})}
		causes := make(chan error, 1)
		w := start(t, worker.Local(q, worker.LocalOptions{}), func(ctx context.Context, _ *worker.Job) ([]byte, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil, nil
		}, worker.Options{Slots: 1})
		time.Sleep(time.Second)
		close(q.lost)
		began := time.Now()
		if cause := <-causes; !errors.Is(cause, worker.ErrLeaseLost) || time.Since(began) > 3*time.Second {
			t.Errorf("got %v after %v, want ErrLeaseLost with the next heartbeat", cause, time.Since(began))
		}
		w.Stop()
		<-w.done
		w.drain()
	})
}
