package app_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/internal/journal"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/scale"
	"github.com/headrace/headrace/worker"
)

// The scenarios are faults that users of other systems met. Each runs the production parts together, in virtual time.

// TestS1_BusyWorkersFinishTheirJobsAtScaleIn: ten workers hold 10-minute jobs that began a minute apart; nothing waits.
// No job is begun twice, each worker leaves soon after its job, and takes no other once it was told to go.
func TestS1_BusyWorkersFinishTheirJobsAtScaleIn(t *testing.T) {
	const job = 10 * time.Minute
	var mu sync.Mutex
	finished := map[string]time.Time{}
	h := func(ctx context.Context, j *worker.Job) ([]byte, error) {
		out, err := sleepFor(job)(ctx, j)
		mu.Lock()
		defer mu.Unlock()
		finished[j.ID] = time.Now()
		return out, err
	}
	policy := scale.Policy{Min: 10, Max: 10, Objective: scale.Objective{OldestAge: time.Minute}}
	inWorld(t, policy, queue.Policy{}, time.Second, h, func(w *world) {
		for range 10 {
			w.publish(1)
			w.steps(time.Minute, nil)
		}
		// Nothing waits any more: the pool may shrink to one.
		w.pool.Policy.Min = 1
		w.restart()
		var members []int
		w.steps(15*time.Minute, func(at time.Duration, _ journal.Record) {
			w.actuator.mu.Lock()
			defer w.actuator.mu.Unlock()
			members = append(members, len(w.actuator.members))
		})
		if n := w.restarted(); n != 0 {
			t.Errorf("%d jobs were begun twice, want none", n)
		}
		if st := w.stats(); st.Totals["succeeded"] != 10 || st.Totals["released"] != 0 {
			t.Errorf("totals %v, want 10 succeeded and none released", st.Totals)
		}
		if last := members[len(members)-1]; last != 1 {
			t.Errorf("%d workers are left, want 1", last)
		}
	})
}

// TestS4_AJobLongerThanTheHoldRunsOnce: one message, 20 minutes' work, an idle time of 5 minutes. One execution, and
// zero only after the ack.
func TestS4_AJobLongerThanTheHoldRunsOnce(t *testing.T) {
	policy := scale.Policy{Min: 0, Max: 5, IdleToZero: 5 * time.Minute, Objective: scale.Objective{OldestAge: time.Minute}}
	inWorld(t, policy, queue.Policy{Lease: time.Minute}, time.Second, sleepFor(20*time.Minute), func(w *world) {
		w.publish(1)
		zeroAt := time.Duration(0)
		w.steps(40*time.Minute, func(at time.Duration, r journal.Record) {
			if at > 5*time.Second && r.Decision.Desired == 0 && zeroAt == 0 {
				zeroAt = at
			}
		})
		st := w.stats()
		if st.Totals["succeeded"] != 1 || st.Attempts.Value != 1 || w.restarted() != 0 {
			t.Errorf("totals %v, %v attempts: want one success in one attempt", st.Totals, st.Attempts.Value)
		}
		if zeroAt < 25*time.Minute || zeroAt > 27*time.Minute {
			t.Errorf("zero after %v, want within two minutes of the ack at 20m and the idle time of 5m", zeroAt)
		}
	})
}

// TestS5_InFlightCounts: 50 messages on 50 workers, 5 minutes each, nothing ready: the pool stays at 50 until they finish.
func TestS5_InFlightCounts(t *testing.T) {
	policy := scale.Policy{Min: 0, Max: 50, Objective: scale.Objective{OldestAge: 30 * time.Second}}
	inWorld(t, policy, queue.Policy{}, time.Second, sleepFor(5*time.Minute), func(w *world) {
		w.publish(50)
		reached := false
		w.steps(5*time.Minute, func(at time.Duration, r journal.Record) {
			reached = reached || r.Observation.InFlight.Value == 50
			if reached && r.Observation.InFlight.Value == 50 && r.Decision.Desired != 50 {
				t.Errorf("at %v: %d replicas while all 50 work", at, r.Decision.Desired)
			}
		})
		if !reached {
			t.Fatal("the 50 jobs never ran at the same time")
		}
		w.steps(10*time.Minute, nil)
		if st := w.stats(); st.Totals["succeeded"] != 50 || w.restarted() != 0 {
			t.Errorf("totals %v: want 50 succeeded, each begun once", st.Totals)
		}
	})
}

