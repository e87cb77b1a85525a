package downstream_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headrace/headrace/downstream"
)

// Whatever is taken, and however the clock jumps, the bucket never holds more than its burst, no window is overrun, and
// whoever must wait is told for how long.
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

// One absurd cost shuts a downstream for a minute, not for ever; whatever it was, what follows is still within the rate.
func TestDebtIsBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	b := downstream.NewBucket(downstream.Limit{PerSecond: 10}, now)
	b.Take(1e30, now)
	if got := b.RetryIn(10, now); got > 61*time.Second+time.Millisecond {
		t.Errorf("a use fits after %v, want about a minute", got)
	}
}

// A window's sum is what was added in its last 29 to 30 seconds.
func TestWindowForgets(t *testing.T) {
	var w downstream.Window
	start := time.Unix(1e9, 0)
	if total, _ := w.Sum(start); total != 0 {
		t.Errorf("empty: %v, want 0", total)
	}
	for s := range 100 {
		w.Add(1, start.Add(time.Duration(s)*time.Second))
	}
	total, seconds := w.Sum(start.Add(99500 * time.Millisecond))
	if total != 30 || seconds != 29.5 {
		t.Errorf("after 100 s: %v in %v s, want 30 in 29.5 s", total, seconds)
	}
	if total, _ := w.Sum(start.Add(time.Hour)); total != 0 {
		t.Errorf("an hour later: %v, want 0", total)
	}
}
