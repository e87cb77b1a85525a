// Package memory is the built-in queue in one process, without a disk: for tests, simulations and trying things out.
//
// What is a job here? A row in a map. What is a lease? An entry with a fencing token and an end, both exact. When is a
// job seen twice? When its lease ran out; time in which the process was stopped counts for no lease. What does Stats
// cost? A few additions, whatever the backlog. What must be set up? Nothing; and nothing survives the process.
//
// It uses package time, so it runs in the virtual time of testing/synctest.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/internal/ledger"
)

// Options of a queue. The zero value is good.
type Options struct {
	// Name is the queue's name in records; default "memory".
	Name string
}

// Queue is a queue in memory. All methods are safe for concurrent use.
type Queue struct {
	name  string
	epoch string
	clock ledger.Clock
	books *ledger.Ledger // its Extend and Watch need no mu

	mu     sync.Mutex
	store  *store
	timer  *time.Timer // runs for books.Next
	closed bool
}

// The whole contract.
var (
	_ queue.Queue       = (*Queue)(nil)
	_ queue.Extender    = (*Queue)(nil)
	_ queue.Publisher   = (*Queue)(nil)
	_ queue.StatsReader = (*Queue)(nil)
	_ queue.Waiter      = (*Queue)(nil)
	_ queue.Finder      = (*Queue)(nil)
	_ queue.Canceller   = (*Queue)(nil)
	_ queue.Redriver    = (*Queue)(nil)
	_ queue.Abandoner   = (*Queue)(nil)
)

// New returns an empty queue.
func New(p queue.Policy, opts Options) *Queue {
	if opts.Name == "" {
		opts.Name = "memory"
	}
	s := newStore()
	return &Queue{
		name: opts.Name, epoch: uuid.NewString(), clock: ledger.StartClock(time.Now()), store: s,
		books: ledger.New(s, p, ledger.Counters{}),
	}
}

// Caps returns the facts about the queue.
func (q *Queue) Caps() queue.Caps {
	q.mu.Lock()
	defer q.mu.Unlock()
	return ledger.Caps(q.books.Policy(), false)
}

// do runs f as one batch, then what has become due, and arms the timer for what comes next.
func (q *Queue) do(f func(now int64) error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return queue.ErrClosed
	}
	err := f(q.clock.Now())
	q.rest()
	return err
}

// rest does what has become due, serves who waits, and arms the timer. The store never fails.
func (q *Queue) rest() {
	t := q.clock.Now()
	_ = q.books.Tick(t)
	_ = q.books.ServeParked(t)
	q.books.Commit()
	next := q.books.Next()
	if q.timer != nil {
		q.timer.Stop()
	}
	if next == ledger.Never {
		return
	}
	wait := time.Duration(max(0, next-t))
	if q.timer == nil {
		q.timer = time.AfterFunc(wait, func() { _ = q.do(func(int64) error { return nil }) })
	} else {
		q.timer.Reset(wait)
	}
}

// Receive implements [queue.Queue].
func (q *Queue) Receive(ctx context.Context, r queue.Request) ([]queue.Lease, error) {
	if err := ledger.CheckRequest(r); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, nil
	}
	c := &ledger.Claim{Worker: r.Worker, Max: min(r.Max, ledger.MaxBatch), Lease: r.Lease, Park: r.Wait > 0, Since: q.clock.Now(), Done: make(chan struct{})}
	if err := q.claim(ctx, c, r.Wait); err != nil {
		return nil, err
	}
	return c.Leases, nil
}

// Wait implements [queue.Waiter].
func (q *Queue) Wait(ctx context.Context, worker string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &ledger.Claim{Worker: worker, Park: true, Done: make(chan struct{})}
	if err := q.claim(ctx, c, 0); err != nil {
		return err
	}
	return ctx.Err()
}

func (q *Queue) claim(ctx context.Context, c *ledger.Claim, wait time.Duration) error {
	if err := q.do(func(now int64) error { return q.books.Claim(now, c) }); err != nil {
		return err
	}
	ledger.Await(ctx, c, wait, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.books.Withdraw(c)
	})
	return c.Err
}

// Settle implements [queue.Queue].
func (q *Queue) Settle(_ context.Context, s []queue.Settlement) []error {
	var out []error
	err := q.do(func(now int64) (err error) {
		out, err = q.books.Settle(now, s)
		return err
	})
	if err != nil {
		return ledger.Same(err, len(s))
	}
	return out
}

// Extend implements [queue.Extender].
func (q *Queue) Extend(_ context.Context, rs []queue.Receipt, d time.Duration) []queue.Extension {
	var out []queue.Extension
	err := q.do(func(now int64) error {
		var nearer int64
		out, nearer = q.books.Extend(now, rs, d)
		q.books.Sooner(nearer)
		return nil
	})
	if err != nil {
		return ledger.NoExtension(err, len(rs))
	}
	return out
}

