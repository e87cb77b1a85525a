package ledger

import (
	"time"
)

// A suspect, a job that a worker died with, is handed only to a worker that holds nothing else, and that worker gets
// nothing else until it has settled it: if the job kills again, it kills alone. So that suspects do not starve among
// workers that are always busy, the first worker that meets one reserves it, and receives nothing new until it is idle
// and has run it. A worker that is idle already may take any suspect, reserved or not.

// reservationTime is how long an idle worker may take to come for its suspect.
const reservationTime = 5 * time.Second

type reservation struct {
	worker string
	until  int64 // counted once its worker is idle
}

// reservations are by job. They live in memory only.
type reservations map[string]reservation

func (rs reservations) drop(job string) { delete(rs, job) }

func (rs reservations) of(worker string) (job string, ok bool) {
	for id, r := range rs {
		if r.worker == worker {
			return id, true
		}
	}
	return "", false
}

// reserved reports whether another worker waits for the job.
func (l *Ledger) reserved(now int64, job, worker string) bool {
	r, ok := l.reserve[job]
	if !ok || r.worker == worker {
		return false
	}
	if l.leases.held[r.worker].jobs > 0 || now < r.until {
		return true
	}
	l.reserve.drop(job)
	return false
}

// pickSuspect decides whether worker shall run a suspect now. It returns the suspect it gets, or the time up to
// which ordinary jobs come first ([Never] when all do), or wait when it may receive nothing at present.
func (l *Ledger) pickSuspect(now int64, worker string) (get *Row, before int64, wait bool, err error) {
	held := l.leases.held[worker].jobs
	idle := held == 0
	if id, ok := l.reserve.of(worker); ok {
		if !idle {
			l.reserve[id] = reservation{worker, now + int64(reservationTime)}
			return nil, 0, true, nil
		}
		r, _, err := l.store.Get(id)
		if err != nil {
			return nil, 0, false, err
		}
		if r != nil && r.State == Suspect {
			return r, 0, false, nil
		}
		l.reserve.drop(id)
	}
	if l.n.Level[Suspect] == 0 {
		return nil, Never, false, nil
	}
	heads, err := l.store.First(Suspect, Never, len(l.reserve)+1, false)
	if err != nil {
		return nil, 0, false, err
	}
	for _, r := range heads {
		if !idle && l.reserved(now, r.ID, worker) {
			continue
		}
		first, err := l.store.EarliestAt(Ready)
		switch {
		case err != nil:
			return nil, 0, false, err
		case first < r.At:
			return nil, r.At, false, nil // not its turn yet
		case idle:
			return r, 0, false, nil
		}
		l.reserve[r.ID] = reservation{worker, now + int64(reservationTime)}
		return nil, 0, true, nil
	}
	return nil, Never, false, nil
}

// lapseReservations drops those whose worker is idle and did not come, and returns when the next one lapses.
func (l *Ledger) lapseReservations(now int64) (next int64) {
	next = Never
	for id, r := range l.reserve {
		switch {
		case l.leases.held[r.worker].jobs > 0: // its time has not begun
		case r.until <= now:
			l.reserve.drop(id)
		default:
			next = min(next, r.until)
		}
	}
	return next
}
