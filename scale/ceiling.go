package scale

// ceilings are all limits of a pool, each in replicas: rate limits in the order declared, shares, and at last the pool's maximum.
func ceilings(p Policy, in inputs, o Observation, g Grant) []Ceiling {
	out := make([]Ceiling, 0, len(p.Downstreams)+len(g.Limits)+1)
	for _, use := range p.Downstreams {
		if limit := limitOf(o, use); limit != nil {
			if c, ok := rateCeiling(p, in, use, *limit); ok {
				out = append(out, c)
			}
		}
	}
	for _, c := range g.Limits {
		c.Replicas = clamp(c.Replicas, 0, maxReplicas)
		out = append(out, c)
	}
	return append(out, Ceiling{
		Reason: PoolMax, Name: "pool", Replicas: p.Max, Hard: true,
		Detail: "The pool is declared with at most " + count(float64(p.Max)) + " " + plural(p.Max, "replica") + ".",
	})
}

// subject is whose limit it is; empty: the pool's own.
func (c Ceiling) subject() string {
	if c.Reason == PoolMax {
		return ""
	}
	return c.Name
}

// readable reports whether the limit is known. An unknown limit is neither none nor zero.
func (l *Limit) readable() bool { return l != nil && usable(l.PerSecond) && l.PerSecond > 0 }

func limitOf(o Observation, u Use) *Limit {
	for i := range o.Limits {
		if o.Limits[i].Downstream == u.Downstream && o.Limits[i].Unit == u.Unit {
			return &o.Limits[i]
		}
	}
	return nil
}

// unitsPerJob is what a job takes of a limit: measured, else declared; 0: unknown.
func unitsPerJob(u Use, l Limit) float64 {
	if l.UnitsPerJob.Known() && l.UnitsPerJob.Value > 0 {
		return sane(l.UnitsPerJob.Value)
	}
	return sane(u.UnitsPerJob)
}

// rateCeiling is how many replicas a rate limit can feed, x = R·S/(k·c). Where our permits enforce the limit, one part-used replica
// more is safe and uses it fully: ceil(x − 0.1). Where nothing does: floor(x). Never below one replica, whose slots then wait
// for permits.
func rateCeiling(p Policy, in inputs, u Use, l Limit) (Ceiling, bool) {
	units := unitsPerJob(u, l)
	if units == 0 || in.s == 0 || !l.readable() {
		return Ceiling{}, false
	}
	rate := min(sane(l.PerSecond)/units, 1e15)
	x := RateCeiling(l.PerSecond, units, in.s, p.Concurrency)
	n := floor(x)
	if u.Permits {
		n = ceil(x - 0.1)
		// The measured x wavers. A size that would be right for one a twentieth, or 0.2 replicas, larger is kept: permits make it harmless.
		n = max(n, min(in.current, ceil(max(x+0.1, 1.05*x-0.1))))
	}
	c := Ceiling{Reason: DownstreamThroughput, Name: u.Downstream, Unit: u.Unit, Replicas: max(n, 1), JobsPerSec: rate}
	c.Detail = "At " + pace(l.PerSecond, l.Unit) + " and " + num(units) + " a job, " + u.Downstream + " can take " + num(rate) + " jobs/s"
	switch {
	case n > 1:
		c.Detail += "; " + count(float64(n)) + " replicas already do that."
	case n == 1:
		c.Detail += "; one replica already does that."
	case u.Permits:
		c.Detail += ", less than one replica does; its slots wait for permits."
	default:
		c.Detail += ", less than one replica does: nothing keeps it within the limit."
	}
	return c, true
}

// useEvidence says how much of a limit is used, as far as that is known.
func useEvidence(l *Limit) string {
	if l == nil {
		return ""
	}
	used, throttled := "", ""
	if l.Used.Known() {
		used = share(l.Used.Value) + " used"
	}
	if l.Throttled.Known() {
		throttled = share(l.Throttled.Value) + " throttled"
	}
	return joined(used, throttled)
}
