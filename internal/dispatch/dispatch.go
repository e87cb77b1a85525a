// Package dispatch is the server's side of the worker protocol: it hands jobs to workers, permits first, and takes them back.
//
// A claim reserves the permits of its jobs before it leases them, so that a worker is never given a job that its
// downstream would refuse. Claims wait here, not at the broker: a queue that can tell when it has work is
// asked for nothing until then, and permits are not held by workers that have nothing to do.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headrace/headrace/downstream"
	"github.com/headrace/headrace/internal/fleet"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/worker/protocol"
)

// Errors of the dispatcher; the caller's mistakes.
var (
	ErrNoPool     = errors.New("no such pool")
	ErrBadRequest = errors.New("bad request")
)

// MaxWait is the longest a claim or a permit request may wait.
const MaxWait = 30 * time.Second

// Pool is what the dispatcher needs to know of a pool.
type Pool struct {
	Name  string
	Queue queue.Queue
	// Heartbeat is how often a worker shall extend its leases; at most a third of the lease.
	Heartbeat time.Duration
	Uses      []Use
}

// Use is what one job takes of a downstream.
type Use struct {
	Downstream string
	Unit       string
	Units      float64 // declared
	// Measured: reserve the mean of the true costs that workers reported, once there are enough of them.
	Measured bool
}

// Dispatcher serves workers. All methods are safe for concurrent use.
type Dispatcher struct {
	pools map[string]Pool
	fleet *fleet.Fleet
	store downstream.Store
}

// New returns a dispatcher for the pools. It starts nothing.
func New(pools []Pool, f *fleet.Fleet, s downstream.Store) *Dispatcher {
	d := &Dispatcher{pools: map[string]Pool{}, fleet: f, store: s}
	for _, p := range pools {
		d.pools[p.Name] = p
	}
	return d
}

func (d *Dispatcher) pool(name string) (Pool, error) {
	p, ok := d.pools[name]
	if !ok {
		return Pool{}, fmt.Errorf("pool %q: %w", name, ErrNoPool)
	}
	return p, nil
}

// Claim leases up to r.Max jobs to a worker, waiting up to r.Wait for the first. A worker that was told to go gets none.
// Leases that were taken for a caller who is gone are released.
func (d *Dispatcher) Claim(ctx context.Context, pool string, r protocol.ClaimRequest) (protocol.ClaimAnswer, error) {
	arrived := time.Now()
	p, err := d.pool(pool)
	if err != nil {
		return protocol.ClaimAnswer{}, err
	}
	if r.Worker == "" || r.Max < 1 {
		return protocol.ClaimAnswer{}, fmt.Errorf("claim of pool %q: worker must be named and max at least 1: %w", pool, ErrBadRequest)
	}
	order, ordered := d.fleet.Claimed(pool, r.Worker, r.Slots)
	if order != protocol.Run {
		return protocol.ClaimAnswer{Order: order}, nil
	}
	wait, cancel := context.WithTimeout(ctx, min(span(r.Wait), MaxWait))
	defer cancel()
	stop := context.AfterFunc(ordered, cancel) // a worker that is told to go waits no longer
	defer stop()

	leases, reserved, asked, err := d.claim(ctx, wait, p, r)
	if err != nil {
		return protocol.ClaimAnswer{}, fmt.Errorf("claim of pool %q: %w", pool, err)
	}
	if ctx.Err() != nil {
		d.giveBack(ctx, p, leases, reserved)
		return protocol.ClaimAnswer{}, ctx.Err()
	}
	// The queue counts a lease from when it was asked, the worker from before it sent its claim.
	waited := max(0, asked.Sub(arrived))
	answer := protocol.ClaimAnswer{Leases: make([]protocol.Lease, len(leases))}
	refs := make([]protocol.LeaseRef, len(leases))
	permits := permitsOf(reserved)
	for i, l := range leases {
		refs[i] = protocol.LeaseRef{ID: l.JobID, Token: l.Token}
		answer.Leases[i] = protocol.Lease{
			ID: l.JobID, Token: l.Token, Job: l.JobID, Attempt: l.Attempt, Crashes: l.Crashes,
			Tenant: l.Tenant, Priority: l.Priority, Headers: l.Headers, Payload: l.Payload,
			ExpiresIn: since(l.For, waited), MaxIn: since(l.Max, waited), HeartbeatEvery: protocol.SecondsOf(min(p.Heartbeat, l.For/3)), Permits: permits,
		}
	}
	order, known := d.fleet.Given(r.Worker, refs)
	if !known { // it died, or left, while its claim waited
		d.giveBack(ctx, p, leases, reserved)
		return protocol.ClaimAnswer{Order: protocol.Drain}, nil
	}
	answer.Order = order
	return answer, nil
}

