package scale

import (
	"math"
	"time"
)

// Reading is a number with the time it was measured. The zero value is unknown, which is never zero.
type Reading struct {
	Value float64   `json:"value"`
	At    time.Time `json:"at,omitzero"`
}

// Read returns a reading of v made at at.
func Read(v float64, at time.Time) Reading { return Reading{Value: v, At: at} }

// Known reports whether r is a usable number: measured, finite and not negative.
func (r Reading) Known() bool {
	return !r.At.IsZero() && !math.IsNaN(r.Value) && !math.IsInf(r.Value, 0) && r.Value >= 0
}

// Observation is everything one decision is made from.
type Observation struct {
	At time.Time `json:"at"` // now

	Backlog     Reading `json:"backlog"`          // Q: jobs due and not leased
	InFlight    Reading `json:"in_flight"`        // B: leased, not settled
	Delayed     Reading `json:"delayed"`          // not due yet
	NextDue     Reading `json:"next_due"`         // seconds until the first delayed job is due; unknown: none
	OldestAge   Reading `json:"oldest_age"`       // seconds
	Completions Reading `json:"completions"`      // running total of jobs that ended
	SourceLag   float64 `json:"source_lag"`       // seconds the broker's numbers are late by their nature
	Unread      string  `json:"unread,omitempty"` // why the queue could not be read, for people

	Replicas Replicas `json:"replicas"`

	Estimates Estimates `json:"estimates"`

	// Limits are the measured sides of Policy.Downstreams, by downstream name and unit.
	Limits []Limit `json:"limits,omitempty"`
}

// Replicas is what the actuator says about a pool.
type Replicas struct {
	At       time.Time `json:"at,omitzero"` // zero: unknown
	Desired  int       `json:"desired"`     // what was last asked for
	Ready    int       `json:"ready"`       // what works
	Draining int       `json:"draining"`    // finishing their last jobs; no capacity for new ones
	// Starting lists, for each replica that was ordered and does not work yet, how many seconds ago it was ordered.
	Starting []float64 `json:"starting,omitempty"`
	// Busy is the number of slots that run a job; unknown where workers do not report.
	Busy Reading `json:"busy"`
	// Occupied is the number of replicas that run at least one job; unknown where workers do not report.
	Occupied Reading `json:"occupied"`
	// CrashLooping is the number of replicas that keep dying at their start.
	CrashLooping int `json:"crash_looping,omitempty"`
	// Refused is the actuator's error when it last could not do what was asked.
	Refused string `json:"refused,omitempty"`
}

// Estimates are what the estimators know, with how much they rest on.
type Estimates struct {
	Arrival      float64   `json:"arrival"`             // λ̂, jobs/s: slow, or fast when the gate is open
	ArrivalFast  float64   `json:"arrival_fast"`        // EWMA, short τ
	ArrivalSlow  float64   `json:"arrival_slow"`        // EWMA, ten times that τ
	ArrivalError float64   `json:"arrival_error"`       // standard error of the slow rate, jobs/s
	GateOpen     bool      `json:"gate_open"`           // fast departs from slow by more than 3σ
	Dispersion   float64   `json:"dispersion"`          // I, index of dispersion of arrivals, in [1, 9]
	ArrivalAt    time.Time `json:"arrival_at,omitzero"` // last good arrivals sample; zero: λ unknown

	Completion float64 `json:"completion"` // X, jobs/s, EWMA with the short τ

	ServiceTime float64 `json:"service_time"` // S, seconds; 0: unknown
	// ServiceRunning is the part of ServiceTime, in seconds, that comes from jobs that still run, while hardly any has ended.
	ServiceRunning float64 `json:"service_running,omitempty"`

	ServiceCV2   float64 `json:"service_cv2"`      // c_s², in [0, 25]
	ServiceCount float64 `json:"service_count"`    // completions behind S
	ColdStart    float64 `json:"cold_start"`       // D, seconds, p90 of the last 20 starts or the prior
	ColdStarts   int     `json:"cold_starts"`      // starts behind D
	Rejected     int     `json:"rejected_samples"` // samples dropped as impossible, running total
}

// Limit is the state of one declared rate limit of a downstream.
type Limit struct {
	Downstream string `json:"downstream"`
	Unit       string `json:"unit"`
	// PerSecond is the rate in units/s that all users together may take; 0: it could not be read, which holds growth.
	PerSecond float64 `json:"per_second"`
	// UnitsPerJob is the measured cost of a job; unknown: the policy's.
	UnitsPerJob Reading `json:"units_per_job"`
	// Used is the share of the limit in use over the last half minute, 0 to about 1; Throttled the share of calls refused.
	Used      Reading `json:"used"`
	Throttled Reading `json:"throttled"`
	// PausedFor is how many seconds the downstream asked everybody to stay away (Retry-After); 0: not.
	PausedFor float64 `json:"paused_for,omitempty"`
}
