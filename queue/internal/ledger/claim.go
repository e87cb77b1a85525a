package ledger

import (
	"container/list"
	"time"

	"github.com/headrace/headrace/queue"
)

// Claim is a caller that wants jobs, or wants to know when there are some.
type Claim struct {
	Worker string
	Max    int           // most jobs; zero means: only tell me when there may be one
	Lease  time.Duration // zero: the policy's
	Park   bool          // wait until there is one
	Since  int64         // when the caller came: what Lease.For counts from

	// Done is closed, by the commit that made them durable, when Leases or Err is set or when there is nothing.
	Done   chan struct{}
	Leases []queue.Lease
	Err    error

	place *list.Element // while parked
}

// Claim serves c, or parks it when there is nothing for it now and it is willing to wait.
func (l *Ledger) Claim(now int64, c *Claim) error {
	l.Begin()
	if l.closed {
		c.Err = queue.ErrClosed
		l.answer(c)
		return nil
	}
	served, err := l.serve(now, c)
	if err != nil {
		return err
	}
	if served || !c.Park {
		l.answer(c)
		return nil
	}
	c.place = l.parked.PushBack(c)
	l.onUndo(func() { l.unpark(c) })
	return nil
}

// Withdraw answers c with nothing if it is parked. Otherwise its answer is on the way.
func (l *Ledger) Withdraw(c *Claim) {
	if c.place != nil {
		l.unpark(c)
		close(c.Done)
	}
}

// ServeParked gives what is ready to those who wait, in the order they came.
func (l *Ledger) ServeParked(now int64) error {
	for e := l.parked.Front(); e != nil && l.n.Level[Ready]+l.n.Level[Suspect] > 0; {
		c := e.Value.(*Claim)
		next := e.Next()
		l.Begin()
		served, err := l.serve(now, c)
		if err != nil {
			return err
		}
		if served {
			l.parked.Remove(e)
			c.place = nil
			l.onUndo(func() { c.place = l.parked.PushFront(c) })
			l.answer(c)
		}
		e = next
	}
	return nil
}

func (l *Ledger) unpark(c *Claim) {
	if c.place != nil {
		l.parked.Remove(c.place)
		c.place = nil
	}
}

func (l *Ledger) answer(c *Claim) { l.onCommit(func() { close(c.Done) }) }

// serve leases what there is for c and reports whether that was anything.
func (l *Ledger) serve(now int64, c *Claim) (bool, error) {
	if l.n.Level[Ready]+l.n.Level[Suspect] == 0 || l.leases.held[c.Worker].suspect {
		return false, nil
	}
	suspect, before, wait, err := l.pickSuspect(now, c.Worker)
	if err != nil || wait {
		return false, err
	}
	if c.Max <= 0 {
		return suspect != nil || l.n.Level[Ready] > 0, nil
	}
	if suspect != nil {
		if due(suspect.ExpiresAt, now) {
			if err := l.expire(now, suspect); err != nil {
				return false, err
			}
			return l.serve(now, c)
		}
		if err := l.store.Load(suspect); err != nil {
			return false, err
		}
		return true, l.lease(now, c, suspect)
	}
	for len(c.Leases) < c.Max && l.n.Level[Ready] > 0 {
		want := c.Max - len(c.Leases)
		rows, err := l.store.First(Ready, before, want, true)
		if err != nil {
			return false, err
		}
		for _, r := range rows {
			if due(r.ExpiresAt, now) {
				err = l.expire(now, r)
			} else {
				err = l.lease(now, c, r)
			}
			if err != nil {
				return false, err
			}
		}
		if len(rows) < want {
			break
		}
	}
	return len(c.Leases) > 0, nil
}

func due(at, now int64) bool { return at != 0 && at <= now }

// lease gives r, which must have its payload, to c.
func (l *Ledger) lease(now int64, c *Claim, r *Row) error {
	term := c.Lease
	if term <= 0 {
		term = l.policy.Lease
	}
	from := r.State
	term = min(term, l.policy.MaxLease)
	r.toLeased(now, l.store.NextToken(), c.Worker, later(now, l.policy.MaxLease))
	if err := l.put(r, from); err != nil {
		return err
	}
	until := later(now, term)
	x := &lease{row: r, until: until, maxAt: r.MaxAt}
	undo := l.leases.start(now, x)
	l.onUndo(func() {
		undo()
		c.Leases = nil // also when it was this claim whose other job could not be stored
	})
	l.sooner(until)
	p := r.Payload
	r.Payload = nil // the mirror does not keep it
	since := time.Duration(max(0, now-c.Since))
	c.Leases = append(c.Leases, queue.Lease{
		JobID: r.ID, Token: r.Token, Attempt: r.Attempts + 1, Crashes: r.Crashes,
		Tenant: r.Tenant, Priority: r.Priority, Headers: p.Headers, Payload: p.Body,
		EnqueuedAt: Time(r.EnqueuedAt), For: since + term, Max: since + l.policy.MaxLease,
	})
	return nil
}

// Inherit takes over a lease that an earlier life of the process gave. It lasts a full term from now: its holder
// could not extend it while there was no process. If it runs out without one extension it counts as nothing at all,
// because it was the server that died. Whatever the clock showed when it was given, its hard maximum is at least that
// term and at most the policy's from now.
func (l *Ledger) Inherit(now int64, r *Row) {
	until := later(now, min(l.policy.Lease, l.policy.MaxLease))
	x := &lease{
		row: r, until: until, maxAt: min(max(r.MaxAt, until), later(now, l.policy.MaxLease)),
		inherited: true, cancel: r.Cancel,
	}
	l.leases.start(now, x)
	l.sooner(until)
}