// since is how long a span lasts for one who began to count it earlier by more; zero has no end.
func since(span, more time.Duration) protocol.Seconds {
	if span <= 0 {
		return 0
	}
	return protocol.SecondsOf(span + more)
}

// claim tries at once, then each time there may be work, until there are jobs and permits for them or wait ends; then it
// returns none. What it takes it takes under ctx, so that a claim that does not wait is a claim all the same. The leases
// count from asked.
func (d *Dispatcher) claim(ctx, wait context.Context, p Pool, r protocol.ClaimRequest) (_ []queue.Lease, _ []downstream.Ask, asked time.Time, _ error) {
	waiter, canWait := p.Queue.(queue.Waiter)
	request := queue.Request{Worker: r.Worker}
	receive := ctx
	if !canWait {
		deadline, _ := wait.Deadline()
		request.Wait, receive = max(0, time.Until(deadline)), wait
	}
	for {
		asks := d.asks(ctx, p, r.Max)
		granted, err := d.reserve(wait, asks, r.Max)
		if err != nil {
			return nil, nil, asked, ended(wait, err)
		}
		request.Max, asked = granted, time.Now()
		leases, err := p.Queue.Receive(receive, request)
		if unused := granted - len(leases); unused > 0 && len(asks) > 0 {
			if back := d.store.Return(context.WithoutCancel(ctx), asks, unused); back != nil && len(leases) == 0 {
				return nil, nil, asked, back
			}
		}
		if err != nil {
			return nil, nil, asked, ended(wait, err)
		}
		if len(leases) > 0 || !canWait {
			return leases, asks, asked, nil
		}
		if err := waiter.Wait(wait, r.Worker); err != nil {
			return nil, nil, asked, ended(wait, err)
		}
	}
}

// ended turns the end of the wait into "none"; everything else stays an error.
func ended(wait context.Context, err error) error {
	if wait.Err() != nil && errors.Is(err, wait.Err()) {
		return nil
	}
	return err
}

// reserve takes permits for up to most jobs, waiting until at least one can start or ctx ends.
func (d *Dispatcher) reserve(ctx context.Context, asks []downstream.Ask, most int) (int, error) {
	if len(asks) == 0 {
		return most, nil
	}
	for {
		permit, err := d.store.Take(ctx, asks)
		if err != nil || permit.Granted > 0 {
			return permit.Granted, err
		}
		timer := time.NewTimer(max(permit.RetryIn, time.Millisecond))
		select {
		case <-ctx.Done():
			timer.Stop()
			return 0, ctx.Err()
		case <-timer.C:
		}
	}
}

// asks says what up to most jobs of p take of its downstreams.
func (d *Dispatcher) asks(ctx context.Context, p Pool, most int) []downstream.Ask {
	asks := make([]downstream.Ask, 0, len(p.Uses))
	for _, u := range p.Uses {
		units := u.Units
		if u.Measured {
			if st, err := d.store.State(ctx, u.Downstream); err == nil {
				units = measured(st, u)
			}
		}
		asks = append(asks, downstream.Ask{Downstream: u.Downstream, Units: map[string]float64{u.Unit: units}, Max: most})
	}
	return asks
}

// measured returns the mean reported cost of a job, or the declared one while there are fewer than a dozen reports.
func measured(st downstream.State, u Use) float64 {
	for _, l := range st.Limits {
		if l.Unit == u.Unit && l.Reports >= 12 && l.UnitsPerUse > 0 {
			return l.UnitsPerUse
		}
	}
	return u.Units
}

// giveBack releases leases whose claimer is gone, with their permits.
func (d *Dispatcher) giveBack(ctx context.Context, p Pool, leases []queue.Lease, asks []downstream.Ask) {
	if len(leases) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	back := make([]queue.Settlement, len(leases))
	for i, l := range leases {
		back[i] = queue.Settlement{Receipt: l.Receipt(), Verdict: queue.Release}
	}
	p.Queue.Settle(ctx, back) // what cannot be released now comes back when its lease runs out
	if len(asks) > 0 {
		d.store.Return(ctx, asks, len(leases)) //nolint:errcheck // units that are not returned are only unused
	}
}

