// Package downstreamtest holds stores of downstream state to their contract.
package downstreamtest

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/downstream"
)

// Config says how a store is tested.
type Config struct {
	// Open returns a store that enforces the limits, closed when the test ends.
	Open func(t *testing.T, declared map[string][]downstream.Limit) downstream.Store
	// Virtual: the store needs no I/O, so the suite runs in virtual time.
	Virtual bool
}

// slack is what a store may be late by in real time.
const slack = 100 * time.Millisecond

// Run holds a store to its contract.
func Run(t *testing.T, c Config) {
	for name, test := range map[string]func(*testing.T, Config){
		"limit is never passed and nearly all used": testLimit,
		"RetryIn is exact":                          testRetryIn,
		"Retry-After keeps everybody away":          testRetryAfter,
		"true cost is settled":                      testTrueCost,
		"a use larger than the burst starts":        testLargeUse,
		"asks are granted together":                 testTogether,
		"what is asked must make sense":             testBadAsk,
	} {
		t.Run(name, func(t *testing.T) {
			if c.Virtual {
				synctest.Test(t, func(t *testing.T) { test(t, c) })
				return
			}
			test(t, c)
		})
	}
}

// kit is a store with one downstream, "api", limited in tokens.
type kit struct {
	downstream.Store
	t    *testing.T
	c    Config
	rate float64
}

func open(t *testing.T, c Config, perSecond float64) kit {
	s := c.Open(t, map[string][]downstream.Limit{"api": {{Unit: "tokens", PerSecond: perSecond}}})
	return kit{Store: s, t: t, c: c, rate: perSecond}
}

func ask(units float64, most int) []downstream.Ask {
	return []downstream.Ask{{Downstream: "api", Units: map[string]float64{"tokens": units}, Max: most}}
}

func (k kit) take(units float64, most int) downstream.Permit {
	p, err := k.Take(context.Background(), ask(units, most))
	if err != nil {
		k.t.Fatalf("Take: %v", err)
	}
	return p
}

func (k kit) state() downstream.State {
	st, err := k.State(context.Background(), "api")
	if err != nil {
		k.t.Fatalf("State: %v", err)
	}
	return st
}

func (k kit) report(r downstream.Report) {
	r.Downstream = "api"
	if err := k.Report(context.Background(), []downstream.Report{r}); err != nil {
		k.t.Fatalf("Report: %v", err)
	}
}

// near reports whether the units available are want, but for what flowed in while nobody looked.
func (k kit) near(got, want float64) bool {
	if k.c.Virtual {
		return math.Abs(got-want) < 1e-6
	}
	return got >= want-1e-6 && got <= want+k.rate*slack.Seconds()
}

// fill waits until the bucket holds units.
func (k kit) fill(units float64) { time.Sleep(time.Duration(units / k.rate * float64(time.Second))) }

