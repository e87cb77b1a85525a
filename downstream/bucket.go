package downstream

import (
	"math"
	"time"
)

// Bucket is a token bucket: it fills at Limit.PerSecond units a second up to Limit.Burst, and a use takes its
// units out. It is plain data without a lock or a clock; a new one starts empty, because nobody knows what was used
// before. In any span of t seconds no more than PerSecond·t + Burst units are taken, debts repaid first.
type Bucket struct {
	Limit Limit
	// units are what can be taken at the time filledAt; negative is debt, from uses that cost more than was reserved.
	units    float64
	filledAt time.Time
}

// NewBucket returns an empty bucket. A Limit.Burst of zero becomes one second's worth.
func NewBucket(l Limit, now time.Time) Bucket {
	if l.Burst <= 0 {
		l.Burst = l.PerSecond
	}
	return Bucket{Limit: l, filledAt: now}
}

// Available returns the units that can be taken at now. A clock that went back adds nothing until it has caught up.
func (b *Bucket) Available(now time.Time) float64 {
	if d := now.Sub(b.filledAt).Seconds(); d > 0 {
		b.units = min(b.Limit.Burst, b.units+d*b.Limit.PerSecond)
		b.filledAt = now
	}
	return b.units
}

// Fits returns how many uses of the given units, at most most, can start at now. A use larger than the whole burst
// starts when the bucket is full and leaves a debt.
func (b *Bucket) Fits(units float64, most int, now time.Time) int {
	have := b.Available(now)
	if units <= 0 {
		return most
	}
	n := math.Floor(have/units + 1e-9)
	if n < 1 && have >= b.need(units) {
		n = 1
	}
	return int(max(0, min(n, float64(most))))
}

// need is what must be there for one use: a rounding error short of its units, or the whole burst if that is less.
func (b *Bucket) need(units float64) float64 {
	return min(units, b.Limit.Burst) * (1 - 1e-9)
}

// RetryIn returns how long until one use of the given units can start; at least a millisecond when it cannot start now.
func (b *Bucket) RetryIn(units float64, now time.Time) time.Duration {
	short := b.need(units) - b.Available(now)
	if units <= 0 || short <= 0 {
		return 0
	}
	seconds := min(short/b.Limit.PerSecond, 3600)
	return max(time.Millisecond, time.Duration(math.Ceil(seconds*1e9)))
}

// maxDebt is the deepest a bucket goes, in seconds of its rate: one absurd report must not shut a downstream for a day.
const maxDebt = 60

// Take removes units, into debt if need be but never more than a minute's worth; negative units give back, up to the burst.
func (b *Bucket) Take(units float64, now time.Time) {
	b.units = min(b.Limit.Burst, max(b.Available(now)-units, -maxDebt*b.Limit.PerSecond))
}
