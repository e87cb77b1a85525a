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

	"go.uber.org/goleak"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/memory"
	"github.com/headrace/headrace/worker"
	"github.com/headrace/headrace/worker/protocol"
)

func TestMain(m *testing.M) {
	playRole()
	goleak.VerifyTestMain(m)
}

// rig is a queue, and a worker that may be running on it, in a bubble of virtual time.
type rig struct {
	t *testing.T
	q *memory.Queue
}

func newRig(t *testing.T, p queue.Policy) rig {
	q := memory.New(p, memory.Options{})
	t.Cleanup(func() {
		if err := q.Close(context.Background()); err != nil {
			t.Errorf("close queue: %v", err)
		}
	})
	return rig{t, q}
}

func (r rig) conn() worker.Conn { return worker.Local(r.q, worker.LocalOptions{}) }

func (r rig) publish(payloads ...string) []string {
	r.t.Helper()
	var jobs []queue.Job
	for _, p := range payloads {
		jobs = append(jobs, queue.Job{Payload: []byte(p)})
	}
	var ids []string
	for _, p := range r.q.Publish(context.Background(), jobs) {
		if p.Err != nil {
			r.t.Fatalf("publish: %v", p.Err)
		}
		ids = append(ids, p.ID)
	}
	return ids
}

func (r rig) get(id string) queue.Record {
	r.t.Helper()
	rec, err := r.q.Get(context.Background(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return rec
}

func (r rig) state(id string, want queue.State) queue.Record {
	r.t.Helper()
	rec := r.get(id)
	if rec.State != want {
		r.t.Errorf("state of job %q: got %s (error %q), want %s", rec.Payload, rec.State, rec.Error, want)
	}
	return rec
}

func (r rig) stats() queue.Stats {
	r.t.Helper()
	s, err := r.q.Stats(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// running is a worker that runs.
type running struct {
	t *testing.T
	*worker.Worker
	drain context.CancelFunc
	done  chan error
}

func start(t *testing.T, conn worker.Conn, h worker.Handler, opts worker.Options) running {
	ctx, cancel := context.WithCancel(context.Background())
	opts.StartDelay = 1
	w := running{t, worker.New(conn, h, opts), cancel, make(chan error, 1)}
	go func() { w.done <- w.Run(ctx) }()
	return w
}

// end drains and waits.
func (w running) end() error {
	w.drain()
	return <-w.done
}

func (w running) endCleanly() {
	w.t.Helper()
	if err := w.end(); err != nil {
		w.t.Errorf("run: got %v, want a clean drain", err)
	}
}

func work(d time.Duration) worker.Handler {
	return func(ctx context.Context, job *worker.Job) ([]byte, error) {
		select {
		case <-time.After(d):
			return append([]byte("did "), job.Payload...), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func TestHandlerErrorsAreVerdicts(t *testing.T) {
	for _, c := range []struct {
		name   string
		result []byte
		err    error
		state  queue.State
		reason string
		check  func(queue.Record) string
	}{
		{name: "nil acks", result: []byte("r"), state: queue.Succeeded, check: func(r queue.Record) string {
			if string(r.Result) != "r" {
				return fmt.Sprintf("result %q", r.Result)
			}
			return ""
		}},
		{name: "an error is an attempt", err: errors.New("boom"), state: queue.Delayed, reason: "boom"},
		{name: "a permanent one is dead", err: fmt.Errorf("parse: %w", worker.Permanent(errors.New("not an image"))), state: queue.DeadState, reason: "parse: not an image"},
		{name: "a release is no attempt", err: worker.ReleaseAfter(time.Hour), state: queue.Delayed, check: noAttempt},
		{name: "throttled is no attempt", err: &worker.Throttled{Downstream: "llm", RetryAfter: time.Hour}, state: queue.Delayed, check: noAttempt},
		{name: "a crash counts as such", err: worker.Crashed(errors.New("died of signal: killed")), state: queue.DeadState, reason: "died of signal: killed", check: func(r queue.Record) string {
			if r.Crashes != 1 || r.DeadReason != queue.ReasonPoison {
				return fmt.Sprintf("%d crashes, dead by %q", r.Crashes, r.DeadReason)
			}
			return ""
		}},
		{name: "too large a result is dead", result: make([]byte, queue.MaxPayload+1), state: queue.DeadState, reason: "262145 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, queue.Policy{AfterCrashes: 1, BackoffMin: time.Hour, BackoffMax: time.Hour})
				id := r.publish("x")[0]
				w := start(t, r.conn(), func(context.Context, *worker.Job) ([]byte, error) { return c.result, c.err }, worker.Options{})
				time.Sleep(time.Second)
				w.endCleanly()
				rec := r.state(id, c.state)
				if !strings.Contains(rec.Error, c.reason) {
					t.Errorf("error: got %q, want %q", rec.Error, c.reason)
				}
				if c.check != nil {
					if wrong := c.check(rec); wrong != "" {
						t.Error("got ", wrong)
					}
				}
			})
		})
	}
}

func noAttempt(r queue.Record) string {
	if r.Attempts != 0 {
		return fmt.Sprintf("%d attempts, want 0", r.Attempts)
	}
	if until := time.Until(r.ReadyAt); until < 50*time.Minute {
		return fmt.Sprintf("ready in %v, want an hour", until)
	}
	return ""
}

func TestPanicIsAFailedAttemptAndTheWorkerSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{BackoffMin: time.Hour, BackoffMax: time.Hour})
		ids := r.publish("bad", "good")
		w := start(t, r.conn(), func(_ context.Context, job *worker.Job) ([]byte, error) {
			if string(job.Payload) == "bad" {
				var m map[string]int
				m["x"] = 1 //nolint:staticcheck // the panic is what is tested
			}
			return nil, nil
		}, worker.Options{})
		time.Sleep(time.Second)
		w.endCleanly()
		rec := r.state(ids[0], queue.Delayed)
		if !strings.Contains(rec.Error, "panic: assignment to entry in nil map") || !strings.Contains(rec.Error, "worker_test.go") {
			t.Errorf("error: got %q, want the panic and its stack", rec.Error)
		}
		r.state(ids[1], queue.Succeeded)
	})
}

