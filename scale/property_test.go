package scale_test

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headrace/headrace/scale"
)

// The properties are numbered as in docs/explanation/sizing.md.

var anchor = time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC)

func seconds(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }

func genPolicy(t *rapid.T) scale.Policy {
	p := scale.Policy{
		Pool:        "p",
		Max:         rapid.IntRange(1, 2000).Draw(t, "max"),
		Concurrency: rapid.IntRange(1, 20).Draw(t, "c"),
		StartsIn:    seconds(rapid.Float64Range(0.1, 300).Draw(t, "D")),
		Cycle:       seconds(rapid.SampledFrom([]float64{0.25, 1, 5, 15}).Draw(t, "tick")),
		Objective: scale.Objective{
			OldestAge: seconds(rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0.5, 3600)).Draw(t, "w")),
			Drain:     seconds(rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(1, 3600)).Draw(t, "T")),
			Miss:      rapid.Float64Range(0.001, 0.5).Draw(t, "miss"),
		},
		Grace: seconds(rapid.Float64Range(1, 600).Draw(t, "grace")),
	}
	p.Min = rapid.IntRange(0, p.Max).Draw(t, "min")
	return p.WithDefaults()
}

// genObservation is a consistent, wholly known observation.
func genObservation(t *rapid.T, p scale.Policy) scale.Observation {
	now := anchor
	read := func(v float64) scale.Reading { return scale.Read(v, now) }
	q := float64(rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(0, 100_000)).Draw(t, "Q"))
	o := scale.Observation{
		At: now, Backlog: read(q), InFlight: read(float64(rapid.IntRange(0, 2000).Draw(t, "B"))), Delayed: read(0), Completions: read(0),
		OldestAge: read(rapid.Float64Range(0, 7200).Draw(t, "age")),
		Replicas: scale.Replicas{At: now, Desired: rapid.IntRange(0, p.Max).Draw(t, "current"),
			Ready: rapid.IntRange(0, p.Max).Draw(t, "ready")},
		Estimates: scale.Estimates{
			Arrival: rapid.Float64Range(0, 500).Draw(t, "λ"), ArrivalAt: now, ArrivalError: rapid.Float64Range(0, 5).Draw(t, "λ±"),
			ServiceTime: rapid.OneOf(rapid.Float64Range(0.01, 20), rapid.Float64Range(1, 1200)).Draw(t, "S"),
			ServiceCV2:  rapid.Float64Range(0, 25).Draw(t, "c²"), ServiceCount: 100, Dispersion: rapid.Float64Range(1, 9).Draw(t, "I"),
		},
	}
	if q == 0 {
		o.OldestAge = read(0)
	}
	for range rapid.IntRange(0, 5).Draw(t, "starting") {
		o.Replicas.Starting = append(o.Replicas.Starting, rapid.Float64Range(0, 400).Draw(t, "for"))
	}
	return o
}

func decide(p scale.Policy, s scale.State, o scale.Observation) (scale.Decision, scale.State) {
	return scale.Decide(p, s, o, scale.Share([]scale.Need{scale.Size(p, s, o)}, nil)[0])
}

