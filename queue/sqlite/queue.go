package sqlite

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/internal/ledger"
)

// Queue is one queue of a file. All methods are safe for concurrent use.
type Queue struct {
	db     *DB
	books  *books // only Extend and Watch may be used off the writer goroutine
	closed atomic.Bool
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

// Name returns the queue's name.
func (q *Queue) Name() string { return q.books.name }

// Caps implements [queue.Queue].
func (q *Queue) Caps() queue.Caps { return ledger.Caps(q.books.Policy(), true) }

func (q *Queue) do(size int, f func(now int64) error) error {
	if q.closed.Load() {
		return queue.ErrClosed
	}
	return q.db.do(size, f)
}

// Receive implements [queue.Queue].
func (q *Queue) Receive(ctx context.Context, r queue.Request) ([]queue.Lease, error) {
	if err := ledger.CheckRequest(r); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, nil
	}
	c := &ledger.Claim{
		Worker: r.Worker, Max: min(r.Max, ledger.MaxBatch), Lease: r.Lease, Park: r.Wait > 0,
		Since: q.db.now(), Done: make(chan struct{}),
	}
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
	err := q.do(1+c.Max, func(now int64) error {
		c.Leases, c.Err = nil, nil
		return q.books.Claim(now, c)
	})
	if err != nil {
		return err
	}
	ledger.Await(ctx, c, wait, func() {
		// An error is ErrClosed: then the writer answers c as it ends.
		_ = q.db.do(1, func(int64) error { q.books.Withdraw(c); return nil })
	})
	return c.Err
}

// Settle implements [queue.Queue].
func (q *Queue) Settle(_ context.Context, s []queue.Settlement) []error {
	var out []error
	err := q.do(len(s), func(now int64) (err error) {
		out, err = q.books.Settle(now, s)
		return err
	})
	if err != nil {
		return ledger.Same(err, len(s))
	}
	return out
}

// Extend implements [queue.Extender]. It writes nothing, and waits for the writer only when it shortens a lease.
func (q *Queue) Extend(_ context.Context, rs []queue.Receipt, d time.Duration) []queue.Extension {
	if q.closed.Load() {
		return ledger.NoExtension(queue.ErrClosed, len(rs))
	}
	out, nearer := q.books.Extend(q.db.now(), rs, d)
	if nearer != ledger.Never {
		_ = q.db.do(1, func(int64) error { q.books.Sooner(nearer); return nil })
	}
	return out
}

// Publish implements [queue.Publisher].
func (q *Queue) Publish(_ context.Context, jobs []queue.Job) []queue.Published {
	return ledger.PublishValid(jobs, func(valid []queue.Job) ([]queue.Published, error) {
		var out []queue.Published
		err := q.do(len(valid), func(now int64) (err error) {
			out, err = q.books.Publish(now, valid)
			return err
		})
		return out, err
	})
}

// Cancel implements [queue.Canceller].
func (q *Queue) Cancel(ctx context.Context, id string) (queue.Record, error) {
	var refused error
	err := q.do(1, func(now int64) (err error) {
		_, refused, err = q.books.Cancel(now, id)
		return err
	})
	if err != nil {
		return queue.Record{}, err
	}
	if refused != nil {
		return queue.Record{}, refused
	}
	return q.Get(ctx, id)
}

// redriveStep is how many dead jobs one transaction moves: a redrive of many shares the writer with others.
const redriveStep = 500

// Redrive implements [queue.Redriver]. It moves the jobs in steps; n counts those of the steps that were committed,
// also when an error ends it early.
func (q *Queue) Redrive(ctx context.Context, most int, force bool) (n int, err error) {
	for n < most {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		step, moved := min(redriveStep, most-n), 0
		err := q.do(step, func(now int64) (err error) {
			moved, err = q.books.Redrive(now, step, force)
			return err
		})
		if err != nil {
			return n, err
		}
		n += moved
		if moved < step {
			break
		}
	}
	return n, nil
}

// Abandon implements [queue.Abandoner].
func (q *Queue) Abandon(_ context.Context, worker, reason string) (int, error) {
	var n int
	err := q.do(1, func(now int64) (err error) {
		n, err = q.books.Abandon(now, worker, reason)
		return err
	})
	return n, err
}

// Close implements [queue.Queue]. The file stays open; its leases stay in force.
func (q *Queue) Close(ctx context.Context) error {
	if q.closed.Swap(true) {
		return nil
	}
	err := q.db.doAlone(context.WithoutCancel(ctx), func(int64) error {
		q.db.mu.Lock()
		if q.db.queues[q.books.name] == q {
			delete(q.db.queues, q.books.name)
		}
		q.db.mu.Unlock()
		q.books.Close()
		return nil
	})
	if errors.Is(err, queue.ErrClosed) {
		return nil // the file was closed, and the queue with it
	}
	return err
}
