package worker

import (
	"context"
	"errors"
	"time"

	"github.com/headrace/headrace/worker/protocol"
)

// held is a lease in this worker's hands. Its mutable fields are guarded by Worker.mu.
//
//	          handler returns                    settled, or surely gone
//	kept ─────────────────────────▶ delivering ─────────────────────────▶ (dropped)
//	 │ lost, maximum, cancelled, stopping   ▲
//	 ▼            handler returns           │
//	aborted ────────────────────────────────┤ (a lost lease is dropped instead)
//	 │ ignores its context                  │
//	 ▼            at lease.max: nack        │
//	leaked ─────────────────────────────────┘
//
// All instants are this process's monotonic clock, counted from before the request that gave or extended the lease
// was sent, so the lease never ends here later than at the queue.
type held struct {
	lease   protocol.Lease
	job     *Job
	beganAt time.Time // when its handler was called

	endsAt   time.Time // zero: the lease has no end of its own
	abortAt  time.Time // a little before lease.max; zero: no maximum
	length   time.Duration
	cancel   context.CancelCauseFunc
	cause    error // why cancel was called; nil: kept
	leakAt   time.Time
	leaked   bool
	returned bool // the handler is done, or never began
	given    bool // a settlement is on its way or delivered
	timer    *time.Timer
}

type leaseKey struct {
	id    string
	token int64
}

func (h *held) key() leaseKey { return leaseKey{h.lease.ID, h.lease.Token} }

func (h *held) lost() bool { return errors.Is(h.cause, ErrLeaseLost) }

// expired reports whether the lease has surely ended.
func (h *held) expired(now time.Time) bool { return !h.endsAt.IsZero() && !now.Before(h.endsAt) }

// busy is how long the handler has worked: the time it waited for permits is not work.
func (h *held) busy(now time.Time) time.Duration {
	_, _, waited := h.job.permits()
	return max(0, now.Sub(h.beganAt)-waited)
}

// leakAfter is how long a handler may take to notice that its context is cancelled before its slot counts as leaked.
const leakAfter = 5 * time.Second

// maxMargin is how long before lease.max the handler is told, so that a failure can still be reported in time.
func maxMargin(limit time.Duration) time.Duration { return min(limit/10, 5*time.Second) }

// newHeld starts the clock of a lease that was asked for at sentAt.
func newHeld(l protocol.Lease, pool string, conn Conn, sentAt time.Time) *held {
	h := &held{lease: l, length: l.ExpiresIn.Duration()}
	h.job = &Job{
		ID: l.Job, Pool: pool, Attempt: l.Attempt, Crashes: l.Crashes, Tenant: l.Tenant, Priority: l.Priority,
		Headers: l.Headers, Payload: l.Payload, conn: conn, reserved: l.Permits,
	}
	if h.job.ID == "" {
		h.job.ID = l.ID
	}
	if l.ExpiresIn > 0 {
		h.endsAt = sentAt.Add(h.length)
	}
	if limit := l.MaxIn.Duration(); limit > 0 {
		h.job.Deadline = sentAt.Add(limit)
		h.abortAt = h.job.Deadline.Add(-maxMargin(limit))
	}
	return h
}

// watch is called when something may be due for h, and arms the timer for what is due next.
func (w *Worker) watch(h *held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.check(h)
}

// check does what is due for h now. w.mu is held.
func (w *Worker) check(h *held) {
	if h.returned {
		return
	}
	now := time.Now()
	switch {
	case h.cause == nil && h.expired(now):
		w.abort(h, ErrLeaseLost)
	case h.cause == nil && !h.abortAt.IsZero() && !now.Before(h.abortAt):
		w.abort(h, ErrLeaseMax)
	case h.cause != nil && h.expired(now):
		h.cause = ErrLeaseLost // whatever stopped it, nothing can be settled any more
		if !h.given {
			delete(w.held, h.key())
		}
	}
	if h.cause != nil && !h.leaked && !now.Before(h.leakAt) {
		h.leaked = true
		w.leaked++
		w.log.Warn("handler ignores its cancelled context: slot leaked", "job", h.job.ID, "cause", h.cause)
		if errors.Is(h.cause, ErrLeaseMax) {
			w.deliver(h, w.settlement(h, protocol.Settlement{Action: protocol.Nack, Error: ErrLeaseMax.Error() +
				"; its handler ignored the cancellation"}), h.busy(now))
		}
		w.notify()
	}
	w.arm(h, now)
}

// arm sets the timer to the next instant at which check has something to do. w.mu is held.
func (w *Worker) arm(h *held, now time.Time) {
	var next time.Time
	earliest := func(t time.Time) {
		if !t.IsZero() && t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if !h.lost() {
		earliest(h.endsAt)
	}
	if h.cause == nil {
		earliest(h.abortAt)
	} else if !h.leaked {
		earliest(h.leakAt)
	}
	switch {
	case next.IsZero():
	case h.timer == nil:
		h.timer = time.AfterFunc(next.Sub(now), func() { w.watch(h) })
	default:
		h.timer.Reset(next.Sub(now))
	}
}

// abort cancels h's handler. The first cause stands, except that a lost lease overrides all. w.mu is held.
func (w *Worker) abort(h *held, cause error) {
	if h.returned || h.lost() || (h.cause != nil && !errors.Is(cause, ErrLeaseLost)) {
		return
	}
	first := h.cause == nil
	h.cause = cause
	if errors.Is(cause, ErrLeaseLost) {
		delete(w.held, h.key())
		w.log.Warn("lease lost", "job", h.job.ID, "attempt", h.job.Attempt)
	}
	if first {
		now := time.Now()
		h.leakAt = now.Add(leakAfter)
		if errors.Is(cause, ErrLeaseMax) {
			h.leakAt = now.Add(h.job.Deadline.Sub(h.abortAt) / 2)
		}
		h.cancel(cause)
		w.arm(h, now)
	}
}

// leaseContext is a handler's context. Its Err looks at the clock, so that a process that was stopped for longer than
// its lease sees the loss even before its timers have fired.
type leaseContext struct {
	context.Context //nolint:containedctx // it is one, with a clock of its own
	w               *Worker
	h               *held
}

func (c leaseContext) Err() error {
	c.w.watch(c.h)
	return c.Context.Err()
}
