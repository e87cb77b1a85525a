package scale

import (
	"fmt"
	"math"
)

// outlook says when the backlog will be gone, and what would change the outcome.
func outlook(p Policy, in inputs, o Observation, d Decision) (Drain, []Help) {
	if in.unknown != "" {
		return Drain{State: "unknown"}, nil
	}
	x := sane(o.Estimates.Completion)
	// Both rates are averages over about twice the short time constant.
	sigma := math.Sqrt(x/(2*rateSpan(in)) + in.lambdaErr*in.lambdaErr)
	dr := Drain{Net: x - in.lambda, NetError: sigma}
	switch {
	case in.q == 0:
		dr.State = "empty"
	case x == 0:
		dr.State = "stalled"
	case dr.Net <= 0:
		dr.State = "grows"
	default:
		dr.State = "clears"
		dr.Seconds, dr.Low = min(in.q/dr.Net, 1e15), min(in.q/(dr.Net+sigma), 1e15)
		if dr.Net > sigma {
			dr.High = min(in.q/(dr.Net-sigma), 1e15)
		}
	}
	dr.Ordered = in.ordered(o, d)
	var helps []Help
	if d.Binding != nil && in.s > 0 {
		dr.Without = in.clears(max(d.Need.Replicas, d.Binding.Replicas))
		helps = in.raise(p, o, d)
	}
	switch {
	case dr.State == "clears" || dr.Ordered > 0:
		helps = append(helps, Help{What: "nothing", Effect: dr.clearing()})
	case d.Binding == nil && !d.NextChangeAt.IsZero() && d.Desired > d.Need.Replicas:
		helps = append(helps, Help{What: "nothing", Effect: "the next change is possible in about " + span(d.NextChangeAt.Sub(o.At).Seconds())})
	}
	return dr, helps
}

// rateSpan is the short time constant of rates in seconds, recovered from the error of the slow one (ten times as long).
func rateSpan(in inputs) float64 {
	if in.lambdaErr > 0 && in.lambda > 0 {
		return clamp(in.ca2*in.lambda/(20*in.lambdaErr*in.lambdaErr), 1, 30)
	}
	return 30
}

// clears is the time in seconds in which n replicas that work clear the backlog; 0: never.
func (in inputs) clears(n int) float64 {
	net := float64(n)*in.c/in.s - in.lambda
	if net <= 0 || in.q == 0 {
		return 0
	}
	return min(in.q/net, 1e15)
}

// ordered is the time in seconds in which the decided size clears the backlog once all of it works; 0: it works already, or will not.
func (in inputs) ordered(o Observation, d Decision) float64 {
	overdue, dying := in.notReady(o)
	if !d.Apply || float64(d.Desired) <= in.ready || in.s == 0 || overdue+dying > 0 || d.Reason == Stuck || d.Reason == ActuatorRefused {
		return 0
	}
	rate := float64(d.Desired) * in.c / in.s
	if d.Binding != nil && d.Binding.JobsPerSec > 0 {
		rate = min(rate, d.Binding.JobsPerSec)
	}
	if in.q == 0 || rate <= in.lambda {
		return 0
	}
	return min(in.q/(rate-in.lambda)+in.d, 1e15)
}

// raise computes what lifting the binding ceiling would give, up to the next ceiling.
func (in inputs) raise(p Policy, o Observation, d Decision) []Help {
	next := d.Need.Replicas
	for i := range d.Ceilings {
		if c := &d.Ceilings[i]; c != d.Binding {
			next = min(next, c.Replicas)
		}
	}
	if next <= d.Binding.Replicas {
		return nil
	}
	h := Help{Replicas: next, Effect: count(float64(next)) + " " + plural(next, "replica")}
	if t := in.clears(next); t > 0 {
		h.Effect += ", clears in about " + span(t)
	}
	switch d.Binding.Reason {
	case PoolMax:
		h.What = fmt.Sprintf("replicas.max %d", next)
	case TeamQuota:
		h.What = fmt.Sprintf("%s with %d for this pool", d.Binding.Name, next)
	case DownstreamThroughput:
		for _, u := range p.Downstreams {
			l := limitOf(o, u)
			if u.Downstream != d.Binding.Name || u.Unit != d.Binding.Unit || !l.readable() {
				continue
			}
			units := unitsPerJob(u, *l)
			h.What = u.Downstream + " " + pace(float64(next)*in.c/in.s*units, u.Unit)
			fewer := Help{What: "jobs of " + num(l.PerSecond*in.s/(float64(next)*in.c)) + " " + u.Unit, Effect: h.Effect, Replicas: next}
			return []Help{h, fewer}
		}
	}
	return []Help{h}
}

// ruledOut names the usual suspects that were looked at and are not the cause.
func ruledOut(in inputs, o Observation, d Decision) []string {
	if in.unknown != "" {
		return nil
	}
	out := make([]string, 0, 3)
	if overdue, dying := in.notReady(o); overdue+dying == 0 && o.Replicas.Refused == "" && in.ready > 0 {
		out = append(out, "workers ("+count(in.ready)+" of "+count(float64(in.current))+" ready, none dying)")
		out = append(out, "start time ("+span(in.d)+")")
	}
	oldest := 0.0
	for _, r := range []Reading{o.Backlog, o.InFlight} {
		if r.Known() {
			oldest = max(oldest, o.At.Sub(r.At).Seconds())
		}
	}
	return append(out, "data age ("+span(oldest)+")")
}

// clearing says when a backlog clears that does or will.
func (d Drain) clearing() string {
	if d.State == "clears" {
		return "clears in " + d.Text()
	}
	return "clears in about " + span(d.Ordered) + " with the ordered workers"
}

// Text says the outlook in words: "about 38m (25m-1h01m)", "grows 12/s: will not drain".
func (d Drain) Text() string {
	switch {
	case d.State == "clears":
		text, high := "about "+span(d.Seconds), span(d.High)
		if d.High == 0 {
			high = "or not at all"
		}
		if span(d.Low) != high {
			text += " (" + span(d.Low) + "-" + high + ")"
		}
		if d.Ordered > 0 && d.Ordered < d.Seconds {
			text += ", about " + span(d.Ordered) + " with the ordered workers"
		}
		return text
	case d.Ordered > 0:
		return d.clearing()
	case d.State == "grows" && -d.Net <= d.NetError:
		return "does not shrink: as much comes as goes"
	case d.State == "grows":
		return "grows " + num(-d.Net) + "/s: will not drain"
	case d.State == "stalled":
		return "stalled: nothing completes"
	}
	return d.State
}
