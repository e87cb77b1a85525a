package scale_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/scale"
)

// limited is a pool of one-slot workers whose jobs take five calls and five seconds: twelve jobs a minute a worker.
func limited(permits bool) (scale.Policy, scale.Observation) {
	p := scale.Policy{Pool: "p", Min: 1, Max: 100, StartsIn: time.Second, Objective: scale.Objective{OldestAge: time.Minute},
		Downstreams: []scale.Use{{Downstream: "vendor", Unit: "calls", UnitsPerJob: 5, Permits: permits}}}.WithDefaults()
	o := scale.Observation{
		At: anchor, Backlog: scale.Read(5000, anchor), InFlight: scale.Read(10, anchor), OldestAge: scale.Read(30, anchor), Completions: scale.Read(7, anchor),
		Replicas:  scale.Replicas{At: anchor, Desired: 10, Ready: 10},
		Estimates: scale.Estimates{Arrival: 1, ArrivalAt: anchor, ServiceTime: 5, ServiceCount: 100, ServiceCV2: 1, ColdStart: 1, Completion: 2},
		Limits:    []scale.Limit{{Downstream: "vendor", Unit: "calls", PerSecond: 1000.0 / 60}},
	}
	return p, o
}

// A limit of 1,000 calls a minute feeds 16.67 workers: 16 where nothing enforces it, 17 where our permits do.
func TestRateCeilingRounding(t *testing.T) {
	for _, c := range []struct {
		permits   bool
		perMinute float64
		want      int
	}{{false, 1000, 16}, {true, 1000, 17}, {false, 600, 10}, {true, 600, 10}, {true, 606, 10}, {true, 607, 11}, {false, 30, 1}, {true, 30, 1}} {
		p, o := limited(c.permits)
		o.Limits[0].PerSecond = c.perMinute / 60
		o.Replicas.Desired, o.Replicas.Ready = 0, 0
		d, _ := decide(p, scale.State{}, o)
		if d.Desired != c.want || d.Reason != scale.DownstreamThroughput || d.Subject != "vendor" {
			t.Errorf("%v calls/min, permits %v: %d by %s (%s), want %d by %s", c.perMinute, c.permits, d.Desired, d.Reason, d.Subject, c.want, scale.DownstreamThroughput)
		}
		if d.Binding == nil || d.Binding.JobsPerSec != c.perMinute/300 || d.Sentence != "Throughput-limited by vendor." {
			t.Errorf("binding %+v, %q", d.Binding, d.Sentence)
		}
	}
}

// The measured cost of a job replaces the declared one; the least of several limits binds.
func TestMeasuredCostAndLeastLimit(t *testing.T) {
	p, o := limited(false)
	o.Replicas.Desired, o.Replicas.Ready = 0, 0
	o.Limits[0].UnitsPerJob = scale.Read(10, anchor)
	if d, _ := decide(p, scale.State{}, o); d.Desired != 8 {
		t.Errorf("at ten calls a job: %d, want 8", d.Desired)
	}
	p.Downstreams = append(p.Downstreams, scale.Use{Downstream: "other", Unit: "tokens", UnitsPerJob: 100})
	o.Limits = append(o.Limits, scale.Limit{Downstream: "other", Unit: "tokens", PerSecond: 60})
	d, _ := decide(p, scale.State{}, o)
	if d.Desired != 3 || d.Subject != "other" {
		t.Errorf("%d by %q, want 3 by other", d.Desired, d.Subject)
	}
}

// A provider limits tokens and requests. The explanation shows the numbers of the one that binds.
func TestTwoLimitsOfOneDownstream(t *testing.T) {
	p, o := limited(true)
	o.Replicas.Desired, o.Replicas.Ready = 0, 0
	p.Downstreams = append(p.Downstreams, scale.Use{Downstream: "vendor", Unit: "tokens", UnitsPerJob: 100, Permits: true})
	o.Limits = append(o.Limits, scale.Limit{Downstream: "vendor", Unit: "tokens", PerSecond: 60})
	d, _ := decide(p, scale.State{}, o)
	i := slices.IndexFunc(d.Steps, func(s scale.Step) bool { return s.Binding })
	if got, want := d.Steps[i].Limit, "3600 tokens/min at 100 a job"; d.Binding == nil || d.Binding.Replicas != 3 || got != want {
		t.Errorf("binding %+v, row %q; want 3 replicas by %q", d.Binding, got, want)
	}
	if len(d.Helps) == 0 || !strings.Contains(d.Helps[0].What, "tokens/min") {
		t.Errorf("helps %+v, want more tokens", d.Helps)
	}
}

