package telemetry

import (
	"context"
	"time"

	"github.com/headrace/headrace/downstream"
	"github.com/headrace/headrace/internal/fleet"
	"github.com/headrace/headrace/internal/journal"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/scale"
)

// loop writes what the control loop last decided.
func (s sink) loop(l loop, now time.Time) {
	if at, took := l.LastStep(); !at.IsZero() {
		s.put(cycleAt, float64(at.UnixMicro())/1e6)
		s.put(cycleSeconds, took.Seconds())
	}
	for _, r := range l.Latest() {
		s.record(r, now)
	}
	for pool, reasons := range l.Decisions() {
		for reason, n := range reasons {
			s.put(decisions, float64(n), pool, string(reason))
		}
	}
}

func (s sink) record(r journal.Record, now time.Time) {
	o, d, pool := r.Observation, r.Decision, r.Pool
	s.reading(queueJobs, o.Backlog, pool, "ready")
	s.reading(queueJobs, o.Delayed, pool, "delayed")
	s.reading(queueJobs, o.InFlight, pool, "leased")
	s.reading(oldestAge, o.OldestAge, pool)
	if w := r.Policy.Objective.OldestAge; w > 0 {
		s.put(objective, w.Seconds(), pool)
	}
	switch d.Drain.State {
	case "empty":
		s.put(draining, 1, pool)
		s.put(drainSeconds, 0, pool)
	case "clears":
		s.put(draining, 1, pool)
		s.put(drainSeconds, d.Drain.Seconds, pool)
	case "grows", "stalled":
		s.put(draining, 0, pool)
	}
	s.put(snapshotAge, max(0, now.Sub(readAt(r)).Seconds()), pool)

	s.put(desiredForAnyone, float64(d.Desired), pool)
	s.put(replicasDesired, float64(d.Desired), pool)
	if d.Need.Known {
		s.put(replicasWanted, float64(d.Need.Replicas), pool)
	}
	if reps := o.Replicas; !reps.At.IsZero() {
		s.put(replicasReady, float64(reps.Ready), pool)
		s.put(replicasStarting, float64(len(reps.Starting)), pool)
		s.put(replicasDraining, float64(reps.Draining), pool)
		s.put(slotsProvisioned, float64(reps.Ready*max(1, r.Policy.Concurrency)), pool)
		s.reading(slotsBusy, reps.Busy, pool)
	}
	if e := o.Estimates; e.ServiceTime > 0 {
		s.put(serviceTime, e.ServiceTime, pool)
	}
	if e := o.Estimates; e.ColdStart > 0 {
		s.put(coldStart, e.ColdStart, pool)
	}
	s.ceilings(pool, d)
}

// readAt is when the pool's inputs were last usable.
func readAt(r journal.Record) time.Time {
	o := r.Observation
	switch {
	case o.Backlog.Known() && !o.Replicas.At.IsZero():
		if o.Replicas.At.Before(o.Backlog.At) {
			return o.Replicas.At
		}
		return o.Backlog.At
	case !r.State.UnknownSince.IsZero():
		return r.State.UnknownSince
	default:
		return r.At
	}
}

// ceilings writes each constraint once. A downstream with several limits has several ceilings: the lowest counts.
func (s sink) ceilings(pool string, d scale.Decision) {
	type key struct {
		reason scale.Reason
		name   string
	}
	lowest := map[key]int{}
	for _, c := range d.Ceilings {
		k := key{c.Reason, c.Name}
		if n, ok := lowest[k]; !ok || c.Replicas < n {
			lowest[k] = c.Replicas
		}
	}
	for k, n := range lowest {
		s.put(ceilingReplicas, float64(n), pool, string(k.reason), k.name)
		binds := 0.0
		if b := d.Binding; b != nil && b.Reason == k.reason && b.Name == k.name {
			binds = 1
		}
		s.put(ceilingBinding, binds, pool, string(k.reason), k.name)
	}
}

// queue writes the running totals of a pool's queue, and its dead letters.
func (s sink) queue(ctx context.Context, pool string, q queue.StatsReader) {
	st, err := q.Stats(ctx)
	if err != nil {
		return // the control loop reports the source as unread
	}
	s.number(queueJobs, st.Dead, pool, "dead")
	s.number(arrivals, st.Arrivals, pool)
	total := func(m id, name string, labels ...string) {
		if n, ok := st.Totals[name]; ok {
			s.put(m, float64(n), append([]string{pool}, labels...)...)
		}
	}
	for _, outcome := range []string{"succeeded", "dead", "cancelled", "expired"} {
		total(completions, outcome, outcome)
	}
	for _, outcome := range []string{"nacked", "released", "crashed"} {
		total(returned, outcome, outcome)
	}
	total(leasesExpired, "lost")
	total(redriven, "redriven")
}

func (s sink) fleet(pool string, p fleet.Pool) {
	s.put(workers, float64(len(p.Workers)), pool)
	s.put(handlerRuns, float64(p.Totals.Runs), pool)
	s.put(handlerSeconds, p.Totals.BusySeconds, pool)
}

func (s sink) downstream(ctx context.Context, name string, from store) {
	st, err := from.State(ctx, name)
	if err != nil {
		return
	}
	for _, l := range st.Limits {
		s.put(downstreamLimit, l.PerSecond, name, l.Unit)
		s.put(downstreamUsed, l.Used, name, l.Unit)
		s.put(downstreamThrottled, l.ThrottledShare, name, l.Unit)
	}
	s.put(downstreamPaused, st.PausedFor.Seconds(), name)
	s.put(downstreamGranted, float64(st.Granted), name)
	s.put(downstreamCalls, float64(st.OK), name, string(downstream.OK))
	s.put(downstreamCalls, float64(st.Throttled), name, string(downstream.Throttled))
	s.put(downstreamCalls, float64(st.Failed), name, string(downstream.Failed))
}