// TestS9_RestartOfTheControlPlaneStopsNobody: the control plane dies with 20 busy workers and comes back after a minute.
func TestS9_RestartOfTheControlPlaneStopsNobody(t *testing.T) {
	policy := scale.Policy{Min: 0, Max: 20, ServiceTime: 3 * time.Minute, Objective: scale.Objective{OldestAge: 30 * time.Second}}
	inWorld(t, policy, queue.Policy{}, time.Second, sleepFor(3*time.Minute), func(w *world) {
		w.publish(20)
		w.steps(time.Minute, nil)
		if got := w.loop.Latest()[0].Observation.InFlight.Value; got != 20 {
			t.Fatalf("%v jobs run, want 20", got)
		}
		recorded := len(w.journal.Records())
		time.Sleep(time.Minute) // dead
		w.restart()
		w.steps(50*time.Second, func(at time.Duration, r journal.Record) {
			if r.Decision.Desired < 20 {
				t.Fatalf("at %v: %d desired after the restart, want 20 as long as they work", at, r.Decision.Desired)
			}
		})
		w.steps(5*time.Minute, nil)
		if st := w.stats(); st.Totals["succeeded"] != 20 || w.restarted() != 0 {
			t.Errorf("totals %v: want 20 succeeded, each begun once", st.Totals)
		}
		if len(w.journal.Records()) <= recorded {
			t.Error("no decision was recorded after the restart")
		}
	})
}

// TestS10_StartingWorkersCount: 30 messages, workers need 90 s to start, an evaluation every second: exactly 30 starts.
func TestS10_StartingWorkersCount(t *testing.T) {
	policy := scale.Policy{Min: 0, Max: 100, ServiceTime: 2 * time.Hour, Objective: scale.Objective{OldestAge: 2 * time.Minute}}
	inWorld(t, policy, queue.Policy{}, 90*time.Second, sleepFor(2*time.Hour), func(w *world) {
		w.publish(30)
		w.steps(time.Hour, nil)
		if w.actuator.starts != 30 {
			t.Errorf("%d workers started, want 30", w.actuator.starts)
		}
	})
}

// TestS17_OneStuckMessageHoldsNothingUp: one message fails every time, 99 are fine. It goes to the dead letters, and the
// pool does not grow for it.
func TestS17_OneStuckMessageHoldsNothingUp(t *testing.T) {
	bad := ""
	h := func(ctx context.Context, j *worker.Job) ([]byte, error) {
		if j.ID == bad {
			return nil, context.DeadlineExceeded
		}
		return sleepFor(100*time.Millisecond)(ctx, j)
	}
	policy := scale.Policy{Min: 1, Max: 50, Objective: scale.Objective{OldestAge: 10 * time.Second}}
	qp := queue.Policy{Attempts: 5, BackoffMin: time.Second, BackoffMax: 30 * time.Second}
	inWorld(t, policy, qp, time.Second, h, func(w *world) {
		p := w.queue.Publish(w.t.Context(), []queue.Job{{Payload: []byte(`{}`)}})
		bad = p[0].ID
		w.publish(99)
		w.steps(time.Minute, nil)
		most := 0
		w.steps(4*time.Minute, func(_ time.Duration, r journal.Record) { most = max(most, r.Decision.Desired) })
		if most > 2 {
			t.Errorf("up to %d replicas for one failing job, want at most 2", most)
		}
		r, err := w.queue.Get(w.t.Context(), bad)
		if err != nil || r.State != queue.DeadState || r.DeadReason != queue.ReasonAttempts || r.Attempts != 5 {
			t.Errorf("the failing job: %+v, %v; want it dead after 5 attempts", r, err)
		}
	})
}

// TestS19_FromZeroInOneWrite: 5,000 messages arrive at 0 replicas. One write, to the sized number.
func TestS19_FromZeroInOneWrite(t *testing.T) {
	policy := scale.Policy{Min: 0, Max: 40, ServiceTime: 100 * time.Millisecond, Concurrency: 4,
		Objective: scale.Objective{OldestAge: 10 * time.Second}}
	inWorld(t, policy, queue.Policy{}, time.Second, sleepFor(100*time.Millisecond), func(w *world) {
		w.steps(5*time.Second, nil)
		w.actuator.scales = nil
		w.publish(5000)
		w.steps(3*time.Second, nil)
		if len(w.actuator.scales) == 0 || w.actuator.scales[0] < 12 {
			t.Errorf("sizes asked for: %v; want the first to be the sized number (at least 12 to clear in time)", w.actuator.scales)
		}
	})
}

// TestRecordsReplayToTheSameDecision: a record read back from JSON gives its decision again.
func TestRecordsReplayToTheSameDecision(t *testing.T) {
	policy := scale.Policy{Min: 0, Max: 30, Objective: scale.Objective{OldestAge: 10 * time.Second}}
	inWorld(t, policy, queue.Policy{}, 2*time.Second, sleepFor(2*time.Second), func(w *world) {
		for range 60 {
			w.publish(5)
			w.steps(time.Second, nil)
		}
		w.steps(2*time.Minute, nil)
		if len(w.journal.Records()) < 5 {
			t.Fatalf("%d records, want more to replay", len(w.journal.Records()))
		}
		for _, r := range w.journal.Records() {
			raw, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			var back journal.Record
			if err := json.Unmarshal(raw, &back); err != nil {
				t.Fatal(err)
			}
			need := scale.Size(back.Policy, back.State, back.Observation)
			grant := scale.Share([]scale.Need{need}, nil)[0]
			d, _ := scale.Decide(back.Policy, back.State, back.Observation, grant)
			if diff := cmp.Diff(back.Decision, d); diff != "" {
				t.Fatalf("record %d does not replay (-recorded +replayed):\n%s", r.Seq, diff)
			}
		}
	})
}
