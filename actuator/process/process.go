// Package process scales a pool by starting and stopping worker processes on this machine.
//
// A worker that is told to go is drained: it finishes what it runs and exits by itself, or is sent SIGTERM and, after
// its grace, SIGKILL. A worker that ends unasked is replaced, with a growing wait when it keeps dying. Every process
// gets a new id. None is left when the actuator is closed, and under [Guard] none is left when this process is killed.
package process

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/actuator"
)

// Actuator runs the workers of one pool. Make it with [New]; it starts nothing until [Actuator.Scale], and its owner
// calls [Actuator.Close].
type Actuator struct {
	pool string
	opts Options

	mu      sync.Mutex
	desired int
	closed  bool
	places  []*place // in the order they were asked for, those that go included
	running sync.WaitGroup
}

var _ actuator.Actuator = (*Actuator)(nil)

// New returns an actuator for pool.
func New(pool string, opts Options) *Actuator {
	return &Actuator{pool: pool, opts: opts.withDefaults()}
}

// ErrClosed is returned by Scale after Close.
var ErrClosed = errors.New("process actuator closed")

// Scale asks for n workers. Of those that must go, prefer's go first, then those that are not running, then the
// youngest.
func (a *Actuator) Scale(ctx context.Context, n int, prefer []string) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("scale pool %s: %w", a.pool, ctx.Err())
	case n < 0:
		return fmt.Errorf("scale pool %s: %d is negative", a.pool, n)
	case !supported:
		return fmt.Errorf("scale pool %s: worker processes cannot be run on this operating system", a.pool)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return fmt.Errorf("scale pool %s: %w", a.pool, ErrClosed)
	}
	a.desired = n
	var wanted []*place
	for _, p := range a.places {
		if !p.going() {
			wanted = append(wanted, p)
		}
	}
	for range n - len(wanted) {
		p := a.newPlace()
		a.places = append(a.places, p)
		a.running.Go(func() {
			p.run()
			a.remove(p)
		})
	}
	if extra := len(wanted) - n; extra > 0 {
		for _, p := range leaving(wanted, prefer)[:extra] {
			close(p.gone)
		}
	}
	return nil
}

// leaving orders places by how soon they should go.
func leaving(places []*place, prefer []string) []*place {
	type ranked struct {
		*place
		rank, age int
	}
	rs := make([]ranked, len(places))
	for i, p := range places {
		s := p.status()
		r := ranked{p, len(prefer) + 1, i}
		if at := slices.Index(prefer, s.ID); at >= 0 {
			r.rank = at
		} else if s.State == actuator.Starting {
			r.rank = len(prefer)
		}
		rs[i] = r
	}
	slices.SortFunc(rs, func(x, y ranked) int {
		if x.rank != y.rank {
			return x.rank - y.rank
		}
		return y.age - x.age
	})
	order := make([]*place, len(rs))
	for i, r := range rs {
		order[i] = r.place
	}
	return order
}

// Count says what runs. It is exact and costs nothing.
func (a *Actuator) Count(ctx context.Context) (actuator.Count, error) {
	if err := ctx.Err(); err != nil {
		return actuator.Count{}, fmt.Errorf("count pool %s: %w", a.pool, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c := actuator.Count{At: time.Now(), Desired: a.desired, Workers: []actuator.Worker{}}
	dying, limited, trouble := 0, 0, ""
	for _, p := range a.places {
		s := p.status()
		switch {
		case p.going():
			s.State = actuator.Draining
			c.Draining++
		case s.State == actuator.Running:
			c.Ready++
		default:
			c.Starting++
		}
		if s.trouble != "" && !p.going() {
			dying++
			trouble = s.trouble
		}
		if s.limited {
			limited++
		}
		c.Workers = append(c.Workers, s.Worker)
	}
	switch {
	case dying > 0:
		c.Trouble = fmt.Sprintf("%d of %d workers keep dying: %s", dying, a.desired, trouble)
	case limited > 0:
		c.Trouble = fmt.Sprintf("%d workers wait for room: max_total processes run already", limited)
	}
	return c, nil
}

// Replace kills a worker that hangs, without grace. It is replaced like one that died, or not if it was told to go.
// It reports whether there was such a worker, and returns once it is dead.
func (a *Actuator) Replace(workerID string) bool {
	a.mu.Lock()
	var c *child
	for _, p := range a.places {
		p.set(func() {
			if p.id == workerID {
				c = p.child
			}
		})
	}
	a.mu.Unlock()
	if c == nil {
		return false
	}
	c.kill()
	<-c.ended
	return true
}

// Close stops all workers: SIGTERM, after the grace SIGKILL, sooner when ctx ends. None is left when it returns.
// It is idempotent.
func (a *Actuator) Close(ctx context.Context) error {
	a.mu.Lock()
	a.closed, a.desired = true, 0
	for _, p := range a.places {
		if !p.going() {
			close(p.gone)
		}
		p.terminateNow()
	}
	hurried := slices.Clone(a.places)
	a.mu.Unlock()
	hurry := context.AfterFunc(ctx, func() {
		for _, p := range hurried {
			p.killNow()
		}
	})
	defer hurry()
	a.running.Wait()
	return nil
}

func (a *Actuator) remove(p *place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.places = slices.DeleteFunc(a.places, func(x *place) bool { return x == p })
}

// newPlace returns a place with the lowest free number. a.mu is held.
func (a *Actuator) newPlace() *place {
	n := 1
	for slices.ContainsFunc(a.places, func(p *place) bool { return p.n == n }) {
		n++
	}
	p := &place{
		a: a, n: n, orderedAt: time.Now(),
		gone: make(chan struct{}), terminate: make(chan struct{}), kill: make(chan struct{}),
	}
	p.id = p.newID()
	return p
}

// newID returns an id that no worker ever had.
func (p *place) newID() string { return fmt.Sprintf("%s-%d-%s", p.a.pool, p.n, uuid.NewString()[:8]) }
