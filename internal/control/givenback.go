package control

import (
	"fmt"
	"time"

	"github.com/headrace/headrace/queue"
)

// givenBack notices jobs that are given back again and again while none ends, as when the program that they are posted
// to is down. Nothing fails then and hardly anything waits, so nothing else would show it.
type givenBack struct {
	epoch    string
	ended    float64   // completions when a job last ended
	released int64     // releases by then
	since    time.Time // of the first release after that; zero: none
}

// It is said after so many releases over so long: a drain, or a throttle now and then, is nothing to look at.
const (
	givenBackOften = 5
	givenBackFor   = 10 * time.Second
)

// see takes the queue's totals and returns what an operator should know; empty: nothing.
func (g *givenBack) see(s queue.Stats, now time.Time) string {
	released, counted := s.Totals["released"]
	if !s.Completions.Known() || !counted {
		return ""
	}
	if s.Epoch != g.epoch || s.Completions.Value != g.ended || released < g.released {
		*g = givenBack{epoch: s.Epoch, ended: s.Completions.Value, released: released}
		return ""
	}
	n := released - g.released
	if n > 0 && g.since.IsZero() {
		g.since = now
	}
	if n < givenBackOften || now.Sub(g.since) < givenBackFor {
		return ""
	}
	return fmt.Sprintf("for %v jobs are given back (%d times) and none ends; a job's error says why",
		now.Sub(g.since).Truncate(time.Second), n)
}
