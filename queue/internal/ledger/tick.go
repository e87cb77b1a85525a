package ledger

import "time"

// Most rows that one batch handles of each kind, so that due work never keeps callers waiting long.
const (
	tickLeases  = 500
	tickPromote = 1000
	tickForget  = 500
)

// janitorPause is how far apart clean-ups are at least when there is nothing left over, and forgetPause when there is:
// callers share the disk with them.
const (
	janitorPause = time.Second
	forgetPause  = 50 * time.Millisecond
)

// Tick does what has become due: it takes away leases that ran out, makes delayed jobs ready, ends jobs that expired
// and forgets finished jobs that were kept long enough. [Ledger.Next] then says when to come back.
func (l *Ledger) Tick(now int64) error {
	l.leases.lockedBeat(now)
	if now < l.next {
		return nil
	}
	l.Begin()
	l.next = Never
	for _, step := range []func(int64) error{l.takeLeases, l.promote, l.expireOverdue, l.janitor} {
		if err := step(now); err != nil {
			l.next = now
			return err
		}
	}
	l.sooner(l.lapseReservations(now))
	return nil
}

func (l *Ledger) takeLeases(now int64) error {
	due := l.leases.takeDue(now, tickLeases)
	for _, x := range due {
		l.onUndo(func() { l.leases.giveBack(x) })
	}
	for _, x := range due {
		if err := l.runOut(now, x, x.extended); err != nil {
			return err
		}
	}
	l.sooner(l.leases.next())
	return nil
}

func (l *Ledger) promote(now int64) error {
	rows, err := l.store.First(Delayed, now, tickPromote, false)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if due(r.ExpiresAt, now) {
			err = l.expire(now, r)
		} else {
			r.toReady(r.At) // its age counts from when its delay was over
			err = l.put(r, Delayed)
		}
		if err != nil {
			return err
		}
	}
	next, err := l.store.EarliestAt(Delayed)
	l.sooner(next)
	return err
}

func (l *Ledger) expireOverdue(now int64) error {
	rows, err := l.store.Overdue(now, tickPromote)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if err := l.expire(now, r); err != nil {
			return err
		}
	}
	next, err := l.store.EarliestExpiry()
	l.sooner(next)
	return err
}

func (l *Ledger) expire(now int64, r *Row) error {
	from := r.State
	r.toEnd(Expired, now)
	return l.put(r, from)
}

func (l *Ledger) janitor(now int64) error {
	if now < l.janitorAt {
		l.sooner(l.janitorAt)
		return nil
	}
	l.janitorAt = Never
	keep := int64(l.policy.KeepResults)
	for _, s := range []State{Succeeded, Cancelled, Expired} {
		if l.n.Level[s] == 0 {
			continue
		}
		rows, err := l.store.First(s, now-keep, tickForget, false)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if err := l.forget(r); err != nil {
				return err
			}
		}
		if len(rows) == tickForget {
			l.forgetAt(now + int64(forgetPause)) // there is more
			continue
		}
		next, err := l.store.EarliestAt(s)
		if err != nil {
			return err
		}
		if next != Never {
			l.forgetAt(max(next+keep, now+int64(janitorPause)))
		}
	}
	return nil
}

// forgetAt makes the janitor come at that time, if not sooner.
func (l *Ledger) forgetAt(at int64) {
	l.janitorAt = min(l.janitorAt, at)
	l.sooner(at)
}
