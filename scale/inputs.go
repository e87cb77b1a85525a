package scale

import (
	"fmt"
	"math"
	"time"
)

// inputs is an observation that has been judged: every number usable, every absence named.
type inputs struct {
	unknown string // why nothing can be sized; empty: it can
	partial string // why a need is only a lower bound; empty: it is whole

	window  float64 // seconds after which a reading is stale
	tick    float64 // seconds between evaluations
	c       float64 // slots of a replica
	q, b    float64 // backlog, in flight
	age     float64 // of the oldest ready job, seconds; 0 when nobody says
	soon    bool    // delayed work is due before a worker could start
	idle    bool    // nothing waits, runs or is due soon; never true by absence of a reading
	ready   float64 // replicas that work
	current int     // replicas asked for

	lambda, lambdaErr float64
	s                 float64 // service time, seconds; 0: unknown
	ended             float64 // the same without what still runs; 0: nothing has ended, and nobody declared one
	ca2, cs2          float64
	d, d1             float64 // D and D' = D + a tick, seconds
	w                 float64 // promised oldest age, seconds; +Inf: none
	drain             float64 // T_drain, seconds
	grace             float64
}

func read(p Policy, s State, o Observation) inputs {
	in := inputs{
		tick:  p.Cycle.Seconds(),
		c:     float64(p.Concurrency),
		w:     math.Inf(1),
		drain: p.Objective.Drain.Seconds(),
		grace: p.Grace.Seconds(),
		ca2:   clamp(sane(o.Estimates.Dispersion), 1, 9),
		cs2:   1,
	}
	in.window = max(3*in.tick, 2*sane(o.SourceLag))
	if p.Objective.OldestAge > 0 {
		in.w = p.Objective.OldestAge.Seconds()
	}
	if in.d = sane(o.Estimates.ColdStart); in.d == 0 {
		in.d = p.StartsIn.Seconds()
	}
	in.d1 = in.d + in.tick
	if in.s = sane(o.Estimates.ServiceTime); in.s == 0 {
		in.s = p.ServiceTime.Seconds()
	}
	in.ended = max(0, in.s-sane(o.Estimates.ServiceRunning))
	if o.Estimates.ServiceCount > 0 && usable(o.Estimates.ServiceCV2) {
		in.cs2 = min(o.Estimates.ServiceCV2, 25)
	}

	in.current = clamp(s.Desired, 0, p.Max)
	if in.fresh(o.At, o.Replicas.At) {
		in.current = clamp(o.Replicas.Desired, 0, maxReplicas)
		in.ready = float64(clamp(o.Replicas.Ready, 0, maxReplicas))
	} else {
		in.unknown = "replicas " + unread(o.At, o.Replicas.At)
	}
	if in.known(o.At, o.Backlog) {
		in.q = sane(o.Backlog.Value)
	} else {
		in.unknown = "backlog " + unread(o.At, o.Backlog.At)
		if o.Unread != "" {
			in.unknown += " (" + o.Unread + ")"
		}
	}
	if in.known(o.At, o.InFlight) {
		in.b = sane(o.InFlight.Value)
	} else {
		in.partial = "jobs in flight " + unread(o.At, o.InFlight.At)
	}
	switch {
	case in.known(o.At, o.OldestAge):
		in.age = sane(o.OldestAge.Value)
	case !o.OldestAge.At.IsZero():
		in.partial = "oldest age " + unread(o.At, o.OldestAge.At)
	}
	if in.fresh(o.At, o.Estimates.ArrivalAt) && usable(o.Estimates.Arrival) {
		in.lambda, in.lambdaErr = min(o.Estimates.Arrival, 1e12), min(sane(o.Estimates.ArrivalError), 1e12)
	} else {
		in.partial = "arrival rate " + unread(o.At, o.Estimates.ArrivalAt)
	}
	if o.Delayed.Known() && o.Delayed.Value > 0 {
		in.soon = !o.NextDue.Known() || o.NextDue.Value <= in.d1
	}
	in.idle = in.unknown == "" && in.q == 0 && in.b == 0 && !in.soon && in.known(o.At, o.InFlight)
	return in
}

// fresh reports whether a reading made at "at" is young enough, and not from the future, which happens when a clock is set back.
func (in inputs) fresh(now, at time.Time) bool {
	return !at.IsZero() && math.Abs(now.Sub(at).Seconds()) <= in.window
}

func (in inputs) known(now time.Time, r Reading) bool { return r.Known() && in.fresh(now, r.At) }

func unread(now, at time.Time) string {
	switch age := now.Sub(at).Seconds(); {
	case at.IsZero():
		return "unknown"
	case age < 0:
		return "dated in the future"
	default:
		return fmt.Sprintf("unread for %s", span(age))
	}
}

// overdue reports whether a replica ordered so many seconds ago should have been working long since.
func (in inputs) overdue(ordered float64) bool { return ordered > 3*in.d+10 }

// capacity is the slot-seconds that the present replicas give until now + D': those that work, and those that start from
// the moment they are expected. A start that is overdue is not counted on.
func (in inputs) capacity(starting []float64) float64 {
	seconds := in.ready * in.d1
	for _, ordered := range starting {
		if ordered = sane(ordered); !in.overdue(ordered) {
			seconds += max(0, in.d1-max(0, in.d-ordered))
		}
	}
	return seconds * in.c
}

// headBorn is when the oldest job became ready.
func headBorn(o Observation) time.Time {
	return o.OldestAge.At.Add(-time.Duration(min(sane(o.OldestAge.Value), 1e9) * float64(time.Second)))
}

// sameHead reports whether the oldest job is the one that was the oldest before. Ages may be rounded to seconds.
func (in inputs) sameHead(s State, o Observation) bool {
	return !s.HeadBorn.IsZero() && in.q > 0 && in.age > 0 && math.Abs(headBorn(o).Sub(s.HeadBorn).Seconds()) <= max(1, in.tick)
}

// headStuck reports whether the oldest job is passed over: it is still the oldest although twice as many jobs have ended
// as were in the system when it was first seen. In any orderly queue it would have had its turn. More workers
// cannot help it, so its age must not count.
func (in inputs) headStuck(s State, o Observation) bool {
	return in.sameHead(s, o) && in.age > in.w && o.Completions.Known() && o.Completions.Value-s.HeadDone >= 2*s.HeadJobs+in.c
}