// Property 2: the need does not fall when λ, Q, B, S, age or c² rise, and does not rise when w, ε, T_drain, c or ρ_max do.
func TestProperty2_NeedIsMonotone(t *testing.T) {
	for name, more := range map[string]func(*rapid.T, *scale.Policy, *scale.Observation){
		"λ": func(t *rapid.T, _ *scale.Policy, o *scale.Observation) {
			o.Estimates.Arrival += rapid.Float64Range(0, 100).Draw(t, "+λ")
		},
		"Q": func(t *rapid.T, _ *scale.Policy, o *scale.Observation) {
			o.Backlog.Value += float64(rapid.IntRange(0, 5000).Draw(t, "+Q"))
		},
		"B": func(t *rapid.T, _ *scale.Policy, o *scale.Observation) {
			o.InFlight.Value += float64(rapid.IntRange(0, 500).Draw(t, "+B"))
		},
		"S": func(t *rapid.T, _ *scale.Policy, o *scale.Observation) {
			o.Estimates.ServiceTime += rapid.OneOf(rapid.Float64Range(0, 1), rapid.Float64Range(0, 600)).Draw(t, "+S")
		},
		"age": func(t *rapid.T, _ *scale.Policy, o *scale.Observation) {
			o.OldestAge.Value += rapid.Float64Range(0, 3600).Draw(t, "+age")
		},
		"c²": func(t *rapid.T, _ *scale.Policy, o *scale.Observation) {
			o.Estimates.ServiceCV2 += rapid.Float64Range(0, 10).Draw(t, "+c²")
		},
		"I": func(t *rapid.T, _ *scale.Policy, o *scale.Observation) {
			o.Estimates.Dispersion += rapid.Float64Range(0, 4).Draw(t, "+I")
		},
	} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			p := genPolicy(t)
			o := genObservation(t, p)
			before := scale.Size(p, scale.State{}, o)
			more(t, &p, &o)
			after := scale.Size(p, scale.State{}, o)
			if after.Slots < before.Slots || after.Replicas < before.Replicas {
				t.Fatalf("more %s: %d → %d replicas\n%+v\n%+v", name, before.Replicas, after.Replicas, before.Terms, after.Terms)
			}
		}))
	}
	for name, more := range map[string]func(*rapid.T, *scale.Policy){
		"w": func(t *rapid.T, p *scale.Policy) {
			p.Objective.OldestAge += seconds(rapid.Float64Range(0, 600).Draw(t, "+w"))
		},
		"ε": func(t *rapid.T, p *scale.Policy) { p.Objective.Miss += rapid.Float64Range(0, 0.4).Draw(t, "+ε") },
		"T_drain": func(t *rapid.T, p *scale.Policy) {
			p.Objective.Drain += seconds(rapid.Float64Range(0, 600).Draw(t, "+T"))
		},
		"c": func(t *rapid.T, p *scale.Policy) { p.Concurrency += rapid.IntRange(0, 10).Draw(t, "+c") },
		"ρ_max": func(t *rapid.T, p *scale.Policy) {
			p.Utilisation = min(1, p.Utilisation+rapid.Float64Range(0, 0.5).Draw(t, "+ρ"))
		},
	} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			p := genPolicy(t)
			if name == "w" && p.Objective.OldestAge == 0 {
				p.Objective.OldestAge = time.Minute
			}
			if name == "ρ_max" {
				p.Utilisation = rapid.Float64Range(0.1, 0.9).Draw(t, "ρ")
			}
			o := genObservation(t, p)
			before := scale.Size(p, scale.State{}, o)
			more(t, &p)
			after := scale.Size(p, scale.State{}, o)
			if after.Replicas > before.Replicas {
				t.Fatalf("more %s: %d → %d replicas\n%+v\n%+v", name, before.Replicas, after.Replicas, before.Terms, after.Terms)
			}
		}))
	}
}

// Property 3: one pool of twice the load needs no more slots than two pools.
func TestProperty3_Pooling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Float64Range(0.01, 5000).Draw(t, "a")
		s, w := rapid.Float64Range(0.01, 100).Draw(t, "S"), rapid.Float64Range(0, 600).Draw(t, "w")
		miss := rapid.Float64Range(0.001, 0.5).Draw(t, "ε")
		one, two := scale.SlotsForWait(a, s, 1, 1, w, miss), scale.SlotsForWait(2*a, s, 1, 1, w, miss)
		if two > 2*one {
			t.Fatalf("%d slots for load %v, %d for twice it", one, a, two)
		}
	})
}

