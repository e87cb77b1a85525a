package estimate

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/scale"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// feed is a pool's counters over time.
type feed struct {
	t                   *testing.T
	prior               Prior
	state               State
	now                 time.Time
	arrivals, done      float64
	runs, busy, squares float64
	last                scale.Estimates
}

func newFeed(t *testing.T, p Prior) *feed { return &feed{t: t, prior: p, now: epoch} }

// tick moves one cycle on and takes a sample.
func (f *feed) tick(change func(x *Sample)) scale.Estimates {
	f.now = f.now.Add(f.prior.cycle())
	read := func(v float64) scale.Reading { return scale.Read(v, f.now) }
	x := Sample{At: f.now, Epoch: "a", Arrivals: read(f.arrivals), Completions: read(f.done),
		Attempts: read(f.runs), BusySeconds: read(f.busy), BusySquares: read(f.squares)}
	if change != nil {
		change(&x)
	}
	f.state, f.last = Update(f.state, f.prior, x)
	return f.last
}

// flow runs for a number of seconds at a rate, of jobs that take service seconds.
func (f *feed) flow(seconds, rate, service float64) scale.Estimates {
	cycle := f.prior.cycle().Seconds()
	for range int(seconds/cycle + 0.5) {
		n := rate * cycle
		f.arrivals += n
		f.finish(n, service)
		f.tick(nil)
	}
	return f.last
}

func (f *feed) finish(n, service float64) {
	f.done += n
	f.runs += n
	f.busy += n * service
	f.squares += n * service * service
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s = %v, want %v ± %v", what, got, want, tolerance)
	}
}

func TestConstantFlow(t *testing.T) {
	f := newFeed(t, Prior{})
	e := f.flow(900, 12, 0.4)
	near(t, "λ", e.Arrival, 12, 1e-6)
	near(t, "X", e.Completion, 12, 1e-6)
	near(t, "S", e.ServiceTime, 0.4, 1e-9)
	near(t, "c²", e.ServiceCV2, 0, 1e-9)
	near(t, "error of λ", e.ArrivalError, math.Sqrt(12.0/600), 1e-6)
	if e.GateOpen || !e.ArrivalAt.Equal(f.now) {
		t.Errorf("gate open %v, last sample %v", e.GateOpen, e.ArrivalAt)
	}
}

// The first seconds of a pool's life: rates lean to zero until something has been observed for a while.
func TestFirstJobsAreNoFlow(t *testing.T) {
	f := newFeed(t, Prior{})
	f.tick(nil)
	f.arrivals = 2
	if e := f.tick(nil); e.Arrival > 0.05 {
		t.Errorf("two jobs in the first second are taken for %v/s", e.Arrival)
	}
}

// A step is believed within a few seconds where the promise is short, and the gate opens at the second sample.
func TestStepIsBelievedWithinThePromise(t *testing.T) {
	f := newFeed(t, Prior{Cycle: 500 * time.Millisecond, Horizon: 8 * time.Second})
	f.flow(60, 1, 1)
	opened := 0.0
	for s := 0.5; s <= 6; s += 0.5 {
		if e := f.flow(0.5, 8, 1); e.GateOpen && opened == 0 {
			opened = s
		}
	}
	if opened == 0 || opened > 2 {
		t.Errorf("the gate opened %.1f s after an eightfold step, want at most 2", opened)
	}
	if f.last.Arrival < 6 {
		t.Errorf("six seconds after a step to 8/s: λ = %.1f, want 6 at least", f.last.Arrival)
	}
	for range 12 {
		f.flow(0.5, 1, 1)
	}
	if f.last.Arrival > 3.2 {
		t.Errorf("six seconds after it fell to 1/s: λ = %.1f, want at most 3.2", f.last.Arrival)
	}
}

// Jobs that come all at once are a backlog and no flow; the same number over half a minute is one.
func TestDumpIsNoFlow(t *testing.T) {
	fresh := newFeed(t, Prior{Horizon: 10 * time.Second})
	fresh.flow(1, 0, 0)
	fresh.arrivals += 200
	if e := fresh.flow(2, 0, 5); e.Arrival > 5 {
		t.Errorf("a dump of 200 in a pool that is three seconds old: λ = %.1f, want under 5", e.Arrival)
	}
	dump := newFeed(t, Prior{})
	dump.flow(1800, 1, 1)
	dump.arrivals += 600
	if e := dump.flow(1, 1, 1); e.GateOpen || e.Arrival > 4 {
		t.Errorf("a dump of 600 beside 1/s: λ = %.1f, gate %v; want under 4, closed", e.Arrival, e.GateOpen)
	}
	flow := newFeed(t, Prior{})
	flow.flow(1800, 1, 1)
	if e := flow.flow(30, 20, 1); !e.GateOpen || e.Arrival < 10 {
		t.Errorf("20/s for half a minute: λ = %.1f, gate %v; want over 10, open", e.Arrival, e.GateOpen)
	}
}

