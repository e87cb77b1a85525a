package ledger

import "time"

// Clock is the time of a queue's process: the wall clock's at the start, plus the monotonic time since. A step of the wall
// clock, by hand or by a time server, does not reach it, and so ends, prolongs and delays nothing.
type Clock struct {
	started time.Time
	wall    int64
}

// StartClock starts a clock that now shows wall.
func StartClock(wall time.Time) Clock { return Clock{started: time.Now(), wall: wall.UnixNano()} }

// Now returns the clock's time in nanoseconds since 1970.
func (c Clock) Now() int64 { return c.wall + int64(time.Since(c.started)) }