// Property 4: units do not matter: a system in which every time is k times as long needs the same.
func TestProperty4_Units(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genPolicy(t)
		p.Cycle, p.Objective.OldestAge, p.Objective.Drain = time.Second, 64*time.Second, 32*time.Second
		p.StartsIn, p.Grace = seconds(float64(rapid.IntRange(1, 100).Draw(t, "D"))), 16*time.Second
		o := genObservation(t, p)
		o.Replicas.Starting = nil // when a start is overdue is measured in real seconds
		before := scale.Size(p, scale.State{}, o)
		const k = 4 // a power of two: the arithmetic is exact
		for _, d := range []*time.Duration{&p.Cycle, &p.Objective.OldestAge, &p.Objective.Drain, &p.StartsIn, &p.Grace} {
			*d *= k
		}
		o.Estimates.Arrival /= k
		o.Estimates.ArrivalError /= k
		o.Estimates.ServiceTime *= k
		o.OldestAge.Value *= k
		after := scale.Size(p, scale.State{}, o)
		if math.Abs(after.Slots-before.Slots) > 1e-6*(1+before.Slots) {
			t.Fatalf("%v slots, and %v with seconds four times as long", before.Slots, after.Slots)
		}
	})
}

// Property 5: the drain term never asks for more slots than there are jobs, and one.
func TestProperty5_DrainIsBoundedByJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genPolicy(t)
		o := genObservation(t, p)
		for _, term := range scale.Size(p, scale.State{}, o).Terms {
			arriving := o.Estimates.Arrival * (p.StartsIn + p.Cycle).Seconds()
			if jobs := o.Backlog.Value + o.InFlight.Value + arriving; term.Name == "drain" && term.Slots > jobs+1 {
				t.Fatalf("%v slots for %v jobs", term.Slots, jobs)
			}
		}
	})
}

// Properties 1, 6, 15 and 16 on chains of decisions: in range, replayed exactly from JSON, steps fold to the decision, zero only when
// all is empty.
func TestProperties1_6_15_16_EveryDecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genPolicy(t)
		p.Downstreams = []scale.Use{{Downstream: "d", Unit: "u", UnitsPerJob: 3, Permits: rapid.Bool().Draw(t, "permits")}}
		var s scale.State
		now := anchor
		for range rapid.IntRange(1, 8).Draw(t, "cycles") {
			o := genObservation(t, p)
			shift(&o, now)
			o.Limits = []scale.Limit{{Downstream: "d", Unit: "u", PerSecond: rapid.Float64Range(0, 1000).Draw(t, "R")}}
			g := scale.Share([]scale.Need{scale.Size(p, s, o)}, nil)[0]
			d, next := scale.Decide(p, s, o, g)
			check(t, p, s, o, g, d, next)
			again := replay(t, p, s, o, g)
			if diff := cmp.Diff(canonical(t, d), again); diff != "" {
				t.Fatalf("replay differs (-first +again):\n%s", diff)
			}
			s, now = next, now.Add(seconds(rapid.Float64Range(0, 120).Draw(t, "dt")))
		}
	})
}

