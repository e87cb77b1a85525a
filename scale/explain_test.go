package scale_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/scale"
)

var update = flag.Bool("update", false, "rewrite testdata and generated pages")

// situation is a pool as a literal: enough for one decision.
type situation struct {
	policy scale.Policy
	state  scale.State
	seen   scale.Observation
	limits []scale.Capacity
	others []scale.Need
}

// base is a pool of 14 workers of eight slots that enriches documents with a language model.
func base() situation {
	read := func(v float64) scale.Reading { return scale.Read(v, anchor) }
	return situation{
		policy: scale.Policy{Pool: "enrich", Min: 1, Max: 24, MaxFrom: "headrace.yaml:93", Concurrency: 8, StartsIn: 25 * time.Second, Objective: scale.Objective{OldestAge: 10 * time.Minute}},
		state:  scale.State{StartedAt: anchor.Add(-time.Hour), ProgressAt: anchor.Add(-time.Second), Completions: 90_000, Desired: 14},
		seen: scale.Observation{
			At: anchor, Backlog: read(0), InFlight: read(77), Delayed: read(0), OldestAge: read(0), Completions: read(90_024),
			Replicas: scale.Replicas{At: anchor, Desired: 14, Ready: 14, Busy: read(77), Occupied: read(14)},
			Estimates: scale.Estimates{Arrival: 21.4, ArrivalFast: 21.9, ArrivalSlow: 21.4, ArrivalError: 0.19, Dispersion: 1, ArrivalAt: anchor,
				Completion: 21.3, ServiceTime: 4.67, ServiceCV2: 0.8, ServiceCount: 8412, ColdStart: 25, ColdStarts: 20},
		},
	}
}

// backlog gives the pool work that is late.
func (x *situation) backlog(jobs, age float64) {
	x.seen.Backlog.Value, x.seen.OldestAge.Value = jobs, age
	x.seen.InFlight.Value, x.seen.Replicas.Busy.Value = 112, 112
	x.seen.Estimates.Completion = 23.6
}

