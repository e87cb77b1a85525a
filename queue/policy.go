package queue

import (
	"math/rand/v2"
	"time"
)

// Policy is what a built-in queue does with leases and failures.
type Policy struct {
	Lease    time.Duration // length of a lease and of each extension; default 60 s
	MaxLease time.Duration // hard limit over all extensions; default 1 h
	Attempts int           // deliveries that may fail before the job is dead; default 10
	// Backoff between attempts is drawn evenly from [0, min(BackoffMax, BackoffMin·2^(attempt−1))] (full jitter:
	// M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015), at least BackoffMin/2.
	BackoffMin   time.Duration // default 1 s
	BackoffMax   time.Duration // default 10 min
	AfterCrashes int           // worker deaths before the job is dead as poison; default 2
	// KeepResults is how long finished jobs, their results and their keys are kept; default 24 h.
	KeepResults time.Duration
}

// WithDefaults returns p with every zero field at its default.
func (p Policy) WithDefaults() Policy {
	set(&p.Lease, 60*time.Second)
	set(&p.MaxLease, time.Hour)
	set(&p.Attempts, 10)
	set(&p.BackoffMin, time.Second)
	set(&p.BackoffMax, 10*time.Minute)
	set(&p.AfterCrashes, 2)
	set(&p.KeepResults, 24*time.Hour)
	return p
}

func set[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Backoff returns the delay before the delivery that follows the attempt-th failure (attempt ≥ 1).
func (p Policy) Backoff(attempt int, r *rand.Rand) time.Duration {
	top := p.BackoffMin
	for i := 1; i < attempt && top < p.BackoffMax; i++ {
		top *= 2
	}
	top = min(top, p.BackoffMax)
	d := time.Duration(r.Float64() * float64(top))
	return min(max(d, p.BackoffMin/2), p.BackoffMax)
}

// Outcome is what becomes of a job whose delivery failed.
type Outcome struct {
	Dead   bool
	Reason string        // set when Dead
	Delay  time.Duration // until the next delivery, when not Dead
}

// AfterFailure decides what follows a Nack or Crash. attempts and crashes include the failure just met.
func (p Policy) AfterFailure(attempts, crashes int, crashed bool, delay *time.Duration, r *rand.Rand) Outcome {
	switch {
	case crashed && crashes >= p.AfterCrashes:
		return Outcome{Dead: true, Reason: ReasonPoison}
	case attempts >= p.Attempts:
		return Outcome{Dead: true, Reason: ReasonAttempts}
	case delay != nil:
		return Outcome{Delay: max(0, *delay)}
	case crashed && crashes == 1:
		return Outcome{} // the job is likely innocent: whoever held it died
	default:
		return Outcome{Delay: p.Backoff(attempts, r)}
	}
}
