package control

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/headrace/headrace/actuator"
	"github.com/headrace/headrace/internal/estimate"
	"github.com/headrace/headrace/internal/journal"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/scale"
	"github.com/headrace/headrace/worker/protocol"
)

// source is something read every step. At most one read is under way: a source that hangs costs one goroutine
// until it answers, and its late answer is used by the step that finds it.
type source[T any] struct {
	pending chan reading[T] // nil: no read under way
}

type reading[T any] struct {
	value T
	err   error
}

// start begins a read unless one is under way.
func (s *source[T]) start(ctx context.Context, l *Loop, read func(context.Context) (T, error)) {
	if s.pending != nil {
		return
	}
	s.pending = make(chan reading[T], 1)
	out := s.pending
	l.observing.Go(func() {
		// Longer than a step waits, so that a slow source still answers, if late; never for ever.
		ctx, cancel := context.WithTimeout(ctx, 20*l.opts.ObserveWithin)
		defer cancel()
		v, err := read(ctx)
		out <- reading[T]{v, err}
	})
}

// take waits for the read under way until deadline is closed.
func (s *source[T]) take(deadline <-chan struct{}) (v T, err error) {
	select {
	case r := <-s.pending:
		s.pending = nil
		return r.value, r.err
	default:
	}
	select {
	case r := <-s.pending:
		s.pending = nil
		return r.value, r.err
	case <-deadline:
		return v, context.DeadlineExceeded
	}
}

// observe reads all sources of all pools at once and returns an observation a pool.
func (l *Loop) observe(ctx context.Context, now time.Time) []scale.Observation {
	for _, p := range l.pools {
		p.stats.start(ctx, l, p.Queue.Stats)
		p.count.start(ctx, l, p.Actuator.Count)
	}
	deadline, cancel := context.WithTimeout(ctx, l.opts.ObserveWithin)
	defer cancel()
	out := make([]scale.Observation, len(l.pools))
	for i, p := range l.pools {
		out[i] = l.observePool(ctx, p, now, deadline.Done())
	}
	return out
}

func (l *Loop) observePool(ctx context.Context, p *pool, now time.Time, deadline <-chan struct{}) scale.Observation {
	o := scale.Observation{At: now}
	sample := estimate.Sample{At: now, Frozen: frozen(p.last)}

	returned := ""
	stats, err := p.stats.take(deadline)
	if err != nil {
		o.Unread = "queue: " + err.Error()
	} else {
		returned = p.givenBack.see(stats, now)
		o.Backlog, o.InFlight = known(stats.Backlog), known(stats.InFlight)
		o.Delayed, o.NextDue = known(stats.Delayed), known(stats.NextDue)
		o.OldestAge, o.Completions = known(stats.OldestAge), known(stats.Completions)
		if !o.Backlog.Known() {
			o.Unread = "backlog: " + stats.Backlog.Unknown
		}
		sample.Arrivals, sample.Completions, sample.Epoch = known(stats.Arrivals), o.Completions, stats.Epoch
		if stats.InFlight.Value > 0 {
			sample.Running = known(stats.OldestLease)
		}
	}

	members := l.fleet.Pool(p.Policy.Pool)
	sample.Attempts = scale.Read(float64(members.Totals.Runs), now)
	sample.BusySeconds = scale.Read(members.Totals.BusySeconds, now)
	sample.BusySquares = scale.Read(members.Totals.BusySquares, now)

	count, err := p.count.take(deadline)
	if err != nil {
		o.Replicas.Refused = "count workers: " + err.Error()
	} else {
		p.trouble = cmp.Or(count.Trouble, returned)
		working := map[string]time.Time{}
		for _, w := range members.Workers {
			working[w.Name] = w.FirstAt
		}
		o.Replicas, sample.Starts = p.replicas(count, working, now)
		if len(members.Workers) > 0 || len(count.Workers) > 0 {
			occupied := 0
			for _, w := range members.Workers {
				if w.Held > 0 && w.Order == protocol.Run {
					occupied++
				}
			}
			o.Replicas.Busy, o.Replicas.Occupied = scale.Read(float64(members.Busy), now), scale.Read(float64(occupied), now)
		}
	}

	for _, u := range p.Policy.Downstreams {
		o.Limits = append(o.Limits, l.limit(ctx, u, now))
	}
	p.memory.Estimate, o.Estimates = estimate.Update(p.memory.Estimate, estimate.Prior{
		ServiceTime: p.Policy.ServiceTime, ColdStart: p.Policy.StartsIn, Cycle: p.Policy.Cycle, Horizon: p.Policy.Horizon(),
	}, sample)
	return o
}

