package estimate

import (
	"time"

	"github.com/headrace/headrace/scale"
)

// Prior is what is believed before anything was measured.
type Prior struct {
	ServiceTime time.Duration // zero: none
	ColdStart   time.Duration // zero: 1 s
	Cycle       time.Duration // time between samples; default 1 s
	// Horizon is the shortest time the pool was promised (see [scale.Policy.Horizon]): rates must be believed well
	// within it. Zero, or a minute and more, gives the ordinary time constants of 30 s and 300 s.
	Horizon time.Duration
}

// Sample is one reading of a pool's running totals. Unknown readings are skipped; the estimate keeps what it has.
type Sample struct {
	At time.Time
	// Arrivals is the running total of jobs that became due.
	Arrivals scale.Reading
	// Completions is the running total of jobs that ended.
	Completions scale.Reading
	// Epoch names the counters' life; a new one restarts them without a rate.
	Epoch string
	// Attempts, BusySeconds and BusySquares are running totals over all workers of finished handler runs:
	// their number, Σ busy seconds and Σ busy². Time spent waiting for permits is not busy.
	Attempts    scale.Reading
	BusySeconds scale.Reading
	BusySquares scale.Reading
	// Running is for how many seconds the job that has run longest has been running. Short runs end first, so while hardly any
	// has ended the time of this one counts as well: seconds on test ÷ runs that ended, the estimate for censored lifetimes.
	Running scale.Reading
	// Starts are durations in seconds from ordering to first work of the replicas that became ready since the last sample.
	Starts []float64
	// Frozen keeps S at 1.1 times the value it had before, from now until two short time constants have passed without it: a
	// downstream is unhealthy, and what is measured now says more about it than about the jobs.
	Frozen bool
}