// Heartbeat extends the leases a worker holds, takes its report, and answers what became of each lease.
func (d *Dispatcher) Heartbeat(ctx context.Context, r protocol.HeartbeatRequest) (protocol.HeartbeatAnswer, error) {
	p, err := d.pool(r.Pool)
	if err != nil {
		return protocol.HeartbeatAnswer{}, err
	}
	if r.Worker == "" {
		return protocol.HeartbeatAnswer{}, fmt.Errorf("heartbeat: worker must be named: %w", ErrBadRequest)
	}
	answer := protocol.HeartbeatAnswer{Order: d.fleet.Heartbeat(r), Leases: make([]protocol.LeaseState, len(r.Leases))}
	extender, ok := p.Queue.(queue.Extender)
	if !ok || len(r.Leases) == 0 {
		for i, l := range r.Leases {
			answer.Leases[i] = protocol.LeaseState{ID: l.ID, State: protocol.LeaseOK}
		}
		return answer, nil
	}
	receipts := make([]queue.Receipt, len(r.Leases))
	for i, l := range r.Leases {
		receipts[i] = queue.Receipt{JobID: l.ID, Token: l.Token}
	}
	for i, e := range extender.Extend(ctx, receipts, 0) {
		s := protocol.LeaseState{ID: r.Leases[i].ID, State: protocol.LeaseOK, ExpiresIn: protocol.SecondsOf(e.Left)}
		switch {
		case errors.Is(e.Err, queue.ErrLost):
			s.State = protocol.LeaseLost
		case e.Err != nil:
			return protocol.HeartbeatAnswer{}, fmt.Errorf("extend lease of job %s: %w", s.ID, e.Err)
		case e.Cancel:
			s.State = protocol.LeaseCancel
		}
		answer.Leases[i] = s
	}
	return answer, nil
}

// Settle ends leases and reports what came of their downstreams.
func (d *Dispatcher) Settle(ctx context.Context, r protocol.SettleRequest) (protocol.SettleAnswer, error) {
	p, err := d.pool(r.Pool)
	if err != nil {
		return protocol.SettleAnswer{}, err
	}
	batch := make([]queue.Settlement, len(r.Items))
	for i, it := range r.Items {
		v := queue.Verdict(it.Action)
		switch v {
		case queue.Ack, queue.Nack, queue.Release, queue.Dead, queue.Crash:
		default:
			return protocol.SettleAnswer{}, fmt.Errorf("settle job %s: unknown action %q: %w", it.Lease, it.Action, ErrBadRequest)
		}
		batch[i] = queue.Settlement{
			Receipt: queue.Receipt{JobID: it.Lease, Token: it.Token}, Verdict: v, Result: it.Result, Reason: it.Error,
		}
		if it.RetryIn != nil {
			delay := span(*it.RetryIn)
			batch[i].Delay = &delay
		}
	}
	answer := protocol.SettleAnswer{Items: make([]protocol.Settled, len(batch))}
	var reports []downstream.Report
	var unused []downstream.Ask
	var ended []string
	for i, err := range p.Queue.Settle(ctx, batch) {
		it := r.Items[i]
		s := protocol.Settled{Lease: it.Lease, State: protocol.SettledOK}
		switch {
		case errors.Is(err, queue.ErrLost):
			s.State, s.Error = protocol.SettledLost, err.Error()
		case err != nil:
			s.State, s.Error = protocol.SettledErr, err.Error()
		}
		if s.State != protocol.SettledErr {
			ended = append(ended, it.Lease)
			reports = append(reports, reportsOf(it)...)
			if it.Unbegun() {
				unused = append(unused, asksOf(it.Permits)...)
			}
		}
		answer.Items[i] = s
	}
	if r.Worker != "" {
		d.fleet.Settled(r.Worker, ended)
	}
	if len(reports) > 0 {
		d.store.Report(ctx, reports) //nolint:errcheck // the job is settled; a store that is away learns from the next one
	}
	if len(unused) > 0 {
		d.store.Return(ctx, unused, 1) //nolint:errcheck // units that are not returned are only unused
	}
	return answer, nil
}

