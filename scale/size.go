package scale

import (
	"fmt"
	"math"
)

// Size says what the work of one pool needs: the largest of its terms.
//
//	floor     the declared minimum
//	steady    keeps up with what arrives, for ever
//	drain     clears what is late, in time
//	running   jobs that would be interrupted if their worker went
//
// It is at least one replica while anything waits, runs or is due soon.
func Size(p Policy, s State, o Observation) Need {
	p = p.normal()
	in := read(p, s, o)
	n := Need{Pool: p.Pool, Known: in.unknown == "", Why: in.unknown, Partial: in.partial, Idle: in.idle}
	if !n.Known {
		n.Partial = ""
		return n
	}
	n.HeadStuck = in.headStuck(s, o)
	if n.HeadStuck {
		in.age = 0
	}

	n.Terms = make([]Term, 0, 4)
	if p.Min > 0 {
		n.Terms = append(n.Terms, Term{"floor", float64(p.Min) * in.c, "at least " + count(float64(p.Min)) + " " + plural(p.Min, "replica")})
	}
	busy := in.q > 0 || in.b > 0
	switch {
	case in.s == 0 && busy:
		// Nothing was ever completed and nobody declared a service time. One worker will tell.
		slots := max(1, float64(in.current)*in.c)
		n.Terms = append(n.Terms, Term{termUnmeasured, slots, "service time unknown until the first jobs complete"})
		n.Partial = "service time unknown"
	case in.s > 0:
		if t, ok := in.steady(p, s, o); ok {
			n.Terms = append(n.Terms, t)
		}
		if t, ordered, ok := in.late(o); ok {
			n.Terms = append(n.Terms, t)
			n.Late = ordered
		}
		if t, ok := in.running(); ok {
			n.Terms = append(n.Terms, t)
		}
	}
	for _, t := range n.Terms {
		if t.Slots > n.Slots {
			n.Slots, n.Binding = t.Slots, t.Name
		}
	}
	if n.Slots < 1 && (busy || in.soon) {
		n.Slots = 1
		if n.Binding == "" {
			detail := fmt.Sprintf("%s waiting, %s in flight", count(in.q), count(in.b))
			if !busy {
				detail = "delayed work is due before a worker could start"
			}
			n.Binding, n.Terms = "running", append(n.Terms, Term{"running", 1, detail})
		}
	}
	n.Replicas = ceil(n.Slots / in.c)
	return n
}

// termUnmeasured is the term of a pool about whose jobs nothing is known.
const termUnmeasured = "unmeasured"

// idleLong reports whether the pool has been empty, with nothing completing, for its idle time.
func (in inputs) idleLong(p Policy, s State, o Observation) bool {
	return in.idle && !s.IdleSince.IsZero() && !progressed(s, o) && o.At.Sub(s.IdleSince) >= p.IdleToZero
}

// progressed reports whether jobs ended since the last decision.
func progressed(s State, o Observation) bool {
	return o.Completions.Known() && o.Completions.Value != s.Completions
}

// rho is the utilisation that steady capacity may reach. An objective that is short against the cold start leaves no time
// to correct, so it gets more room.
func (in inputs) rho(p Policy) float64 {
	switch {
	case p.Utilisation > 0:
		return p.Utilisation
	case in.w < 1.2*in.d1:
		return 0.90
	}
	return 0.95
}

// keepUp is the least number of slots that serve rate jobs/s of s seconds for ever: stable at the allowed utilisation, with no
// more than the allowed share of jobs waiting longer than promised.
func (in inputs) keepUp(p Policy, rate, s float64) float64 {
	a := min(rate*s, maxReplicas)
	slots := ceil(a / in.rho(p))
	if !math.IsInf(in.w, 1) {
		slots = max(slots, SlotsForWait(a, s, in.ca2, in.cs2, in.w, p.Objective.Miss))
	}
	return float64(slots)
}

