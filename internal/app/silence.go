package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/headrace/headrace/actuator"
	"github.com/headrace/headrace/internal/fleet"
)

// runner is what the watch needs of an actuator.
type runner interface {
	Count(ctx context.Context) (actuator.Count, error)
	Replace(workerID string) bool
}

// watch replaces worker processes that live but have fallen silent: stopped, swapped out or wedged, they hold a place in
// their pool and do nothing with it. A worker that was never heard of is left alone: it may be starting.
type watch struct {
	fleet   *fleet.Fleet
	runners map[string]runner // by pool
	log     *slog.Logger
	every   time.Duration
	missing map[string]int // by worker that was heard of: looks in a row at which it was not known
}

// A worker is replaced when it was not known at this many looks in a row. The registry forgets a worker by the clock; the
// looks are counted, so that this process being stopped itself does not condemn everybody.
const (
	looks           = 3
	looksPerSilence = 9
)

// run looks until ctx is done.
func (w *watch) run(ctx context.Context) {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.look(ctx)
		}
	}
}

// look replaces who is due, all at once, and returns when they are dead.
func (w *watch) look(ctx context.Context) {
	missing := map[string]int{}
	var dying sync.WaitGroup
	for pool, r := range w.runners {
		count, err := r.Count(ctx)
		if err != nil {
			continue
		}
		known := map[string]bool{}
		for _, m := range w.fleet.Pool(pool).Workers {
			known[m.Name] = true
		}
		for _, p := range count.Workers {
			before, heard := w.missing[p.ID]
			switch {
			case known[p.ID]:
				missing[p.ID] = 0
			case heard && before+1 >= looks:
				w.log.WarnContext(ctx, "worker has fallen silent: killed", "pool", pool, "worker", p.ID)
				dying.Go(func() { r.Replace(p.ID) })
			case heard:
				missing[p.ID] = before + 1
			}
		}
	}
	w.missing = missing
	dying.Wait()
}
