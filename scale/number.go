package scale

import (
	"math"
	"time"
)

// maxReplicas bounds every count of replicas and slots, so that no sum or product of counts overflows.
const maxReplicas = 1_000_000_000

// slack is the rounding error that ceil and floor forgive: 42·0.8/0.7 is 48.00000000000001 in floating point.
func slack(x float64) float64 { return 1e-9 * max(1, math.Abs(x)) }

// ceil is the least whole number not below x, but for rounding error, within [0, maxReplicas].
func ceil(x float64) int { return whole(math.Ceil(x - slack(x))) }

// floor is the largest whole number not above x, but for rounding error, within [0, maxReplicas].
func floor(x float64) int { return whole(math.Floor(x + slack(x))) }

// whole converts, saturating; NaN is 0.
func whole(x float64) int {
	switch {
	case !(x > 0):
		return 0
	case x >= maxReplicas:
		return maxReplicas
	}
	return int(x)
}

// usable reports whether x is finite and not negative.
func usable(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }

// sane returns x when it is usable, else 0, and never more than 1e15 so that products of a few stay finite.
func sane(x float64) float64 {
	if !usable(x) {
		return 0
	}
	return min(x, 1e15)
}

// clamp is x within [lo, hi]; hi wins when they cross.
func clamp[T int | float64 | time.Duration](x, lo, hi T) T { return min(max(x, lo), hi) }
