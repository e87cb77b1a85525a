package scale

import "time"

// Policy is how one pool wants to be scaled. The zero value of a field means its default where one is named.
type Policy struct {
	Pool string `json:"pool"`

	Objective Objective `json:"objective"`

	// Min and Max bound the replicas; Max ≥ 1, 0 ≤ Min ≤ Max.
	Min int `json:"min"`
	Max int `json:"max"`
	// MaxFrom is where Max was declared, such as "headrace.yaml:93", for explanations; empty: nobody says.
	MaxFrom string `json:"max_from,omitempty"`
	// Concurrency is the slots of one replica; default 1.
	Concurrency int `json:"concurrency"`
	// StartsIn is the prior for D, from ordering a replica to its first job; default 1 s.
	StartsIn time.Duration `json:"starts_in"`
	// ServiceTime is the prior for S, seconds a job keeps a slot busy; zero: none, the first completions decide.
	ServiceTime time.Duration `json:"service_time,omitempty"`
	// Utilisation fixes ρ_max, in (0, 1]; zero means auto (0.95, or 0.90 when the objective is short against the cold start).
	Utilisation float64 `json:"utilisation,omitempty"`
	// IdleToZero is how long a pool with Min 0 must be empty before it goes to zero; default 5 min.
	IdleToZero time.Duration `json:"idle_to_zero,omitempty"`

	// Grace is how long a worker that must go may take to finish its jobs before they are interrupted; default 30 s.
	Grace time.Duration `json:"grace,omitempty"`

	// Cycle is the time between evaluations; default 1 s.
	Cycle time.Duration `json:"cycle"`

	Damping Damping `json:"damping"`

	// Downstreams are what each job leans on.
	Downstreams []Use `json:"downstreams,omitempty"`

	// Stale is how long unknown inputs are held before StaleFloor may raise the pool; default 10 min.
	Stale      time.Duration `json:"stale"`
	StaleFloor int           `json:"stale_floor,omitempty"`

	// Observe decides and explains but changes nothing: [Decision.Apply] is false.
	Observe bool `json:"observe,omitempty"`
}

// Objective is what the users of a pool were promised.
type Objective struct {
	// OldestAge is w: no job should wait longer. Zero means no promise on age.
	OldestAge time.Duration `json:"oldest_age,omitempty"`
	// Drain is T_drain: a backlog should be gone that long after its oldest job became ready. Zero: OldestAge, or else 10 min.
	Drain time.Duration `json:"drain,omitempty"`
	// Miss is ε, the share of jobs that may wait longer than OldestAge in steady state; default 0.05.
	Miss float64 `json:"miss,omitempty"`
}

// Damping keeps a pool from moving more than it helps.
type Damping struct {
	// HoldSteady and HoldDrain are how long the steady and the drain term keep a pool up after they fall.
	// Zero means auto: clamp(D, 60 s, 30 min) for the steady term, and for the drain term 30 s but never more than HoldSteady.
	HoldSteady time.Duration `json:"hold_steady,omitempty"`
	HoldDrain  time.Duration `json:"hold_drain,omitempty"`
	// Up and Down bound the speed; empty means the default: ×4 + 20 a cycle up (no bound
	// while a backlog is late: Max is the bound), 20 % down within clamp(2D', 10 s, 60 s), D' being the
	// cold start and a cycle. One worker may always go within a rate's time.
	// From zero a percentage bounds nothing: a pool starts at its sized number.
	Up   []Rate `json:"up,omitempty"`   // the larger wins
	Down []Rate `json:"down,omitempty"` // the smaller wins
}

// Rate is a change of at most Percent of the replicas, or of Replicas, within Per. Set one of the two.
type Rate struct {
	Percent  float64       `json:"percent,omitempty"`
	Replicas int           `json:"replicas,omitempty"`
	Per      time.Duration `json:"per"`
}

// Use says how much of a downstream's limit one job takes.
type Use struct {
	Downstream string `json:"downstream"`
	// Unit is what the limit counts: "tokens", "requests".
	Unit string `json:"unit"`
	// UnitsPerJob is the declared cost, the prior for the measured one; > 0.
	UnitsPerJob float64 `json:"units_per_job"`
	// Permits: our permits enforce the limit, so one replica more than the exact ceiling is safe and uses it fully.
	Permits bool `json:"permits"`
}

// Horizon is the shortest time the pool's users were promised, over which rates have to be known; zero: no promise.
func (p Policy) Horizon() time.Duration {
	h := p.Objective.OldestAge
	if d := p.Objective.Drain; d > 0 && (h <= 0 || d < h) {
		h = d
	}
	return max(h, 0)
}