// The gate stays closed on noise: Poisson arrivals at a constant rate open it in a small share of samples.
func TestGateIgnoresNoise(t *testing.T) {
	f := newFeed(t, Prior{})
	r := rand.New(rand.NewPCG(4, 4))
	open, samples := 0, 0
	next := 0.0
	for s := range 7200 {
		for next < float64(s+1) {
			f.arrivals++
			next += r.ExpFloat64() / 5
		}
		if e := f.tick(nil); s > 1200 {
			samples++
			if e.GateOpen {
				open++
			}
			if math.Abs(e.Arrival-5) > 1.5 {
				t.Fatalf("λ = %.2f at 5/s after %d s", e.Arrival, s)
			}
		}
	}
	if share := float64(open) / float64(samples); share > 0.02 {
		t.Errorf("the gate is open in %.1f%% of samples at a constant rate, want at most 2%%", 100*share)
	}
}

// A reset, another epoch, a clock set back, a repeated reading and impossible numbers give no rate and keep what is known.
func TestImpossibleSamplesAreDropped(t *testing.T) {
	for name, change := range map[string]func(f *feed, x *Sample){
		"reset":         func(f *feed, x *Sample) { x.Arrivals.Value, x.Completions.Value = 3, 3 },
		"epoch":         func(f *feed, x *Sample) { x.Epoch, x.Arrivals.Value = "b", 1e9 },
		"clock back":    func(f *feed, x *Sample) { x.Arrivals.At = x.Arrivals.At.Add(-time.Hour) },
		"same reading":  func(f *feed, x *Sample) { x.Arrivals.At, x.Arrivals.Value = f.state.Arrivals.At, 1e9 },
		"NaN":           func(f *feed, x *Sample) { x.Arrivals.Value, x.BusySeconds.Value = math.NaN(), math.NaN() },
		"infinite":      func(f *feed, x *Sample) { x.Arrivals.Value, x.Completions.Value = math.Inf(1), math.Inf(1) },
		"negative":      func(f *feed, x *Sample) { x.Arrivals.Value, x.BusySquares.Value = -1, -1 },
		"unread":        func(f *feed, x *Sample) { *x = Sample{At: x.At, Epoch: "a"} },
		"absurd growth": func(f *feed, x *Sample) { x.Arrivals.Value = 1e300 },
		"start times":   func(f *feed, x *Sample) { x.Starts = []float64{math.NaN(), -1, math.Inf(1)} },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFeed(t, Prior{})
			before := f.flow(900, 12, 0.4)
			f.arrivals += 12
			f.finish(12, 0.4)
			after := f.tick(func(x *Sample) { change(f, x) })
			near(t, "λ", after.Arrival, before.Arrival, 1e-6)
			near(t, "X", after.Completion, before.Completion, 1e-6)
			near(t, "S", after.ServiceTime, before.ServiceTime, 1e-9)
			near(t, "D", after.ColdStart, before.ColdStart, 0)
			dropped := after.Rejected - before.Rejected
			silent := name == "epoch" || name == "same reading" || name == "unread"
			if (dropped == 0) != silent {
				t.Errorf("%d samples counted as rejected", dropped)
			}
		})
	}
}

// A rate over a gap uses the true time between readings.
func TestGapKeepsTheRate(t *testing.T) {
	f := newFeed(t, Prior{})
	f.flow(900, 10, 1)
	f.arrivals += 10 * 120
	f.now = f.now.Add(119 * time.Second)
	near(t, "λ after two minutes unread", f.tick(nil).Arrival, 10, 1e-6)
}

