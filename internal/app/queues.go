package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/headrace/headrace/internal/config"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/sqlite"
)

// poolQueue is what a pool needs of its queue: jobs and measurements.
type poolQueue interface {
	queue.Queue
	queue.StatsReader
}

// queues are the opened brokers and the queue of each pool.
type queues struct {
	dbs    map[string]*sqlite.DB // by broker
	byPool map[string]poolQueue
	poolOf map[string]string // by broker and queue name
}

// openQueues opens every broker that a pool uses, and every pool's queue.
func openQueues(ctx context.Context, cfg *config.Config) (_ *queues, err error) {
	qs := &queues{dbs: map[string]*sqlite.DB{}, byPool: map[string]poolQueue{}, poolOf: map[string]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, qs.Close())
		}
	}()
	for _, p := range cfg.Pools {
		db := qs.dbs[p.Broker]
		if db == nil {
			b := cfg.Brokers[p.Broker]
			if err := os.MkdirAll(filepath.Dir(b.Path), 0o750); err != nil {
				return qs, fmt.Errorf("open broker %s: %w", b.Name, err)
			}
			if db, err = sqlite.Open(ctx, b.Path, sqlite.Options{}); err != nil {
				return qs, fmt.Errorf("open broker %s: %w", b.Name, err)
			}
			qs.dbs[p.Broker] = db
		}
		q, err := db.Queue(ctx, p.Queue, policyOf(p))
		if err != nil {
			return qs, fmt.Errorf("open queue of pool %s: %w", p.Name, err)
		}
		qs.byPool[p.Name] = q
		qs.poolOf[p.Broker+"\x00"+p.Queue] = p.Name
	}
	return qs, nil
}

func policyOf(p config.Pool) queue.Policy {
	return queue.Policy{
		Lease: p.Lease.For, MaxLease: p.Lease.Max, Attempts: p.Retry.Attempts,
		BackoffMin: p.Retry.BackoffMin, BackoffMax: p.Retry.BackoffMax, AfterCrashes: p.Poison.AfterCrashes,
	}
}

// find looks a job up in every broker.
func (qs *queues) find(ctx context.Context, id string) (string, queue.Record, error) {
	for _, broker := range slices.Sorted(maps.Keys(qs.dbs)) {
		r, err := qs.dbs[broker].Find(ctx, id)
		switch {
		case errors.Is(err, queue.ErrNotFound):
			continue
		case err != nil:
			return "", queue.Record{}, err
		}
		if pool, ok := qs.poolOf[broker+"\x00"+r.Queue]; ok {
			return pool, r, nil
		}
	}
	return "", queue.Record{}, fmt.Errorf("job %s: %w", id, queue.ErrNotFound)
}

func (qs *queues) contracts() map[string]queue.Queue {
	out := make(map[string]queue.Queue, len(qs.byPool))
	for name, q := range qs.byPool {
		out[name] = q
	}
	return out
}

// Close closes the brokers.
func (qs *queues) Close() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(qs.dbs)) {
		errs = append(errs, qs.dbs[name].Close())
	}
	return errors.Join(errs...)
}
