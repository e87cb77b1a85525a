package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/downstream"
	downstreammemory "github.com/headrace/headrace/downstream/memory"
	"github.com/headrace/headrace/internal/dispatch"
	"github.com/headrace/headrace/internal/fleet"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/memory"
	"github.com/headrace/headrace/worker/protocol"
)

// desk is a dispatcher in front of a queue in memory, in virtual time.
type desk struct {
	*dispatch.Dispatcher
	t     *testing.T
	queue *memory.Queue
	fleet *fleet.Fleet
	store downstream.Store
}

// atDesk runs f with a dispatcher whose jobs each take 10 of the 100 tokens a second of "api", if limited.
func atDesk(t *testing.T, limited bool, f func(d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t, queue: memory.New(queue.Policy{Lease: 30 * time.Second}, memory.Options{}), fleet: fleet.New(time.Minute)}
		defer d.queue.Close(context.Background())
		d.store = downstreammemory.New(map[string][]downstream.Limit{"api": {{Unit: "tokens", PerSecond: 100}}})
		p := dispatch.Pool{Name: "p", Queue: d.queue, Heartbeat: time.Second}
		if limited {
			p.Uses = []dispatch.Use{{Downstream: "api", Unit: "tokens", Units: 10}}
		}
		d.Dispatcher = dispatch.New([]dispatch.Pool{p}, d.fleet, d.store)
		f(d)
	})
}

func (d *desk) publish(n int) {
	d.t.Helper()
	for range n {
		for _, p := range d.queue.Publish(d.t.Context(), []queue.Job{{Payload: []byte("1")}}) {
			if p.Err != nil {
				d.t.Fatal(p.Err)
			}
		}
	}
}

func (d *desk) claim(worker string, most int, wait time.Duration) protocol.ClaimAnswer {
	d.t.Helper()
	a, err := d.Claim(d.t.Context(), "p", protocol.ClaimRequest{Worker: worker, Max: most, Wait: protocol.SecondsOf(wait)})
	if err != nil {
		d.t.Fatal(err)
	}
	return a
}

func (d *desk) settle(worker string, l protocol.Lease, action string, change func(*protocol.Settlement)) string {
	d.t.Helper()
	it := protocol.Settlement{Lease: l.ID, Token: l.Token, Action: action, Permits: l.Permits}
	if change != nil {
		change(&it)
	}
	a, err := d.Settle(d.t.Context(), protocol.SettleRequest{Worker: worker, Pool: "p", Items: []protocol.Settlement{it}})
	if err != nil {
		d.t.Fatal(err)
	}
	return a.Items[0].State
}

