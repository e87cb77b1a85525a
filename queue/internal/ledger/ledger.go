// Package ledger keeps the books of a queue: which state each job is in, who holds it, and what is counted when it moves.
//
// It is the behaviour that the built-in queues share. A [Ledger] decides; a [Store] remembers rows. Calls come in
// batches: any number of operations, then [Ledger.Commit] when the store has made them durable or [Ledger.Rollback]
// when it could not. Answers reach waiting callers at Commit only.
//
// A process that did not run, because it was stopped or its machine was, could take no extension meanwhile. The ledger
// notices the gap and gives all leases the lost time back.
//
// One goroutine at a time may use a ledger (a queue's writer, or whoever holds its mutex). Only [Ledger.Extend],
// [Ledger.Watch] and [Ledger.Policy] may be called at any time: leases in force are mirrored in memory, so that an extension costs neither a
// write nor a wait for one. It need not survive the process, because Open gives every lease it finds a full new term.
package ledger

import (
	"container/list"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headrace/headrace/queue"
)

// Store remembers the rows of one queue. Rows it returns belong to the caller. An error aborts the batch.
type Store interface {
	// Insert adds r and its payload, and gives r its Seq.
	Insert(r *Row) error
	// Get returns the job, or nil. foreign: it is in another queue of the same store.
	Get(id string) (r *Row, foreign bool, err error)
	// ByKey returns the job with the key, or nil.
	ByKey(key string) (*Row, error)
	// Load fills r.Payload.
	Load(r *Row) error
	// Update writes r over the row with its Seq, and r.Result beside it when that is not nil.
	Update(r *Row) error
	// Delete forgets r, its payload, result and key.
	Delete(r *Row) error
	// First returns up to n rows in s with At ≤ upTo, by At and Seq, with their payloads if asked.
	First(s State, upTo int64, n int, payloads bool) ([]*Row, error)
	// Overdue returns up to n waiting rows with 0 < ExpiresAt ≤ upTo.
	Overdue(upTo int64, n int) ([]*Row, error)
	// Dead returns up to n dead rows, oldest first, those dead as poison only when asked.
	Dead(n int, poison bool) ([]*Row, error)
	// EarliestAt returns the lowest At of the state, and EarliestExpiry the lowest ExpiresAt of all waiting jobs;
	// [Never] when there is none.
	EarliestAt(s State) (int64, error)
	EarliestExpiry() (int64, error)
	// NextToken returns a number higher than all before, also those of earlier lives.
	NextToken() int64
}

// Never is later than every time.
const Never int64 = math.MaxInt64

// Ledger keeps the books of one queue.
type Ledger struct {
	store  Store
	policy queue.Policy
	rand   *rand.Rand

	n         Counters
	next      int64 // nothing becomes due before
	janitorAt int64 // no finished job is forgotten before
	leases    *leases
	reserve   reservations
	parked    *list.List // of *Claim, in the order they came
	watch     watchers
	closed    bool

	// the batch under way
	open      bool
	saved     Counters
	undo      []func() // in reverse order at Rollback
	committed []func() // in order at Commit
}

// New returns the books of a queue with the counters it had, none of whose jobs are leased. See [Ledger.Inherit].
func New(s Store, p queue.Policy, n Counters) *Ledger {
	l := &Ledger{
		store:   s,
		n:       n,
		rand:    rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		leases:  newLeases(),
		reserve: reservations{},
		parked:  list.New(),
	}
	l.SetPolicy(p)
	return l
}

// SetPolicy changes what happens to leases given, and to failures met, from now on.
func (l *Ledger) SetPolicy(p queue.Policy) {
	l.next, l.janitorAt = 0, 0 // KeepResults may be shorter than before
	l.leases.mu.Lock()
	defer l.leases.mu.Unlock()
	l.policy = p.WithDefaults()
	l.leases.term = l.policy.Lease
}

// Policy returns the policy in force, with its defaults. It may be called at any time.
func (l *Ledger) Policy() queue.Policy {
	l.leases.mu.Lock()
	defer l.leases.mu.Unlock()
	return l.policy
}

// Counters returns the counters, those of the batch under way included.
func (l *Ledger) Counters() Counters { return l.n }

// Dirty reports whether the batch under way has changed the counters.
func (l *Ledger) Dirty() bool { return l.open && l.n != l.saved }

// Next returns the moment at which [Ledger.Tick] wants to be called; it may be earlier than necessary, never later.
func (l *Ledger) Next() int64 { return min(l.next, l.leases.nextBeat()) }

// Begin starts a batch, if none is under way.
func (l *Ledger) Begin() {
	if !l.open {
		l.open, l.saved = true, l.n
	}
}

// Commit ends the batch: it is durable, and its answers go out.
func (l *Ledger) Commit() {
	for _, f := range l.committed {
		f()
	}
	l.endBatch()
}

// Rollback ends the batch as if it had never been.
func (l *Ledger) Rollback() {
	if !l.open {
		return
	}
	for _, v := range slices.Backward(l.undo) {
		v()
	}
	l.n, l.next, l.janitorAt = l.saved, 0, 0
	l.endBatch()
}

func (l *Ledger) endBatch() {
	l.open = false
	clear(l.undo) // let go of what the closures hold
	clear(l.committed)
	l.undo, l.committed = l.undo[:0], l.committed[:0]
}

func (l *Ledger) onUndo(f func())   { l.undo = append(l.undo, f) }
func (l *Ledger) onCommit(f func()) { l.committed = append(l.committed, f) }

func (l *Ledger) sooner(at int64) { l.next = min(l.next, at) }

// put stores r, which was in state from, and counts the move.
func (l *Ledger) put(r *Row, from State) error {
	if (r.State == Ready || r.State == Suspect) && !r.Arrived {
		r.Arrived = true
		l.n.add(Arrivals)
	}
	if err := l.store.Update(r); err != nil {
		return err
	}
	l.n.Level[from]--
	l.n.Level[r.State]++
	if from == Suspect {
		l.reserve.drop(r.ID)
	}
	l.moved(r)
	if r.State.Terminal() {
		l.n.ended(r.State)
		l.onCommit(func() { l.watch.wake(r.ID) })
	}
	return nil
}

// moved sees to it that Tick comes in time for a row that was stored.
func (l *Ledger) moved(r *Row) {
	switch {
	case r.State == Delayed:
		l.sooner(r.At)
	case r.State.Terminal() && r.State != Dead:
		l.forgetAt(r.At + int64(l.policy.KeepResults))
	}
	if r.State.Waiting() && r.ExpiresAt != 0 {
		l.sooner(r.ExpiresAt)
	}
}

// Watch returns a channel that is closed when the job ends, and a function to call when it is no longer wanted.
// Look at the job after calling Watch: it may have ended before.
func (l *Ledger) Watch(id string) (<-chan struct{}, func()) { return l.watch.add(id) }

// Close refuses new claims and wakes those that wait, with [queue.ErrClosed]. Leases stay.
func (l *Ledger) Close() {
	l.closed = true
	for e := l.parked.Front(); e != nil; e = l.parked.Front() {
		c := e.Value.(*Claim)
		l.unpark(c)
		c.Err = queue.ErrClosed
		close(c.Done)
	}
	l.watch.wakeAll()
}

// Reopen undoes Close.
func (l *Ledger) Reopen() { l.closed = false }

func later(now int64, d time.Duration) int64 {
	if d > time.Duration(Never-now) {
		return Never
	}
	return now + int64(d)
}
