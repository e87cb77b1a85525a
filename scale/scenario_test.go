package scale_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headrace/headrace/scale"
)

func seeded(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, n)) }

// TestS4_LongJobIsNeverInterruptedByScaleToZero: one job of 20 minutes, longer than every hold and the idle time.
func TestS4_LongJobIsNeverInterruptedByScaleToZero(t *testing.T) {
	m := newModel(t, scale.Policy{Max: 10, StartsIn: 10 * time.Second, ServiceTime: 20 * time.Minute, Objective: scale.Objective{OldestAge: time.Minute}})
	m.dump(30, 1, 1200)
	for m.now < 3600 {
		m.cycle()
		if len(m.running) > 0 && m.desired == 0 {
			t.Fatalf("at %.0f s the pool goes to zero with the job in flight", m.now)
		}
	}
	if m.completed != 1 || m.attempts != 1 || m.interrupted != 0 {
		t.Errorf("completed %v in %v attempts with %d interrupted, want 1, 1, 0", m.completed, m.attempts, m.interrupted)
	}
	if m.desired != 0 || m.last().Reason != scale.IdleToZero {
		t.Errorf("after the job: %d replicas by %s, want 0 by %s", m.desired, m.last().Reason, scale.IdleToZero)
	}
}

// TestS5_InFlightCountsAsWork: 50 jobs of five minutes in flight on 50 workers and nothing waiting.
func TestS5_InFlightCountsAsWork(t *testing.T) {
	m := newModel(t, scale.Policy{Max: 100, StartsIn: time.Second, ServiceTime: 5 * time.Minute, Objective: scale.Objective{OldestAge: time.Minute}})
	m.have(50)
	m.dump(0, 50, 300)
	m.advance(0.5)
	for m.now < 300 {
		m.cycle()
		if m.desired < len(m.running) {
			t.Fatalf("at %.0f s: %d replicas for %d jobs in flight", m.now, m.desired, len(m.running))
		}
	}
	if m.desired != 50 || m.ordered != 0 {
		t.Errorf("%d replicas and %d started at the end of the jobs, want 50 and 0", m.desired, m.ordered)
	}
	m.until(3600)
	if m.desired != 0 || m.interrupted != 0 {
		t.Errorf("an hour later: %d replicas, %d jobs interrupted, want 0, 0", m.desired, m.interrupted)
	}
}

// TestS10_StartingWorkersCount: 30 jobs and workers that take 90 s to start, looked at every 10 s.
func TestS10_StartingWorkersCount(t *testing.T) {
	m := newModel(t, scale.Policy{Max: 200, StartsIn: 90 * time.Second, ServiceTime: time.Hour, Cycle: 10 * time.Second, Objective: scale.Objective{OldestAge: 2 * time.Minute}})
	m.dump(0, 30, 3600)
	m.advance(0)
	m.until(1800)
	if m.ordered != 30 || m.desired != 30 {
		t.Errorf("ordered %d workers, want 30 (%d wanted at the end)", m.ordered, m.desired)
	}
}

// TestS11_NoScaleUpAfterQueueIsEmpty: a burst of 600 jobs of one second.
func TestS11_NoScaleUpAfterQueueIsEmpty(t *testing.T) {
	m := newModel(t, scale.Policy{Min: 1, Max: 200, StartsIn: 5 * time.Second, ServiceTime: time.Second, Objective: scale.Objective{OldestAge: time.Minute}})
	m.have(1)
	m.until(60)
	m.dump(m.now, 600, 1)
	began := m.replicaSeconds
	empty := -1.0
	top := 0
	for m.now < 1200 {
		m.cycle()
		if empty < 0 && m.arrived == 600 && len(m.queue) == 0 {
			empty, top = m.now, m.desired
		}
		if empty >= 0 && m.desired > top {
			t.Fatalf("at %.0f s, %.0f s after the queue was empty: %d → %d replicas (%s)", m.now, m.now-empty, top, m.desired, m.last().Sentence)
		}
		if empty >= 0 {
			top = m.desired
		}
	}
	if empty < 0 {
		t.Fatal("the burst was never cleared")
	}
	hours := (m.replicaSeconds - began) / 3600
	// 600 s of work, a start of 5 s for each worker, and the minimum of one.
	limit := 2 * (600.0/3600 + float64(m.ordered)*5/3600 + 1140.0/3600)
	t.Logf("cleared after %.0f s with at most %d replicas, %.2f replica-hours (limit %.2f)", empty-60, m.peak, hours, limit)
	if hours > limit {
		t.Errorf("%.2f replica-hours, want at most %.2f", hours, limit)
	}
}

