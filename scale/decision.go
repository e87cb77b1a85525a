package scale

import "time"

// Term is one reason to have workers, in slots.
type Term struct {
	Name   string  `json:"name"` // floor, steady, drain, running, unmeasured
	Slots  float64 `json:"slots"`
	Detail string  `json:"detail"` // the numbers it was made of, for people
}

// Need is what the work of one pool asks for, before anything that limits it.
type Need struct {
	Pool     string  `json:"pool"`
	Known    bool    `json:"known"`         // false: the inputs are unread, stale or impossible; hold
	Why      string  `json:"why,omitempty"` // when not Known
	Terms    []Term  `json:"terms"`
	Binding  string  `json:"binding"` // name of the largest term
	Slots    float64 `json:"slots"`
	Replicas int     `json:"replicas"`
	// Partial says why the need is only a lower bound: it may raise the pool but not lower it. Empty: it is whole.
	Partial string `json:"partial,omitempty"`
	// Idle: nothing waits, runs or becomes due before a new worker could start.
	Idle bool `json:"idle,omitempty"`
	// HeadStuck: the oldest job is passed over while others complete; its age counts for nothing.
	HeadStuck bool `json:"head_stuck,omitempty"`
	// Late: a backlog exists that must be cleared in time, not just kept up with.
	Late bool `json:"late"`
}

// Capacity is something that several pools share.
type Capacity struct {
	Name     string   `json:"name"`
	Replicas int      `json:"replicas"`
	Pools    []string `json:"pools"`
}

// Grant is what one pool may have of what pools share.
type Grant struct {
	Need Need `json:"need"`
	// Limits are ceilings that sharing imposes on this pool; empty: none.
	Limits []Ceiling `json:"limits,omitempty"`
}

// Ceiling is a number of replicas past which more do not help or are not allowed.
type Ceiling struct {
	Reason   Reason `json:"reason"`
	Name     string `json:"name"`           // of what limits: the downstream, "pool"
	Unit     string `json:"unit,omitempty"` // which of a downstream's limits it is
	Replicas int    `json:"replicas"`
	// Hard: never exceeded. Otherwise a pool that is above a ceiling that dropped comes down at the down rate.
	Hard       bool    `json:"hard,omitempty"`
	JobsPerSec float64 `json:"jobs_per_second,omitempty"` // what it lets through, where it is a rate
	Detail     string  `json:"detail"`                    // one sentence
}

// Step is one stage of the computation. Folding them gives the decision: each step's From is the one before's To.
type Step struct {
	Name     string `json:"name"`              // demand, downstream, pool max, dead band, hold, rate, …
	Subject  string `json:"subject,omitempty"` // what it is about: the downstream's name
	Limit    string `json:"limit"`             // the rule, with its numbers
	From     int    `json:"from"`
	To       int    `json:"to"`
	Evidence string `json:"evidence,omitempty"`
	Reason   Reason `json:"reason,omitempty"`  // the reason this step would give if it decides
	Binding  bool   `json:"binding,omitempty"` // it decided
}

// Drain is the outlook for the backlog.
type Drain struct {
	// State is "empty", "clears", "stalled" (nothing completes), "grows" or "unknown".
	State string `json:"state"`
	// Seconds until the backlog is gone at the present net rate, with a range of one standard error either way.
	// Set when State is "clears"; a High of 0 then means that it may not clear at all.
	Seconds float64 `json:"seconds,omitempty"`
	Low     float64 `json:"low,omitempty"`
	High    float64 `json:"high,omitempty"`
	// Net is completions minus arrivals, jobs/s, and NetError its standard error.
	Net      float64 `json:"net"`
	NetError float64 `json:"net_error,omitempty"`
	// Ordered is the time in seconds in which the decided size clears the backlog, when not all of it works yet; 0: it does, or will not.
	Ordered float64 `json:"ordered,omitempty"`
	// Without is the time in seconds if the binding ceiling were not there; 0: no ceiling binds, or it would not clear either.
	Without float64 `json:"without_ceiling,omitempty"`
}

// Help is something that would change the outcome, computed from this observation.
type Help struct {
	What     string `json:"what"`   // "llm-provider 154k tokens/min"
	Effect   string `json:"effect"` // "24 replicas, clears in about 11m"
	Replicas int    `json:"replicas,omitempty"`
}

// Decision is what one cycle says about one pool, and why.
type Decision struct {
	Pool    string    `json:"pool"`
	At      time.Time `json:"at"`
	Current int       `json:"current"` // desired before
	Desired int       `json:"desired"`
	// Apply: the actuator is to be told. False in observe mode and while the actuator's own size is unknown.
	Apply    bool      `json:"apply"`
	Reason   Reason    `json:"reason"`
	Subject  string    `json:"subject,omitempty"` // whose limit: "llm-provider"
	Sentence string    `json:"sentence"`          // the verdict in one sentence
	Need     Need      `json:"need"`
	Ceilings []Ceiling `json:"ceilings,omitempty"`
	Binding  *Ceiling  `json:"binding,omitempty"` // the ceiling that binds, when demand, held demand included, is above it
	Steps    []Step    `json:"steps"`
	// NextChangeAt is when the next scale-in is possible at the earliest; zero: now.
	NextChangeAt time.Time `json:"next_change_at,omitzero"`
	Drain        Drain     `json:"drain"`
	Helps        []Help    `json:"helps,omitempty"`
	// RuledOut names what was looked at and is not the cause.
	RuledOut []string `json:"ruled_out,omitempty"`
	// Alarms name what a person should look at, such as [Stuck].
	Alarms []Reason `json:"alarms,omitempty"`
}
