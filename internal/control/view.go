package control

import (
	"maps"
	"slices"
	"time"

	"github.com/headrace/headrace/internal/journal"
	"github.com/headrace/headrace/scale"
)

// seriesLength is how many points of a pool are kept in memory: 15 minutes at one a second.
const seriesLength = 900

// Point is a pool at one time, for charts. A nil number is unknown.
type Point struct {
	At          time.Time    `json:"at"`
	Backlog     *float64     `json:"backlog"`
	InFlight    *float64     `json:"in_flight"`
	OldestAge   *float64     `json:"oldest_age"` // seconds
	Arrivals    float64      `json:"arrivals"`   // jobs/s
	Completions float64      `json:"completions"`
	Wanted      int          `json:"wanted"` // replicas by demand
	Desired     int          `json:"desired"`
	Ready       int          `json:"ready"`
	Ceiling     *int         `json:"ceiling"` // the one that binds
	Used        *float64     `json:"used"`    // share of a downstream's limit: the one that binds, if one does
	Reason      scale.Reason `json:"reason"`
}

func point(r journal.Record) Point {
	o, d := r.Observation, r.Decision
	p := Point{
		At: r.At, Backlog: value(o.Backlog), InFlight: value(o.InFlight), OldestAge: value(o.OldestAge),
		Arrivals: o.Estimates.ArrivalFast, Completions: o.Estimates.Completion,
		Wanted: d.Need.Replicas, Desired: d.Desired, Ready: o.Replicas.Ready, Reason: d.Reason,
	}
	if d.Binding != nil {
		p.Ceiling = &d.Binding.Replicas
	}
	for _, lim := range o.Limits {
		if d.Binding == nil || d.Binding.Name == lim.Downstream {
			p.Used = value(lim.Used)
		}
	}
	return p
}

func value(r scale.Reading) *float64 {
	if !r.Known() {
		return nil
	}
	return &r.Value
}

// series is a ring of points. The zero value is empty.
type series struct {
	points []Point
	next   int
}

func (s *series) add(p Point) {
	if len(s.points) < seriesLength {
		s.points = append(s.points, p)
		return
	}
	s.points[s.next] = p
	s.next = (s.next + 1) % seriesLength
}

func (s *series) inOrder() []Point {
	return slices.Concat(s.points[s.next:], s.points[:s.next])
}

// Latest returns the last record of every pool, by name. Records must not be modified.
func (l *Loop) Latest() []journal.Record {
	l.mu.RLock()
	defer l.mu.RUnlock()
	out := make([]journal.Record, 0, len(l.latest))
	for _, name := range slices.Sorted(maps.Keys(l.latest)) {
		out = append(out, l.latest[name])
	}
	return out
}

// Series returns the recent points of a pool, oldest first, not older than since.
func (l *Loop) Series(pool string, since time.Time) []Point {
	l.mu.RLock()
	defer l.mu.RUnlock()
	s := l.series[pool]
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(s.inOrder(), func(p Point) bool { return p.At.Before(since) })
}

// Decisions returns how many decisions each reason was given for, by pool.
func (l *Loop) Decisions() map[string]map[scale.Reason]int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	out := make(map[string]map[scale.Reason]int64, len(l.counts))
	for pool, reasons := range l.counts {
		out[pool] = maps.Clone(reasons)
	}
	return out
}

// LastStep returns when the last step was and how long it took; a zero time before the first.
func (l *Loop) LastStep() (at time.Time, took time.Duration) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.steppedAt, l.took
}
