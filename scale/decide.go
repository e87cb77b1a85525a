package scale

import (
	"fmt"
	"time"
)

// Decide says how many replicas a pool should have now and why, and returns the memory for the next decision.
//
// The steps of the decision are the computation: demand, then ceilings, then what keeps a pool from growing in vain or
// shrinking too soon, then speed, then hard ceilings again. What is not known holds the present size.
// The result is within 0 and Max for every input.
func Decide(p Policy, s State, o Observation, g Grant) (Decision, State) {
	p = p.normal()
	in := read(p, s, o)
	n := g.Need
	n.Replicas = clamp(n.Replicas, 0, maxReplicas)
	s = s.observe(p, in, o, n)

	f := fold{n: in.current}
	d := Decision{Pool: p.Pool, At: o.At, Current: in.current, Need: n}
	d.Ceilings = ceilings(p, in, o, g)
	d.Apply = !p.Observe && in.fresh(o.At, o.Replicas.At)

	limit := maxReplicas // the least ceiling
	if in.unknown != "" || !n.Known {
		for _, c := range d.Ceilings {
			limit = min(limit, c.Replicas)
		}
		unknownSize(p, s, in, o, n, limit, &f)
		s.ExcessSince = time.Time{}
	} else {
		demand(s, in, o, n, &f)
		least, row := 0, 0 // the least ceiling and its step
		for i, c := range d.Ceilings {
			if c.Replicas < limit {
				limit, least, row = c.Replicas, i, len(f.steps)
			}
			f.ceiling(p, o, c)
		}
		// It binds while demand is above it, and as long as that demand counts and work still waits: near a ceiling demand
		// goes up and down from cycle to cycle, and the cause of the size does not.
		if n.Replicas > limit || in.q > 0 && highest(s.Late).Replicas > limit {
			d.Binding = &d.Ceilings[least]
			if f.n == limit {
				f.bound = row
			}
		}
		switch {
		case f.n >= in.current:
			s.ExcessSince = time.Time{}
			grow(p, s, in, o, n, &f)
		default:
			s = shrink(p, s, in, o, d.Ceilings[least], &f, &d)
		}
	}
	if f.n > p.Max {
		f.step("hard ceilings", "", fmt.Sprintf("at most %d", p.Max), p.Max, "", PoolMax)
	}
	if o.Replicas.Refused != "" && f.n != int(in.ready) {
		f.binds("actuator", "", "its own", f.n, o.Replicas.Refused, ActuatorRefused)
	}

	d.Desired = f.n
	d.Steps = f.finish()
	last := d.Steps[f.bound]
	d.Reason, d.Subject = last.Reason, last.Subject
	d.Sentence = d.Reason.sentence(d.Subject)
	if d.Reason == IdleToZero && d.Desired == 0 && d.Current == 0 {
		d.Sentence = "Nothing to do."
	}
	if d.Reason == DemandMet && d.Need.Binding == termUnmeasured {
		d.Sentence = "As it is, until the first jobs have shown how long they take."
	}
	d.Alarms = alarms(p, s, in, o, n)
	d.Drain, d.Helps = outlook(p, in, o, d)
	d.RuledOut = ruledOut(in, o, d)

	s.Desired = d.Desired
	moved := Move{At: o.At, From: in.current, To: d.Desired}
	if p.Observe {
		moved.To = moved.From // nobody does it
	}
	s.Moves = remember(p, s.Moves, moved)
	return d, s
}

// unknownSize holds, and after the declared time raises the pool to its declared floor.
func unknownSize(p Policy, s State, in inputs, o Observation, n Need, limit int, f *fold) {
	why := n.Why
	if in.unknown != "" {
		why = in.unknown
	}
	if why == "" {
		why = "no need was computed"
	}
	f.binds("data", "", "unknown holds", f.n, why, StaleHold)
	if unknown, to := o.At.Sub(s.UnknownSince), min(p.StaleFloor, limit); unknown >= p.Stale && to > f.n {
		f.step("stale floor", "", fmt.Sprintf("at least %d after %s", p.StaleFloor, span(p.Stale.Seconds())), to,
			"unknown for "+span(unknown.Seconds()), StaleHold)
	}
}

