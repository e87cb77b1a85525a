package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/worker/protocol"
)

// Options tune a [Worker]. The zero value works.
type Options struct {
	// Slots is the number of jobs run at a time; default 1.
	Slots int
	// Grace is how long running jobs may go on after Run's context is done; default 30 s. Shortly before it is over,
	// by a quarter but at most 2 s, the rest is cancelled and released. Give the process a little longer than this
	// before it is killed.
	Grace time.Duration
	// StartDelay is the longest random wait before the first claim, so that a fleet that starts together does not ask
	// together; default 200 ms.
	StartDelay time.Duration
	// Wait is how long one claim waits for a job; default 20 s, at most 30 s.
	Wait time.Duration
	// Report is the time between reports while no lease asks for a shorter one and no run has ended; default 5 s.
	Report time.Duration
	// Log takes what happens; default: nothing is logged.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	o.Slots = max(1, o.Slots)
	def(&o.Grace, 30*time.Second)
	def(&o.StartDelay, 200*time.Millisecond)
	def(&o.Wait, 20*time.Second)
	o.Wait = min(o.Wait, 30*time.Second)
	def(&o.Report, 5*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// margin is the part of the grace kept for giving back what did not finish.
func (o Options) margin() time.Duration { return min(o.Grace/4, 2*time.Second) }

// Worker claims jobs for its free slots, runs a [Handler] on each, keeps their leases and settles them.
// Make it with [New] and call [Worker.Run] once.
type Worker struct {
	conn        Conn
	handler     Handler
	opts        Options
	log         *slog.Logger
	incarnation string

	mu       sync.Mutex
	draining bool           // claims nothing more
	order    protocol.Order // the strongest that came
	stopped  bool           // Stop was called
	claiming bool
	claimed  bool               // a claim was answered at least once
	refusal  error              // why claiming is pointless
	held     map[leaseKey]*held // all leases to extend
	active   int                // handlers that have not returned
	leaked   int                // of them, those that ignore their cancelled context
	outbox   []*delivery        // settlements not delivered yet
	totals   protocol.Totals
	reported int64         // of totals.Runs
	warnedAt time.Time     // of jobs that are given back
	changed  chan struct{} // closed and replaced when any of the above changes
}

// New returns a worker. It does nothing until [Worker.Run].
func New(conn Conn, h Handler, opts Options) *Worker {
	opts = opts.withDefaults()
	return &Worker{
		conn: conn, handler: h, opts: opts, log: opts.Log.With("pool", conn.Pool()),
		incarnation: uuid.NewString(),
		held:        map[leaseKey]*held{},
		changed:     make(chan struct{}),
	}
}

// Stop releases all jobs now: their handlers' contexts are cancelled, and Run returns as soon as they have returned
// and been settled, or in about 2 s. It is what a second signal does. It may be called at any time, more than once.
func (w *Worker) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.notify()
}

// Run works until ctx is done, or the control plane orders the worker to go, then drains: it claims nothing more,
// finishes what runs (for at most Options.Grace when ctx is done, without a limit on an order) while extending it,
// and releases the rest. It returns nil after a clean drain.
//
// It returns an error when a job could not be given back (its handler ignores its context, or its queue cannot be
// reached): that job runs again when its lease has run out. A handler that ignores its context is left running; exit
// the process. It returns [ErrWedged] when no slot is left, and an error wrapping [ErrRefused] when the queue's
// answer to the first claim is that the worker may not claim.
func (w *Worker) Run(ctx context.Context) error {
	work, end := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	defer loops.Wait()
	defer end()
	claims, endClaims := context.WithCancel(work)
	defer endClaims()

	w.claiming = true
	loops.Go(func() { w.heartbeats(work) })
	loops.Go(func() { w.settlements(work) })
	loops.Go(func() { w.claims(claims) })

	why := w.untilDrain(ctx)
	w.log.Info("draining", "why", why)
	err := w.drain(ctx, endClaims)
	if errors.Is(why, ErrRefused) || errors.Is(why, ErrWedged) {
		err = errors.Join(why, err)
	}
	w.leave(work, err)
	return err
}

var (
	errDone    = errors.New("asked to end")
	errOrdered = errors.New("ordered by the control plane")
	errStopped = errors.New("stopped")
)

// untilDrain blocks while the worker should work, and says what ended that.
func (w *Worker) untilDrain(ctx context.Context) (why error) {
	w.await(ctx.Done(), func() bool {
		switch {
		case ctx.Err() != nil:
			why = errDone
		case w.stopped || w.order == protocol.Stop:
			why = errStopped
		case w.order == protocol.Drain:
			why = errOrdered
		case w.refusal != nil:
			why = w.refusal
		case w.leaked >= w.opts.Slots:
			why = ErrWedged
		}
		if why != nil {
			w.draining = true
			w.notify()
		}
		return why != nil
	})
	if why == nil {
		w.mu.Lock()
		w.draining, why = true, errDone
		w.notify()
		w.mu.Unlock()
	}
	return why
}

// drain finishes or gives back all that the worker holds. A claim in flight is answered when the report that the worker
// drains arrives, and what it brings is given back at once. endClaims abandons it, which may leave the jobs of an answer
// that is under way to the goodbye: not while jobs run, and not before it had time to be answered.
func (w *Worker) drain(ctx context.Context, endClaims context.CancelFunc) error {
	idle := func() bool { return !w.claiming && w.active == w.leaked && len(w.outbox) == 0 }
	quiet := func() bool { return w.active == w.leaked || w.stopped || w.order == protocol.Stop }

	var graceEnds time.Time
	until := func(cond func() bool) { // awaits cond, no longer than the grace that begins when ctx is done
		if w.await(ctx.Done(), cond) {
			return
		}
		if graceEnds.IsZero() {
			graceEnds = time.Now().Add(w.opts.Grace - w.opts.margin())
		}
		w.within(time.Until(graceEnds), cond)
	}
	until(quiet)
	w.within(min(time.Second, w.opts.margin()/2), func() bool { return !w.claiming })
	endClaims()
	until(func() bool { return idle() || w.stopped || w.order == protocol.Stop })

	w.mu.Lock()
	for _, h := range w.held {
		w.abort(h, ErrStopping)
	}
	w.notify()
	w.mu.Unlock()
	w.within(w.opts.margin()*3/4, idle)

	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	if w.active > 0 {
		errs = append(errs, fmt.Errorf("%d jobs ignore that they were cancelled: they run again when their leases have run out", w.active))
	}
	if n := len(w.outbox); n > 0 {
		errs = append(errs, fmt.Errorf("%d settlements could not be delivered: their jobs run again when their leases have run out", n))
	}
	if w.claiming {
		errs = append(errs, errors.New("a claim did not end: what it brings runs when its leases have run out"))
	}
	return errors.Join(errs...)
}

// leave sends the last totals, and says goodbye when nothing runs any more.
func (w *Worker) leave(ctx context.Context, unclean error) {
	ctx, cancel := context.WithTimeout(ctx, max(w.opts.margin()/4, 50*time.Millisecond))
	defer cancel()
	if _, err := w.conn.Heartbeat(ctx, w.report()); err != nil {
		w.log.Warn("last report not delivered", "error", err)
		return
	}
	w.mu.Lock()
	still := w.active
	w.mu.Unlock()
	if still > 0 {
		return // goodbye would release what runs
	}
	if err := w.conn.Goodbye(ctx); err != nil {
		w.log.Warn("goodbye not delivered", "error", err)
	}
	w.log.Info("drained", "clean", unclean == nil)
}

// notify wakes everything that awaits a change. w.mu is held.
func (w *Worker) notify() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// await returns when cond, which is called with w.mu held, is true, or done is closed; it reports cond.
func (w *Worker) await(done <-chan struct{}, cond func() bool) bool {
	for {
		w.mu.Lock()
		ok, changed := cond(), w.changed
		w.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-done:
			return false
		case <-changed:
		}
	}
}

// within is await with a time limit.
func (w *Worker) within(d time.Duration, cond func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return w.await(ctx.Done(), cond)
}

// sleep waits for d and reports whether it did; false: ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// jitter returns d, up to a tenth shorter.
func jitter(d time.Duration) time.Duration {
	return d - time.Duration(rand.Float64()*float64(d)/10)
}