// situations has one for every reason.
func situations() map[scale.Reason]situation {
	all := map[scale.Reason]situation{}
	add := func(r scale.Reason, change func(x *situation)) {
		x := base()
		change(&x)
		all[r] = x
	}
	llm := func(x *situation) {
		x.policy.Downstreams = []scale.Use{{Downstream: "llm-provider", Unit: "tokens", UnitsPerJob: 62, Permits: true}}
		x.seen.Limits = []scale.Limit{{Downstream: "llm-provider", Unit: "tokens", PerSecond: 1500, UnitsPerJob: scale.Read(62.4, anchor),
			Used: scale.Read(0.98, anchor), Throttled: scale.Read(0.002, anchor)}}
	}
	add(scale.DemandMet, func(x *situation) {})
	add(scale.Recovering, func(x *situation) { x.backlog(4000, 120) })
	add(scale.DownstreamThroughput, func(x *situation) { llm(x); x.backlog(8400, 180); x.seen.Estimates.Arrival = 16.4 })
	add(scale.DownstreamUnhealthy, func(x *situation) {
		llm(x)
		x.backlog(8400, 180)
		x.seen.Replicas.Desired, x.seen.Replicas.Ready = 6, 6
		x.seen.Limits[0].PausedFor = 17
	})
	add(scale.TeamQuota, func(x *situation) {
		x.backlog(8400, 180)
		x.others = []scale.Need{{Pool: "reindex", Known: true, Replicas: 40}}
		x.limits = []scale.Capacity{{Name: "search", Replicas: 40, Pools: []string{"enrich", "reindex"}}}
		x.policy.Max = 100
	})
	add(scale.PoolMax, func(x *situation) { x.backlog(16_400, 300) })
	add(scale.PoolMin, func(x *situation) { x.policy.Min = 20; x.seen.Replicas.Desired = 20 })
	add(scale.StepLimit, func(x *situation) {
		x.backlog(4000, 120)
		x.policy.Damping.Up = []scale.Rate{{Replicas: 2, Per: 15 * time.Second}}
	})
	add(scale.HoldDown, func(x *situation) {
		x.seen.Estimates.Arrival = 12
		x.state.Steady = []scale.Peak{{At: anchor.Add(-23 * time.Second), Replicas: 14}}
	})
	add(scale.DeadBand, func(x *situation) { x.seen.Estimates.Arrival = 20; x.seen.Replicas.Desired = 14 })
	add(scale.StaleHold, func(x *situation) {
		x.seen.Backlog.At = anchor.Add(-42 * time.Second)
		x.seen.Unread = "connection refused"
	})
	add(scale.Stuck, func(x *situation) {
		x.backlog(300, 1500)
		x.state.ProgressAt, x.state.Completions = anchor.Add(-25*time.Minute), 90_024
		x.seen.Estimates.Completion = 0
	})
	add(scale.ActuatorRefused, func(x *situation) {
		x.backlog(4000, 120)
		x.seen.Replicas.Refused = "fork: resource temporarily unavailable"
	})
	add(scale.WorkersNotReady, func(x *situation) {
		x.backlog(4000, 120)
		x.seen.Replicas.Ready, x.seen.Replicas.Starting, x.seen.Replicas.CrashLooping = 4, []float64{300, 300, 12}, 7
	})
	add(scale.WorkersIdle, func(x *situation) {
		x.backlog(4000, 120)
		x.seen.InFlight.Value, x.seen.Replicas.Busy.Value = 9, 9
		x.seen.Estimates.Completion = 2
		x.state.UntakenSince, x.state.UntakenBacklog = anchor.Add(-2*time.Minute), 3800
	})
	add(scale.IdleToZero, func(x *situation) {
		x.policy.Min = 0
		x.state.IdleSince, x.state.Completions = anchor.Add(-6*time.Minute), 90_024
		x.seen.Replicas.Desired, x.seen.Replicas.Ready = 1, 1
		x.seen.InFlight.Value, x.seen.Replicas.Busy.Value, x.seen.Estimates.Completion = 0, 0, 0
		x.seen.Estimates.Arrival, x.seen.Estimates.ArrivalError = 0.002, 0.001
	})
	add(scale.RestartHold, func(x *situation) {
		x.seen.Estimates.Arrival = 12
		x.state.StartedAt = anchor.Add(-20 * time.Second)
	})
	return all
}

// TestExplainEveryReason decides each situation, compares the explanation with its file, and decides again from the record.
func TestExplainEveryReason(t *testing.T) {
	all := situations()
	for _, info := range scale.Reasons() {
		t.Run(string(info.Reason), func(t *testing.T) {
			x, ok := all[info.Reason]
			if !ok {
				t.Fatal("no situation gives this reason")
			}
			if err := x.policy.Validate(); err != nil {
				t.Fatal(err)
			}
			needs := append([]scale.Need{scale.Size(x.policy, x.state, x.seen)}, x.others...)
			g := scale.Share(needs, x.limits)[0]
			d, next := scale.Decide(x.policy, x.state, x.seen, g)
			if d.Reason != info.Reason {
				t.Fatalf("reason %s\n%s", d.Reason, d.Explain().Text())
			}
			check(t, x.policy, x.state, x.seen, g, d, next)

			text := d.Explain().Text()
			if !strings.Contains(text, "◀") || strings.Contains(text, "unknown/s") {
				t.Errorf("no step is marked, or a number is missing:\n%s", text)
			}
			golden(t, filepath.Join("testdata", "explain", string(info.Reason)+".txt"), text)

			again := replay(t, x.policy, x.state, x.seen, g)
			if diff := cmp.Diff(canonical(t, d), again); diff != "" {
				t.Errorf("the record gives another decision (-first +again):\n%s", diff)
			}
		})
	}
	if len(all) != len(scale.Reasons()) {
		t.Errorf("%d situations for %d reasons", len(all), len(scale.Reasons()))
	}
}

