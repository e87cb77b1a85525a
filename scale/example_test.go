package scale_test

import (
	"fmt"
	"time"

	"github.com/headrace/headrace/scale"
)

func ExampleSlots() {
	slots, workers := scale.Slots(scale.Plan{Arrival: 12, ServiceTime: 0.8, Backlog: 9000, Drain: 300, Utilisation: 0.7, Concurrency: 4})
	fmt.Println(slots, "slots,", workers, "workers")
	// Output: 48 slots, 12 workers
}

// One cycle of one pool: what the work needs, what the pool may have, what to do and why.
func ExampleDecide() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	policy := scale.Policy{Pool: "enrich", Min: 1, Max: 24, Objective: scale.Objective{OldestAge: time.Minute}}
	var state scale.State
	observed := scale.Observation{
		At:        now,
		Backlog:   scale.Read(120, now),
		InFlight:  scale.Read(2, now),
		OldestAge: scale.Read(6, now),
		Replicas:  scale.Replicas{At: now, Desired: 2, Ready: 2},
		Estimates: scale.Estimates{Arrival: 4, ArrivalAt: now, ServiceTime: 0.5, ColdStart: 3, Completion: 4},
	}
	needs := []scale.Need{scale.Size(policy, state, observed)}
	grants := scale.Share(needs, nil)
	decision, state := scale.Decide(policy, state, observed, grants[0])

	fmt.Println(decision.Current, "→", decision.Desired, decision.Reason)
	fmt.Println(decision.Explain().Question, decision.Explain().Verdict)
	fmt.Println("remembered:", state.Desired)
	// Output:
	// 2 → 4 recovering
	// Why 4 replicas? More than keeps up, to clear what is late.
	// remembered: 4
}
