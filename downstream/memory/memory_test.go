package memory_test

import (
	"testing"

	"github.com/headrace/headrace/downstream"
	"github.com/headrace/headrace/downstream/downstreamtest"
	"github.com/headrace/headrace/downstream/memory"
)

func open(_ *testing.T, declared map[string][]downstream.Limit) downstream.Store {
	return memory.New(declared)
}

func TestContractInVirtualTime(t *testing.T) {
	downstreamtest.Run(t, downstreamtest.Config{Open: open, Virtual: true})
}

func TestContractInRealTime(t *testing.T) {
	downstreamtest.Run(t, downstreamtest.Config{Open: open})
}

func BenchmarkTake(b *testing.B) {
	s := memory.New(map[string][]downstream.Limit{"api": {{Unit: "tokens", PerSecond: 1e9}}})
	asks := []downstream.Ask{{Downstream: "api", Units: map[string]float64{"tokens": 1}, Max: 1}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Take(b.Context(), asks); err != nil {
			b.Fatal(err)
		}
	}
}
