package protocol

import (
	"math"
	"time"
)

// Duration returns s as a duration. What no duration can hold becomes the longest, or shortest, that can; what is not
// a number becomes zero.
func (s Seconds) Duration() time.Duration {
	ns := float64(s) * float64(time.Second)
	switch {
	case math.IsNaN(ns):
		return 0
	case ns >= math.MaxInt64:
		return math.MaxInt64
	case ns <= math.MinInt64:
		return math.MinInt64
	}
	return time.Duration(math.Round(ns))
}

// SecondsOf returns d as it travels on the wire.
func SecondsOf(d time.Duration) Seconds { return Seconds(d.Seconds()) }