func TestServicePriorFades(t *testing.T) {
	f := newFeed(t, Prior{ServiceTime: 4 * time.Second})
	near(t, "S at first", f.tick(nil).ServiceTime, 4, 1e-9)
	f.finish(10, 1)
	first := f.tick(nil).ServiceTime
	if first <= 1 || first >= 4 {
		t.Errorf("after ten runs of 1 s: S = %v, want between the prior and what is measured", first)
	}
	f.finish(30, 1)
	near(t, "S after forty", f.tick(nil).ServiceTime, 1, 1e-9)

	none := newFeed(t, Prior{})
	if e := none.tick(nil); e.ServiceTime != 0 {
		t.Errorf("nothing declared or measured: S = %v, want 0", e.ServiceTime)
	}
	none.finish(1, 7)
	near(t, "S after the first run", none.tick(nil).ServiceTime, 7, 1e-9)
}

// A new version that takes three times as long is believed within minutes, not after ten.
func TestServiceTimeJumps(t *testing.T) {
	f := newFeed(t, Prior{})
	f.flow(1200, 2, 1)
	e := f.flow(180, 2, 3)
	near(t, "S three minutes after a change from 1 s to 3 s", e.ServiceTime, 3, 0.5)
}

func TestServiceTimeVariation(t *testing.T) {
	f := newFeed(t, Prior{})
	r := rand.New(rand.NewPCG(9, 9))
	for range 2000 {
		for range 5 {
			f.finish(1, r.ExpFloat64())
		}
		f.tick(nil)
	}
	near(t, "c² of exponential times", f.last.ServiceCV2, 1, 0.15)
	near(t, "S", f.last.ServiceTime, 1, 0.06)
}

// Saturation inflates what is measured, and what is measured would ask for more workers. Frozen, it does not.
func TestFrozenServiceTimeDoesNotFeedOnItself(t *testing.T) {
	f := newFeed(t, Prior{})
	f.flow(600, 5, 2)
	for range 300 {
		f.finish(5, 20)
		e := f.tick(func(x *Sample) { x.Frozen = true })
		near(t, "S while frozen", e.ServiceTime, 2.2, 1e-6)
	}
	near(t, "S a minute after", f.flow(61, 5, 2).ServiceTime, 2, 1e-6)
}

func TestColdStartIsTheNinetiethPercentile(t *testing.T) {
	f := newFeed(t, Prior{ColdStart: 60 * time.Second})
	near(t, "D before any start", f.tick(nil).ColdStart, 60, 0)
	near(t, "D after one fast start", f.tick(func(x *Sample) { x.Starts = []float64{2} }).ColdStart, 60, 0)
	e := f.tick(func(x *Sample) { x.Starts = []float64{3, 4, 5, 6, 7, 8, 9, 10, 11} })
	near(t, "D of 2..11", e.ColdStart, 10, 0)
	for range 10 {
		e = f.tick(func(x *Sample) { x.Starts = []float64{20, 21, 22} })
	}
	if e.ColdStart != 22 || e.ColdStarts != 20 {
		t.Errorf("D = %v from %d starts, want 22 from the last 20", e.ColdStart, e.ColdStarts)
	}
	near(t, "default D", newFeed(t, Prior{}).tick(nil).ColdStart, 1, 0)
}

func TestTimeConstants(t *testing.T) {
	for _, c := range []struct {
		horizon, cycle, want time.Duration
	}{
		{0, 0, 30 * time.Second},
		{10 * time.Minute, time.Second, 30 * time.Second},
		{time.Minute, time.Second, 30 * time.Second},
		{10 * time.Second, time.Second, 5 * time.Second},
		{8 * time.Second, 500 * time.Millisecond, 4 * time.Second},
		{2 * time.Second, time.Second, 4 * time.Second},
		{time.Second, 100 * time.Millisecond, time.Second},
		{10 * time.Second, 15 * time.Second, 30 * time.Second},
	} {
		if got := (Prior{Horizon: c.horizon, Cycle: c.cycle}).shortTau(); got != c.want {
			t.Errorf("promise %v, cycle %v: short time constant %v, want %v", c.horizon, c.cycle, got, c.want)
		}
	}
}

// The state before is not changed, survives JSON and gives the same estimates again.
func TestStateIsDataThatReplays(t *testing.T) {
	f := newFeed(t, Prior{ServiceTime: time.Second})
	f.flow(100, 3, 1.5)
	f.tick(func(x *Sample) { x.Starts = []float64{1, 2, 3} })
	raw, err := json.Marshal(f.state)
	if err != nil {
		t.Fatal(err)
	}
	var copied State
	if err := json.Unmarshal(raw, &copied); err != nil {
		t.Fatal(err)
	}
	x := Sample{At: f.now.Add(time.Second), Epoch: "a", Arrivals: scale.Read(f.arrivals+4, f.now.Add(time.Second)), Starts: []float64{9}}
	one, e1 := Update(f.state, f.prior, x)
	two, e2 := Update(copied, f.prior, x)
	if diff := cmp.Diff(one, two) + cmp.Diff(e1, e2); diff != "" {
		t.Errorf("after a round trip (-first +again):\n%s", diff)
	}
	after, _ := json.Marshal(f.state)
	if diff := cmp.Diff(string(raw), string(after)); diff != "" {
		t.Errorf("Update changed the state it was given:\n%s", diff)
	}
}

