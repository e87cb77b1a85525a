// Package queue is the contract between Headrace and a queue of jobs in any broker.
//
// An adapter must implement [Queue]: receive, settle, close and its fact sheet. All else is a small
// optional interface ([Extender], [Publisher], [StatsReader], [Waiter], [Finder], [Canceller], [Redriver], [Abandoner])
// found by type assertion. Package queuetest is the conformance suite that every adapter passes.
//
// A job is delivered under a lease: the exclusive, expiring right to one delivery. The holder keeps it
// by extending it and ends it by settling it:
//
//	           publish                     Receive
//	producer ───────────▶ ready ──────────────────────────▶ leased ── Ack ──▶ succeeded
//	                     ▲  ▲  │ expires_at passed            │ │ │
//	              due at │  │  ▼                              │ │ └─ Dead, or no attempts left ──▶ dead
//	                     │  │ expired                         │ │
//	                  delayed ◀── Nack, Crash (an attempt) ───┘ │
//	                     ▲  └──── lease ran out (a crash)       │
//	                     └─────── Release (not an attempt) ◀────┘     ready, delayed ── Cancel ──▶ cancelled
//
// Delivery is at least once. A job is seen twice only when its lease was lost: its holder died,
// or could not extend it in time. A fencing token then makes the late holder's settlement [ErrLost].
package queue

import (
	"context"
	"errors"
	"time"
)

// Errors of the contract. Adapters wrap them; callers test with errors.Is.
var (
	// ErrLost: the lease is no longer the caller's. Stop working on the job; somebody else has it, or will.
	ErrLost = errors.New("lease lost")
	// ErrUncertain: a settlement was sent and no answer came. Send the same settlement again; it is idempotent.
	ErrUncertain = errors.New("outcome unknown")
	// ErrNotFound: no job has that id.
	ErrNotFound = errors.New("job not found")
	// ErrConflict: the operation does not fit the job's present state, or a key was used with another payload.
	ErrConflict = errors.New("conflict")
	// ErrInvalid: the job itself cannot be accepted (too large, bad field).
	ErrInvalid = errors.New("invalid job")
	// ErrUnavailable: nothing was done, for a reason that an operator can mend, such as a full disk. Try again later.
	ErrUnavailable = errors.New("queue unavailable")
	// ErrClosed: the queue was closed.
	ErrClosed = errors.New("queue closed")
)

// MaxPayload is the most bytes a payload or a result may have. Larger data belongs in an object store,
// with its address in the job.
const MaxPayload = 256 << 10

// Queue is what every adapter implements. All methods are safe for concurrent use.
type Queue interface {
	// Receive leases up to r.Max ready jobs to r.Worker. It blocks until there is at least one, r.Wait has
	// passed, or ctx is done; the last two return no jobs and a nil error. Jobs that were leased by the time
	// ctx ends are returned, with a nil error, never dropped: the caller owns them and must settle them.
	Receive(ctx context.Context, r Request) ([]Lease, error)

	// Settle ends leases. The answer has one entry a settlement, in order: nil (durable), [ErrLost],
	// [ErrUncertain] or another error. Settling the same lease the same way twice answers nil twice.
	Settle(ctx context.Context, s []Settlement) []error

	// Close stops receiving. Leases stay as they are: release them first. It is idempotent.
	Close(ctx context.Context) error

	// Caps says what this queue can do, so that an impossible configuration is refused at start.
	Caps() Caps
}

// Request asks for leases.
type Request struct {
	// Worker names who asks, for [Abandoner] and for keeping a suspect job alone. Required.
	Worker string
	// Max is the number of free slots; at least 1.
	Max int
	// Wait is the longest time to block for the first job; zero means do not block.
	Wait time.Duration
	// Lease is how long the leases last unless extended; zero means the queue's [Policy].
	Lease time.Duration
}

// Job is what a producer publishes. Zero values mean "none".
type Job struct {
	// ID is a UUIDv7, made by the queue when empty.
	ID string
	// Key makes publishing idempotent: while a job with the key is unfinished, or within the policy's
	// KeepResults after it, publishing the key again with an equal payload returns the first job, and with
	// another payload is [ErrConflict].
	Key string
	// Tenant and Priority are kept and returned. This version orders by ready time alone.
	Tenant   string
	Priority int
	Headers  map[string]string
	Payload  []byte
	// Delay postpones the first delivery.
	Delay time.Duration
	// ExpiresIn bounds the wait for a first or next start, counted from publishing: past it the job is not run but expired.
	ExpiresIn time.Duration
}

