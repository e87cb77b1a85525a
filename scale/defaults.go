package scale

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// The defaults of a policy.
const (
	defaultMiss       = 0.05
	defaultStartsIn   = time.Second
	defaultIdleToZero = 5 * time.Minute
	defaultGrace      = 30 * time.Second
	defaultCycle      = time.Second
	defaultStale      = 10 * time.Minute
	defaultDrain      = 10 * time.Minute
	defaultHoldDrain  = 30 * time.Second
	minHoldSteady     = time.Minute
	maxHoldSteady     = 30 * time.Minute
)

// WithDefaults returns the policy with every default filled in that does not depend on what is measured.
// Holds and utilisation stay zero for auto: they follow the measured cold start.
func (p Policy) WithDefaults() Policy {
	p.Concurrency = max(p.Concurrency, 1)
	p.StartsIn = positive(p.StartsIn, defaultStartsIn)
	p.IdleToZero = positive(p.IdleToZero, defaultIdleToZero)
	p.Grace = positive(p.Grace, defaultGrace)
	p.Cycle = positive(p.Cycle, defaultCycle)
	p.Stale = positive(p.Stale, defaultStale)
	if !(p.Objective.Miss > 0) {
		p.Objective.Miss = defaultMiss
	}
	p.Objective.Drain = positive(p.Objective.Drain, positive(p.Objective.OldestAge, defaultDrain))
	return p
}

func positive(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// normal is the policy as the engine computes with it: defaults filled in, and anything that Validate refuses forced
// into range, because Size and Decide answer for every input.
func (p Policy) normal() Policy {
	p = p.WithDefaults()
	p.Max = clamp(p.Max, 0, maxReplicas)
	p.Min = clamp(p.Min, 0, p.Max)
	p.StaleFloor = clamp(p.StaleFloor, 0, p.Max)
	p.Concurrency = clamp(p.Concurrency, 1, 1_000_000)
	p.ServiceTime = max(p.ServiceTime, 0)
	p.Objective.OldestAge = max(p.Objective.OldestAge, 0)
	p.Objective.Miss = min(p.Objective.Miss, 1)
	if !(p.Utilisation > 0 && p.Utilisation <= 1) {
		p.Utilisation = 0
	}
	p.Damping.Up, p.Damping.Down = usableRates(p.Damping.Up), usableRates(p.Damping.Down)
	return p
}

// usableRates leaves out what Validate refuses.
func usableRates(rates []Rate) []Rate {
	bad := func(r Rate) bool {
		return r.Per <= 0 || r.Replicas < 0 || !usable(r.Percent) || r.Replicas == 0 && r.Percent == 0
	}
	if !slices.ContainsFunc(rates, bad) {
		return rates
	}
	return slices.DeleteFunc(slices.Clone(rates), bad)
}

// Validate reports everything that is wrong with the policy, each problem on a line that starts with the field.
func (p Policy) Validate() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: "+format, append([]any{field}, args...)...))
	}
	if p.Pool == "" {
		bad("pool", "a pool needs a name")
	}
	if p.Max < 1 || p.Max > maxReplicas {
		bad("max", "%d is outside 1 to %d", p.Max, maxReplicas)
	}
	if p.Min < 0 || p.Min > p.Max {
		bad("min", "%d is outside 0 to max (%d)", p.Min, p.Max)
	}
	if p.Concurrency < 0 || p.Concurrency > 1_000_000 {
		bad("concurrency", "%d is outside 1 to 1000000", p.Concurrency)
	}
	if !(p.Utilisation >= 0 && p.Utilisation <= 1) {
		bad("utilisation", "%v is outside 0 (auto) to 1", p.Utilisation)
	}
	if !(p.Objective.Miss >= 0 && p.Objective.Miss < 1) {
		bad("objective.miss", "%v is not a share below 1", p.Objective.Miss)
	}
	if p.StaleFloor < 0 || p.StaleFloor > p.Max {
		bad("stale_floor", "%d is outside 0 to max (%d)", p.StaleFloor, p.Max)
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"objective.oldest_age", p.Objective.OldestAge}, {"objective.drain", p.Objective.Drain},
		{"starts_in", p.StartsIn}, {"service_time", p.ServiceTime}, {"idle_to_zero", p.IdleToZero},
		{"grace", p.Grace}, {"cycle", p.Cycle}, {"stale", p.Stale},
		{"damping.hold_steady", p.Damping.HoldSteady}, {"damping.hold_drain", p.Damping.HoldDrain},
	} {
		if d.value < 0 {
			bad(d.field, "%v is negative", d.value)
		}
	}
	rates := func(field string, rs []Rate) {
		for i, r := range rs {
			at := fmt.Sprintf("%s[%d]", field, i)
			if r.Per <= 0 {
				bad(at, "per %v is not positive", r.Per)
			}
			if !(r.Percent >= 0) || math.IsInf(r.Percent, 0) || r.Replicas < 0 || (r.Percent > 0) == (r.Replicas > 0) {
				bad(at, "set either a percent or a number of replicas, positive")
			}
		}
	}
	rates("damping.up", p.Damping.Up)
	rates("damping.down", p.Damping.Down)
	for i, u := range p.Downstreams {
		at := fmt.Sprintf("downstreams[%d]", i)
		if u.Downstream == "" || u.Unit == "" {
			bad(at, "name the downstream and the unit")
		}
		if !(u.UnitsPerJob > 0) || math.IsInf(u.UnitsPerJob, 0) {
			bad(at, "units_per_job %v is not a positive number", u.UnitsPerJob)
		}
	}
	return errors.Join(errs...)
}