// TestS12_DeadBandLeavesNoWorkUnserved: long jobs that are known one by one. 44 on ten workers of four slots need eleven.
func TestS12_DeadBandLeavesNoWorkUnserved(t *testing.T) {
	for _, c := range []struct{ slots, have, jobs, want int }{{4, 10, 44, 11}, {1, 63, 64, 64}, {1, 60, 64, 64}} {
		m := newModel(t, scale.Policy{Max: 200, Concurrency: c.slots, StartsIn: time.Second, ServiceTime: 10 * time.Minute, Objective: scale.Objective{OldestAge: time.Minute}})
		m.have(c.have)
		m.dump(0, c.jobs, 600)
		m.advance(1)
		m.tweak = func(o *scale.Observation) { // such a population is steady: as many come as go
			o.Estimates.Arrival, o.Estimates.ArrivalSlow, o.Estimates.ArrivalAt = float64(c.jobs)/600, float64(c.jobs)/600, o.At
		}
		m.cycle()
		if m.desired != c.want {
			t.Errorf("%d jobs on %d workers of %d slots: %d after one evaluation, want %d\n%s", c.jobs, c.have, c.slots, m.desired, c.want, m.last().Explain().Text())
		}
	}
}

// TestS13_SteadyLoadIsSteady: 100 jobs/s of 0.1 s with a start-up of 30 s, for an hour.
func TestS13_SteadyLoadIsSteady(t *testing.T) {
	for _, poisson := range []bool{false, true} {
		m := newModel(t, scale.Policy{Min: 1, Max: 100, StartsIn: 30 * time.Second, Objective: scale.Objective{OldestAge: time.Minute}})
		var r *rand.Rand
		if poisson {
			r = seeded(13)
		}
		m.flow(0, 3600, 100, 0.1, r)
		m.until(300)
		early := len(m.waits)
		m.until(3600)
		least, most := m.bounds(300)
		n, _ := m.changes(300)
		late := m.waits[early:]
		slices.Sort(late)
		p99 := late[len(late)*99/100]
		hours := m.replicaSeconds / 3600
		t.Logf("poisson %v: %d to %d replicas, %d changes, %.1f replica-hours, p99 wait %.3f s", poisson, least, most, n, hours, p99)
		if least < 11 || most > 16 || n > 6 || hours > 16 || p99 >= 1 {
			t.Errorf("poisson %v: %d to %d replicas, %d changes, %.1f replica-hours, p99 wait %.3f s; want 11 to 16, ≤ 6, ≤ 16, < 1 s", poisson, least, most, n, hours, p99)
		}
	}
}

// TestS16_AgeRaisesThePool: three jobs, the oldest 25 minutes old, objective five minutes.
func TestS16_AgeRaisesThePool(t *testing.T) {
	m := newModel(t, scale.Policy{Min: 1, Max: 20, StartsIn: 30 * time.Second, ServiceTime: 10 * time.Minute, Objective: scale.Objective{OldestAge: 5 * time.Minute}})
	m.have(1)
	m.dump(-1500, 4, 600) // one runs
	m.now = -600
	m.advance(0)
	d := m.decide()
	if d.Desired < 3 {
		t.Errorf("%d replicas for three jobs of which the oldest waits for 25 minutes, want at least 3\n%s", d.Desired, d.Explain().Text())
	}
}

// TestS17_PoisonNeverGrowsThePool: one job fails every try and stays the oldest while 99 others are fine.
func TestS17_PoisonNeverGrowsThePool(t *testing.T) {
	p := scale.Policy{Min: 2, Max: 100, StartsIn: 5 * time.Second, ServiceTime: 2 * time.Second, Objective: scale.Objective{OldestAge: 30 * time.Second}}
	with, without := newModel(t, p), newModel(t, p)
	for _, m := range []*model{with, without} {
		m.have(2)
		m.stuckHead = m == with
		if m.stuckHead {
			m.dump(0, 1, 2)
		}
		m.flow(1, 600, 0.5, 2, nil)
		m.until(600)
	}
	if with.peak > without.peak+1 {
		t.Errorf("a poison job grew the pool to %d, without it %d were enough", with.peak, without.peak)
	}
	if with.completed < without.completed-3 {
		t.Errorf("%v completed beside the poison job, %v without", with.completed, without.completed)
	}
	if !slices.Contains(with.last().Alarms, scale.Stuck) || slices.Contains(without.last().Alarms, scale.Stuck) {
		t.Errorf("alarms %v with a poison job and %v without, want %s only with it", with.last().Alarms, without.last().Alarms, scale.Stuck)
	}
}