// replicas joins what the actuator started with what has been seen working, and returns how long the new ones took.
func (p *pool) replicas(c actuator.Count, working map[string]time.Time, now time.Time) (r scale.Replicas, starts []float64) {
	if p.since.IsZero() {
		p.since = now
	}
	r = scale.Replicas{At: c.At, Desired: c.Desired, Ready: c.Ready, Draining: c.Draining}
	if r.At.IsZero() {
		r.At = now
	}
	// An actuator that lost its memory with this process is still the one that was told the last size. In observe mode nobody
	// was told anything.
	if !p.acted && !p.Policy.Observe {
		r.Desired = max(r.Desired, p.memory.Scale.Desired)
	}
	if c.Workers == nil {
		for range c.Starting {
			r.Starting = append(r.Starting, 0)
		}
		return r, nil
	}
	r.Ready = 0
	alive := make(map[string]bool, len(c.Workers))
	for _, w := range c.Workers {
		alive[w.ID] = true
		if w.State == actuator.Draining {
			continue
		}
		at, works := working[w.ID]
		switch {
		case works:
			r.Ready++
			if !p.seen[w.ID] {
				p.seen[w.ID] = true
				// Of workers older than this process nobody saw the start, only that they came back to it.
				if !w.OrderedAt.Before(p.since) {
					starts = append(starts, max(0, at.Sub(w.OrderedAt).Seconds()))
				}
			}
		default:
			r.Starting = append(r.Starting, max(0, now.Sub(w.OrderedAt).Seconds()))
			if w.Restarts >= 3 {
				r.CrashLooping++
			}
		}
	}
	for id := range p.seen {
		if !alive[id] {
			delete(p.seen, id)
		}
	}
	return r, starts
}

// limit reads a downstream's state as the policy uses it. A store that cannot be read leaves the measured side unknown.
func (l *Loop) limit(ctx context.Context, u scale.Use, now time.Time) scale.Limit {
	out := scale.Limit{Downstream: u.Downstream, Unit: u.Unit}
	st, err := l.downstreams.State(ctx, u.Downstream)
	if err != nil {
		return out
	}
	out.PausedFor = st.PausedFor.Seconds()
	for _, ls := range st.Limits {
		if ls.Unit != u.Unit {
			continue
		}
		out.PerSecond = ls.PerSecond
		out.Used, out.Throttled = scale.Read(ls.Used, now), scale.Read(ls.ThrottledShare, now)
		// Below a dozen reports the declared cost is the better guess.
		if ls.Reports >= 12 && ls.UnitsPerUse > 0 {
			out.UnitsPerJob = scale.Read(ls.UnitsPerUse, now)
		}
	}
	return out
}

// frozen reports whether what is measured now would inflate the service time: a downstream has asked everybody to stay away.
func frozen(last journal.Record) bool {
	return slices.ContainsFunc(last.Observation.Limits, func(l scale.Limit) bool { return l.PausedFor > 0 })
}

// known takes a number over; what is impossible is unknown.
func known(n queue.Number) scale.Reading {
	if !n.Known() || math.IsNaN(n.Value) || math.IsInf(n.Value, 0) || n.Value < 0 {
		return scale.Reading{}
	}
	return scale.Read(n.Value, n.At)
}
