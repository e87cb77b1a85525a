package ledger

import (
	"fmt"
	"time"

	"github.com/headrace/headrace/queue"
)

// Texts of failures that nobody reports.
const (
	textRanOut  = "lease ran out: its worker died or lost contact"
	textTooLong = "held longer than lease.max"
)

// Settle ends leases. The error is the store's and aborts the batch; all else is in the answers.
func (l *Ledger) Settle(now int64, all []queue.Settlement) ([]error, error) {
	l.Begin()
	out := make([]error, len(all))
	for i := range all {
		answer, err := l.settle(now, &all[i])
		if err != nil {
			return nil, err
		}
		out[i] = answer
	}
	return out, nil
}

// CheckSettlement returns what is wrong with s, or nil.
func CheckSettlement(s *queue.Settlement) error {
	switch s.Verdict {
	case queue.Ack, queue.Nack, queue.Release, queue.Dead, queue.Crash:
	default:
		return fmt.Errorf("settle job %s: %w: no verdict %q", s.JobID, queue.ErrInvalid, s.Verdict)
	}
	if len(s.Result) > queue.MaxPayload {
		return fmt.Errorf("settle job %s: %w: result has %d bytes, at most %d are allowed", s.JobID, queue.ErrInvalid, len(s.Result), queue.MaxPayload)
	}
	if s.Delay != nil && (*s.Delay < 0 || *s.Delay > queue.MaxWait) {
		return fmt.Errorf("settle job %s: %w: delay is %v, it must be 0 to %v", s.JobID, queue.ErrInvalid, *s.Delay, queue.MaxWait)
	}
	return nil
}

func (l *Ledger) settle(now int64, s *queue.Settlement) (answer, err error) {
	if err := CheckSettlement(s); err != nil {
		return err, nil
	}
	if x := l.leases.get(s.JobID); x != nil && !x.ended && x.row.Token == s.Token {
		return nil, l.endLease(now, x, s)
	}
	r, foreign, err := l.store.Get(s.JobID)
	if err != nil {
		return nil, err
	}
	if r != nil && !foreign && r.SettledToken == s.Token && r.Settled == s.Verdict {
		return nil, nil // said before
	}
	return fmt.Errorf("settle job %s: %w", s.JobID, queue.ErrLost), nil
}

// endLease settles x as its holder, or somebody in its name, says.
func (l *Ledger) endLease(now int64, x *lease, s *queue.Settlement) error {
	r := *x.row
	r.SettledToken, r.Settled = s.Token, s.Verdict
	if s.Verdict != queue.Release {
		r.Attempts++
		l.n.add(Attempts)
	}
	if s.Verdict == queue.Crash {
		r.Crashes++
		l.n.add(Crashed)
	}
	if s.Verdict != queue.Ack && s.Reason != "" {
		r.Error = reason(s.Reason)
	}
	switch s.Verdict {
	case queue.Ack:
		if len(s.Result) > 0 {
			r.Result = s.Result
		}
	case queue.Nack:
		l.n.add(Nacked)
	case queue.Release:
		l.n.add(Released)
	}
	switch {
	case r.Cancel:
		r.toEnd(Cancelled, now)
	case s.Verdict == queue.Ack:
		r.toEnd(Succeeded, now)
	case s.Verdict == queue.Dead:
		r.toDead(now, queue.ReasonRejected)
	case s.Verdict == queue.Release:
		var delay time.Duration
		if s.Delay != nil {
			delay = *s.Delay
		}
		r.toWaiting(now, delay)
	default:
		l.afterFailure(now, &r, s.Verdict == queue.Crash, s.Delay)
	}
	return l.close(now, x, &r)
}

// runOut takes away a lease whose time is over.
func (l *Ledger) runOut(now int64, x *lease, extended bool) error {
	r := *x.row
	l.n.add(Lost)
	// A holder that kept extending up to the hard maximum is alive; one that stopped before is taken for dead.
	tooLong := extended && x.until >= x.maxAt
	forgiven := x.inherited && !extended
	if !forgiven {
		r.Attempts++
		l.n.add(Attempts)
		r.Error = textTooLong
		if !tooLong {
			r.Crashes++
			r.Error = textRanOut
		}
	}
	switch {
	case r.Cancel:
		r.toEnd(Cancelled, now)
	case forgiven:
		r.toReady(now)
	default:
		l.afterFailure(now, &r, !tooLong, nil)
	}
	return l.close(now, x, &r)
}

