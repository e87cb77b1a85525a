package process

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func places(n int) []*place {
	ps := make([]*place, n)
	for i := range ps {
		ps[i] = &place{id: fmt.Sprint("w", i), alive: true}
	}
	return ps
}

func names(ps []*place) []string {
	ids := make([]string, len(ps))
	for i, p := range ps {
		ids[i] = p.id
	}
	return ids
}

// TestS2_IdleWorkersGoFirst: 20 workers, 5 of them busy, shrink to 5. The 15 idle ones go, whoever is busy.
func TestS2_IdleWorkersGoFirst(t *testing.T) {
	for seed := range uint64(100) {
		order := rand.New(rand.NewPCG(seed, 2)).Perm(20)
		ps, idle := places(20), []string(nil)
		for _, i := range order[5:] {
			idle = append(idle, ps[i].id)
		}
		if got := names(leaving(ps, idle))[:15]; !slices.Equal(got, idle) {
			t.Errorf("seed %d: got %v, want the idle ones in the order given, %v", seed, got, idle)
		}
	}
}

func TestWithoutPreferenceThoseThatDoNotRunGoFirstThenTheYoungest(t *testing.T) {
	ps := places(5)
	ps[1].alive = false // waits for its restart
	want := []string{"w3", "w1", "w4", "w2", "w0"}
	if got := names(leaving(ps, []string{"unknown", "w3"})); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