// A need that goes up and down by a worker from cycle to cycle has not fallen: the verdict does not go up and down with it.
func TestWaveringNeedIsNoHold(t *testing.T) {
	x := base()
	for i := range 90 {
		shift(&x.seen, anchor.Add(time.Duration(i)*time.Second))
		x.seen.Completions.Value += 21
		x.seen.Estimates.Arrival = 21.4
		if i%8 > 1 && i < 60 || i >= 60 {
			x.seen.Estimates.Arrival = 19
		}
		var d scale.Decision
		d, x.state = decide(x.policy, x.state, x.seen)
		want := scale.DemandMet
		if i >= 57+15 { // it fell after second 57, a quarter of the hold ago
			want = scale.HoldDown
		}
		if d.Desired != 14 || d.Reason != want {
			t.Fatalf("second %d: %d by %s, want 14 by %s\n%s", i, d.Desired, d.Reason, want, d.Explain().Text())
		}
	}
}

// Workers that were only just ordered change the outlook: what the present ones do is no news at three in the morning.
func TestOutlookCountsOrderedWorkers(t *testing.T) {
	x := base()
	x.backlog(4000, 120)
	x.seen.Estimates.Completion = 0
	x.seen.Replicas.Ready, x.seen.Replicas.Busy.Value, x.seen.Replicas.Occupied.Value = 0, 0, 0
	x.seen.Replicas.Starting = []float64{1, 1}
	x.seen.Replicas.Desired = 2
	d, _ := decide(x.policy, x.state, x.seen)
	if want := (4000/(float64(d.Desired)*8/4.67-21.4) + 25); d.Desired < 14 || math.Abs(d.Drain.Ordered-want) > 1 {
		t.Errorf("%d workers clear it in %.0f s, said %.0f s", d.Desired, want, d.Drain.Ordered)
	}
	if text := d.Explain().Text(); !strings.Contains(text, "with the ordered workers") || strings.Contains(text, "stalled") {
		t.Errorf("the explanation does not count them:\n%s", text)
	}
	x.seen.Replicas.Starting = []float64{400, 400}
	if d, _ := decide(x.policy, x.state, x.seen); d.Drain.Ordered != 0 {
		t.Errorf("workers that do not come up clear it in %v s", d.Drain.Ordered)
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs, run with -update (-file +now):\n%s", path, diff)
	}
}

// TestReasonsPage keeps docs/reference/reasons.md equal to the table in the code.
func TestReasonsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Reasons\n\n<!-- Generated from scale/reason.go by `go generate ./scale`. Do not edit. -->\n\n" +
		"Every decision names the one reason that determined it. This is the closed list.\n")
	for _, r := range scale.Reasons() {
		sentence := r.Sentence
		if r.Subject != "" {
			sentence = fmt.Sprintf(sentence, "‹"+r.Subject+"›")
		}
		fmt.Fprintf(&b, "\n## %s\n\n> %s\n\n%s\n\n- **Evidence**: %s\n- **What to do**: %s\n", r.Reason, sentence, r.Meaning, r.Evidence, r.Do)
	}
	golden(t, filepath.Join("..", "docs", "reference", "reasons.md"), b.String())
}

// TestDrainText pins how the outlook is said.
func TestDrainText(t *testing.T) {
	for _, c := range []struct {
		drain scale.Drain
		want  string
	}{
		{scale.Drain{State: "clears", Seconds: 2280, Low: 1500, High: 3660}, "about 38m (25m-1h01m)"},
		{scale.Drain{State: "clears", Seconds: 12, Low: 9, High: 0}, "about 12s (9s-or not at all)"},
		{scale.Drain{State: "grows", Net: -12}, "grows 12/s: will not drain"},
		{scale.Drain{State: "stalled"}, "stalled: nothing completes"},
		{scale.Drain{State: "empty"}, "empty"},
	} {
		if got := c.drain.Text(); got != c.want {
			t.Errorf("%+v prints %q, want %q", c.drain, got, c.want)
		}
	}
}