// shift moves an observation made at the anchor to a time.
func shift(o *scale.Observation, now time.Time) {
	for _, at := range []*time.Time{&o.At, &o.Backlog.At, &o.InFlight.At, &o.Delayed.At, &o.OldestAge.At, &o.Completions.At, &o.Replicas.At, &o.Estimates.ArrivalAt} {
		*at = now
	}
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// check is what holds for every decision on every input.
func check(t failer, p scale.Policy, s scale.State, o scale.Observation, g scale.Grant, d scale.Decision, next scale.State) {
	t.Helper()
	if d.Desired < 0 || d.Desired > max(p.Max, 0) {
		t.Fatalf("desired %d outside 0 to %d", d.Desired, p.Max)
	}
	for _, c := range d.Ceilings {
		if d.Desired > max(c.Replicas, d.Current) || c.Hard && d.Desired > c.Replicas {
			t.Fatalf("desired %d above the ceiling of %d (from %d)", d.Desired, c.Replicas, d.Current)
		}
	}
	n, binding := d.Current, 0
	for _, step := range d.Steps {
		if step.From != n {
			t.Fatalf("step %q starts at %d, the one before ended at %d", step.Name, step.From, n)
		}
		n = step.To
		if step.Binding {
			binding++
			if step.Reason != d.Reason {
				t.Fatalf("the binding step gives %s, the decision %s", step.Reason, d.Reason)
			}
		}
	}
	if n != d.Desired || binding != 1 || len(d.Steps) == 0 {
		t.Fatalf("steps fold to %d with %d binding, desired %d", n, binding, d.Desired)
	}
	if d.Sentence == "" || !slices.ContainsFunc(scale.Reasons(), func(r scale.ReasonInfo) bool { return r.Reason == d.Reason }) {
		t.Fatalf("reason %q, sentence %q", d.Reason, d.Sentence)
	}
	if holds := []scale.Reason{scale.HoldDown, scale.DeadBand, scale.RestartHold, scale.StaleHold}; d.Desired < d.Current && slices.Contains(holds, d.Reason) {
		t.Fatalf("%d → %d by %s, which keeps a size", d.Current, d.Desired, d.Reason)
	}
	if d.Desired == 0 && d.Current > 0 && max(p.Max, 0) > 0 && (o.Backlog.Value > 0 || o.InFlight.Value > 0 || !o.Backlog.Known() || !o.InFlight.Known()) &&
		g.Need.Replicas > 0 && len(g.Limits) == 0 {
		t.Fatalf("to zero with %v waiting and %v in flight", o.Backlog, o.InFlight)
	}
	if len(next.Steady) > 65 || len(next.Late) > 65 || len(next.Moves) > 256 {
		t.Fatalf("state grew to %d, %d, %d entries", len(next.Steady), len(next.Late), len(next.Moves))
	}
	if _, err := json.Marshal(d); err != nil {
		t.Fatalf("the decision cannot be recorded: %v", err)
	}
	if _, err := json.Marshal(next); err != nil {
		t.Fatalf("the state cannot be saved: %v", err)
	}
	if text := d.Explain().Text(); text == "" {
		t.Fatalf("no explanation")
	}
}

// replay decides again from the record of a decision.
func replay(t failer, p scale.Policy, s scale.State, o scale.Observation, g scale.Grant) string {
	var p2 scale.Policy
	var s2 scale.State
	var o2 scale.Observation
	var g2 scale.Grant
	for _, c := range []struct{ from, to any }{{p, &p2}, {s, &s2}, {o, &o2}, {g, &g2}} {
		raw, err := json.Marshal(c.from)
		if err == nil {
			err = json.Unmarshal(raw, c.to)
		}
		if err != nil {
			t.Fatalf("round trip: %v", err)
		}
	}
	d, _ := scale.Decide(p2, s2, o2, g2)
	return canonical(t, d)
}

func canonical(t failer, v any) string {
	raw, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatalf("%v", err)
	}
	return string(raw)
}

// Property 7: what is stale changes nothing, or raises the pool from something fresh; unknown is never zero.
func TestProperty7_StaleHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genPolicy(t)
		o := genObservation(t, p)
		o.Replicas.Desired = rapid.IntRange(0, p.Max).Draw(t, "size")
		old := anchor.Add(-max(seconds(30), 10*p.Cycle))
		stale := rapid.SampledFrom([]string{"backlog", "backlog unread", "in flight", "age", "arrivals", "replicas"}).Draw(t, "stale")
		hold := false
		switch stale {
		case "backlog":
			o.Backlog.At, hold = old, true
		case "backlog unread":
			o.Backlog, o.Unread, hold = scale.Reading{}, "500", true
		case "in flight":
			o.InFlight.At = old
		case "age":
			o.OldestAge.At = old
		case "arrivals":
			o.Estimates.ArrivalAt = old
		case "replicas":
			o.Replicas.At, hold = old, true
		}
		s := scale.State{StartedAt: anchor.Add(-24 * time.Hour), Desired: o.Replicas.Desired}
		d, _ := decide(p, s, o)
		if d.Desired < o.Replicas.Desired || hold && d.Desired != o.Replicas.Desired {
			t.Fatalf("%s stale: %d → %d", stale, o.Replicas.Desired, d.Desired)
		}
		if stale == "replicas" && d.Apply {
			t.Fatal("a size is applied to an actuator whose size is unknown")
		}
	})
}

