package scale_test

import (
	"testing"
	"time"

	"github.com/headrace/headrace/scale"
)

// BenchmarkDecide is one pool's cycle: a loaded pool with a rate limit, an hour of memory behind it.
func BenchmarkDecide(b *testing.B) {
	p := scale.Policy{Pool: "enrich", Min: 1, Max: 64, Concurrency: 8, StartsIn: 25 * time.Second, Objective: scale.Objective{OldestAge: 10 * time.Minute},
		Downstreams: []scale.Use{{Downstream: "llm", Unit: "tokens", UnitsPerJob: 62, Permits: true}}}.WithDefaults()
	o := scale.Observation{
		Backlog: scale.Read(16_400, anchor), InFlight: scale.Read(112, anchor), OldestAge: scale.Read(420, anchor),
		Replicas:  scale.Replicas{Desired: 14, Ready: 14, Busy: scale.Read(112, anchor)},
		Estimates: scale.Estimates{Arrival: 16.4, ArrivalError: 0.1, ServiceTime: 4.7, ServiceCV2: 1, ServiceCount: 400, Completion: 23, ColdStart: 25},
		Limits:    []scale.Limit{{Downstream: "llm", Unit: "tokens", PerSecond: 1500}},
	}
	var s scale.State
	for i := range 3600 {
		shift(&o, anchor.Add(time.Duration(i)*time.Second))
		o.Backlog.Value--
		o.Completions.Value++
		_, s = decide(p, s, o)
	}
	b.ReportAllocs()
	for b.Loop() {
		scale.Decide(p, s, o, scale.Grant{Need: scale.Size(p, s, o)})
	}
}
