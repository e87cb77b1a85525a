package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/headrace/headrace/downstream"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/worker/protocol"
)

// LocalOptions tune [Local]. The zero value works.
type LocalOptions struct {
	// Worker is the unique name of this worker; default: made of the host's name, the process id and chance.
	Worker string
	// Pool names the pool in jobs and logs; default "local".
	Pool string
	// Lease is the length of leases; default: the queue's.
	Lease time.Duration
	// Heartbeat is the time between extensions; default a third of the lease.
	Heartbeat time.Duration
	// Downstreams holds the limits that [Job.Take] obeys; nil: there are none.
	Downstreams downstream.Store
}

// Local returns a connection to a queue in this process. Without a [queue.Extender] a lease lasts as long as it lasts.
func Local(q queue.Queue, opts LocalOptions) Conn {
	if opts.Worker == "" {
		opts.Worker = Name()
	}
	if opts.Pool == "" {
		opts.Pool = "local"
	}
	return &local{q: q, opts: opts, drained: make(chan struct{}), lost: map[leaseKey]<-chan struct{}{}}
}

type local struct {
	q    queue.Queue
	opts LocalOptions

	drain   sync.Once
	drained chan struct{} // closed when the worker reports that it drains

	mu   sync.Mutex
	lost map[leaseKey]<-chan struct{} // of leases that the broker may take away
}

func (c *local) Pool() string { return c.opts.Pool }

func (c *local) Claim(ctx context.Context, r protocol.ClaimRequest) (protocol.ClaimAnswer, error) {
	n := r.Max
	if most := c.q.Caps().MaxBatch; most > 0 {
		n = min(n, most)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	defer func() { cancel(); <-ended }()
	go func() {
		defer close(ended)
		select {
		case <-c.drained:
			cancel()
		case <-ctx.Done():
		}
	}()
	leases, err := c.q.Receive(ctx, queue.Request{
		Worker: c.opts.Worker, Max: n, Wait: r.Wait.Duration(), Lease: c.opts.Lease,
	})
	a := protocol.ClaimAnswer{Order: protocol.Run}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range leases {
		if l.Lost != nil {
			c.lost[leaseKey{l.JobID, l.Token}] = l.Lost
		}
		every := c.opts.Heartbeat
		if every <= 0 {
			every = l.For / 3
		}
		a.Leases = append(a.Leases, protocol.Lease{
			ID: l.JobID, Token: l.Token, Job: l.JobID, Attempt: l.Attempt, Crashes: l.Crashes, Tenant: l.Tenant,
			Priority: l.Priority, Headers: l.Headers, Payload: l.Payload, ExpiresIn: protocol.SecondsOf(l.For),
			MaxIn: protocol.SecondsOf(l.Max), HeartbeatEvery: protocol.SecondsOf(every),
		})
	}
	return a, err
}

func (c *local) Heartbeat(ctx context.Context, r protocol.HeartbeatRequest) (protocol.HeartbeatAnswer, error) {
	if r.Draining {
		c.drain.Do(func() { close(c.drained) })
	}
	a := protocol.HeartbeatAnswer{Order: protocol.Run, Leases: make([]protocol.LeaseState, len(r.Leases))}
	receipts := make([]queue.Receipt, len(r.Leases))
	for i, l := range r.Leases {
		receipts[i] = queue.Receipt{JobID: l.ID, Token: l.Token}
		a.Leases[i] = protocol.LeaseState{ID: l.ID, State: protocol.LeaseOK}
	}
	if x, ok := c.q.(queue.Extender); ok && len(receipts) > 0 {
		for i, e := range x.Extend(ctx, receipts, c.opts.Lease) {
			s := &a.Leases[i]
			switch {
			case errors.Is(e.Err, queue.ErrLost):
				s.State = protocol.LeaseLost
			case e.Err != nil: // not extended; asked again with the next heartbeat
			case e.Cancel:
				s.State, s.ExpiresIn = protocol.LeaseCancel, protocol.SecondsOf(e.Left)
			default:
				s.ExpiresIn = protocol.SecondsOf(e.Left)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, l := range r.Leases {
		select {
		case <-c.lost[leaseKey{l.ID, l.Token}]:
			a.Leases[i].State = protocol.LeaseLost
		default:
		}
	}
	return a, nil
}

func (c *local) Settle(ctx context.Context, items []protocol.Settlement) ([]protocol.Settled, error) {
	settled := make([]protocol.Settled, 0, len(items))
	step := len(items)
	if most := c.q.Caps().MaxBatch; most > 0 {
		step = min(step, most)
	}
	for ; len(items) > 0; items = items[min(step, len(items)):] {
		part := items[:min(step, len(items))]
		s := make([]queue.Settlement, len(part))
		for i, it := range part {
			s[i] = queue.Settlement{
				Receipt: queue.Receipt{JobID: it.Lease, Token: it.Token}, Verdict: queue.Verdict(it.Action),
				Result: it.Result, Reason: it.Error,
			}
			if it.RetryIn != nil {
				d := it.RetryIn.Duration()
				s[i].Delay = &d
			}
		}
		for i, err := range c.q.Settle(ctx, s) {
			settled = append(settled, c.settled(ctx, part[i], err))
		}
	}
	return settled, nil
}

// settled translates the answer to one settlement, and tells the downstreams what came of it once that is sure.
func (c *local) settled(ctx context.Context, it protocol.Settlement, err error) protocol.Settled {
	a := protocol.Settled{Lease: it.Lease, State: protocol.SettledOK}
	switch {
	case errors.Is(err, queue.ErrLost):
		a.State = protocol.SettledLost
	case err != nil:
		a.State, a.Error = protocol.SettledErr, err.Error()
		return a
	}
	c.mu.Lock()
	delete(c.lost, leaseKey{it.Lease, it.Token})
	c.mu.Unlock()
	if s := c.opts.Downstreams; s != nil {
		// The settlement stands whatever the store says: units that it does not learn of count as used.
		if begun, asks := reports(it); len(asks) > 0 {
			_ = s.Return(ctx, asks, 1)
		} else if len(begun) > 0 {
			_ = s.Report(ctx, begun)
		}
	}
	return a
}

// reports says what came of the uses of downstreams behind a settlement, or which to give back unused: those of a job
// that was never begun.
func reports(it protocol.Settlement) (begun []downstream.Report, unused []downstream.Ask) {
	for d, outcome := range it.Outcomes {
		r := downstream.Report{Downstream: d, Reserved: it.Permits[d], Used: it.Usage[d], Outcome: downstream.Outcome(outcome)}
		if r.Outcome == downstream.Throttled && it.RetryIn != nil {
			r.RetryAfter = it.RetryIn.Duration()
		}
		begun = append(begun, r)
	}
	if it.Unbegun() {
		for d, units := range it.Permits {
			unused = append(unused, downstream.Ask{Downstream: d, Units: units, Max: 1})
		}
	}
	return begun, unused
}

func (c *local) Permit(ctx context.Context, r protocol.PermitRequest) (protocol.PermitAnswer, error) {
	if c.opts.Downstreams == nil {
		return protocol.PermitAnswer{Granted: true}, nil
	}
	p, err := c.opts.Downstreams.Take(ctx, []downstream.Ask{{Downstream: r.Downstream, Units: r.Units, Max: 1}})
	return protocol.PermitAnswer{Granted: p.Granted > 0, RetryIn: protocol.SecondsOf(p.RetryIn)}, err
}

// Goodbye has nothing to do: all that Claim returned was settled, and nothing else is held.
func (c *local) Goodbye(context.Context) error { return nil }
