package scale

import "math"

// The formulas of this file take the offered load a = λ·S in slots (erlangs) and m servers (slots), and need a ≥ 0 and m ≥ 0.
// Sources: [1] A. K. Erlang 1917; [2] R. B. Cooper, Introduction to Queueing Theory, 1981; [3] A. O. Allen, Probability,
// Statistics and Queueing Theory, 1990 (Allen-Cunneen); [4] Halfin and Whitt, Operations Research 29(3), 1981;
// [5] J. F. C. Kingman, 1961.

// ErlangB is the probability that all m servers are busy when nobody waits (M/M/m/m), by the recursion
// B(k) = a·B(k−1) / (k + a·B(k−1)), which neither over- nor underflows [2].
func ErlangB(m int, a float64) float64 {
	b := 1.0
	for k := 1; k <= m; k++ {
		b = a * b / (float64(k) + a*b)
	}
	return b
}

// ErlangC is the probability that a job has to wait (M/M/m); 1 when the servers cannot keep up.
func ErlangC(m int, a float64) float64 {
	if a <= 0 {
		return 0
	}
	if float64(m) <= a {
		return 1
	}
	return delayed(m, a, ErlangB(m, a))
}

// delayed turns B(m, a) into C(m, a), for m > a: C = B / (1 − ρ(1 − B)).
func delayed(m int, a, b float64) float64 { return b / (1 - a/float64(m)*(1-b)) }

// WaitMean is the mean wait before service in seconds on m servers with mean service time s, for squared coefficients of
// variation ca2 of the gaps between arrivals and cs2 of the service times (Allen-Cunneen [3]; exact for ca2 = cs2 = 1, and
// for m = 1 with ca2 = 1). Infinite when the servers cannot keep up.
func WaitMean(m int, a, s, ca2, cs2 float64) float64 {
	if float64(m) <= a {
		return math.Inf(1)
	}
	return ErlangC(m, a) * s / (float64(m) - a) * (ca2 + cs2) / 2
}

// WaitTail is the share of jobs that wait longer than t seconds: C(m,a)·exp(−2(m−a)·t/(s(ca2+cs2))).
// It is exact for M/M/m and the Allen-Cunneen tail [3] otherwise.
func WaitTail(m int, a, s, ca2, cs2, t float64) float64 {
	if float64(m) <= a {
		return 1
	}
	return ErlangC(m, a) * tail(float64(m)-a, s, ca2, cs2, t)
}

// tail is the exponential part of WaitTail, for spare servers beyond the load.
func tail(spare, s, ca2, cs2, t float64) float64 {
	scale := s * (ca2 + cs2)
	if scale <= 0 {
		return 0
	}
	return math.Exp(-2 * spare * t / scale)
}

// QueueLength is the mean number of jobs that wait (M/M/m): C(m,a)·ρ/(1−ρ). Infinite when the servers cannot keep up.
func QueueLength(m int, a float64) float64 {
	if float64(m) <= a {
		return math.Inf(1)
	}
	return ErlangC(m, a) * a / (float64(m) - a)
}

// Empty is the probability that an M/M/m system is empty; 0 when it cannot keep up.
func Empty(m int, a float64) float64 {
	if float64(m) <= a {
		return 0
	}
	// 1/p0 = Σ_{k<m} aᵏ/k! + aᵐ/m!·m/(m−a); summed relative to its last term, which the recursion keeps in range.
	term, sum := 1.0, 1.0
	for k := 1; k <= m; k++ {
		term *= a / float64(k)
		if k == m {
			sum += term * float64(m) / (float64(m) - a)
		} else {
			sum += term
		}
	}
	if math.IsInf(sum, 1) {
		return 0
	}
	return 1 / sum
}

// HalfinWhitt is the limit of ErlangC for many servers, m = a + β√a: 1 / (1 + β·Φ(β)/φ(β)) [4].
func HalfinWhitt(beta float64) float64 {
	if beta <= 0 {
		return 1
	}
	cdf := 0.5 * math.Erfc(-beta/math.Sqrt2)
	pdf := math.Exp(-beta*beta/2) / math.Sqrt(2*math.Pi)
	if pdf == 0 {
		return 0
	}
	return 1 / (1 + beta*cdf/pdf)
}

// exactLoad is the load above which the square-root rule replaces the recursion; they differ by less than a slot in 5,000 there.
const exactLoad = 20_000

// SlotsForWait is the least number of slots with WaitTail ≤ share, for jobs of mean service time s and wait t. It takes one
// pass of the Erlang B recursion, and above 20,000 erlangs the square-root rule a + β√a [4].
func SlotsForWait(a, s, ca2, cs2, t, share float64) int {
	if a <= 0 {
		return 0
	}
	if a > exactLoad {
		return squareRoot(a, s, ca2, cs2, t, share)
	}
	b := 1.0
	for m := 1; ; m++ {
		b = a * b / (float64(m) + a*b)
		spare := float64(m) - a
		if spare <= 0 {
			continue
		}
		if delayed(m, a, b)*tail(spare, s, ca2, cs2, t) <= share {
			return m
		}
		if b == 0 { // no job waits at all in floating point: the condition holds for every share ≥ 0 next
			return m
		}
	}
}

func squareRoot(a, s, ca2, cs2, t, share float64) int {
	root := math.Sqrt(a)
	lo, hi := 0.0, 40.0
	for range 60 {
		mid := (lo + hi) / 2
		if HalfinWhitt(mid)*tail(mid*root, s, ca2, cs2, t) <= share {
			hi = mid
		} else {
			lo = mid
		}
	}
	return ceil(a + hi*root)
}