// demand is the first step: what the work needs.
func demand(s State, in inputs, o Observation, n Need, f *fold) {
	reason, limit := DemandMet, "nothing to do"
	for _, t := range n.Terms {
		if t.Name == n.Binding {
			limit = t.Detail
		}
	}
	switch {
	case n.Binding == "floor":
		reason = PoolMin
	case n.Binding == "drain":
		reason = Recovering
	case n.Replicas == 0:
		reason = IdleToZero
	}
	evidence := "service time unknown"
	if in.s > 0 {
		evidence = num(in.c/in.s) + " jobs/s per replica"
	}
	switch reason {
	case PoolMin:
		most := 0.0
		for _, t := range n.Terms {
			if t.Name != "floor" {
				most = max(most, t.Slots)
			}
		}
		evidence = fmt.Sprintf("the work needs %d", ceil(most/in.c))
	case IdleToZero:
		if !s.IdleSince.IsZero() {
			evidence = "empty for " + span(o.At.Sub(s.IdleSince).Seconds())
		}
	}
	f.step("demand", "", limit, n.Replicas, evidence, reason)
	if n.Partial != "" && f.n < in.current {
		f.step("data", "", "unknown lowers nothing", in.current, n.Partial, StaleHold)
	}
}

// grow applies what keeps a pool from growing in vain, then the speed. It also runs when the size is right, because some of
// these explain why a right size does not help.
func grow(p Policy, s State, in inputs, o Observation, n Need, f *fold) {
	want, current := f.n, in.current
	for _, u := range p.Downstreams {
		if l := limitOf(o, u); l != nil && l.PausedFor > 0 && want > current {
			f.binds("downstream health", u.Downstream, "no growth while it asks to stay away", current, span(l.PausedFor)+" left", DownstreamUnhealthy)
			return
		}
	}
	base := max(current, min(want, p.Min)) // the floor is kept even by workers that cannot help
	for _, u := range p.Downstreams {
		if want > base && !limitOf(o, u).readable() {
			f.binds("data", u.Downstream, "no growth without its limit", base, "limit on "+u.Unit+" unknown", StaleHold)
			want = base
		}
	}
	if s.stuck(in, o.At) {
		f.binds("progress", "", "no growth while nothing completes", min(want, base),
			fmt.Sprintf("nothing completed for %s, %s ready", span(o.At.Sub(s.ProgressAt).Seconds()), count(in.ready)), Stuck)
	}
	if overdue, dying := in.notReady(o); overdue+dying > 0 && float64(want) > in.ready {
		f.binds("start", "", "no growth while ordered workers do not come up", min(want, base),
			fmt.Sprintf("%d overdue, %d dying at their start, usual start %s", overdue, dying, span(in.d)), WorkersNotReady)
	}
	if want > current && s.idleSlots(in, o.At) {
		f.binds("workers", "", "no growth beside idle slots", min(want, base), fmt.Sprintf("%s of %s slots busy, %s waiting for %s",
			count(o.Replicas.Busy.Value), count(in.ready*in.c), count(in.q), span(o.At.Sub(s.UntakenSince).Seconds())), WorkersIdle)
	}
	if deadBandUp(in, n, current, f.n) && current >= p.Min {
		f.step("dead band", "", "up 5%", current, fmt.Sprintf("%d wanted, nothing waiting", f.n), DeadBand)
	}
	if f.n > current {
		if most, rate := highestAllowed(p, s, o.At, current, n.Late); f.n > most {
			f.step("step", "", rate, most, fmt.Sprintf("%d wanted", f.n), StepLimit)
		}
	}
}