// The limit is never passed in any window, over all users together, and nearly all of it is used while somebody wants more.
func testLimit(t *testing.T, c Config) {
	k := open(t, c, 1000)
	const users = 8
	length := 3 * time.Second
	start := time.Now()
	var mu sync.Mutex
	taken := 0.0
	var wg sync.WaitGroup
	for range users {
		wg.Go(func() {
			for time.Since(start) < length {
				asked := time.Now()
				p, err := k.Take(context.Background(), ask(7, 3))
				if err != nil {
					t.Errorf("Take: %v", err)
					return
				}
				mu.Lock()
				taken += 7 * float64(p.Granted)
				// One burst of a second may stand at any time; time that passed within the call is not counted for the store.
				if most := 1000*time.Since(start).Seconds() + 1000; taken > most+1e-6 {
					t.Errorf("%.0f units taken after %v, want at most %.0f", taken, time.Since(start), most)
				}
				mu.Unlock()
				if p.Granted == 0 {
					time.Sleep(p.RetryIn)
				} else if time.Since(asked) == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	if share := taken / (1000 * time.Since(start).Seconds()); share < 0.97 {
		t.Errorf("%.3f of the limit used, want at least 0.97", share)
	}
}

// A new bucket is empty: nobody knows what was used before. RetryIn says when the first use fits, not later and not earlier.
func testRetryIn(t *testing.T, c Config) {
	k := open(t, c, 10)
	p := k.take(5, 1)
	if p.Granted != 0 || p.RetryIn > 500*time.Millisecond || p.RetryIn < 500*time.Millisecond-slack {
		t.Fatalf("from empty: got %+v, want a retry in 500ms", p)
	}
	time.Sleep(p.RetryIn - slack)
	if p := k.take(5, 1); p.Granted != 0 {
		t.Errorf("too early: got %+v, want nothing", p)
	}
	time.Sleep(slack)
	if p := k.take(5, 1); p.Granted != 1 {
		t.Errorf("on time: got %+v, want one", p)
	}
}

// A 429 with Retry-After stops everybody, once, until then.
func testRetryAfter(t *testing.T, c Config) {
	k := open(t, c, 1000)
	k.fill(1000)
	k.report(downstream.Report{Outcome: downstream.Throttled, RetryAfter: time.Second})
	k.report(downstream.Report{Outcome: downstream.Throttled, RetryAfter: time.Millisecond}) // a shorter one does not end it
	if p := k.take(1, 1); p.Granted != 0 || p.RetryIn > time.Second || p.RetryIn < time.Second-slack {
		t.Errorf("while paused: got %+v, want a retry in 1s", p)
	}
	if st := k.state(); st.PausedFor <= 0 || st.Throttled != 2 || st.Limits[0].ThrottledShare != 1 {
		t.Errorf("state %+v, want it paused with two refusals of two calls", st)
	}
	time.Sleep(time.Second)
	if p := k.take(1, 1); p.Granted != 1 {
		t.Errorf("after the pause: got %+v, want one", p)
	}
}

// A use that cost more than was reserved leaves a debt; one that cost less gives back; nonsense changes nothing.
func testTrueCost(t *testing.T, c Config) {
	k := open(t, c, 100)
	k.fill(100)
	k.take(60, 1)
	used := func(units float64) {
		k.report(downstream.Report{
			Outcome: downstream.OK, Reserved: map[string]float64{"tokens": 60}, Used: map[string]float64{"tokens": units},
		})
	}
	used(20)
	if got := k.state().Limits[0].Available; !k.near(got, 80) {
		t.Errorf("after 20 of 60 were used: %.1f available, want 80", got)
	}
	used(260)
	if got := k.state().Limits[0].Available; !k.near(got, -120) {
		t.Errorf("after 260 of 60 were used: %.1f available, want -120", got)
	}
	used(math.NaN())
	used(-5)
	if l := k.state().Limits[0]; math.Abs(l.UnitsPerUse-140) > 1e-6 || l.Reports != 2 {
		t.Errorf("mean cost: got %.1f of %d reports, want 140 of 2", l.UnitsPerUse, l.Reports)
	}
}

// A single use larger than the burst is not refused for ever, and is paid for afterwards.
func testLargeUse(t *testing.T, c Config) {
	k := open(t, c, 10)
	p := k.take(50, 1)
	time.Sleep(p.RetryIn)
	if p := k.take(50, 1); p.Granted != 1 {
		t.Fatalf("with a full bucket: got %+v, want one", p)
	}
	if p := k.take(1, 1); p.Granted != 0 || p.RetryIn < 4*time.Second {
		t.Errorf("in debt: got %+v, want a retry in about 4.1s", p)
	}
}

// Several downstreams are granted together or not at all; what is not begun goes back; what is not declared has no limit.
func testTogether(t *testing.T, c Config) {
	s := c.Open(t, map[string][]downstream.Limit{
		"a": {{Unit: "requests", PerSecond: 10}},
		"b": {{Unit: "requests", PerSecond: 2}},
	})
	time.Sleep(time.Second)
	both := []downstream.Ask{{Downstream: "a", Max: 5}, {Downstream: "b", Max: 5}, {Downstream: "undeclared", Max: 5}}
	p, err := s.Take(context.Background(), both)
	if err != nil || p.Granted != 2 {
		t.Fatalf("got %+v, %v; want 2: the smaller limit", p, err)
	}
	if err := s.Return(context.Background(), both, 2); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"a": 10, "b": 2} {
		if st, err := s.State(context.Background(), name); err != nil || st.Limits[0].Available != want || st.Granted != 0 {
			t.Errorf("%s after the return: %+v, %v; want %v available", name, st, err, want)
		}
	}
}

func testBadAsk(t *testing.T, c Config) {
	k := open(t, c, 10)
	if _, err := k.Take(context.Background(), ask(1, 0)); err == nil {
		t.Error("zero uses were asked for without an error")
	}
	if st, err := k.State(context.Background(), "undeclared"); err != nil || len(st.Limits) != 0 {
		t.Errorf("an undeclared downstream: %+v, %v; want no limits", st, err)
	}
}
