package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/headrace/headrace/worker/protocol"
)

// Handler runs one job. It must stop soon after ctx is done; [context.Cause] says why.
//
// A nil error acknowledges the job with the result (at most [queue.MaxPayload] bytes). Errors say what becomes of it:
// [Permanent], [ErrRelease], [ReleaseAfter], [*Throttled], [Crashed]; any other error, and a panic, is a failed attempt
// that is repeated after a while.
//
// A job may be delivered more than once. job.ID is the same every time: use it as the idempotency key of side effects.
type Handler func(ctx context.Context, job *Job) (result []byte, err error)

// Job is one delivery of a job. Its fields are the handler's to read; its methods are safe for concurrent use.
type Job struct {
	ID       string
	Pool     string
	Attempt  int // the delivery that counts, from 1
	Crashes  int // earlier deliveries whose worker died
	Tenant   string
	Priority int
	Headers  map[string]string
	Payload  []byte
	// Deadline is when the lease reaches its maximum on this machine's clock; the context is cancelled a little
	// earlier. Zero: no maximum.
	Deadline time.Time

	conn     Conn
	reserved units // with the lease

	mu      sync.Mutex
	taken   units // while it ran
	used    units
	waiters int
	since   time.Time     // of the first of the present waiters
	waited  time.Duration // for permits
}

// units are amounts by downstream and unit.
type units = map[string]map[string]float64

// Used reports what the job truly used of a downstream, such as tokens. Calls add up. Without a call the units
// reserved count as used.
func (j *Job) Used(downstream, unit string, n float64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.used = add(j.used, downstream, map[string]float64{unit: n})
}

// Take waits until the fleet may use units more of a downstream, beyond what was reserved with the job. It returns
// ctx's error when ctx ends first, and an error wrapping [ErrRefused] when the request makes no sense. Time spent in
// it is not counted as work.
func (j *Job) Take(ctx context.Context, downstream string, units map[string]float64) error {
	if j.conn == nil {
		return nil // a job made by a test of a handler
	}
	j.wait(+1)
	defer j.wait(-1)
	delay := 100 * time.Millisecond
	for {
		a, err := j.conn.Permit(ctx, protocol.PermitRequest{Downstream: downstream, Units: units, MaxWait: 20})
		switch {
		case err == nil && a.Granted:
			j.mu.Lock()
			j.taken = add(j.taken, downstream, units)
			j.mu.Unlock()
			return nil
		case errors.Is(err, ErrRefused):
			return fmt.Errorf("take %s: %w", downstream, err)
		case err == nil:
			delay = max(a.RetryIn.Duration(), 10*time.Millisecond)
		default: // unreachable is never unlimited: keep asking
			delay = min(2*delay, 5*time.Second)
		}
		if !sleep(ctx, jitter(delay)) {
			return fmt.Errorf("take %s: %w", downstream, context.Cause(ctx))
		}
	}
}

func (j *Job) wait(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.waiters == 0 {
		j.since = time.Now()
	}
	if j.waiters += n; j.waiters == 0 {
		j.waited += time.Since(j.since)
	}
}

// permits returns what the settlement says about downstreams: the units held, and those used (nil: as held).
func (j *Job) permits() (held, used units, waited time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for d, u := range j.reserved {
		held = add(held, d, u)
	}
	for d, u := range j.taken {
		held = add(held, d, u)
	}
	for d, u := range j.used {
		used = add(used, d, u)
	}
	waited = j.waited
	if j.waiters > 0 {
		waited += time.Since(j.since)
	}
	return held, used, waited
}

func add(to units, downstream string, u map[string]float64) units {
	if to == nil {
		to = units{}
	}
	if to[downstream] == nil {
		to[downstream] = maps.Clone(u)
		return to
	}
	for unit, n := range u {
		to[downstream][unit] += n
	}
	return to
}
