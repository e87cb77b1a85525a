// Package dryrun watches a target and changes nothing: it remembers what it was asked for instead.
package dryrun

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/headrace/headrace/actuator"
)

// Actuator decorates another one. Count passes through; Scale is recorded and goes no further.
type Actuator struct {
	target actuator.Actuator

	mu   sync.Mutex
	last Request
}

var _ actuator.Actuator = (*Actuator)(nil)

// Request is what was last asked for.
type Request struct {
	At     time.Time // zero: nothing yet
	N      int
	Prefer []string
}

// New returns a dry run of target.
func New(target actuator.Actuator) *Actuator { return &Actuator{target: target} }

// Count observes the target as it is, not as it was asked to be.
func (a *Actuator) Count(ctx context.Context) (actuator.Count, error) { return a.target.Count(ctx) }

// Scale remembers the request.
func (a *Actuator) Scale(ctx context.Context, n int, prefer []string) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("scale (dry run): %w", ctx.Err())
	case n < 0:
		return fmt.Errorf("scale (dry run): %d is negative", n)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = Request{At: time.Now(), N: n, Prefer: slices.Clone(prefer)}
	return nil
}

// Last returns the last request that Scale took.
func (a *Actuator) Last() Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.last
	r.Prefer = slices.Clone(r.Prefer)
	return r
}