// Property 8: while a downstream asks everybody to stay away, no pool that leans on it grows.
func TestProperty8_NoGrowthWhileADownstreamIsUnhealthy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genPolicy(t)
		p.Downstreams = []scale.Use{{Downstream: "d", Unit: "u", UnitsPerJob: 1, Permits: true}}
		o := genObservation(t, p)
		o.Limits = []scale.Limit{{Downstream: "d", Unit: "u", PerSecond: 1e9, PausedFor: rapid.Float64Range(0.001, 600).Draw(t, "pause")}}
		if d, _ := decide(p, scale.State{}, o); d.Desired > d.Current {
			t.Fatalf("%d → %d while it asks to stay away", d.Current, d.Desired)
		}
	})
}

// Property 10: constant input ends in a constant size, with at most one reversal ever.
func TestProperty10_ConstantInputSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genPolicy(t)
		p.Cycle = 15 * time.Second
		p.Damping = scale.Damping{HoldSteady: time.Minute, Down: []scale.Rate{{Percent: 50, Per: 15 * time.Second}}}
		o := genObservation(t, p)
		var s scale.State
		last, direction, reversals, moved := o.Replicas.Desired, 0, 0, 0
		for i := range 240 { // an hour; the dead band trims after a quarter
			now := anchor.Add(time.Duration(i) * p.Cycle)
			shift(&o, now)
			o.Completions.Value += 10
			var d scale.Decision
			d, s = decide(p, s, o)
			if turn := compare(d.Desired, last); turn != 0 {
				if direction != 0 && turn != direction {
					reversals++
				}
				direction, moved = turn, i
			}
			last = d.Desired
			o.Replicas.Desired = d.Desired
		}
		if reversals > 1 || moved > 200 {
			t.Fatalf("%d reversals, last move in cycle %d", reversals, moved)
		}
	})
}

func compare(a, b int) int {
	switch {
	case a > b:
		return 1
	case a < b:
		return -1
	}
	return 0
}

// Property 10, second half: Poisson arrivals at a constant rate turn the pool around at most once an hour (median of 20 seeds, 7 in the short form).
func TestProperty10_PoissonReversals(t *testing.T) {
	for _, rate := range []float64{3, 20} {
		var all []float64
		seeds := 20
		if testing.Short() {
			seeds = 7
		}
		for seed := range uint64(seeds) {
			m := newModel(t, scale.Policy{Min: 1, Max: 100, StartsIn: 20 * time.Second, ServiceTime: time.Second, Cycle: 5 * time.Second, Objective: scale.Objective{OldestAge: 2 * time.Minute}})
			m.flow(0, 2*3600, rate, 1, seeded(seed))
			m.until(2 * 3600)
			_, reversals := m.changes(1200)
			all = append(all, float64(reversals)/(100.0/60))
		}
		slices.Sort(all)
		t.Logf("λ %v/s: reversals an hour: median %.2f, worst %.2f", rate, all[seeds/2], all[seeds-1])
		if all[seeds/2] > 1 {
			t.Errorf("λ %v/s: median of %v reversals an hour, want at most 1", rate, all[seeds/2])
		}
	}
}