// TestS17_NothingCompletesIsStuck: jobs wait, workers are ready, and nothing ends.
func TestS17_NothingCompletesIsStuck(t *testing.T) {
	m := newModel(t, scale.Policy{Min: 2, Max: 100, StartsIn: 5 * time.Second, ServiceTime: 2 * time.Second, Objective: scale.Objective{OldestAge: 30 * time.Second}})
	m.have(2)
	m.never = true
	m.dump(1, 3, 2)
	m.until(120)
	at := m.desired
	m.until(1800)
	if m.desired > at || m.last().Reason != scale.Stuck || !slices.Contains(m.last().Alarms, scale.Stuck) {
		t.Errorf("%d replicas by %s, alarms %v; want no more than %d, by %s with its alarm", m.desired, m.last().Reason, m.last().Alarms, at, scale.Stuck)
	}
}

// TestS17_AHangingJobOfANewPool: the first job of a pool whose service time nobody knows hangs for hours. It is worth the worker
// it has, whatever its age says about the time a job may take, and after an hour it is stuck.
func TestS17_AHangingJobOfANewPool(t *testing.T) {
	for _, start := range []time.Duration{time.Second, 3 * time.Minute} {
		m := newModel(t, scale.Policy{Max: 100, StartsIn: start, Objective: scale.Objective{OldestAge: 30 * time.Second}})
		m.dump(10, 1, 1e6)
		m.until(3000)
		if m.peak > 1 || m.saw(scale.Stuck) {
			t.Errorf("cold start %v: %d workers at most for one job; stuck within the hour: %v", start, m.peak, m.saw(scale.Stuck))
		}
		m.until(4500)
		if m.peak > 1 || !slices.Contains(m.last().Alarms, scale.Stuck) {
			t.Errorf("cold start %v: %d workers at most for one job, alarms %v after an hour; want 1, %s", start, m.peak, m.last().Alarms, scale.Stuck)
		}
	}
}

// TestLongJobsOfANewPool: forty jobs of two hours in a pool that knows nothing about them. Most have a worker within minutes and all
// within half an hour, although none has ended; nothing is taken for stuck before an hour.
func TestLongJobsOfANewPool(t *testing.T) {
	m := newModel(t, scale.Policy{Max: 100, StartsIn: 10 * time.Second, Objective: scale.Objective{OldestAge: time.Minute}})
	m.dump(10, 40, 7200)
	m.until(190)
	early := len(m.running)
	m.until(1800)
	if early < 35 || len(m.running) != 40 {
		t.Errorf("%d of 40 jobs run after three minutes and %d after half an hour, want 35 at least and all", early, len(m.running))
	}
	m.until(3500)
	if m.peak > 40 || m.interrupted > 0 || slices.Contains(m.last().Alarms, scale.Stuck) {
		t.Errorf("%d workers at most, %d jobs interrupted, alarms %v", m.peak, m.interrupted, m.last().Alarms)
	}
}

// TestJobsThatSuddenlyTakeLonger: a new version takes four or ten times as long. The pool is saturated and falls behind, and just then it
// has to learn the new service time.
func TestJobsThatSuddenlyTakeLonger(t *testing.T) {
	for _, longer := range []float64{4, 10} {
		m := newModel(t, scale.Policy{Min: 1, Max: 400, StartsIn: time.Minute, Objective: scale.Objective{OldestAge: 5 * time.Minute}})
		m.flow(0, 1200, 5, 1, seeded(1))
		m.flow(1200, 3000, 5, longer, seeded(2))
		m.until(3000)
		if worst := m.percentile(1); worst > 300 {
			t.Errorf("%v times as long: a job waited %.0f s, promised 300 s", longer, worst)
		}
		if need := 5 * longer; float64(m.peak) > 2.2*need || float64(m.desired) > 1.3*need {
			t.Errorf("%v times as long: %d workers at most and %d at the end for %v busy slots", longer, m.peak, m.desired, need)
		}
	}
}

