package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/internal/fleet"
	"github.com/headrace/headrace/worker/protocol"
)

func beat(f *fleet.Fleet, name, incarnation string, runs int64, leases ...string) protocol.Order {
	r := protocol.HeartbeatRequest{Worker: name, Pool: "p", Slots: 4, Incarnation: incarnation, Totals: protocol.Totals{Runs: runs, BusySeconds: float64(runs)}}
	for _, id := range leases {
		r.Leases = append(r.Leases, protocol.LeaseRef{ID: id})
	}
	return f.Heartbeat(r)
}

// Whatever dies, restarts, falls silent or comes back, work is counted once.
func TestTotalsCountEachLifeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fleet.New(10 * time.Second)
		beat(f, "a", "life-1", 5)
		beat(f, "a", "life-1", 8)
		beat(f, "a", "life-2", 3) // restarted: its totals start again
		if got := f.Pool("p").Totals.Runs; got != 11 {
			t.Fatalf("after a restart: %d runs, want 11", got)
		}
		time.Sleep(11 * time.Second)
		if got := f.Pool("p"); len(got.Workers) != 0 || got.Totals.Runs != 11 {
			t.Fatalf("after its silence: %+v, want no worker and 11 runs", got)
		}
		beat(f, "a", "life-2", 4) // it was only stalled
		if got := f.Pool("p").Totals.Runs; got != 12 {
			t.Errorf("after it came back: %d runs, want 12", got)
		}
		f.Gone("a")
		if got := f.Pool("p"); len(got.Workers) != 0 || got.Totals.Runs != 12 {
			t.Errorf("after it left: %+v, want no worker and 12 runs", got)
		}
	})
}

// A heartbeat is the truth about leases, but for those claimed while it was on its way.
func TestHeartbeatDoesNotForgetAFreshClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fleet.New(time.Minute)
		f.Claimed("p", "a", 4)
		f.Given("a", []protocol.LeaseRef{{ID: "j1", Token: 7}})
		beat(f, "a", "l", 0) // sent before the claim was answered
		if got := f.Pool("p").Busy; got != 1 {
			t.Errorf("right after a claim: %d held, want 1", got)
		}
		time.Sleep(3 * time.Second)
		beat(f, "a", "l", 0)
		if got := f.Pool("p").Busy; got != 0 {
			t.Errorf("three seconds later: %d held, want 0: the claim's answer was lost", got)
		}
	})
}

// TestS2_IdleWorkersGoFirst: of 20 workers with 5 busy at random, the first 15 to go are the idle ones, in 100 of 100 runs.
func TestS2_IdleWorkersGoFirst(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		f := fleet.New(time.Minute)
		busy := map[string]bool{}
		for _, i := range r.Perm(20)[:5] {
			busy[fmt.Sprintf("w%02d", i)] = true
		}
		for i := range 20 {
			name := fmt.Sprintf("w%02d", i)
			var held []protocol.LeaseRef
			if busy[name] {
				held = append(held, protocol.LeaseRef{ID: "job-" + name})
			}
			f.Claimed("p", name, 1)
			f.Given(name, held)
		}
		order := f.Pool("p").FirstToGo()
		if len(order) != 20 || slices.ContainsFunc(order[:15], func(n string) bool { return busy[n] }) {
			t.Fatalf("seed %d: a busy worker among the first 15 of %v; busy: %v", seed, order, busy)
		}
	}
}

func TestOrderReachesAWaitingWorker(t *testing.T) {
	f := fleet.New(time.Minute)
	if f.Order("a", protocol.Drain) {
		t.Error("an unknown worker took an order")
	}
	_, ordered := f.Claimed("p", "a", 1)
	f.Order("a", protocol.Drain)
	<-ordered.Done()
	if got := beat(f, "a", "l", 0); got != protocol.Drain {
		t.Errorf("heartbeat answers %q, want drain", got)
	}
	if got := f.Pool("p"); got.Slots != 0 || len(got.FirstToGo()) != 0 {
		t.Errorf("a draining worker still counts: %+v", got)
	}
}

// A slot whose handler goes on after its job was taken away is not free: work that waits beside it does not wait beside an
// idle slot. Its worker holds nothing that a scale-in could interrupt, so it still goes before one that does.
func TestASlotWithoutALeaseIsNotFree(t *testing.T) {
	f := fleet.New(time.Minute)
	f.Claimed("p", "good", 2)
	f.Given("good", []protocol.LeaseRef{{ID: "j"}})
	f.Heartbeat(protocol.HeartbeatRequest{Worker: "stray", Pool: "p", Slots: 2, Busy: 1, Incarnation: "s"})
	p := f.Pool("p")
	if p.Busy != 2 || p.Slots != 4 {
		t.Errorf("%d of %d slots busy, want 2 of 4", p.Busy, p.Slots)
	}
	if order := p.FirstToGo(); order[0] != "stray" {
		t.Errorf("first to go: %v, want the worker that holds nothing", order)
	}
	f.Heartbeat(protocol.HeartbeatRequest{Worker: "stray", Pool: "p", Slots: 2, Incarnation: "s"})
	if got := f.Pool("p").Busy; got != 1 {
		t.Errorf("%d slots busy after the handler returned, want 1", got)
	}
}

// A report that was on its way when a lease ended does not bring it back: a worker never holds more than its slots.
func TestLateReportDoesNotReviveALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fleet.New(time.Minute)
		f.Claimed("p", "a", 4)
		f.Given("a", []protocol.LeaseRef{{ID: "j1", Token: 7}})
		f.Settled("a", []string{"j1"})
		beat(f, "a", "l", 0, "j1") // sent before the settlement
		if got := f.Pool("p").Busy; got != 0 {
			t.Errorf("%d held after the settlement, want none", got)
		}
	})
}