// Property 11: a step is answered at once and settles.
func TestProperty11_StepResponse(t *testing.T) {
	m := newModel(t, scale.Policy{Min: 1, Max: 200, StartsIn: 20 * time.Second, ServiceTime: time.Second, Objective: scale.Objective{OldestAge: time.Minute}})
	m.flow(0, 1800, 5, 1, nil)
	m.flow(1800, 5400, 40, 1, nil)
	m.until(1800)
	before := m.desired
	gate := -1.0
	for m.now < 1800+21+3 {
		m.cycle()
		if m.desired > before && gate < 0 {
			gate = m.now
		}
	}
	if gate < 0 || gate > 1804 {
		t.Errorf("first order at %.0f s, the step was at 1800", gate)
	}
	if m.desired < 40 {
		t.Errorf("a cold start after the step %d replicas are ordered, 40 slots are busy", m.desired)
	}
	m.until(1800 + 3*300 + 60 + 21)
	n, _ := m.changes(m.now)
	settled := m.desired
	m.until(5400)
	if least, most := m.bounds(1800 + 3*300 + 60 + 21); most-least > 2 || settled < 41 || settled > 46 {
		t.Errorf("settled at %d, then %d to %d (%d changes)", settled, least, most, n)
	}
}

// Property 12: without ceilings a backlog is gone by the promised time and a cycle.
func TestProperty12_BacklogClearsInTime(t *testing.T) {
	rapid.Check(t, func(t2 *rapid.T) {
		d := rapid.IntRange(1, 40).Draw(t2, "D")
		drain := rapid.IntRange(3*d+10, 600).Draw(t2, "T")
		q := rapid.IntRange(50, 3000).Draw(t2, "Q")
		s := rapid.Float64Range(0.2, 3).Draw(t2, "S")
		m := newModel(t, scale.Policy{Max: 100_000, StartsIn: seconds(float64(d)), ServiceTime: seconds(s), Objective: scale.Objective{Drain: seconds(float64(drain))}})
		m.dump(0, q, s)
		m.advance(0)
		for m.now < float64(drain)+s+2 && (len(m.queue) > 0 || m.now == 0) {
			m.cycle()
		}
		if len(m.queue) > 0 {
			t2.Fatalf("%d of %d jobs wait after %.0f s, promised %d s (%d replicas)", len(m.queue), q, m.now, drain, m.desired)
		}
	})
}

// Properties 13 and 14: down no faster than the rate, running long jobs kept; a ceiling that dropped is reached at that rate, inside a hold.
func TestProperties13_14_DownRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		percent := float64(rapid.IntRange(5, 60).Draw(t, "%"))
		from := rapid.IntRange(2, 300).Draw(t, "from")
		ceiling := rapid.IntRange(1, from).Draw(t, "ceiling")
		p := scale.Policy{Pool: "p", Min: 0, Max: 1000, ServiceTime: time.Second, Cycle: 10 * time.Second,
			Downstreams: []scale.Use{{Downstream: "d", Unit: "u", UnitsPerJob: 1}},
			Damping:     scale.Damping{HoldSteady: time.Hour, Down: []scale.Rate{{Percent: percent, Per: time.Minute}}}}.WithDefaults()
		o := scale.Observation{Estimates: scale.Estimates{Arrival: float64(from), ServiceTime: 1}, Replicas: scale.Replicas{Desired: from, Ready: from}}
		s := scale.State{Desired: from}
		sizes := []int{from}
		for i := range 60 * 6 {
			shift(&o, anchor.Add(time.Duration(i)*p.Cycle))
			o.InFlight.Value, o.Completions.Value = float64(ceiling), float64(i)
			limit := 1e6
			if i > 0 {
				limit = float64(ceiling)
			}
			o.Limits = []scale.Limit{{Downstream: "d", Unit: "u", PerSecond: limit}}
			var d scale.Decision
			d, s = decide(p, s, o)
			if i == 0 {
				d.Desired, s.Desired = from, from // what it was before does not matter here
				s.Moves = nil
			}
			o.Replicas.Desired, o.Replicas.Ready = d.Desired, d.Desired
			sizes = append(sizes, d.Desired)
			top := sizes[max(0, len(sizes)-7)] // a minute ago
			if least := top - max(1, int(float64(top)*percent/100+1e-9)); d.Desired < least {
				t.Fatalf("%v: %d within a minute of %d at %v%% a minute", sizes, d.Desired, top, percent)
			}
		}
		need := from - ceiling // at least one a minute
		if got := sizes[len(sizes)-1]; got > ceiling && need <= 59 {
			t.Fatalf("an hour after the ceiling dropped to %d: %d replicas", ceiling, got)
		}
	})
}