// steady is the term that keeps up with arrivals.
//
// Jobs that outlive three cold starts are known one by one before their workers are needed: a slot for each job in the
// system, and for those that arrive before an order takes effect, is then enough, and the product of a momentary rate
// and a long service time is not. Short jobs bound it from below, so that the need never falls when jobs get longer.
func (in inputs) steady(p Policy, s State, o Observation) (Term, bool) {
	if in.idle && p.Min == 0 && (in.current == 0 || in.idleLong(p, s, o)) {
		return Term{}, false // a rate remembered from busier times starts nothing and keeps nothing
	}
	rate := in.lambda
	if in.d1 > in.w/2 {
		rate += in.lambdaErr // an error of the rate cannot be corrected in time
	}
	slots, known := in.keepUp(p, rate, in.s), false
	if in.s > in.ended {
		// What still runs says that a job may take long, and nothing of the jobs to come: a slot for each there is will do.
		if alt := max(in.keepUp(p, rate, in.ended), in.q+in.b); alt < slots {
			slots, known = alt, true
		}
	}
	if slots == 0 {
		return Term{}, false
	}
	if in.s > 3*in.d1 {
		g := 0.0 // seconds of arrivals that would wait too long for an order made when they come
		if in.d1 > in.w {
			g = in.d1 - in.w
		}
		each := in.q + in.b + float64(ceil(rate*g+1.64*math.Sqrt(in.ca2*rate*g)))
		if alt := max(in.keepUp(p, rate, 3*in.d1), each); alt < slots {
			slots, known = alt, true
		}
	}
	detail := num(rate) + "/s × " + span(in.s) + " = " + num(rate*in.s) + " slots busy"
	if known {
		detail = fmt.Sprintf("a slot for each of %s waiting and %s in flight", count(in.q), count(in.b))
	} else if headroom := slots - rate*in.s; headroom > 0 && slots > 1 {
		detail += ", " + share(math.Round(100*headroom/slots)/100) + " headroom"
	}
	return Term{"steady", slots, detail}, true
}

// late is the drain term: what clears the backlog in the time that is left, which is nine tenths of what was promised, less the
// age of the oldest job. What would have to be ordered and what only has to be kept differ by the cold start.
func (in inputs) late(o Observation) (t Term, ordered, ok bool) {
	if in.q == 0 {
		return Term{}, false, false
	}
	left := 0.9*min(in.w, in.drain) - in.age
	order, keep := in.orderToClear(o, left), in.keepToClear(o, left)
	t = Term{"drain", max(order, keep), count(in.q) + " waiting in " + span(max(left, 2*in.d1))}
	return t, order > 0, t.Slots > 0
}

// orderToClear works with the backlog that will be there when an order made now takes effect. It asks for nothing when what runs
// and starts clears the queue by then, or when the queue is within the noise of a pool of this size and nothing is old.
func (in inputs) orderToClear(o Observation, left float64) float64 {
	waiting := in.q + in.lambda*in.d1 - in.capacity(o.Replicas.Starting)/in.s // Qd
	if waiting <= 0 {
		return 0
	}
	tight := in.age+in.d1 > in.w
	if !tight && waiting <= max(1, 2*math.Sqrt(in.ready*in.c)) {
		return 0
	}
	// New capacity must work at least as long as it took to start.
	h := max(2*in.d1, left) - in.d1
	if tight {
		h = clamp(in.w, in.tick, h)
	}
	return in.clearIn(in.b+waiting, h)
}

// keepToClear is how much of the present capacity is needed until the backlog is gone. It starts at once, so it has all
// the time that is left.
func (in inputs) keepToClear(o Observation, left float64) float64 {
	have := (in.ready + float64(len(o.Replicas.Starting))) * in.c
	return min(have, in.clearIn(in.q+in.b, max(left, in.tick)))
}

// clearIn is the fluid balance n·(1 + h/S) = jobs + λ·h: n slots finish the jobs, and what arrives, in h seconds and a last job.
// It is never more than a slot a job.
func (in inputs) clearIn(jobs, h float64) float64 { return min(jobs, (jobs+in.lambda*h)/(1+h/in.s)) }

// running counts the jobs in flight that would be interrupted by the grace of a worker that goes: none when jobs take less
// than a quarter of the grace, all when they take all of it.
func (in inputs) running() (Term, bool) {
	slots := in.b * in.outlive()
	if slots <= 0 {
		return Term{}, false
	}
	return Term{"running", slots, fmt.Sprintf("%s in flight, of %s each", count(in.b), span(in.s))}, true
}

// outlive is the share of running jobs, 0 to 1, that is counted as longer than the grace.
func (in inputs) outlive() float64 {
	if in.s <= 0 || in.grace <= 0 {
		return 0
	}
	return clamp((in.s/in.grace-0.25)/0.75, 0, 1)
}
