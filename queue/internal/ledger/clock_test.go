package ledger_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/queue/internal/ledger"
)

// The clock reads the wall clock once, so that no later step of it can be seen: from then on it goes with monotonic time.
func TestClockGoesOnFromWhereItStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, wall := range []time.Time{time.Unix(1e9, 7), time.Now().Add(-10 * time.Minute), time.Now().Add(10 * time.Minute)} {
			c := ledger.StartClock(wall)
			for _, d := range []time.Duration{0, time.Nanosecond, 5 * time.Second} {
				before := c.Now()
				time.Sleep(d)
				if got := time.Duration(c.Now() - before); got != d {
					t.Errorf("in %v the clock went on by %v", d, got)
				}
			}
			if got, want := c.Now(), wall.UnixNano()+int64(5*time.Second+1); got != want {
				t.Errorf("the clock shows %d, want %d", got, want)
			}
		}
	})
}
