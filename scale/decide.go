package scale

import (
	"fmt"
	"math"
	"slices"
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
			until := below(h.peaks, to, h.hold)
			keep(h.name, "a need counts for "+span(h.hold.Seconds()), to, fmt.Sprintf("%d needed %s ago, %s left",
				peak.Replicas, span(now.Sub(peak.At).Seconds()), span(until.Sub(now).Seconds())), HoldDown, h.reason)
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

// fold builds the steps. n is the number so far.
type fold struct {
	n     int
	steps []Step
	bound int // index of the step that decides
}

// step goes to a number; a step that changes it decides, until a later one does.
func (f *fold) step(name, subject, limit string, to int, evidence string, r Reason) {
	changes := to != f.n || len(f.steps) == 0
	f.add(name, subject, limit, to, evidence, r)
	if changes {
		f.bound = len(f.steps) - 1
	}
}

// binds is a step that decides even when it changes nothing.
func (f *fold) binds(name, subject, limit string, to int, evidence string, r Reason) {
	f.add(name, subject, limit, to, evidence, r)
	f.bound = len(f.steps) - 1
}

func (f *fold) add(name, subject, limit string, to int, evidence string, r Reason) {
	if f.steps == nil {
		f.steps = make([]Step, 0, 6)
	}
	f.steps = append(f.steps, Step{Name: name, Subject: subject, Limit: limit, From: f.n, To: to, Evidence: evidence, Reason: r})
	f.n = to
}

// ceiling goes down to a ceiling, when it is above. It is always one step.
func (f *fold) ceiling(p Policy, o Observation, c Ceiling) {
	name, limit, used := "share", count(float64(c.Replicas)), ""
	switch c.Reason {
	case PoolMax:
		name = "pool max"
	case DownstreamThroughput:
		name = "downstream"
		for _, u := range p.Downstreams {
			if l := limitOf(o, u); u.Downstream == c.Name && u.Unit == c.Unit && l.readable() {
				limit, used = pace(l.PerSecond, l.Unit)+" at "+num(unitsPerJob(u, *l))+" a job", useEvidence(l)
				break
			}
		}
	}
	f.step(name, c.subject(), limit, min(f.n, c.Replicas), joined(used, conflict(p, c)), c.Reason)
}

func conflict(p Policy, c Ceiling) string {
	if c.Replicas >= p.Min {
		return ""
	}
	return fmt.Sprintf("below the minimum of %d", p.Min)
}

func joined(a, b string) string {
	if a != "" && b != "" {
		return a + ", " + b
	}
	return a + b
}

func (f *fold) finish() []Step {
	f.steps[f.bound].Binding = true
	return f.steps
}
