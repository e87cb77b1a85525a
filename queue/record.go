package queue

import (
	"context"
	"time"
)

// State is where a job is in its life.
type State string

// The states of a job.
const (
	Ready     State = "ready"
	Delayed   State = "delayed"
	Leased    State = "leased"
	Succeeded State = "succeeded"
	DeadState State = "dead"
	Cancelled State = "cancelled"
	Expired   State = "expired"
)

// States lists every state, in the order of a job's life.
var States = []State{Ready, Delayed, Leased, Succeeded, DeadState, Cancelled, Expired}

// Terminal reports whether a job in s is never delivered again (unless redriven).
func (s State) Terminal() bool {
	return s == Succeeded || s == DeadState || s == Cancelled || s == Expired
}

// Reasons why a job is in the dead letters; a [Dead] settlement brings its own text beside [ReasonRejected].
const (
	ReasonAttempts = "attempts" // failed as often as the policy allows
	ReasonPoison   = "poison"   // killed its worker as often as the policy allows
	ReasonRejected = "rejected" // its handler said that it can never succeed
)

// Record is everything known about a job.
type Record struct {
	ID       string
	Queue    string
	State    State
	Key      string
	Tenant   string
	Priority int
	Headers  map[string]string
	Payload  []byte
	Attempts int // deliveries that counted, the running one included
	Crashes  int
	Redrives int
	Worker   string // who holds it, while leased
	// Times; zero means not (yet).
	EnqueuedAt, ReadyAt, StartedAt, FinishedAt, ExpiresAt time.Time
	Result                                                []byte
	Error                                                 string // why the last delivery that did not succeed failed or was given back
	DeadReason                                            string // one of the Reason constants, when dead
}

// Filter selects jobs for [Finder.List].
type Filter struct {
	State State // required
	// Limit is the page size, 1 to 1000.
	Limit int
	// After continues behind the page that returned it as next; empty starts at the oldest.
	After string
}

// Finder looks jobs up. Built-in queues have it; most brokers cannot.
type Finder interface {
	// Get returns the job, or [ErrNotFound].
	Get(ctx context.Context, id string) (Record, error)
	// List returns a page without headers, payloads and results, oldest first, and the next page's After ("" at the end).
	List(ctx context.Context, f Filter) (page []Record, next string, err error)
	// Await returns the job as soon as it is in a terminal state, or as it is when ctx ends.
	Await(ctx context.Context, id string) (Record, error)
}

// Canceller cancels jobs.
type Canceller interface {
	// Cancel ends a waiting job at once, and marks a leased one so that its holder learns it at the next
	// extension. It returns the job as it then is, [ErrNotFound], or [ErrConflict] when it had already ended.
	Cancel(ctx context.Context, id string) (Record, error)
}

// Redriver gives dead jobs another life.
type Redriver interface {
	// Redrive moves up to max dead jobs, oldest first, back to ready with their attempts and crashes at zero,
	// skipping those dead as [ReasonPoison] unless force. It returns how many moved.
	Redrive(ctx context.Context, max int, force bool) (int, error)
}
