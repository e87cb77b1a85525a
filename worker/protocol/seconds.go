package protocol

import "time"

// Duration returns s as a duration, rounded to the nanosecond.
func (s Seconds) Duration() time.Duration { return time.Duration(float64(s) * float64(time.Second)) }

// SecondsOf returns d as it travels on the wire.
func SecondsOf(d time.Duration) Seconds { return Seconds(d.Seconds()) }
