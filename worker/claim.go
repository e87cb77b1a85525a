package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/headrace/headrace/worker/protocol"
)

// claims asks for jobs for the free slots until ctx ends or the worker drains.
func (w *Worker) claims(ctx context.Context) {
	defer func() {
		w.mu.Lock()
		w.claiming = false
		w.notify()
		w.mu.Unlock()
	}()
	w.pause(ctx, time.Duration(rand.Float64()*float64(w.opts.StartDelay)))
	for failures, hasty := 0, 0; ; {
		var free int
		w.await(ctx.Done(), func() bool {
			free = w.opts.Slots - w.active
			// Results that cannot be delivered hold claiming back: more work would only add to them.
			return w.draining || (free > 0 && len(w.outbox) <= w.opts.Slots)
		})
		w.mu.Lock()
		stop := w.draining
		w.mu.Unlock()
		if stop || ctx.Err() != nil {
			return
		}
		sentAt := time.Now()
		a, err := w.conn.Claim(ctx, protocol.ClaimRequest{Max: free, Slots: w.opts.Slots, Wait: protocol.SecondsOf(w.opts.Wait)})
		for _, l := range a.Leases {
			w.accept(ctx, l, sentAt)
		}
		w.obey(a.Order)
		if err == nil {
			failures = 0
			w.mu.Lock()
			w.claimed = true
			w.mu.Unlock()
			if len(a.Leases) > 0 || time.Since(sentAt) >= w.opts.Wait/2 {
				hasty = 0
				continue
			}
			hasty++ // an empty answer that did not wait: do not spin
			w.pause(ctx, backoff(hasty, 10*time.Millisecond, time.Second))
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if w.refused(err) {
			return
		}
		failures++
		delay := backoff(failures, 100*time.Millisecond, 5*time.Second)
		w.log.Warn("claim not answered", "error", err, "retry_in", delay)
		w.pause(ctx, delay)
	}
}

// pause waits for d, or until the worker drains or ctx ends.
func (w *Worker) pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	w.await(ctx.Done(), func() bool { return w.draining })
}

// refused records err when it says that this worker may never claim. After a first claim that worked, a refusal is
// taken for a passing state of the other side.
func (w *Worker) refused(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !errors.Is(err, ErrRefused) || w.claimed {
		return false
	}
	w.refusal = err
	w.notify()
	return true
}

// obey takes an order of the control plane. An order once given stands.
func (w *Worker) obey(o protocol.Order) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o == protocol.Stop || (o == protocol.Drain && w.order != protocol.Stop) {
		w.order = o
		w.notify()
	}
}

// backoff returns the wait before the n-th repetition (n ≥ 1): exponential, with full jitter.
func backoff(n int, least, most time.Duration) time.Duration {
	top := least
	for ; n > 1 && top < most; n-- {
		top *= 2
	}
	top = min(top, most)
	return least/2 + time.Duration(rand.Float64()*float64(top-least/2))
}