// FuzzUpdate feeds arbitrary readings: the estimates stay finite, not negative, and storable.
func FuzzUpdate(f *testing.F) {
	f.Add(1.0, 2.0, 3.0, 4.0, int64(1e9), true)
	f.Add(math.NaN(), math.Inf(1), -1.0, 1e300, int64(-1e18), false)
	f.Add(math.MaxFloat64, 1e-300, math.MaxFloat64, math.MaxFloat64, int64(1), true)
	f.Fuzz(func(t *testing.T, a, b, c, d float64, step int64, frozen bool) {
		var s State
		at := epoch
		for i := range 6 {
			read := func(v float64) scale.Reading { return scale.Read(v*float64(i), at) }
			var e scale.Estimates
			s, e = Update(s, Prior{ServiceTime: time.Duration(step), ColdStart: time.Duration(step), Horizon: time.Duration(step)},
				Sample{At: at, Arrivals: read(a), Completions: read(b), Attempts: read(c), BusySeconds: read(d), BusySquares: read(a), Starts: []float64{b}, Frozen: frozen && i > 2})
			for name, v := range map[string]float64{"λ": e.Arrival, "λ±": e.ArrivalError, "X": e.Completion, "S": e.ServiceTime, "c²": e.ServiceCV2, "D": e.ColdStart, "n": e.ServiceCount} {
				if !(v >= 0) || math.IsInf(v, 0) {
					t.Fatalf("%s = %v", name, v)
				}
			}
			if _, err := json.Marshal(s); err != nil {
				t.Fatalf("the state cannot be saved: %v", err)
			}
			at = at.Add(time.Duration(step % int64(1e15)))
		}
	})
}

func BenchmarkUpdate(b *testing.B) {
	f := &feed{prior: Prior{}, now: epoch}
	f.flow(100, 3, 1)
	x := Sample{At: f.now, Epoch: "a"}
	b.ReportAllocs()
	for b.Loop() {
		f.arrivals++
		x.At = x.At.Add(time.Second)
		x.Arrivals = scale.Read(f.arrivals, x.At)
		f.state, f.last = Update(f.state, f.prior, x)
	}
}

// Before runs have ended, what runs is evidence: a job that has run for five minutes is not a short one.
func TestWhatRunsCountsWhileHardlyAnythingHasEnded(t *testing.T) {
	for _, c := range []struct {
		name                string
		prior               time.Duration
		ended, busy, oldest float64
		want                float64
	}{
		{"nothing runs, nothing is known", 0, 0, 0, 0, 0},
		{"one job runs", 0, 0, 0, 300, 300},
		{"one ended early, one runs", 0, 1, 10, 300, 310},
		{"four ended", 0, 4, 8, 4, 3},
		{"a declared time counts as ten runs", time.Second, 0, 0, 300, 31},
		{"enough have ended", 0, 100, 200, 300, 2},
	} {
		f := newFeed(t, Prior{ServiceTime: c.prior})
		f.tick(nil)
		if c.ended > 0 {
			f.finish(c.ended, c.busy/c.ended)
		}
		e := f.tick(func(x *Sample) { x.Running = scale.Read(c.oldest, x.At) })
		near(t, c.name+": S", e.ServiceTime, c.want, 1e-9)
		ended := f.tick(nil).ServiceTime
		near(t, c.name+": S without what runs", e.ServiceTime-e.ServiceRunning, ended, 0.02*ended)
	}
}

// The trouble that freezes S flickers. Thawed at each flicker, S would be frozen again at 1.1 times an inflated value.
func TestFlickeringTroubleKeepsServiceTimeFrozen(t *testing.T) {
	f := newFeed(t, Prior{})
	f.flow(600, 5, 2)
	for i := range 300 {
		f.finish(5, 20)
		e := f.tick(func(x *Sample) { x.Frozen = i%4 == 0 })
		near(t, "S while trouble flickers", e.ServiceTime, 2.2, 1e-6)
	}
}