// TestNoWorkerGoesWhileAPromiseIsBroken: once the oldest job cannot be on time any more, no worker goes that a job there is could use.
func TestNoWorkerGoesWhileAPromiseIsBroken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genPolicy(t)
		p.Objective.OldestAge = seconds(rapid.Float64Range(1, 600).Draw(t, "w"))
		p.Objective.Drain = p.Objective.OldestAge
		o := genObservation(t, p)
		current := rapid.IntRange(1, p.Max).Draw(t, "size")
		o.Replicas.Ready = rapid.IntRange(0, current).Draw(t, "ready")
		o.Replicas.Desired = current
		o.Replicas.Starting = make([]float64, current-o.Replicas.Ready)
		o.Backlog.Value = max(1, o.Backlog.Value)
		o.OldestAge.Value = p.Objective.OldestAge.Seconds() * rapid.Float64Range(1, 10).Draw(t, "late")
		d, _ := decide(p, scale.State{StartedAt: anchor.Add(-time.Hour), ProgressAt: anchor}, o)
		jobs := (o.Backlog.Value + o.InFlight.Value) / float64(p.Concurrency)
		// A tick of it may be worked off before the workers that stay are fewer.
		least := min(float64(current), jobs/(1+p.Cycle.Seconds()/o.Estimates.ServiceTime))
		if float64(d.Desired) < math.Floor(least) {
			t.Fatalf("%d → %d by %s with %v jobs, the oldest %v past the promise", current, d.Desired, d.Reason, jobs, o.OldestAge.Value)
		}
	})
}

// TestS19_FromZeroToTheSizedNumberInOneWrite: 5,000 jobs arrive at a pool of none.
func TestS19_FromZeroToTheSizedNumberInOneWrite(t *testing.T) {
	for _, up := range [][]scale.Rate{nil, {{Percent: 100, Per: 15 * time.Second}}} {
		m := newModel(t, scale.Policy{Max: 500, StartsIn: 20 * time.Second, ServiceTime: 2 * time.Second, Objective: scale.Objective{OldestAge: 5 * time.Minute}, Damping: scale.Damping{Up: up}})
		m.dump(0, 5000, 2)
		m.advance(0)
		d := m.decide()
		if d.Desired != d.Need.Replicas || d.Desired < 5000*2/270 {
			t.Errorf("up %v: first write is %d, the sized number %d; at least %d are needed in 270 s", up, d.Desired, d.Need.Replicas, 5000*2/270)
		}
	}
}

// TestS26_OneRuleFromNToZero: the same rule takes every worker, the last one as well.
func TestS26_OneRuleFromNToZero(t *testing.T) {
	p := scale.Policy{Max: 100, StartsIn: time.Second, ServiceTime: time.Second, IdleToZero: 2 * time.Minute, Objective: scale.Objective{OldestAge: time.Minute},
		Damping: scale.Damping{HoldSteady: time.Minute, Down: []scale.Rate{{Replicas: 2, Per: 30 * time.Second}}}}
	m := newModel(t, p)
	m.flow(0, 120, 10, 1, nil)
	m.until(120)
	from := m.desired
	m.until(1800)
	if m.desired != 0 {
		t.Fatalf("%d replicas half an hour after the last job, want 0", m.desired)
	}
	steps := 0
	for i, s := range m.sizes {
		if s.at <= 120 || i == 0 {
			continue
		}
		before := m.sizes[i-1]
		steps++
		if s.n >= before.n || before.n-s.n > 2 {
			t.Errorf("at %.0f s: %d → %d, want down by one or two", s.at, before.n, s.n)
		}
		if before.at > 120 && s.at-before.at < 29.9 {
			t.Errorf("at %.0f s: a step %.0f s after the one before, want 30 s", s.at, s.at-before.at)
		}
	}
	if steps < from/2 {
		t.Errorf("%d steps from %d to zero", steps, from)
	}
}

