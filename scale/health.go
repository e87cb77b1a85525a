package scale

import (
	"math"
	"slices"
	"time"
)

// What keeps a pool from growing in vain: each is seen over time, raises an alarm, and is a reason of its own.

// untaken reports whether backlog waits beside slots of which at least half are free, with no limit that explains it.
func (in inputs) untaken(p Policy, o Observation) bool {
	if in.q == 0 || in.ready == 0 || !in.known(o.At, o.Replicas.Busy) || o.Replicas.Busy.Value > in.ready*in.c/2 {
		return false
	}
	for _, u := range p.Downstreams { // where a limit is used up, or fed by the workers there are, jobs wait for permits
		l := limitOf(o, u)
		if l == nil {
			continue
		}
		if l.PausedFor > 0 || l.Used.Known() && l.Used.Value >= 0.8 {
			return false
		}
		if c, ok := rateCeiling(p, in, u, *l); ok && float64(c.Replicas) <= in.ready {
			return false
		}
	}
	return true
}

// paused reports whether a downstream that every job needs has asked everybody to stay away.
func paused(p Policy, o Observation) bool {
	return slices.ContainsFunc(p.Downstreams, func(u Use) bool {
		l := limitOf(o, u)
		return l != nil && l.PausedFor > 0
	})
}

// idleSlots reports whether backlog has waited beside idle slots for long enough to believe that workers do not take it.
func (s State) idleSlots(in inputs, now time.Time) bool {
	return !s.UntakenSince.IsZero() && now.Sub(s.UntakenSince).Seconds() >= max(10*in.tick, 2*in.d1)
}

// stuck reports whether work waits or runs before ready workers and nothing has ended for longer than any job should take.
// How long that is comes from jobs that ended, or from what was declared: one that hangs must not excuse itself.
func (s State) stuck(in inputs, now time.Time) bool {
	w, usual := in.w, in.ended
	if math.IsInf(w, 1) {
		w = 0
	}
	if usual == 0 {
		usual = unheardOf
	}
	return in.q+in.b > 0 && in.ready > 0 && now.Sub(s.ProgressAt).Seconds() >= max(60, w, 5*usual, 2*in.d1)
}

// unheardOf is the service time, in seconds, that is believed of jobs nobody has seen the end of: with the factor five, an hour
// without a single completion is stuck.
const unheardOf = 720

// notReady counts the replicas that should have been working long since, or die at their start.
func (in inputs) notReady(o Observation) (overdue, dying int) {
	for _, ordered := range o.Replicas.Starting {
		if usable(ordered) && in.overdue(ordered) {
			overdue++
		}
	}
	return overdue, clamp(o.Replicas.CrashLooping, 0, maxReplicas)
}