// reportsOf returns what a settlement says of downstreams. The units were spent whether or not the lease was lost.
func reportsOf(it protocol.Settlement) []downstream.Report {
	var out []downstream.Report
	for name, outcome := range it.Outcomes {
		rep := downstream.Report{
			Downstream: name, Outcome: downstream.Outcome(outcome), Reserved: it.Permits[name], Used: it.Usage[name],
		}
		if rep.Outcome == downstream.Throttled && it.RetryIn != nil {
			rep.RetryAfter = min(span(*it.RetryIn), time.Hour)
		}
		out = append(out, rep)
	}
	return out
}

// Permit takes units of a downstream for a job that runs, waiting up to r.MaxWait.
func (d *Dispatcher) Permit(ctx context.Context, r protocol.PermitRequest) (protocol.PermitAnswer, error) {
	for unit, v := range r.Units {
		if !(v >= 0) {
			return protocol.PermitAnswer{}, fmt.Errorf("permit of %q: %v %s: must not be negative: %w", r.Downstream, v, unit, ErrBadRequest)
		}
	}
	asks := []downstream.Ask{{Downstream: r.Downstream, Units: r.Units, Max: 1}}
	wait, cancel := context.WithTimeout(ctx, min(span(r.MaxWait), MaxWait))
	defer cancel()
	n, err := d.reserve(wait, asks, 1)
	switch {
	case err == nil && n > 0:
		if ctx.Err() != nil {
			return protocol.PermitAnswer{}, errors.Join(ctx.Err(), d.store.Return(context.WithoutCancel(ctx), asks, 1))
		}
		return protocol.PermitAnswer{Granted: true}, nil
	case wait.Err() != nil && ctx.Err() == nil:
		permit, err := d.store.Take(ctx, asks)
		return protocol.PermitAnswer{Granted: permit.Granted > 0, RetryIn: protocol.SecondsOf(permit.RetryIn)}, err
	default:
		return protocol.PermitAnswer{}, err
	}
}

// Goodbye forgets a worker that leaves by itself. What it still holds is released, without an attempt.
func (d *Dispatcher) Goodbye(ctx context.Context, worker string) error {
	pool, left := d.fleet.Gone(worker)
	if len(left) == 0 {
		return nil
	}
	p, err := d.pool(pool)
	if err != nil {
		return err
	}
	back := make([]queue.Settlement, len(left))
	for i, l := range left {
		back[i] = queue.Settlement{Receipt: queue.Receipt{JobID: l.ID, Token: l.Token}, Verdict: queue.Release}
	}
	for i, err := range p.Queue.Settle(ctx, back) {
		if err != nil && !errors.Is(err, queue.ErrLost) {
			return fmt.Errorf("release job %s of worker %s: %w", left[i].ID, worker, err)
		}
	}
	return nil
}

// Died forgets a worker whose process ended without a goodbye, and ends its leases as crashes, so that its jobs need
// not wait for them to run out. It returns how many there were.
func (d *Dispatcher) Died(ctx context.Context, pool, worker, reason string) (int, error) {
	p, err := d.pool(pool)
	if err != nil {
		return 0, err
	}
	d.fleet.Gone(worker)
	a, ok := p.Queue.(queue.Abandoner)
	if !ok {
		return 0, nil
	}
	n, err := a.Abandon(ctx, worker, reason)
	if err != nil {
		return n, fmt.Errorf("end leases of dead worker %s: %w", worker, err)
	}
	return n, nil
}

// span is a duration from the wire, where a stranger may have put anything.
func span(s protocol.Seconds) time.Duration {
	if !(s > 0) {
		return 0
	}
	return min(s, 366*24*3600).Duration()
}

func asksOf(permits map[string]map[string]float64) []downstream.Ask {
	var out []downstream.Ask
	for name, units := range permits {
		out = append(out, downstream.Ask{Downstream: name, Units: units, Max: 1})
	}
	return out
}

func permitsOf(asks []downstream.Ask) map[string]map[string]float64 {
	if len(asks) == 0 {
		return nil
	}
	out := make(map[string]map[string]float64, len(asks))
	for _, a := range asks {
		out[a.Downstream] = a.Units
	}
	return out
}