// TestW12_JobLongerThanManyLeasesStartsOnce: a job of a hundred leases is extended all the while.
func TestW12_JobLongerThanManyLeasesStartsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{Lease: 3 * time.Second})
		id := r.publish("long")[0]
		var starts atomic.Int32
		h := work(300 * time.Second)
		w := start(t, r.conn(), func(ctx context.Context, job *worker.Job) ([]byte, error) {
			starts.Add(1)
			return h(ctx, job)
		}, worker.Options{})
		time.Sleep(301 * time.Second)
		w.endCleanly()
		if rec := r.state(id, queue.Succeeded); rec.Attempts != 1 || starts.Load() != 1 {
			t.Errorf("got %d attempts and %d starts, want 1 and 1", rec.Attempts, starts.Load())
		}
	})
}

func TestClaimsOnlyForFreeSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{})
		for range 20 {
			r.publish("x")
		}
		w := start(t, r.conn(), work(time.Second), worker.Options{Slots: 3})
		for range 6 {
			time.Sleep(990 * time.Millisecond)
			if got := r.stats().InFlight.Value; got != 3 {
				t.Errorf("in flight: got %v, want the 3 slots", got)
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		if s := r.stats(); s.Totals["succeeded"] != 20 {
			t.Errorf("succeeded: got %d, want 20", s.Totals["succeeded"])
		}
		w.endCleanly()
	})
}

func TestDrainFinishesWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{Lease: 2 * time.Second})
		ids := r.publish("a", "b", "waits")
		w := start(t, r.conn(), work(20*time.Second), worker.Options{Slots: 2})
		time.Sleep(time.Second)
		began := time.Now()
		w.endCleanly()
		if took := time.Since(began); took < 18*time.Second || took > 21*time.Second {
			t.Errorf("drain took %v, want the 19s that the jobs still needed", took)
		}
		r.state(ids[0], queue.Succeeded)
		r.state(ids[1], queue.Succeeded)
		if rec := r.state(ids[2], queue.Ready); rec.Attempts != 0 {
			t.Errorf("job that was never started: got %d attempts, want 0", rec.Attempts)
		}
	})
}

func TestJobLongerThanGraceIsReleasedAndRunsAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{})
		id := r.publish("long")[0]
		holder := start(t, r.conn(), work(time.Hour), worker.Options{Grace: 10 * time.Second})
		time.Sleep(time.Second)
		r.state(id, queue.Leased)
		other := start(t, r.conn(), work(time.Second), worker.Options{})
		began := time.Now()
		holder.endCleanly()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("drain took %v, want no more than the grace of 10s", took)
		}
		time.Sleep(1100 * time.Millisecond)
		if rec := r.state(id, queue.Succeeded); rec.Attempts != 1 || rec.Crashes != 0 {
			t.Errorf("got %d attempts and %d crashes, want 1 and 0", rec.Attempts, rec.Crashes)
		}
		other.endCleanly()
	})
}

func TestStopReleasesNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{})
		id := r.publish("long")[0]
		w := start(t, r.conn(), work(time.Hour), worker.Options{})
		time.Sleep(time.Second)
		w.drain()
		time.Sleep(time.Second)
		w.Stop()
		time.Sleep(time.Millisecond)
		select {
		case err := <-w.done:
			if err != nil {
				t.Errorf("run: got %v, want nil", err)
			}
		default:
			t.Fatal("still running after a stop")
		}
		if rec := r.state(id, queue.Ready); rec.Attempts != 0 {
			t.Errorf("attempts: got %d, want 0", rec.Attempts)
		}
	})
}

// ordering lets the control plane speak.
type ordering struct {
	worker.Conn
	order atomic.Value // protocol.Order
}

func (o *ordering) Heartbeat(ctx context.Context, r protocol.HeartbeatRequest) (protocol.HeartbeatAnswer, error) {
	a, err := o.Conn.Heartbeat(ctx, r)
	if v, ok := o.order.Load().(protocol.Order); ok {
		a.Order = v
	}
	return a, err
}

func TestOrderedDrainHasNoTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{})
		ids := r.publish("long", "waits")
		o := &ordering{Conn: r.conn()}
		w := start(t, o, work(30*time.Minute), worker.Options{Grace: time.Second})
		time.Sleep(time.Second)
		o.order.Store(protocol.Drain)
		began := time.Now()
		if err := <-w.done; err != nil {
			t.Errorf("run: got %v, want nil", err)
		}
		if took := time.Since(began); took < 29*time.Minute {
			t.Errorf("ended after %v, want when the job had ended", took)
		}
		r.state(ids[0], queue.Succeeded)
		r.state(ids[1], queue.Ready)
		w.drain()
	})
}

func TestOrderedStopReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{})
		id := r.publish("long")[0]
		o := &ordering{Conn: r.conn()}
		w := start(t, o, work(30*time.Minute), worker.Options{})
		time.Sleep(time.Second)
		o.order.Store(protocol.Stop)
		began := time.Now()
		if err := <-w.done; err != nil {
			t.Errorf("run: got %v, want nil", err)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("ended after %v, want with the next report", took)
		}
		r.state(id, queue.Ready)
		w.drain()
	})
}

