package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/headrace/headrace/worker/protocol"
)

// delivery is a settlement on its way to the queue.
type delivery struct {
	h     *held
	s     protocol.Settlement
	busy  time.Duration
	tries int
	dueAt time.Time
}

// One settlement request carries at most this much.
const (
	batchItems = 100
	batchBytes = 384 << 10
)

// deliver hands a settlement to the outbox. Until it is confirmed the lease is extended. w.mu is held.
func (w *Worker) deliver(h *held, s protocol.Settlement, busy time.Duration) {
	h.given = true
	w.outbox = append(w.outbox, &delivery{h: h, s: s, busy: busy, dueAt: time.Now()})
	w.notify()
}

// settlements delivers the outbox, in batches: what ends while one request is under way goes with the next. A
// settlement is repeated until the queue confirms it, which is safe because settling twice changes nothing, or until
// it cannot matter any more.
func (w *Worker) settlements(ctx context.Context) {
	for {
		batch, wait, changed := w.batch()
		if len(batch) == 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-changed:
			case <-ctx.Done():
				timer.Stop()
				return
			}
			timer.Stop()
			continue
		}
		items := make([]protocol.Settlement, len(batch))
		for i, d := range batch {
			items[i] = d.s
		}
		call, cancel := context.WithTimeout(ctx, 10*time.Second)
		answers, err := w.conn.Settle(call, items)
		cancel()
		if err == nil && len(answers) != len(items) {
			err = fmt.Errorf("settle: %d answers to %d items", len(answers), len(items))
		}
		w.settled(batch, answers, err)
		if ctx.Err() != nil {
			return
		}
	}
}

// batch returns the settlements that are due, or how long until one is.
func (w *Worker) batch() (due []*delivery, wait time.Duration, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, bytes := time.Now(), 0
	wait = time.Minute
	for _, d := range w.outbox {
		if after := d.dueAt.Sub(now); after > 0 {
			wait = min(wait, after)
			continue
		}
		size := len(d.s.Result) + len(d.s.Error)
		if len(due) == batchItems || (len(due) > 0 && bytes+size > batchBytes) {
			break
		}
		bytes += size
		due = append(due, d)
	}
	return due, wait, w.changed
}

// settled takes the answers to a batch: confirmed and lost settlements leave the outbox, others are tried again.
func (w *Worker) settled(batch []*delivery, answers []protocol.Settled, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	gone := map[*delivery]bool{}
	for i, d := range batch {
		var a protocol.Settled
		if err != nil {
			a = protocol.Settled{State: protocol.SettledErr, Error: err.Error()}
		} else {
			a = answers[i]
		}
		switch {
		case a.State == protocol.SettledOK:
			w.count(d)
			gone[d] = true
		case a.State == protocol.SettledLost:
			w.log.Warn("settlement refused: the lease was lost", "job", d.h.job.ID, "action", d.s.Action)
			gone[d] = true
		case d.pointless(now):
			w.log.Error("settlement not delivered before the lease ended", "job", d.h.job.ID, "action", d.s.Action, "error", a.Error)
			gone[d] = true
		default:
			d.tries++
			d.dueAt = now.Add(backoff(d.tries, 100*time.Millisecond, 5*time.Second))
			if d.tries == 1 || d.tries%10 == 0 {
				w.log.Warn("settlement not confirmed", "job", d.h.job.ID, "tries", d.tries, "error", a.Error)
			}
		}
	}
	kept := w.outbox[:0]
	for _, d := range w.outbox {
		if !gone[d] {
			kept = append(kept, d)
			continue
		}
		delete(w.held, d.h.key())
	}
	clear(w.outbox[len(kept):])
	w.outbox = kept
	w.notify()
}

// pointless reports whether repeating d is: its lease ended a whole lease ago. Until then a queue that was itself
// down may not have given the job to anybody, and the token keeps a late settlement from doing harm.
func (d *delivery) pointless(now time.Time) bool {
	return !d.h.endsAt.IsZero() && now.After(d.h.endsAt.Add(d.h.length))
}

// count adds a confirmed settlement to the totals. w.mu is held.
func (w *Worker) count(d *delivery) {
	t := &w.totals
	switch d.s.Action {
	case protocol.Ack:
		t.Acked++
	case protocol.Nack:
		t.Nacked++
	case protocol.Dead:
		t.Dead++
	case protocol.Crash:
		t.Crashed++
	case protocol.Release:
		t.Released++
		return // not a run: it says nothing about how long the job takes
	}
	s := d.busy.Seconds()
	t.Runs++
	t.BusySeconds += s
	t.BusySquares += s * s
}
