package worker

import (
	"errors"
	"fmt"
	"time"
)

// Causes for which a handler's context is cancelled; see [context.Cause].
var (
	// ErrLeaseLost: the job is no longer this worker's. Stop at once: somebody else has it, or will.
	ErrLeaseLost = errors.New("lease lost")
	// ErrLeaseMax: the job was held as long as the queue allows.
	ErrLeaseMax = errors.New("held longer than lease.max")
	// ErrCancelled: somebody cancelled the job.
	ErrCancelled = errors.New("job cancelled")
	// ErrStopping: the worker's grace is over, or it was stopped. The job is released and runs elsewhere.
	ErrStopping = errors.New("worker stopping")
)

// ErrWedged is returned by [Worker.Run] when every slot is held by a handler that ignores its cancelled context.
// Only a new process gets those slots back.
var ErrWedged = errors.New("every slot is held by a handler that ignores its cancelled context")

// ErrRelease, returned by a handler, gives the job back at once. It does not count as an attempt.
var ErrRelease error = &release{}

// ReleaseAfter gives the job back, to be delivered again no earlier than after d. It does not count as an attempt.
func ReleaseAfter(d time.Duration) error { return &release{after: max(0, d)} }

// What sends a job away for a while does so for at least minAway, so that one that is refused each time does not spin
// through the fleet, and for at most maxAway, so that a mistaken Retry-After does not bury it.
const (
	minAway = time.Second
	maxAway = time.Hour
)

func notAtOnce(d time.Duration) time.Duration { return min(max(d, minAway), maxAway) }

type release struct {
	after time.Duration
	why   error
}

func (e *release) Error() string {
	if e.why != nil {
		return fmt.Sprintf("released for %v: %v", e.after, e.why)
	}
	return fmt.Sprintf("released for %v", e.after)
}

func (e *release) Unwrap() error { return e.why }

// Permanent marks err as one that no repetition will cure: the job goes to the dead letters at once.
// Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

type permanent struct{ err error }

func (e *permanent) Error() string { return e.err.Error() }
func (e *permanent) Unwrap() error { return e.err }

// Crashed says that whatever ran the job died of it. It counts as an attempt and as a crash, so that a job that kills
// what runs it is soon set aside. Crashed(nil) is nil.
func Crashed(err error) error {
	if err == nil {
		return nil
	}
	return &crashed{err}
}

type crashed struct{ err error }

func (e *crashed) Error() string { return e.err.Error() }
func (e *crashed) Unwrap() error { return e.err }

// Throttled, returned by a handler, says that a downstream refused the call because there were too many. The job is
// released, not failed, and the whole fleet leaves the downstream alone for RetryAfter: at least 1 s, at most 1 h.
type Throttled struct {
	Downstream string
	RetryAfter time.Duration
}

func (e *Throttled) Error() string {
	return fmt.Sprintf("throttled by %s for %v", e.Downstream, e.RetryAfter)
}

// panicked is a handler's panic, with the stack.
type panicked struct {
	value any
	stack []byte
}

func (e *panicked) Error() string { return fmt.Sprintf("panic: %v\n\n%s", e.value, e.stack) }
