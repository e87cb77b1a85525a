package downstream

import "time"

// windowBins is the length of a Window in seconds.
const windowBins = 30

// Window is a running sum over about the last 30 seconds, in bins of one second.
type Window struct {
	sums [windowBins]float64
	// last is the second of the newest bin, since the Unix epoch; first the second of the first Add.
	last, first int64
}

// Add counts v at now.
func (w *Window) Add(v float64, now time.Time) {
	s := now.Unix()
	w.advance(s)
	w.sums[s%windowBins] += v
}

// Sum returns the total of the window that ends at now, and how many seconds it covers: fewer than 30 soon after the first Add.
func (w *Window) Sum(now time.Time) (total, seconds float64) {
	s := now.Unix()
	w.advance(s)
	for _, v := range w.sums {
		total += v
	}
	if w.first == 0 {
		return 0, windowBins
	}
	// The newest bin is not full yet.
	covered := float64(s-w.first) + float64(now.Nanosecond())/1e9
	return total, min(windowBins-1+float64(now.Nanosecond())/1e9, max(covered, 1e-3))
}

func (w *Window) advance(s int64) {
	if w.first == 0 {
		w.first, w.last = s, s
	}
	if s-w.last >= windowBins {
		w.sums = [windowBins]float64{}
		w.last = s
	}
	for ; w.last < s; w.last++ {
		w.sums[(w.last+1)%windowBins] = 0
	}
}
