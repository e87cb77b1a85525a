package scale

import "time"

// State is the memory of one pool between decisions: plain data that survives JSON. The zero value is a new pool.
type State struct {
	// StartedAt is when this process first decided about the pool; the restart hold counts from it. Decide sets it
	// when it is zero: clear it when a saved state is loaded.
	StartedAt time.Time `json:"started_at,omitzero"`
	// Steady and Late hold recent needs of the steady and the drain term in replicas, decreasing in value (a monotone window).
	Steady []Peak `json:"steady,omitempty"`
	Late   []Peak `json:"late,omitempty"`
	// Moves are the changes of the last half hour or of the longest declared rate window, oldest first.
	Moves []Move `json:"moves,omitempty"`
	// IdleSince is when the pool was last seen to become empty; zero: not empty.
	IdleSince time.Time `json:"idle_since,omitzero"`
	// UnknownSince is when inputs were last seen to become unknown; zero: known.
	UnknownSince time.Time `json:"unknown_since,omitzero"`
	// ExcessSince is when the pool was last seen to become larger than its need, dead band included; zero: it is not.
	ExcessSince time.Time `json:"excess_since,omitzero"`
	// UntakenSince is when backlog was first seen to wait beside idle slots; zero: it does not.
	UntakenSince   time.Time `json:"untaken_since,omitzero"`
	UntakenBacklog float64   `json:"untaken_backlog,omitempty"` // the backlog then
	// HeadBorn is when the job that is oldest now became ready; HeadDone the completions when it was first seen as the
	// oldest, and HeadJobs the jobs that were in the system then.
	HeadBorn time.Time `json:"head_born,omitzero"`
	HeadDone float64   `json:"head_done,omitempty"`
	HeadJobs float64   `json:"head_jobs,omitempty"`
	// Progress is the last time a completion was seen, and the total then.
	ProgressAt  time.Time `json:"progress_at,omitzero"`
	Completions float64   `json:"completions,omitempty"`
	// Desired is the last size decided.
	Desired int `json:"desired"`
}

// Peak is a need seen at a time.
type Peak struct {
	At       time.Time `json:"at"`
	Replicas int       `json:"replicas"`
}

// Move is a change of size.
type Move struct {
	At   time.Time `json:"at"`
	From int       `json:"from"`
	To   int       `json:"to"`
}