func TestHandlerThatIgnoresItsContextIsNotReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{Lease: 10 * time.Second, BackoffMin: time.Hour, BackoffMax: time.Hour})
		id := r.publish("deaf")[0]
		w := start(t, r.conn(), func(context.Context, *worker.Job) ([]byte, error) {
			time.Sleep(time.Minute)
			return nil, nil
		}, worker.Options{Grace: 4 * time.Second})
		time.Sleep(time.Second)
		began := time.Now()
		err := w.end()
		if err == nil || !strings.Contains(err.Error(), "1 jobs ignore that they were cancelled") {
			t.Errorf("run: got %v, want an error about the job", err)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("run took %v, want no more than the grace", took)
		}
		r.state(id, queue.Leased) // it still runs, so nobody else may have it
		time.Sleep(11 * time.Second)
		if got := r.get(id); got.State == queue.Leased {
			t.Errorf("state: got %s after its lease, want it free", got.State)
		}
		time.Sleep(time.Minute) // for the handler's end, in this bubble
	})
}

// TestW6_ClaimInFlightAtSIGTERM: a job that is published while the worker goes is run or free at once, never held
// until its lease runs out. The drain begins at every instant around the publishing.
func TestW6_ClaimInFlightAtSIGTERM(t *testing.T) {
	for i := range 200 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, queue.Policy{})
			w := start(t, r.conn(), work(0), worker.Options{Slots: 2})
			time.Sleep(time.Second)
			var wg sync.WaitGroup
			var id string
			wg.Go(func() { id = r.publish("late")[0] })
			if i%2 == 0 {
				synctest.Wait()
			}
			began := time.Now()
			w.endCleanly()
			if took := time.Since(began); took != 0 {
				t.Errorf("round %d: the idle worker left after %v, want at once", i, took)
			}
			wg.Wait()
			if rec := r.get(id); rec.State != queue.Ready && rec.State != queue.Succeeded {
				t.Errorf("round %d: got %s, want ready or succeeded", i, rec.State)
			} else if rec.State == queue.Ready && rec.Attempts != 0 {
				t.Errorf("round %d: got %d attempts of a job that never ran", i, rec.Attempts)
			}
		})
	}
}

// slowClaims brings jobs only after the drain has begun, while another job still runs.
type slowClaims struct {
	worker.Conn
	calls atomic.Int32
}

func (c *slowClaims) Claim(ctx context.Context, r protocol.ClaimRequest) (protocol.ClaimAnswer, error) {
	if c.calls.Add(1) == 1 {
		return c.Conn.Claim(ctx, protocol.ClaimRequest{Max: 1, Wait: r.Wait})
	}
	time.Sleep(5 * time.Second)
	return c.Conn.Claim(context.WithoutCancel(ctx), r)
}

func TestW6_ClaimThatAnswersDuringTheDrainIsReleasedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{})
		ids := r.publish("runs", "late")
		w := start(t, &slowClaims{Conn: r.conn()}, work(20*time.Second), worker.Options{Slots: 2})
		time.Sleep(time.Second)
		w.drain()
		time.Sleep(4100 * time.Millisecond) // the claim has answered just now
		if rec := r.state(ids[1], queue.Ready); rec.Attempts != 0 {
			t.Errorf("attempts: got %d, want 0", rec.Attempts)
		}
		w.endCleanly()
		r.state(ids[0], queue.Succeeded)
	})
}