func (l *Ledger) afterFailure(now int64, r *Row, crashed bool, delay *time.Duration) {
	o := l.policy.AfterFailure(r.Attempts, r.Crashes, crashed, delay, l.rand)
	if o.Dead {
		r.toDead(now, o.Reason)
	} else {
		r.toWaiting(now, o.Delay)
	}
}

// close ends the lease x, whose job becomes r.
func (l *Ledger) close(now int64, x *lease, r *Row) error {
	if err := l.put(r, Leased); err != nil {
		return err
	}
	undo, done := l.leases.end(x)
	l.onUndo(undo)
	l.onCommit(done)
	worker := x.row.Worker
	if l.leases.held[worker].jobs == 0 {
		if id, ok := l.reserve.of(worker); ok { // its turn has come: it has a moment to call
			l.reserve[id] = reservation{worker, now + int64(reservationTime)}
			l.sooner(now + int64(reservationTime))
		}
	}
	return nil
}

// Abandon settles every lease of worker as a crash and returns how many there were.
func (l *Ledger) Abandon(now int64, worker, why string) (int, error) {
	l.Begin()
	mine := l.leases.of(worker)
	for _, x := range mine {
		s := queue.Settlement{Receipt: queue.Receipt{JobID: x.row.ID, Token: x.row.Token}, Verdict: queue.Crash, Reason: why}
		if err := l.endLease(now, x, &s); err != nil {
			return 0, err
		}
	}
	return len(mine), nil
}

// Cancel ends a waiting job, or marks a leased one. It returns the job as it then is; the first error is the caller's,
// the second the store's.
func (l *Ledger) Cancel(now int64, id string) (*Row, error, error) {
	l.Begin()
	r, foreign, err := l.store.Get(id)
	if err != nil {
		return nil, nil, err
	}
	if r == nil || foreign {
		return nil, fmt.Errorf("cancel job %s: %w", id, queue.ErrNotFound), nil
	}
	switch from := r.State; {
	case from.Terminal():
		return r, fmt.Errorf("cancel job %s: %w: it is %s", id, queue.ErrConflict, from.Public()), nil
	case from == Leased:
		if r.Cancel {
			return r, nil, nil
		}
		r.Cancel = true
		if err := l.store.Update(r); err != nil {
			return nil, nil, err
		}
		l.markCancelled(l.leases.get(id))
	default:
		r.toEnd(Cancelled, now)
		if err := l.put(r, from); err != nil {
			return nil, nil, err
		}
	}
	return r, nil, nil
}

func (l *Ledger) markCancelled(x *lease) {
	set := func(on bool) {
		l.leases.mu.Lock()
		x.cancel, x.row.Cancel = on, on
		l.leases.mu.Unlock()
	}
	set(true)
	l.onUndo(func() { set(false) })
}

// Redrive gives up to n dead jobs, oldest first, another life: no attempts, no crashes, and the time to expire anew.
func (l *Ledger) Redrive(now int64, n int, force bool) (int, error) {
	l.Begin()
	moved := 0
	rows, err := l.store.Dead(n, force)
	if err != nil {
		return 0, err
	}
	for _, r := range rows {
		r.Attempts, r.Crashes, r.DeadReason = 0, 0, ""
		r.Redrives++
		if r.ExpiresAt != 0 {
			r.ExpiresAt = later(now, time.Duration(r.ExpiresAt-r.EnqueuedAt))
		}
		if r.Arrived {
			l.n.add(Arrivals) // once more: it is work that came in again
		}
		l.n.add(Redriven)
		r.toReady(now)
		if err := l.put(r, Dead); err != nil {
			return 0, err
		}
		moved++
	}
	return moved, nil
}