// TestShortStory is the regime of a one-minute demonstration: fast cycle, short objective, holds of seconds. An eightfold step is
// answered within seconds, held, and taken back.
func TestShortStory(t *testing.T) {
	p := scale.Policy{Min: 1, Max: 30, StartsIn: time.Second, ServiceTime: 1500 * time.Millisecond, Cycle: 500 * time.Millisecond,
		Objective: scale.Objective{OldestAge: 8 * time.Second},
		Damping:   scale.Damping{HoldSteady: 3 * time.Second, Down: []scale.Rate{{Percent: 50, Per: 2 * time.Second}}}}
	m := newModel(t, p)
	m.flow(0, 15, 1, 1.5, seeded(1))
	m.flow(15, 35, 8, 1.5, seeded(2))
	m.flow(35, 70, 1, 1.5, seeded(3))
	m.until(15)
	calm := m.desired
	m.until(19)
	if m.desired < 9 {
		t.Errorf("four seconds after the step: %d replicas (from %d), want at least 9", m.desired, calm)
	}
	m.until(35)
	if m.desired < 10 || m.desired > 24 {
		t.Errorf("at the end of the burst: %d replicas for 12 busy slots", m.desired)
	}
	m.until(50)
	if m.desired > 8 {
		t.Errorf("fifteen seconds after the burst: %d replicas, want at most 8", m.desired)
	}
	m.until(70)
	t.Logf("before %d, at most %d, after %d; p99 wait %.1f s, worst %.1f s", calm, m.peak, m.desired, m.percentile(0.99), m.percentile(1))
	if worst := m.percentile(1); worst > 8 {
		t.Errorf("a job waited %.1f s, objective 8 s", worst)
	}
	if !m.saw(scale.Recovering) || !m.saw(scale.HoldDown) {
		t.Error("the story shows no recovery or no hold")
	}
}

// TestShortStoryUnderARateLimit is the same story where a provider lets four jobs a second through and permits enforce it: the
// pool grows to what the limit feeds, says so while the backlog lasts, uses the limit fully, and shrinks afterwards.
func TestShortStoryUnderARateLimit(t *testing.T) {
	for seed := range uint64(5) {
		p := scale.Policy{Min: 1, Max: 30, StartsIn: time.Second, ServiceTime: 1500 * time.Millisecond, Cycle: 500 * time.Millisecond,
			Objective:   scale.Objective{OldestAge: 8 * time.Second},
			Downstreams: []scale.Use{{Downstream: "llm", Unit: "tokens", UnitsPerJob: 100, Permits: true}},
			Damping:     scale.Damping{HoldSteady: 3 * time.Second, Down: []scale.Rate{{Percent: 50, Per: 2 * time.Second}}}}
		m := newModel(t, p)
		m.permits = 4
		m.flow(0, 10, 1, 1.5, seeded(3*seed))
		m.flow(10, 25, 8, 1.5, seeded(3*seed+1))
		m.flow(25, 60, 1, 1.5, seeded(3*seed+2))
		m.until(18)
		done := m.completed
		m.until(28)
		rate := (m.completed - done) / 10
		least, most := m.bounds(16)
		if rate < 0.9*4 || most > 8 {
			t.Errorf("seed %d: %.2f jobs/s under backlog with %d to %d replicas; want at least 3.6 of 4 with at most 8", seed, rate, least, most)
		}
		verdicts, sizes := map[scale.Reason]bool{}, 0
		for _, d := range m.decisions {
			if at := d.At.Sub(epoch).Seconds(); at >= 15 && at < 28 {
				verdicts[d.Reason] = true
				if d.Desired != d.Current {
					sizes++
				}
			}
		}
		if len(verdicts) != 1 || !verdicts[scale.DownstreamThroughput] || sizes > 2 {
			t.Errorf("seed %d: under the limit %d changes of size and the verdicts %v; want at most 2, and one", seed, sizes, verdicts)
		}
		m.until(60)
		if !m.saw(scale.DownstreamThroughput) || m.desired > 4 {
			t.Errorf("seed %d: %d replicas at the end, limited %v", seed, m.desired, m.saw(scale.DownstreamThroughput))
		}
		for _, d := range m.decisions {
			if slices.Contains(d.Alarms, scale.Stuck) || slices.Contains(d.Alarms, scale.WorkersIdle) {
				t.Fatalf("seed %d, at %v: alarms %v", seed, d.At.Sub(epoch), d.Alarms)
			}
		}
		t.Logf("seed %d: %.2f of 4 jobs/s, at most %d replicas, %d at the end", seed, rate, m.peak, m.desired)
	}
}