// shrink applies what keeps a pool from shrinking too soon, then the speed. A ceiling that dropped is obeyed even inside a hold.
//
// A step that keeps the present size gives its own reason. One that only makes the way down shorter does not: the reason of
// the smaller size is why that much is needed, or what limits it.
func shrink(p Policy, s State, in inputs, o Observation, least Ceiling, f *fold, d *Decision) State {
	current, limit, now := in.current, least.Replicas, o.At
	most := min(current, limit) // how much a hold may keep
	keep := func(name, rule string, to int, evidence string, own, smaller Reason) {
		subject := ""
		switch {
		case to == limit && (to < current || d.Binding != nil): // what is held is above it
			own, subject = least.Reason, least.subject()
		case to < current:
			own = smaller
		}
		f.step(name, subject, rule, to, evidence, own)
	}
	steadyHold, lateHold := in.holds(p)
	late := Recovering
	if in.q == 0 {
		late = DemandMet // it was late, and is cleared
	}

	if until := s.StartedAt.Add(steadyHold); now.Before(until) && f.n < most {
		keep("restart", "nothing goes in the first "+span(steadyHold.Seconds()), most,
			"started "+span(now.Sub(s.StartedAt).Seconds())+" ago, "+span(until.Sub(now).Seconds())+" left", RestartHold, DemandMet)
		d.NextChangeAt = until
	}
	for _, h := range []struct {
		name   string
		peaks  []Peak
		hold   time.Duration
		reason Reason
	}{{"hold", s.Steady, steadyHold, DemandMet}, {"hold, drain", s.Late, lateHold, late}} {
		peak := highest(h.peaks)
		if to := min(peak.Replicas, most); to > f.n {
			until, own := below(h.peaks, to, h.hold), HoldDown
			if until.Sub(now) > h.hold*3/4 {
				own = h.reason // a need that wavers has not fallen
			}
			keep(h.name, "a need counts for "+span(h.hold.Seconds()), to, fmt.Sprintf("%d needed %s ago, %s left",
				peak.Replicas, span(now.Sub(peak.At).Seconds()), span(until.Sub(now).Seconds())), own, h.reason)
			d.NextChangeAt = later(d.NextChangeAt, until)
		}
	}
	if in.idle && f.n == 0 && current > 0 && !in.idleLong(p, s, o) {
		// Only reached when a saved state forgot a rate: a pool that may go to zero still waits for its idle time.
		keep("idle", "zero after "+span(p.IdleToZero.Seconds())+" empty", min(1, most),
			"empty for "+span(now.Sub(s.IdleSince).Seconds()), HoldDown, DemandMet)
		d.NextChangeAt = later(d.NextChangeAt, s.IdleSince.Add(p.IdleToZero))
	}
	if to := min(in.longRunning(o), most); to > f.n {
		keep("running jobs", "jobs longer than the grace of "+span(in.grace)+" are not interrupted", to,
			fmt.Sprintf("%s in flight, of %s each", count(in.b), span(in.s)), HoldDown, DemandMet)
	}

	if f.n >= current {
		s.ExcessSince = time.Time{}
		return s
	}
	if s.ExcessSince.IsZero() {
		s.ExcessSince = now
	}
	if deadBandDown(current, f.n) && current <= limit {
		if until := s.ExcessSince.Add(trimAfter); now.Before(until) {
			f.step("dead band", "", "down 10%", current, fmt.Sprintf("%d wanted for %s", f.n, span(now.Sub(s.ExcessSince).Seconds())), DeadBand)
			d.NextChangeAt = later(d.NextChangeAt, until)
			return s
		}
	}
	if least, rate := in.lowest(p, s, now, current); f.n < least {
		step := f.step
		if d.Binding != nil { // on the way down to a ceiling that demand is above: the ceiling is why
			step = f.add
		}
		step("step", "", rate.text("-"), least, fmt.Sprintf("%d wanted", f.n), StepLimit)
		if len(s.Moves) > 0 {
			d.NextChangeAt = later(d.NextChangeAt, s.Moves[len(s.Moves)-1].At.Add(rate.Per))
		}
		if least < current {
			d.NextChangeAt = now.Add(rate.Per)
		}
	}
	return s
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func alarms(p Policy, s State, in inputs, o Observation, n Need) []Reason {
	var out []Reason
	if in.unknown != "" && o.At.Sub(s.UnknownSince) >= p.Stale {
		out = append(out, StaleHold)
	}
	if s.stuck(in, o.At) || n.HeadStuck {
		out = append(out, Stuck)
	}
	if overdue, dying := in.notReady(o); overdue+dying > 0 {
		out = append(out, WorkersNotReady)
	}
	if s.idleSlots(in, o.At) {
		out = append(out, WorkersIdle)
	}
	if o.Replicas.Refused != "" {
		out = append(out, ActuatorRefused)
	}
	return out
}
