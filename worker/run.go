package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"strings"
	"time"

	"github.com/headrace/headrace/downstream"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/worker/protocol"
)

// accept takes over a lease that was asked for at sentAt: it starts the job, or gives it back when there is no slot,
// the worker drains, or the answer was so slow that the lease has ended. The handler gets ctx's values, not its end.
func (w *Worker) accept(ctx context.Context, l protocol.Lease, sentAt time.Time) {
	h := newHeld(l, w.conn.Pool(), w.conn, sentAt)
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.held[h.key()]; known {
		return
	}
	w.held[h.key()] = h
	if w.draining || w.active >= w.opts.Slots || h.expired(time.Now()) {
		h.returned = true
		w.deliver(h, w.unstarted(h), 0)
		return
	}
	w.active++
	h.beganAt = time.Now()
	ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	w.check(h)
	w.notify()
	// Run waits for it by counting w.active; a handler that never returns is reported, not waited for.
	go w.run(leaseContext{ctx, w, h}, h)
}

func (w *Worker) run(ctx context.Context, h *held) {
	result, err := call(ctx, w.handler, h.job)
	w.finish(h, result, err, h.busy(time.Now()))
}

// call runs the handler and turns a panic into an error.
func call(ctx context.Context, h Handler, job *Job) (result []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{value: v, stack: debug.Stack()}
		}
	}()
	return h(ctx, job)
}

// finish settles what a handler returned.
func (w *Worker) finish(h *held, result []byte, err error, busy time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.check(h) // the lease may have ended this very moment
	h.returned = true
	if h.timer != nil {
		h.timer.Stop()
	}
	h.cancel(nil)
	w.active--
	if h.leaked {
		w.leaked--
	}
	defer w.notify()
	switch {
	case h.given: // taken away from a handler that ignored its context
	case h.lost():
		w.log.Warn("job ended after its lease was lost; its outcome is dropped", "job", h.job.ID, "error", err)
	default:
		s := w.settlement(h, verdict(h, result, err))
		if s.Action == protocol.Release && s.Error != "" && time.Since(w.warnedAt) > 30*time.Second {
			w.warnedAt = time.Now() // a program that is down releases every job; once in a while is enough to be told
			w.log.Warn("job given back", "job", h.job.ID, "error", s.Error)
		}
		w.log.Debug("job ended", "job", h.job.ID, "attempt", h.job.Attempt, "action", s.Action, "seconds", busy.Seconds(), "error", s.Error)
		w.deliver(h, s, busy)
	}
}

// verdict says what becomes of a job whose handler returned result and err.
func verdict(h *held, result []byte, err error) protocol.Settlement {
	var (
		rel  *release
		thr  *Throttled
		perm *permanent
		cra  *crashed
		pan  *panicked
	)
	switch {
	case err == nil && len(result) > queue.MaxPayload:
		return protocol.Settlement{Action: protocol.Dead, Error: fmt.Sprintf("result of %d bytes is more than the %d allowed",
			len(result), queue.MaxPayload)}
	case err == nil:
		return protocol.Settlement{Action: protocol.Ack, Result: result}
	case errors.As(err, &pan):
		return protocol.Settlement{Action: protocol.Nack, Error: pan.Error()}
	case errors.As(err, &thr):
		retry := protocol.SecondsOf(notAtOnce(thr.RetryAfter))
		return protocol.Settlement{Action: protocol.Release, RetryIn: &retry, Error: err.Error(),
			Outcomes: map[string]string{thr.Downstream: string(downstream.Throttled)}}
	case errors.As(err, &rel):
		retry := protocol.SecondsOf(rel.after)
		return protocol.Settlement{Action: protocol.Release, RetryIn: &retry, Error: whyReleased(rel)}
	case errors.As(err, &perm):
		return protocol.Settlement{Action: protocol.Dead, Error: err.Error()}
	case errors.As(err, &cra):
		return protocol.Settlement{Action: protocol.Crash, Error: err.Error()}
	case errors.Is(h.cause, ErrLeaseMax):
		return protocol.Settlement{Action: protocol.Nack, Error: ErrLeaseMax.Error() + ": " + err.Error()}
	case errors.Is(h.cause, ErrStopping), errors.Is(h.cause, ErrCancelled):
		return protocol.Settlement{Action: protocol.Release}
	default:
		return protocol.Settlement{Action: protocol.Nack, Error: err.Error()}
	}
}

// whyReleased is the cause that a release brought along, if any.
func whyReleased(r *release) string {
	if r.why == nil {
		return ""
	}
	return r.Error()
}

// settlement completes s with the lease and what came of its downstreams: those that took an acknowledged job, or whose
// use the handler reported, did their part unless it said otherwise.
func (w *Worker) settlement(h *held, s protocol.Settlement) protocol.Settlement {
	s.Lease, s.Token = h.lease.ID, h.lease.Token
	s.Error = clip(s.Error)
	s.Permits, s.Usage, _ = h.job.permits()
	outcomes := map[string]string{}
	if s.Action == protocol.Ack {
		for d := range s.Permits {
			outcomes[d] = string(downstream.OK)
		}
	}
	for d := range s.Usage {
		outcomes[d] = string(downstream.OK)
	}
	maps.Copy(outcomes, s.Outcomes)
	if len(outcomes) > 0 {
		s.Outcomes = outcomes
	}
	return s
}

// unstarted gives back a job that was never begun, with all its permits: none of their units was used.
func (w *Worker) unstarted(h *held) protocol.Settlement {
	s := w.settlement(h, protocol.Settlement{Action: protocol.Release})
	for d, u := range s.Permits {
		for unit := range u {
			s.Usage = add(s.Usage, d, map[string]float64{unit: 0})
		}
	}
	return s
}

// clip keeps what queues keep of a reason, and no half of a character.
func clip(s string) string {
	if len(s) <= queue.MaxReason {
		return s
	}
	return strings.ToValidUTF8(s[:queue.MaxReason], "")
}