// TestW5_RollingRestartsBurnNothing: ten workers are restarted every 20 s for 5 min while jobs of 0 to 60 s run. No
// job is dead, none that was never begun has an attempt, and none shorter than the grace starts twice.
func TestW5_RollingRestartsBurnNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{Lease: 30 * time.Second})
		var mu sync.Mutex
		starts := map[string]int{}
		h := func(ctx context.Context, job *worker.Job) ([]byte, error) {
			mu.Lock()
			starts[job.ID]++
			mu.Unlock()
			d, err := time.ParseDuration(string(job.Payload))
			if err != nil {
				return nil, worker.Permanent(err)
			}
			return work(d)(ctx, job)
		}
		const grace = 30 * time.Second
		ids := map[string]time.Duration{}
		for i := range 400 {
			d := time.Duration(i*37%61) * time.Second
			ids[r.publish(d.String())[0]] = d
		}
		workers := make([]running, 10)
		for i := range workers {
			workers[i] = start(t, r.conn(), h, worker.Options{Slots: 2, Grace: grace})
		}
		for range 15 {
			time.Sleep(20 * time.Second)
			for i := range workers {
				workers[i].drain()
			}
			for i := range workers {
				old := workers[i]
				workers[i] = start(t, r.conn(), h, worker.Options{Slots: 2, Grace: grace})
				go func() {
					if err := <-old.done; err != nil {
						t.Errorf("run: %v", err)
					}
				}()
			}
		}
		time.Sleep(time.Minute)
		for i := range workers {
			workers[i].endCleanly()
		}
		margin := 2 * time.Second
		for id, d := range ids {
			rec := r.get(id)
			if rec.State != queue.Succeeded && rec.State != queue.Ready {
				t.Errorf("job of %v: got %s (%s)", d, rec.State, rec.Error)
			}
			if rec.Attempts > 1 || rec.Crashes > 0 || (rec.State == queue.Ready && rec.Attempts > 0) {
				t.Errorf("job of %v, %s: got %d attempts, %d crashes", d, rec.State, rec.Attempts, rec.Crashes)
			}
			if d < grace-margin && starts[id] > 1 {
				t.Errorf("job of %v started %d times", d, starts[id])
			}
		}
		if done := r.stats().Totals["succeeded"]; done < 100 {
			t.Errorf("succeeded: got %d, want work to go on", done)
		}
	})
}

func TestTotals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{BackoffMin: time.Hour, BackoffMax: time.Hour, AfterCrashes: 1})
		var last protocol.HeartbeatRequest
		c := &watching{Conn: r.conn(), seen: func(h protocol.HeartbeatRequest) { last = h }}
		r.publish("ack", "ack", "nack", "dead", "crash", "release")
		w := start(t, c, func(ctx context.Context, job *worker.Job) ([]byte, error) {
			time.Sleep(2 * time.Second)
			switch string(job.Payload) {
			case "nack":
				return nil, errors.New("no")
			case "dead":
				return nil, worker.Permanent(errors.New("never"))
			case "crash":
				return nil, worker.Crashed(errors.New("died"))
			case "release":
				return nil, worker.ReleaseAfter(time.Hour)
			}
			return nil, nil
		}, worker.Options{Slots: 6})
		time.Sleep(3 * time.Second)
		w.endCleanly() // the last report brings the totals
		got := last.Totals
		want := protocol.Totals{Acked: 2, Nacked: 1, Released: 1, Dead: 1, Crashed: 1, Runs: 5, BusySeconds: 10, BusySquares: 20}
		if got != want {
			t.Errorf("totals: got %+v, want %+v", got, want)
		}
		if last.Incarnation == "" || last.Slots != 6 || last.Busy != 0 || len(last.Leases) != 0 {
			t.Errorf("last report: got %+v, want nothing held", last)
		}
	})
}

// watching sees the heartbeats.
type watching struct {
	worker.Conn
	seen func(protocol.HeartbeatRequest)
}

func (w *watching) Heartbeat(ctx context.Context, r protocol.HeartbeatRequest) (protocol.HeartbeatAnswer, error) {
	w.seen(r)
	return w.Conn.Heartbeat(ctx, r)
}

// TestW21_ImmediateFailuresDoNotSpin: a handler that fails at once is tried as often as the backoff allows, no more.
func TestW21_ImmediateFailuresDoNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Policy{BackoffMin: time.Second, BackoffMax: time.Minute, Attempts: 1000})
		r.publish("x")
		var tries atomic.Int32
		w := start(t, r.conn(), func(context.Context, *worker.Job) ([]byte, error) {
			tries.Add(1)
			return nil, errors.New("at once")
		}, worker.Options{Slots: 4})
		time.Sleep(time.Minute)
		// The least that the policy may draw is half a second each, drawn every time only by a miracle; the mean of full
		// jitter over 1, 2, 4, … s allows about 7.
		if got := tries.Load(); got < 2 || got > 25 {
			t.Errorf("got %d tries in a minute, want 2 to 25", got)
		}
		w.endCleanly()
	})
}