// Publish implements [queue.Publisher].
func (q *Queue) Publish(_ context.Context, jobs []queue.Job) []queue.Published {
	return ledger.PublishValid(jobs, func(valid []queue.Job) ([]queue.Published, error) {
		var out []queue.Published
		err := q.do(func(now int64) (err error) {
			out, err = q.books.Publish(now, valid)
			return err
		})
		return out, err
	})
}

// Stats implements [queue.StatsReader].
func (q *Queue) Stats(context.Context) (queue.Stats, error) {
	var s queue.Stats
	err := q.do(func(now int64) error {
		_ = q.books.Tick(now) // what is due by now counts as ready
		var e ledger.Edges
		for _, st := range []ledger.State{ledger.Ready, ledger.Suspect} {
			if at, _ := q.store.EarliestAt(st); at != ledger.Never && (e.OldestReady == 0 || at < e.OldestReady) {
				e.OldestReady = at
			}
		}
		if at, _ := q.store.EarliestAt(ledger.Leased); at != ledger.Never {
			e.OldestLease = at
		}
		if at, _ := q.store.EarliestAt(ledger.Delayed); at != ledger.Never {
			e.NextDue = at
		}
		n := q.books.Counters()
		s = n.Stats(now, time.Now(), e, q.epoch)
		return nil
	})
	return s, err
}

// Get implements [queue.Finder].
func (q *Queue) Get(_ context.Context, id string) (queue.Record, error) {
	var rec queue.Record
	err := q.do(func(int64) (err error) {
		rec, err = q.find(id)
		return err
	})
	return rec, err
}

func (q *Queue) find(id string) (queue.Record, error) {
	it := q.store.byID[id]
	if it == nil {
		return queue.Record{}, fmt.Errorf("get job %s: %w", id, queue.ErrNotFound)
	}
	r := it.bare()
	_ = q.store.Load(r)
	r.Result = append([]byte(nil), it.row.Result...)
	return r.Record(q.name), nil
}

// List implements [queue.Finder]. It sorts the jobs of the state: O(n log n).
func (q *Queue) List(_ context.Context, f queue.Filter) ([]queue.Record, string, error) {
	states, after, err := ledger.CheckFilter(f)
	if err != nil {
		return nil, "", err
	}
	var page []queue.Record
	var next string
	err = q.do(func(int64) error {
		var rows []*ledger.Row
		for _, st := range states {
			n := 0
			for _, it := range q.store.sorted(st) {
				if it.row.At < after.At || it.row.At == after.At && it.row.Seq <= after.Seq {
					continue
				}
				if n++; n > f.Limit+1 {
					break
				}
				r := it.bare()
				r.Payload = &ledger.Payload{Key: it.row.Payload.Key}
				rows = append(rows, r)
			}
		}
		page, next = ledger.Page(rows, f.Limit, q.name)
		return nil
	})
	return page, next, err
}

// Await implements [queue.Finder].
func (q *Queue) Await(ctx context.Context, id string) (queue.Record, error) {
	ended, stop := q.books.Watch(id)
	defer stop()
	rec, err := q.Get(ctx, id)
	if err != nil || rec.State.Terminal() {
		return rec, err
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return q.Get(ctx, id)
}

// Cancel implements [queue.Canceller].
func (q *Queue) Cancel(_ context.Context, id string) (queue.Record, error) {
	var rec queue.Record
	err := q.do(func(now int64) error {
		_, refused, err := q.books.Cancel(now, id)
		if refused == nil && err == nil {
			rec, err = q.find(id)
		}
		return cmp.Or(refused, err)
	})
	return rec, err
}

// Redrive implements [queue.Redriver].
func (q *Queue) Redrive(_ context.Context, max int, force bool) (int, error) {
	var n int
	err := q.do(func(now int64) (err error) {
		n, err = q.books.Redrive(now, max, force)
		return err
	})
	return n, err
}

// Abandon implements [queue.Abandoner].
func (q *Queue) Abandon(_ context.Context, worker, reason string) (int, error) {
	var n int
	err := q.do(func(now int64) (err error) {
		n, err = q.books.Abandon(now, worker, reason)
		return err
	})
	return n, err
}

// Close implements [queue.Queue].
func (q *Queue) Close(context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	q.closed = true
	q.books.Close()
	if q.timer != nil {
		q.timer.Stop()
	}
	return nil
}

// Drift compares the kept counters with the jobs and returns every difference: none, unless there is a defect.
func (q *Queue) Drift(context.Context) ([]string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var real [ledger.NumStates]int64
	for _, it := range q.store.byID {
		real[it.row.State]++
	}
	return q.books.Drift(q.name, real), nil
}