// A ceiling that wavers by rounding does not move a pool under permits.
func TestWaveringCeilingIsCalm(t *testing.T) {
	p, o := limited(true)
	o.Replicas.Desired, o.Replicas.Ready = 17, 17
	var s scale.State
	for i, perMinute := range []float64{1000, 972, 1000, 960, 972, 930, 966} { // 16.7, 16.2, 16.7, 16, 16.2, 15.5, 16.1 workers
		shift(&o, anchor.Add(time.Duration(i)*time.Second))
		o.Completions.Value++
		o.Limits[0].PerSecond = perMinute / 60
		var d scale.Decision
		if d, s = decide(p, s, o); d.Desired != 17 {
			t.Errorf("%v calls/min: %d, want 17", perMinute, d.Desired)
		}
	}
	o.Limits[0].PerSecond = 900.0 / 60 // 15: that is another limit
	if d, _ := decide(p, s, o); d.Desired != 15 && d.Desired != 16 {
		t.Errorf("900 calls/min: %d, want fewer", d.Desired)
	}
}

// Near a ceiling demand goes up and down from cycle to cycle. The verdict does not, while work waits and the demand above it counts;
// nor on the way down to a ceiling that dropped.
func TestVerdictAtACeilingIsStable(t *testing.T) {
	p, o := limited(true)
	p.Damping.Down = []scale.Rate{{Percent: 10, Per: 5 * time.Second}}
	o.Replicas.Desired, o.Replicas.Ready = 26, 26
	var s scale.State
	for i := range 200 {
		shift(&o, anchor.Add(time.Duration(i)*time.Second))
		o.Completions.Value++
		o.Backlog.Value, o.OldestAge.Value = 5000, 30
		if i%10 > 5 {
			o.Backlog.Value, o.OldestAge.Value = 12, 1
		}
		var d scale.Decision
		d, s = decide(p, s, o)
		o.Replicas.Desired, o.Replicas.Ready = d.Desired, d.Desired
		if d.Reason != scale.DownstreamThroughput || d.Subject != "vendor" || d.Binding == nil {
			t.Fatalf("second %d: %d by %s (%s), demand %d\n%s", i, d.Desired, d.Reason, d.Subject, d.Need.Replicas, d.Explain().Text())
		}
	}
	if n := o.Replicas.Desired; n != 17 && n != 18 { // 18 would be right for a limit a twentieth higher
		t.Errorf("at %d replicas, want 17 or 18", n)
	}
	for i := range 31 {
		shift(&o, anchor.Add(time.Duration(200+i)*time.Second))
		o.Completions.Value++
		o.Backlog.Value, o.OldestAge.Value = 12, 1
		var d scale.Decision
		d, s = decide(p, s, o)
		if i == 30 && (d.Reason == scale.DownstreamThroughput || d.Binding != nil) {
			t.Errorf("half a minute after demand fell for good: %s", d.Reason)
		}
	}
}

// A ceiling beats a floor, and says so.
func TestCeilingBeatsFloor(t *testing.T) {
	p, o := limited(false)
	p.Min = 20
	o.Replicas.Desired, o.Replicas.Ready = 0, 0
	d, _ := decide(p, scale.State{}, o)
	if d.Desired != 16 || d.Reason != scale.DownstreamThroughput {
		t.Errorf("%d by %s, want 16 by %s", d.Desired, d.Reason, scale.DownstreamThroughput)
	}
	if !slices.ContainsFunc(d.Steps, func(s scale.Step) bool { return s.Name == "downstream" && s.Evidence == "below the minimum of 20" }) {
		t.Errorf("the conflict is not reported: %+v", d.Steps)
	}
}

// A limit that cannot be read is neither none nor zero: the pool keeps its size, and its floor.
func TestUnreadLimitHolds(t *testing.T) {
	for _, c := range []struct{ have, min, want int }{{10, 1, 10}, {0, 3, 3}, {30, 1, 30}} {
		for _, limits := range [][]scale.Limit{nil, {{Downstream: "vendor", Unit: "calls"}}} {
			p, o := limited(true)
			p.Min = c.min
			o.Limits = limits
			o.Replicas.Desired, o.Replicas.Ready = c.have, c.have
			if d, _ := decide(p, scale.State{}, o); d.Desired != c.want || d.Reason != scale.StaleHold {
				t.Errorf("%d replicas, floor %d: %d by %s, want %d by %s", c.have, c.min, d.Desired, d.Reason, c.want, scale.StaleHold)
			}
		}
	}
}