// Lease is the exclusive right to one delivery of a job.
type Lease struct {
	JobID string `json:"job_id"`
	// Token fences this delivery: it only grows within a queue. Settle and Extend must present it.
	Token int64 `json:"token"`
	// Attempt is the delivery number that counts, from 1: released deliveries do not count.
	Attempt int `json:"attempt"`
	// Crashes is how many earlier deliveries ended with the death of their worker.
	Crashes    int               `json:"crashes,omitempty"`
	Tenant     string            `json:"tenant,omitempty"`
	Priority   int               `json:"priority,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	Payload    []byte            `json:"payload"`
	EnqueuedAt time.Time         `json:"enqueued_at"`
	// For is how long the lease lasts, counted from before Receive was called (zero: until the session ends).
	For time.Duration `json:"for"`
	// Max is the hard limit over all extensions, counted likewise; zero means none.
	Max time.Duration `json:"max,omitempty"`
	// Lost is closed when the broker takes the job away on its own (a revoked partition, a closed channel);
	// nil when it never does. Leases of one session share a channel.
	Lost <-chan struct{} `json:"-"`
}

// Receipt identifies a lease when it is settled or extended.
type Receipt struct {
	JobID string `json:"job_id"`
	Token int64  `json:"token"`
}

// Receipt returns what settles or extends l.
func (l Lease) Receipt() Receipt { return Receipt{JobID: l.JobID, Token: l.Token} }

// Verdict says how a delivery ended.
type Verdict string

const (
	Ack     Verdict = "ack"     // done; Result is stored
	Nack    Verdict = "nack"    // failed: counts as an attempt, comes back after a delay or goes to the dead letters
	Release Verdict = "release" // given back, not run to an end: not an attempt
	Dead    Verdict = "dead"    // will never succeed: to the dead letters at once
	Crash   Verdict = "crash"   // its process died: counts as an attempt and as a crash
)

// Settlement ends one lease.
type Settlement struct {
	Receipt
	Verdict Verdict
	// Result is kept for [Finder] after an Ack; at most [MaxPayload] bytes.
	Result []byte
	// Reason says why a Nack, Release, Dead or Crash happened, for people; at most 4 KiB are kept.
	Reason string
	// Delay postpones the next delivery after a Nack or Release. Nil means the policy's backoff after a Nack
	// and none after a Release.
	Delay *time.Duration
}

// Caps are facts about a queue, not wishes.
type Caps struct {
	MaxBatch int           // most jobs in one Receive or Settle; larger requests are split by the caller
	MaxLease time.Duration // longest total hold; zero means the policy decides
	MaxDelay time.Duration // longest native delay; zero means unlimited
	Fenced   bool          // a stale settlement is refused (ErrLost), not silently accepted
	// FreeRelease: a Release does not count as an attempt.
	FreeRelease bool
	// ExactAttempts: Lease.Attempt and Lease.Crashes are exact.
	ExactAttempts bool
	// Durable: a nil error of Publish or Settle survives a crash of the machine.
	Durable bool
}

// Extender renews leases. Implemented where the broker has leases with a time.
type Extender interface {
	// Extend renews each lease for d from now (zero: the policy's lease). One answer a receipt, in order.
	Extend(ctx context.Context, rs []Receipt, d time.Duration) []Extension
}

// Extension is the answer to one renewal.
type Extension struct {
	// Left is the time the lease now has. Less than was asked for means that its hard maximum is near.
	Left time.Duration
	// Cancel: somebody cancelled the job; stop it and settle it in any way.
	Cancel bool
	// Err is ErrLost when the lease is gone.
	Err error
}

// Publisher takes new jobs.
type Publisher interface {
	// Publish enqueues jobs, all durable when it returns. One answer a job, in order; a bad job harms no neighbour.
	Publish(ctx context.Context, jobs []Job) []Published
}

// Published is the answer to one published job.
type Published struct {
	ID string
	// Duplicate: the key was known; ID is the job that has it.
	Duplicate bool
	Err       error
}

// StatsReader measures the queue.
type StatsReader interface {
	// Stats costs the same whatever the backlog. An error means nothing is known.
	Stats(ctx context.Context) (Stats, error)
}

// Waiter lets a caller wait for work without taking it, so that it can reserve permits first.
type Waiter interface {
	// Wait returns nil when a job that worker could receive may be ready, or ctx's error. It may wake without cause.
	Wait(ctx context.Context, worker string) error
}

// Abandoner ends the leases of a worker that is known to be dead, without waiting for them to expire.
type Abandoner interface {
	// Abandon settles every lease of worker as a [Crash] with the reason, and returns how many there were.
	Abandon(ctx context.Context, worker, reason string) (int, error)
}

// Number is a measurement, or the reason why there is none. The zero value is unknown.
type Number struct {
	Value   float64
	At      time.Time // when it was measured; zero means unknown
	Approx  bool      // estimated by the broker
	Unknown string    // why it is not known, for people
}

// Exactly returns a known, exact number.
func Exactly(v float64, at time.Time) Number { return Number{Value: v, At: at} }

// Known reports whether n was measured.
func (n Number) Known() bool { return !n.At.IsZero() }

// Stats are the measurements of a queue. Each may be unknown; unknown is never zero.
type Stats struct {
	Backlog     Number // jobs due and not leased
	Delayed     Number // jobs not due yet
	InFlight    Number // leased, not settled, those of dead workers included
	Dead        Number // dead letters
	OldestAge   Number // seconds since the oldest ready job became ready; 0 when none is
	OldestLease Number // seconds since the oldest lease that is held was given; 0 when none is
	NextDue     Number // seconds until the first delayed job is due; unknown when there is none
	Arrivals    Number // running total: jobs that became due for their first time
	Completions Number // running total: jobs that ended (succeeded, dead, cancelled, expired)
	Attempts    Number // running total: deliveries that were settled by ack, nack, dead or crash
	// Totals by outcome, running: succeeded, dead, cancelled, expired, nacked, released, crashed, lost, redriven.
	Totals map[string]int64
	// Epoch changes when the running totals restart from zero.
	Epoch string
}
