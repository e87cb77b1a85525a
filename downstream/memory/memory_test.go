package memory_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/headrace/headrace/downstream"
	"github.com/headrace/headrace/downstream/memory"
)

func ask(units float64, most int) []downstream.Ask {
	return []downstream.Ask{{Downstream: "api", Units: map[string]float64{"tokens": units}, Max: most}}
}

func newStore(perSecond float64) *memory.Store {
	return memory.New(map[string][]downstream.Limit{"api": {{Unit: "tokens", PerSecond: perSecond}}})
}

func take(t testing.TB, s *memory.Store, asks []downstream.Ask) downstream.Permit {
	p, err := s.Take(context.Background(), asks)
	if err != nil {
		t.Fatalf("Take: %v", err)
	}
	return p
}

// The limit is never passed in any window, and nearly all of it is used while somebody always wants more.
func TestLimitIsNeverPassedAndNearlyAllUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(100)
		const seconds = 60
		start := time.Now()
		var taken float64
		for time.Since(start) < seconds*time.Second {
			p := take(t, s, ask(7, 3))
			taken += 7 * float64(p.Granted)
			if most := 100*time.Since(start).Seconds() + 100; taken > most+1e-6 {
				t.Fatalf("%.0f units taken after %v, want at most %.0f", taken, time.Since(start), most)
			}
			if p.Granted == 0 {
				time.Sleep(p.RetryIn)
			}
		}
		if share := taken / (100 * seconds); share < 0.97 {
			t.Errorf("%.3f of the limit used, want at least 0.97", share)
		}
	})
}

// RetryIn is exact: not grantable a moment before, grantable then.
func TestRetryInIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(10)
		p := take(t, s, ask(5, 1))
		if p.Granted != 0 || p.RetryIn != 500*time.Millisecond {
			t.Fatalf("from empty: got %+v, want a retry in 500ms", p)
		}
		time.Sleep(p.RetryIn - time.Millisecond)
		if p := take(t, s, ask(5, 1)); p.Granted != 0 {
			t.Errorf("a millisecond early: got %+v, want nothing", p)
		}
		time.Sleep(time.Millisecond)
		if p := take(t, s, ask(5, 1)); p.Granted != 1 {
			t.Errorf("on time: got %+v, want one", p)
		}
	})
}

// A 429 with Retry-After stops everybody, once, until then.
func TestRetryAfterIsObeyedByAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(1000)
		time.Sleep(time.Second)
		err := s.Report(t.Context(), []downstream.Report{{
			Downstream: "api", Outcome: downstream.Throttled, RetryAfter: 3 * time.Second,
		}})
		if err != nil {
			t.Fatal(err)
		}
		if p := take(t, s, ask(1, 1)); p.Granted != 0 || p.RetryIn != 3*time.Second {
			t.Errorf("while paused: got %+v, want a retry in 3s", p)
		}
		time.Sleep(3 * time.Second)
		if p := take(t, s, ask(1, 1)); p.Granted != 1 {
			t.Errorf("after the pause: got %+v, want one", p)
		}
	})
}

// A use that cost more than was reserved leaves a debt; one that cost less gives back.
func TestTrueCostIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(100)
		time.Sleep(time.Second)
		take(t, s, ask(60, 1))
		report := func(used float64) {
			err := s.Report(t.Context(), []downstream.Report{{
				Downstream: "api", Outcome: downstream.OK,
				Reserved: map[string]float64{"tokens": 60}, Used: map[string]float64{"tokens": used},
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
		available := func() float64 {
			st, _ := s.State(t.Context(), "api")
			return st.Limits[0].Available
		}
		report(20)
		if got := available(); math.Abs(got-80) > 1e-6 {
			t.Errorf("after 20 of 60 were used: %.1f available, want 80", got)
		}
		report(260)
		if got := available(); math.Abs(got+120) > 1e-6 {
			t.Errorf("after 260 of 60 were used: %.1f available, want -120", got)
		}
		report(math.NaN())
		if st, _ := s.State(t.Context(), "api"); math.Abs(st.Limits[0].UnitsPerUse-140) > 1e-6 || st.Limits[0].Reports != 2 {
			t.Errorf("mean cost: got %.1f of %d, want 140 of 2", st.Limits[0].UnitsPerUse, st.Limits[0].Reports)
		}
	})
}

// A single use larger than the burst is not refused for ever.
func TestUseLargerThanTheBurstStartsWhenFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(10)
		p := take(t, s, ask(50, 1))
		time.Sleep(p.RetryIn)
		if p := take(t, s, ask(50, 1)); p.Granted != 1 {
			t.Fatalf("with a full bucket: got %+v, want one", p)
		}
		if p := take(t, s, ask(1, 1)); p.Granted != 0 || p.RetryIn < 4*time.Second {
			t.Errorf("in debt: got %+v, want a retry in about 4.1s", p)
		}
	})
}

// Several downstreams are granted together or not at all, and what is not begun goes back.
func TestAsksAreGrantedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(map[string][]downstream.Limit{
			"a": {{Unit: "requests", PerSecond: 10}},
			"b": {{Unit: "requests", PerSecond: 2}},
		})
		time.Sleep(time.Second)
		both := []downstream.Ask{{Downstream: "a", Max: 5}, {Downstream: "b", Max: 5}, {Downstream: "undeclared", Max: 5}}
		if p := take(t, s, both); p.Granted != 2 {
			t.Fatalf("got %+v, want 2: the smaller limit", p)
		}
		if err := s.Return(t.Context(), both, 2); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]float64{"a": 10, "b": 2} {
			if st, _ := s.State(t.Context(), name); st.Limits[0].Available != want || st.Granted != 0 {
				t.Errorf("%s after the return: %+v, want %v available", name, st, want)
			}
		}
	})
}

// Whatever is taken, returned and settled, the bucket never holds more than its burst and no window is overrun.
func TestBucketProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1e9, 0)
		rate := rapid.Float64Range(0.01, 1e6).Draw(t, "rate")
		b := downstream.NewBucket(downstream.Limit{PerSecond: rate}, now)
		start, latest, taken := now, now, 0.0
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.Int64Range(-1e9, 5e9).Draw(t, "step")))
			if now.After(latest) {
				latest = now
			}
			units := rapid.Float64Range(0, rate).Draw(t, "units")
			if n := b.Fits(units, 3, now); n > 0 && units > 0 {
				b.Take(float64(n)*units, now)
				taken += float64(n) * units
			} else if n == 0 && b.RetryIn(units, now) <= 0 {
				t.Fatalf("nothing fits and no wait is given")
			}
			if got := b.Available(now); got > b.Limit.Burst*(1+1e-9) {
				t.Fatalf("%v available of a burst of %v", got, b.Limit.Burst)
			}
			if most := rate*latest.Sub(start).Seconds() + b.Limit.Burst; taken > most*(1+1e-6) {
				t.Fatalf("%v units taken, want at most %v", taken, most)
			}
		}
	})
}

func BenchmarkTake(b *testing.B) {
	s := newStore(1e9)
	asks := ask(1, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Take(b.Context(), asks); err != nil {
			b.Fatal(err)
		}
	}
}