// Workers that wait for permits are idle beside a backlog. That is the limit's doing, not the workers'.
func TestWaitingForPermitsIsNotIdle(t *testing.T) {
	p, o := limited(true)
	o.Replicas.Desired, o.Replicas.Ready = 17, 17
	var s scale.State
	for i := range 300 {
		shift(&o, anchor.Add(time.Duration(i)*time.Second))
		o.Replicas.Busy = scale.Read(3, o.At)
		o.Backlog.Value++
		o.Completions.Value++
		var d scale.Decision
		if d, s = decide(p, s, o); d.Reason != scale.DownstreamThroughput || len(d.Alarms) > 0 {
			t.Fatalf("second %d: %s, alarms %v", i, d.Reason, d.Alarms)
		}
	}
	o.Limits[0].PerSecond = 1e6
	o.Limits[0].Used = scale.Read(0.95, anchor) // by others: these jobs wait for permits all the same
	for i := range 60 {
		shift(&o, anchor.Add(time.Duration(300+i)*time.Second))
		o.Replicas.Busy = scale.Read(3, o.At)
		o.Backlog.Value++
		o.Completions.Value++
		var d scale.Decision
		if d, s = decide(p, s, o); slices.Contains(d.Alarms, scale.WorkersIdle) {
			t.Fatalf("second %d: %s, alarms %v, while others use the limit up", 300+i, d.Reason, d.Alarms)
		}
	}
	o.Limits[0].Used = scale.Read(0.2, anchor) // with room enough it is the workers
	for i := range 60 {
		shift(&o, anchor.Add(time.Duration(360+i)*time.Second))
		o.Replicas.Busy = scale.Read(3, o.At)
		o.Backlog.Value++
		o.Completions.Value++
		var d scale.Decision
		d, s = decide(p, s, o)
		if i > 15 && (d.Reason != scale.WorkersIdle || d.Desired > d.Current) {
			t.Fatalf("second %d: %s, %d → %d", 360+i, d.Reason, d.Current, d.Desired)
		}
	}
}

// While a downstream asks to be left alone nothing can complete. That is no reason to look at the workers.
func TestAPauseIsNotStuck(t *testing.T) {
	for _, pause := range []float64{0, 900} {
		p, o := limited(true)
		o.Limits[0].PausedFor = pause
		var s scale.State
		var d scale.Decision
		for i := range 600 {
			shift(&o, anchor.Add(time.Duration(i)*time.Second))
			d, s = decide(p, s, o)
		}
		if got, want := slices.Contains(d.Alarms, scale.Stuck), pause == 0; got != want {
			t.Errorf("pause of %v s: nothing completed for ten minutes, alarms %v", pause, d.Alarms)
		}
	}
}

// What helps is computed: a limit raised as it says gives the size it says.
func TestHelpIsTrue(t *testing.T) {
	p, o := limited(true)
	d, _ := decide(p, scale.State{}, o)
	if len(d.Helps) == 0 || d.Helps[0].Replicas <= d.Desired {
		t.Fatalf("helps %+v", d.Helps)
	}
	o.Limits[0].PerSecond = float64(d.Helps[0].Replicas) / 5 * 5
	after, _ := decide(p, scale.State{}, o)
	if after.Desired != d.Helps[0].Replicas {
		t.Errorf("with the limit raised: %d, promised %d (%s)", after.Desired, d.Helps[0].Replicas, d.Helps[0].What)
	}
}

func TestValidateReportsEverything(t *testing.T) {
	bad := scale.Policy{Min: 5, Max: 2, Utilisation: 1.5, Concurrency: -1, Cycle: -time.Second, Objective: scale.Objective{Miss: 2},
		Damping: scale.Damping{Up: []scale.Rate{{Per: 0}}}, Downstreams: []scale.Use{{}}}
	err := bad.Validate()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 10 {
		t.Errorf("problems:\n%v", err)
	}
	if err := (scale.Policy{Pool: "p", Max: 1}).Validate(); err != nil {
		t.Errorf("the least policy: %v", err)
	}
	if err := (scale.Policy{Pool: "p", Max: 1}).WithDefaults().Validate(); err != nil {
		t.Errorf("with defaults: %v", err)
	}
}
