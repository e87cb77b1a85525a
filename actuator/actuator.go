// Package actuator is the contract between a decision and whatever starts and stops workers.
//
// An actuator scales one target to an absolute number. It keeps no goals of its own: told "be 12" twice,
// it does nothing the second time; told "be 5" while it is on its way to 12, it forgets about 12.
// Package actuatortest is the conformance suite.
package actuator

import (
	"context"
	"time"
)

// Actuator scales one target. All methods are safe for concurrent use.
type Actuator interface {
	// Count observes the target. An error means nothing is known; it never means zero.
	Count(ctx context.Context) (Count, error)

	// Scale asks for n ready replicas, n ≥ 0, and returns when the request is taken, not when it is fulfilled.
	// When replicas must go, those of prefer go first, in that order; then the actuator's own choice.
	// Workers that go are drained: they finish what they run before they are gone.
	Scale(ctx context.Context, n int, prefer []string) error
}

// Count is the state of a target.
type Count struct {
	At       time.Time
	Desired  int // what was last asked for
	Ready    int // started; whether they work is seen where they report
	Starting int // on their way, crash-looping ones included
	Draining int // told to go, still finishing
	// Workers names them where that can be known; nil where it cannot.
	Workers []Worker
	// Trouble says what an operator should know, such as a command that keeps dying; empty: none.
	Trouble string
}

// Worker is one replica.
type Worker struct {
	ID        string
	State     State
	OrderedAt time.Time // when the actuator decided to start it
	Restarts  int       // how often it died at this place since it was ordered
}

// State is where a replica is in its life.
type State string

// The states of a replica.
const (
	Starting State = "starting" // ordered; not running yet, or waiting to be restarted
	Running  State = "running"
	Draining State = "draining"
)
