// Package downstream keeps workers from overloading what they call.
//
// A downstream has limits, each a rate in units a second. Before a job starts, a permit for its units is
// taken from a [Store] that the whole fleet shares; a job without a permit is not started. A downstream that
// answers "too many" with a Retry-After is left alone by everybody until then. The algorithms are pure and live here;
// the packages below keep their state: memory for one process.
package downstream

import (
	"context"
	"time"
)

// Limit is a declared rate.
type Limit struct {
	Unit string // what is counted: "tokens", "requests"
	// PerSecond is the sustained rate in units a second; > 0.
	PerSecond float64
	// Burst is the most units that can be taken at once after a pause; default: one second's worth.
	Burst float64
}

// Ask is a wish to use a downstream.
type Ask struct {
	Downstream string
	// Units are what one use takes, by limit unit: {"tokens": 62}. Limits that are not named count one unit when their unit is "requests", else nothing.
	Units map[string]float64
	// Max is the number of uses wanted, at least 1: up to Max times Units.
	Max int
}

// Permit is the answer: how many uses were granted now, and when it is worth asking again.
type Permit struct {
	Granted int
	// RetryIn is how long until at least one use can be granted; set when Granted is 0.
	RetryIn time.Duration
}

// Outcome is what came of one use.
type Outcome string

// The outcomes of a use.
const (
	OK        Outcome = "ok"
	Throttled Outcome = "throttled"
	Failed    Outcome = "failed"
)

// Report tells the store what came of uses that were granted.
type Report struct {
	Downstream string
	// Reserved and Used are units a use, by limit unit; the difference is settled: unused units go back, excess becomes debt.
	// A nil Used means as reserved.
	Reserved, Used map[string]float64
	Outcome        Outcome
	// RetryAfter is how long the downstream asked to be left alone; set with Throttled.
	RetryAfter time.Duration
}

// State is what a store knows about a downstream.
type State struct {
	Downstream string
	Limits     []LimitState
	// PausedFor is how long everybody stays away; zero: not paused.
	PausedFor time.Duration
	// Totals since start, by outcome, and the permits granted.
	OK, Throttled, Failed, Granted int64
}

// LimitState is one limit in use.
type LimitState struct {
	Limit
	Available float64 // units that can be taken now; negative: debt
	// Used is the share of the limit taken over the last half minute: 0 unused, 1 fully used.
	Used float64
	// UnitsPerUse is the mean of the units of the last uses whose true cost was reported, Reports their number.
	UnitsPerUse float64
	Reports     int64
	// ThrottledShare is the share of calls refused over the last half minute.
	ThrottledShare float64
}

// Store holds the shared state of downstreams. All methods are safe for concurrent use.
// A downstream that was never declared has no limits: everything is granted.
type Store interface {
	// Take grants as many of the asked uses as every limit allows now, without blocking. When several
	// asks are given they are granted together: the same number of each.
	Take(ctx context.Context, asks []Ask) (Permit, error)
	// Return gives back granted uses that were not begun.
	Return(ctx context.Context, asks []Ask, uses int) error
	// Report settles uses and learns from their outcome.
	Report(ctx context.Context, reports []Report) error
	// State reads one downstream.
	State(ctx context.Context, name string) (State, error)
}