func TestProperty13_RunningLongJobsAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genPolicy(t)
		p.Grace = 10 * time.Second
		o := genObservation(t, p)
		o.Estimates.ServiceTime = rapid.Float64Range(10, 3600).Draw(t, "S")
		current := rapid.IntRange(1, p.Max).Draw(t, "size")
		o.Replicas.Desired, o.Replicas.Ready = current, current
		occupied := rapid.IntRange(0, current).Draw(t, "occupied")
		o.InFlight.Value = float64(rapid.IntRange(occupied, occupied*p.Concurrency).Draw(t, "B"))
		o.Replicas.Occupied = scale.Read(float64(occupied), o.At)
		d, _ := decide(p, scale.State{StartedAt: anchor.Add(-time.Hour)}, o)
		if d.Desired < occupied {
			t.Fatalf("%d → %d with %d that run long jobs", current, d.Desired, occupied)
		}
	})
}

// Property 17: shares sum to no more than the capacity, nobody gets more than it needs, and nobody is short while another has more.
func TestProperty17_Shares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		needs := make([]scale.Need, rapid.IntRange(1, 12).Draw(t, "pools"))
		capacity := scale.Capacity{Name: "quota", Replicas: rapid.IntRange(0, 200).Draw(t, "capacity")}
		for i := range needs {
			needs[i] = scale.Need{Pool: string(rune('a' + i)), Known: true, Replicas: rapid.IntRange(0, 60).Draw(t, "need")}
			capacity.Pools = append(capacity.Pools, needs[i].Pool)
		}
		sum, total, most := 0, 0, 0
		least := math.MaxInt
		for i, g := range scale.Share(needs, []scale.Capacity{capacity}) {
			got := needs[i].Replicas
			for _, l := range g.Limits {
				got = min(got, l.Replicas)
			}
			if got < needs[i].Replicas {
				least = min(least, got)
			}
			most = max(most, got)
			sum, total = sum+got, total+needs[i].Replicas
		}
		if sum != min(total, capacity.Replicas) || least < most-1 && least != math.MaxInt {
			t.Fatalf("%d of %d shared; a pool that is short has %d, another %d", sum, capacity.Replicas, least, most)
		}
	})
}

// Property 18: a restart lowers nothing inside the first hold.
func TestProperty18_RestartHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genPolicy(t)
		o := genObservation(t, p)
		s := scale.State{Desired: o.Replicas.Desired}
		current := o.Replicas.Desired
		for _, after := range []time.Duration{0, time.Second, 59 * time.Second} {
			shift(&o, anchor.Add(after))
			var d scale.Decision
			d, s = decide(p, s, o)
			if d.Desired < current {
				t.Fatalf("%d → %d, %v after the start", current, d.Desired, after)
			}
			current = d.Desired
			o.Replicas.Desired = current
		}
	})
}

// Property 19: an actuator that was deaf for an hour and then obeys is not asked for more than an attentive one.
func TestProperty19_NoWindUp(t *testing.T) {
	run := func(deaf bool) *model {
		m := newModel(t, scale.Policy{Min: 1, Max: 500, StartsIn: 10 * time.Second, ServiceTime: time.Second, Objective: scale.Objective{OldestAge: time.Minute}})
		m.flow(0, 7200, 10, 1, nil)
		m.have(12)
		m.deaf = deaf
		m.until(3600)
		m.deaf = false
		m.until(7200)
		return m
	}
	attentive, after := run(false), run(true)
	if after.peak > attentive.peak+1 || after.desired > attentive.desired+1 {
		t.Errorf("after an hour of deafness at most %d and at last %d replicas, an attentive actuator has %d and %d", after.peak, after.desired, attentive.peak, attentive.desired)
	}
}