func (d *desk) backlog() float64 {
	st, err := d.queue.Stats(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	return st.Backlog.Value
}

func (d *desk) available() float64 {
	st, err := d.store.State(d.t.Context(), "api")
	if err != nil {
		d.t.Fatal(err)
	}
	return st.Limits[0].Available
}

// A claim is given as many jobs as there are permits for, and what is not used goes back.
func TestClaimsReservePermitsFirst(t *testing.T) {
	atDesk(t, true, func(d *desk) {
		time.Sleep(500 * time.Millisecond) // 50 tokens: five jobs
		d.publish(3)
		if a := d.claim("w", 8, 0); len(a.Leases) != 3 || a.Leases[0].Permits["api"]["tokens"] != 10 {
			t.Fatalf("%+v, want 3 leases with 10 tokens each", a)
		}
		if got := d.available(); got != 20 {
			t.Errorf("%v tokens left, want 20: five were reserved and two given back", got)
		}
		d.publish(10)
		if a := d.claim("w", 8, 0); len(a.Leases) != 2 {
			t.Errorf("%d leases, want the 2 there are permits for", len(a.Leases))
		}
		before := time.Now()
		if a := d.claim("w", 1, 10*time.Second); len(a.Leases) != 1 || time.Since(before) != 100*time.Millisecond {
			t.Errorf("%d leases after %v, want 1 after 100ms: when its permit was there", len(a.Leases), time.Since(before))
		}
	})
}

// Many workers together never pass the limit, and use nearly all of it while jobs wait.
func TestFleetStaysWithinTheLimitAndUsesIt(t *testing.T) {
	atDesk(t, true, func(d *desk) {
		d.publish(2000)
		ctx, cancel := context.WithTimeout(d.t.Context(), 30*time.Second)
		defer cancel()
		done := make(chan int)
		const workers = 16
		for i := range workers {
			go func() {
				n := 0
				for ctx.Err() == nil {
					a, err := d.Claim(ctx, "p", protocol.ClaimRequest{Worker: fmt.Sprint("w", i), Max: 1 + i%4, Wait: 5})
					if err != nil {
						break
					}
					n += len(a.Leases)
					time.Sleep(200 * time.Millisecond)
					for _, l := range a.Leases {
						d.settle(fmt.Sprint("w", i), l, "ack", nil)
					}
				}
				done <- n
			}()
		}
		total := 0
		for range workers {
			total += <-done
		}
		// 100 tokens/s, 10 a job, 30 s, one second of burst.
		if total > 310 || total < 291 {
			t.Errorf("%d jobs in 30s, want at most 310 and at least 291 (97%%)", total)
		}
	})
}

// A Retry-After of a year is a mistake: it is obeyed for an hour.
func TestAnAbsurdRetryAfterIsHeldToAnHour(t *testing.T) {
	atDesk(t, true, func(d *desk) {
		time.Sleep(time.Second)
		d.publish(1)
		a := d.claim("w", 1, 0)
		d.settle("w", a.Leases[0], protocol.Release, func(it *protocol.Settlement) {
			year := protocol.Seconds(365 * 24 * 3600)
			it.RetryIn = &year
			it.Outcomes = map[string]string{"api": "throttled"}
		})
		st, err := d.store.State(d.t.Context(), "api")
		if err != nil || st.PausedFor != time.Hour {
			t.Errorf("paused for %v, %v; want an hour", st.PausedFor, err)
		}
	})
}

// A throttled job is released without an attempt, and its Retry-After keeps the whole fleet away, not just its worker.
func TestThrottledPausesTheFleet(t *testing.T) {
	atDesk(t, true, func(d *desk) {
		time.Sleep(time.Second)
		d.publish(2)
		a := d.claim("w1", 1, 0)
		state := d.settle("w1", a.Leases[0], "release", func(it *protocol.Settlement) {
			retry := protocol.Seconds(3)
			it.RetryIn = &retry
			it.Outcomes = map[string]string{"api": "throttled"}
		})
		if state != protocol.SettledOK {
			t.Fatal(state)
		}
		before := time.Now()
		b := d.claim("w2", 1, 20*time.Second)
		if len(b.Leases) != 1 || time.Since(before) < 3*time.Second {
			t.Errorf("another worker got %d jobs after %v, want 1 after 3s", len(b.Leases), time.Since(before))
		}
		time.Sleep(time.Second)
		c := d.claim("w2", 1, 20*time.Second)
		if len(c.Leases) != 1 || c.Leases[0].Attempt != 1 {
			t.Errorf("%+v, want the released job with attempt 1", c.Leases)
		}
	})
}

// A job that is given back before it was begun gives its permits back too.
func TestUnbegunJobsReturnTheirPermits(t *testing.T) {
	atDesk(t, true, func(d *desk) {
		time.Sleep(500 * time.Millisecond)
		d.publish(1)
		l := d.claim("w", 1, 0).Leases[0]
		d.settle("w", l, "release", func(it *protocol.Settlement) {
			it.Usage = map[string]map[string]float64{"api": {"tokens": 0}}
		})
		if got := d.available(); got != 50 {
			t.Errorf("%v tokens left, want the 50 from before", got)
		}
	})
}

// TestW6_AClaimThatEndsLosesNoJob: the caller goes away in the moment a job arrives, a thousand times. The job is handed
// out or still there, never stuck with nobody.
func TestW6_AClaimThatEndsLosesNoJob(t *testing.T) {
	atDesk(t, false, func(d *desk) {
		for i := range 1000 {
			ctx, cancel := context.WithCancel(d.t.Context())
			got := make(chan int, 1)
			go func() {
				a, err := d.Claim(ctx, "p", protocol.ClaimRequest{Worker: "w", Max: 1, Wait: 20})
				n := len(a.Leases)
				if err != nil {
					n = 0
				}
				for _, l := range a.Leases {
					d.settle("w", l, "ack", nil)
				}
				got <- n
			}()
			synctest.Wait()
			go cancel()
			d.publish(1)
			n := <-got
			synctest.Wait()
			if rest := d.backlog(); float64(n)+rest != 1 {
				t.Fatalf("try %d: %d handed out, %v ready; want one of them", i, n, rest)
			}
			for _, l := range d.claim("sweeper", 1, 0).Leases {
				d.settle("sweeper", l, "ack", nil)
			}
			cancel()
		}
	})
}

// A worker that is told to drain is answered at once, with the order and nothing else.
func TestDrainEndsAWaitingClaim(t *testing.T) {
	atDesk(t, false, func(d *desk) {
		answer := make(chan protocol.ClaimAnswer, 1)
		go func() { answer <- d.claim("w", 1, 30*time.Second) }()
		time.Sleep(2 * time.Second)
		before := time.Now()
		d.fleet.Order("w", protocol.Drain)
		if a := <-answer; a.Order != protocol.Drain || len(a.Leases) != 0 || time.Since(before) != 0 {
			t.Errorf("%+v after %v, want the order to drain at once", a, time.Since(before))
		}
		d.publish(1)
		if a := d.claim("w", 1, 0); a.Order != protocol.Drain || len(a.Leases) != 0 {
			t.Errorf("%+v, want no job for a worker that drains", a)
		}
	})
}

// The jobs of a worker that died run again at once, with the crash counted; what a leaving worker holds is released.
func TestLeasesOfWorkersThatAreGone(t *testing.T) {
	atDesk(t, false, func(d *desk) {
		d.publish(1)
		first := d.claim("w1", 1, 0).Leases[0]
		if n, err := d.Died(d.t.Context(), "p", "w1", "killed"); n != 1 || err != nil {
			t.Fatalf("%d leases ended, %v; want 1", n, err)
		}
		second := d.claim("w2", 1, 0).Leases
		if len(second) != 1 || second[0].Attempt != 2 || second[0].Crashes != 1 {
			t.Fatalf("after the death: %+v, want attempt 2 with a crash", second)
		}
		if got := d.settle("w1", first, "ack", nil); got != protocol.SettledLost {
			t.Errorf("the dead worker's ack: %s, want lost", got)
		}
		if err := d.Goodbye(d.t.Context(), "w2"); err != nil {
			t.Fatal(err)
		}
		third := d.claim("w3", 1, 0).Leases
		if len(third) != 1 || third[0].Attempt != 2 || third[0].Crashes != 1 {
			t.Errorf("after the goodbye: %+v, want attempt 2 still", third)
		}
	})
}

// A lease counts from the moment it was made, not from when its claim began to wait for it: a claim that waited for longer
// than a lease lasts brings a whole lease all the same.
func TestALeaseIsWholeAfterALongWait(t *testing.T) {
	atDesk(t, false, func(d *desk) {
		const waited = 29 * time.Second
		answer := make(chan protocol.ClaimAnswer, 1)
		sent := time.Now()
		go func() { answer <- d.claim("w", 1, 30*time.Second) }()
		time.Sleep(waited)
		d.publish(1)
		a := <-answer
		if len(a.Leases) != 1 {
			t.Fatalf("%d leases, want 1", len(a.Leases))
		}
		l := a.Leases[0]
		if ends := sent.Add(l.ExpiresIn.Duration()); time.Until(ends) != 30*time.Second {
			t.Errorf("the lease of 30s ends %v after it was made, counted from the request", time.Until(ends))
		}
		if l.HeartbeatEvery > 10 {
			t.Errorf("a heartbeat every %vs, want at most a third of the lease", l.HeartbeatEvery)
		}
		time.Sleep(30*time.Second - time.Millisecond)
		if got := d.settle("w", l, "ack", nil); got != protocol.SettledOK {
			t.Errorf("ack at the end of the lease: %s, want ok", got)
		}
	})
}

// A claim that waits when its worker dies gets nothing, and does not bring the worker back into the registry.
func TestADeadWorkersClaimDoesNotReviveIt(t *testing.T) {
	atDesk(t, false, func(d *desk) {
		answer := make(chan protocol.ClaimAnswer, 1)
		go func() { answer <- d.claim("w", 1, 30*time.Second) }()
		time.Sleep(time.Second)
		if _, err := d.Died(d.t.Context(), "p", "w", "killed"); err != nil {
			t.Fatal(err)
		}
		d.publish(1)
		if a := <-answer; len(a.Leases) != 0 {
			t.Errorf("the dead worker got %d jobs", len(a.Leases))
		}
		if ws := d.fleet.Pool("p").Workers; len(ws) != 0 {
			t.Errorf("%+v are still workers, want none", ws)
		}
		if got := d.backlog(); got != 1 {
			t.Errorf("%v jobs are ready, want 1", got)
		}
	})
}

func TestPermits(t *testing.T) {
	atDesk(t, true, func(d *desk) {
		ask := func(units float64, wait time.Duration) protocol.PermitAnswer {
			a, err := d.Permit(d.t.Context(), protocol.PermitRequest{Downstream: "api", Units: map[string]float64{"tokens": units}, MaxWait: protocol.SecondsOf(wait)})
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		if a := ask(50, 0); a.Granted || a.RetryIn != 0.5 {
			t.Errorf("%+v, want a retry in half a second", a)
		}
		if a := ask(50, time.Second); !a.Granted {
			t.Errorf("%+v, want it granted within a second", a)
		}
		if _, err := d.Permit(d.t.Context(), protocol.PermitRequest{Downstream: "api", Units: map[string]float64{"tokens": -1}}); err == nil {
			t.Error("negative units were granted")
		}
	})
}
