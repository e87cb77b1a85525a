package worker

import (
	"context"
	"time"

	"github.com/headrace/headrace/worker/protocol"
)

// heartbeats extends every lease and reports, until ctx ends. That the worker drains is reported at once.
func (w *Worker) heartbeats(ctx context.Context) {
	lastAt, failures, told := time.Now(), 0, false
	for {
		w.mu.Lock()
		every, changed, leaving := w.interval(), w.changed, w.draining
		w.mu.Unlock()
		pause := jitter(every) - time.Since(lastAt)
		if failures > 0 {
			pause = min(jitter(every), backoff(failures, 100*time.Millisecond, 5*time.Second)) - time.Since(lastAt)
		}
		if pause > 0 && (!leaving || told || failures > 0) {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-changed: // a new lease may want a shorter interval
				timer.Stop()
				continue
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
		if ctx.Err() != nil {
			return
		}
		lastAt = time.Now()
		if err := w.beat(ctx, every); err != nil && ctx.Err() == nil {
			failures++
			lastAt = time.Now()
			if failures == 1 || failures%20 == 0 {
				w.log.Warn("heartbeat not answered", "error", err, "failures", failures)
			}
		} else {
			failures, told = 0, leaving
		}
	}
}

// reportNews is how long a report of finished runs may wait: whoever sizes the pool learns from them how long jobs take.
const reportNews = time.Second

// interval is the shortest that any lease asks for, never more than a third of the lease. w.mu is held.
func (w *Worker) interval() time.Duration {
	every := w.opts.Report
	if w.totals.Runs != w.reported {
		every = min(every, reportNews)
	}
	for _, h := range w.held {
		if e := h.lease.HeartbeatEvery.Duration(); e > 0 {
			every = min(every, e)
		}
		if h.length > 0 {
			every = min(every, h.length/3)
		}
	}
	return max(every, 10*time.Millisecond)
}

// beat makes one heartbeat. It gets a sixth of a lease at most, so that several can fail before a lease ends.
func (w *Worker) beat(ctx context.Context, every time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, min(max(every/2, 500*time.Millisecond), 10*time.Second))
	defer cancel()
	sentAt := time.Now()
	r := w.report()
	a, err := w.conn.Heartbeat(ctx, r)
	if err != nil {
		return err
	}
	w.extended(r.Leases, a.Leases, sentAt)
	w.mu.Lock()
	w.reported = r.Totals.Runs
	w.mu.Unlock()
	w.obey(a.Order)
	return nil
}

// report says what the worker holds and has done.
func (w *Worker) report() protocol.HeartbeatRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := protocol.HeartbeatRequest{
		Pool: w.conn.Pool(), Slots: w.opts.Slots, Busy: w.active, Draining: w.draining,
		Incarnation: w.incarnation, Totals: w.totals, Leases: make([]protocol.LeaseRef, 0, len(w.held)),
	}
	for k := range w.held {
		r.Leases = append(r.Leases, protocol.LeaseRef{ID: k.id, Token: k.token})
	}
	return r
}

// extended applies the answers about the leases that a heartbeat sent at sentAt named, in the same order.
func (w *Worker) extended(asked []protocol.LeaseRef, states []protocol.LeaseState, sentAt time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, ref := range asked {
		if i >= len(states) || states[i].ID != ref.ID {
			w.log.Error("heartbeat answer does not fit the request", "asked", len(asked), "answered", len(states))
			return
		}
		h, s := w.held[leaseKey{ref.ID, ref.Token}], states[i]
		switch {
		case h == nil: // settled meanwhile
		case s.State == protocol.LeaseLost && h.given: // settled, perhaps this moment: the settlement's answer decides
		case s.State == protocol.LeaseLost:
			w.abort(h, ErrLeaseLost)
		default:
			if s.ExpiresIn > 0 {
				h.endsAt = sentAt.Add(s.ExpiresIn.Duration())
			}
			if s.State == protocol.LeaseCancel {
				w.abort(h, ErrCancelled)
			}
		}
	}
}
