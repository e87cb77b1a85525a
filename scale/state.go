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

// observe advances the memory by what was seen, before anything is decided.
func (s State) observe(p Policy, in inputs, o Observation, n Need) State {
	now := o.At
	for _, t := range []*time.Time{&s.StartedAt, &s.IdleSince, &s.UnknownSince, &s.ExcessSince, &s.UntakenSince, &s.ProgressAt} {
		if t.After(now) { // the clock was set back: what was then is now
			*t = now
		}
	}
	since := func(t *time.Time, holds bool) {
		if !holds {
			*t = time.Time{}
		} else if t.IsZero() {
			*t = now
		}
	}
	since(&s.StartedAt, true)
	known := in.unknown == "" && n.Known
	since(&s.UnknownSince, !known)
	moved := progressed(s, o)
	if moved || !known {
		s.IdleSince = time.Time{}
	}
	since(&s.IdleSince, known && in.idle)

	if same := in.sameHead(s, o); !same {
		s.HeadBorn, s.HeadDone, s.HeadJobs = time.Time{}, 0, 0
		if known && in.q > 0 && in.age > 0 && o.Completions.Known() {
			s.HeadBorn, s.HeadDone, s.HeadJobs = headBorn(o), o.Completions.Value, in.q+in.b
		}
	}
	// The clock of progress runs only while somebody could make some.
	if moved || !known || !o.Completions.Known() || in.ready == 0 || in.q+in.b == 0 || s.ProgressAt.IsZero() || paused(p, o) {
		s.ProgressAt = now
	}
	if o.Completions.Known() {
		s.Completions = o.Completions.Value
	}
	untaken := known && in.untaken(p, o)
	if untaken && !s.UntakenSince.IsZero() && in.q < s.UntakenBacklog {
		untaken = false // it shrinks: it is being taken
	}
	since(&s.UntakenSince, untaken)
	if s.UntakenSince.IsZero() || s.UntakenSince.Equal(now) {
		s.UntakenBacklog = 0
		if untaken {
			s.UntakenBacklog = in.q
		}
	}

	if known {
		steady, late := in.holds(p)
		s.Steady = push(s.Steady, now, n.replicasOf("steady", in.c), steady)
		s.Late = push(s.Late, now, n.replicasOf("drain", in.c), late)
		if in.idleLong(p, s, o) && now.Sub(s.IdleSince) >= steady {
			s.Steady, s.Late = nil, nil // nothing was needed for longer than a need is held
		}
	}
	return s
}

func (n Need) replicasOf(term string, c float64) int {
	for _, t := range n.Terms {
		if t.Name == term {
			return ceil(t.Slots / c)
		}
	}
	return 0
}
