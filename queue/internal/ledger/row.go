package ledger

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headrace/headrace/queue"
)

// State is a job's state as it is stored. Unlike [queue.State] it tells suspects apart, so that a store finds either
// kind of ready job without passing the other. The numbers are part of the file format.
type State int8

// The states.
const (
	Ready   State = iota
	Suspect       // ready, and a worker died with it: handed out alone
	Delayed
	Leased
	Succeeded
	Dead
	Cancelled
	Expired
	NumStates = int(Expired) + 1
)

// Public returns the state that users see.
func (s State) Public() queue.State {
	return [NumStates]queue.State{
		queue.Ready, queue.Ready, queue.Delayed, queue.Leased,
		queue.Succeeded, queue.DeadState, queue.Cancelled, queue.Expired,
	}[s]
}

// StatesOf returns the stored states that s is made of; none when s is not a state.
func StatesOf(s queue.State) []State {
	var all []State
	for st := range State(NumStates) {
		if st.Public() == s {
			all = append(all, st)
		}
	}
	return all
}

// Waiting reports whether a job in s waits for a start.
func (s State) Waiting() bool { return s == Ready || s == Suspect || s == Delayed }

// Terminal reports whether a job in s has ended.
func (s State) Terminal() bool { return s >= Succeeded }

// Row is all that changes about a job. Times are nanoseconds since 1970; zero means not (yet).
type Row struct {
	Seq      int64 // given by the store, in the order of publishing
	ID       string
	Queue    string // filled by reads over several queues only
	State    State
	At       int64 // orders jobs of one state: became ready, is due, was leased, ended
	Tenant   string
	Priority int

	Attempts, Crashes, Redrives               int // Attempts: deliveries that ended and counted
	EnqueuedAt, ReadyAt, StartedAt, ExpiresAt int64
	Arrived                                   bool // it became due at least once, and was counted

	Token        int64 // of the last lease
	Worker       string
	MaxAt        int64 // when the lease ends whatever its holder says
	Cancel       bool  // somebody wants it stopped
	SettledToken int64 // the last lease that its holder ended, and how: the same settlement again is not an error
	Settled      queue.Verdict

	Error, DeadReason string

	Payload *Payload // nil unless asked for
	Result  []byte   // written when not nil; read with Payload only
}

// Payload is what never changes about a job.
type Payload struct {
	Key     string
	Headers map[string]string
	Body    []byte
}

// Record returns r in the words of the contract.
func (r *Row) Record(queueName string) queue.Record {
	rec := queue.Record{
		ID: r.ID, Queue: queueName, State: r.State.Public(), Tenant: r.Tenant, Priority: r.Priority,
		Attempts: r.Attempts, Crashes: r.Crashes, Redrives: r.Redrives,
		EnqueuedAt: Time(r.EnqueuedAt), ReadyAt: Time(r.ReadyAt), StartedAt: Time(r.StartedAt), ExpiresAt: Time(r.ExpiresAt),
		Result: r.Result, Error: r.Error, DeadReason: r.DeadReason,
	}
	if r.Payload != nil {
		rec.Key, rec.Headers, rec.Payload = r.Payload.Key, r.Payload.Headers, r.Payload.Body
	}
	switch {
	case r.State == Leased:
		rec.Attempts++
		rec.Worker = r.Worker
	case r.State == Delayed:
		rec.ReadyAt = Time(r.At)
	case r.State.Terminal():
		rec.FinishedAt = Time(r.At)
	}
	return rec
}

// Time converts from a row's time.
func Time(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// The moves below change a row only; the ledger stores and counts them.

func (r *Row) toReady(at int64) {
	r.State, r.At, r.ReadyAt, r.Worker = Ready, at, at, ""
	if r.Crashes > 0 {
		r.State = Suspect
	}
}

func (r *Row) toWaiting(now int64, delay time.Duration) {
	if delay <= 0 {
		r.toReady(now)
		return
	}
	r.State, r.At, r.Worker = Delayed, now+int64(delay), ""
}

func (r *Row) toEnd(s State, now int64) {
	r.State, r.At, r.Worker = s, now, ""
}

func (r *Row) toDead(now int64, reason string) {
	r.toEnd(Dead, now)
	r.DeadReason = reason
}

func (r *Row) toLeased(now, token int64, worker string, maxAt int64) {
	r.State, r.At, r.StartedAt = Leased, now, now
	r.Token, r.Worker, r.MaxAt = token, worker, maxAt
}

// reason cuts a failure's text to what is kept, between two characters.
func reason(s string) string {
	s = strings.ToValidUTF8(s[:min(len(s), 2*queue.MaxReason)], "\uFFFD")
	if len(s) <= queue.MaxReason {
		return s
	}
	n := queue.MaxReason
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Poison reports whether r is in the dead letters for killing workers.
func (r *Row) Poison() bool { return r.State == Dead && r.DeadReason == queue.ReasonPoison }
