package ledger

import (
	"container/heap"
	"sync"
	"time"

	"github.com/headrace/headrace/queue"
)

// lease is a lease in force. Its row is as stored, and not changed while the lease lasts, except for Cancel.
type lease struct {
	row   *Row
	index int // in the heap

	// Guarded by leases.mu.
	until     int64
	maxAt     int64 // its hard maximum: the row's, plus what stalls have cost
	extended  bool  // by its holder, in this life of the process
	inherited bool  // given in an earlier life of the process
	taken     bool  // ran out, and is being taken away: an extension comes too late
	cancel    bool

	ended bool // in the batch under way; belongs to the ledger's goroutine
}

// leases mirrors the leases in force, for extensions and for the sweep.
type leases struct {
	mu     sync.Mutex
	term   time.Duration // of an extension that does not say
	byID   map[string]*lease
	due    leaseHeap
	beatAt int64 // the last beat

	// What each worker holds, the batch under way included; belongs to the ledger's goroutine.
	held map[string]holding
}

type holding struct {
	jobs    int
	suspect bool // the job it holds is one that crashed a worker
}

func newLeases() *leases {
	return &leases{byID: map[string]*lease{}, held: map[string]holding{}}
}

func (ls *leases) get(id string) *lease {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.byID[id]
}

// of returns the leases of a worker.
func (ls *leases) of(worker string) []*lease {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var mine []*lease
	for _, x := range ls.byID {
		if x.row.Worker == worker && !x.ended {
			mine = append(mine, x)
		}
	}
	return mine
}

func (ls *leases) hold(r *Row, by int) {
	h := ls.held[r.Worker]
	h.jobs += by
	if r.Crashes > 0 {
		h.suspect = by > 0
	}
	if h.jobs == 0 {
		delete(ls.held, r.Worker)
	} else {
		ls.held[r.Worker] = h
	}
}

// start adds a lease and returns how to undo that.
func (ls *leases) start(now int64, x *lease) (undo func()) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	late := time.Duration(ls.beat(now) - now)
	x.until, x.maxAt = later(x.until, late), later(x.maxAt, late)
	id := x.row.ID
	before := ls.byID[id] // ended earlier in this batch
	ls.byID[id] = x
	heap.Push(&ls.due, x)
	ls.hold(x.row, 1)
	return func() {
		ls.remove(x)
		if !x.ended {
			ls.hold(x.row, -1)
		}
		if before != nil {
			ls.mu.Lock()
			ls.byID[id] = before
			ls.mu.Unlock()
		}
	}
}

// end marks a lease as ended in the batch under way; the holder may extend it in vain until the batch is committed.
func (ls *leases) end(x *lease) (undo, done func()) {
	x.ended = true
	ls.hold(x.row, -1)
	undo = func() {
		x.ended = false
		ls.hold(x.row, 1)
		ls.giveBack(x)
	}
	return undo, func() { ls.remove(x) }
}

func (ls *leases) remove(x *lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.byID[x.row.ID] == x {
		delete(ls.byID, x.row.ID)
	}
	if x.index >= 0 {
		heap.Remove(&ls.due, x.index)
	}
}

// takeDue takes away up to n leases that have run out.
func (ls *leases) takeDue(now int64, n int) []*lease {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var due []*lease
	for len(ls.due) > 0 && ls.due[0].until <= now && len(due) < n {
		x := heap.Pop(&ls.due).(*lease)
		if x.ended {
			continue // settled in this very batch
		}
		x.taken = true
		due = append(due, x)
	}
	return due
}

// giveBack puts a lease back under watch, after the batch that ended it or took it away has failed.
func (ls *leases) giveBack(x *lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	x.taken = false
	if x.index < 0 {
		heap.Push(&ls.due, x)
	}
}

func (ls *leases) next() int64 {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if len(ls.due) == 0 {
		return Never
	}
	return ls.due[0].until
}

// Extend renews leases for d from now, in memory. It may be called at any time by any goroutine. The second result is
// the earliest end that an extension moved nearer, or [Never]: Tick must then come that soon.
func (l *Ledger) Extend(now int64, rs []queue.Receipt, d time.Duration) ([]queue.Extension, int64) {
	ls := l.leases
	out := make([]queue.Extension, len(rs))
	nearer := Never
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now = ls.beat(now)
	if d <= 0 {
		d = ls.term
	}
	for i, r := range rs {
		x := ls.byID[r.JobID]
		if x == nil || x.taken || x.row.Token != r.Token {
			out[i].Err = queue.ErrLost
			continue
		}
		until := min(later(now, d), x.maxAt)
		if until <= now {
			out[i].Err = queue.ErrLost // the hard maximum has passed
			continue
		}
		if until < x.until {
			nearer = min(nearer, until)
		}
		x.until, x.extended = until, true
		if x.index >= 0 {
			heap.Fix(&ls.due, x.index)
		}
		out[i] = queue.Extension{Left: time.Duration(until - now), Cancel: x.cancel}
	}
	return out, nearer
}

type leaseHeap []*lease

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].until < h[j].until }
func (h leaseHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *leaseHeap) Push(x any) {
	e := x.(*lease)
	e.index = len(*h)
	*h = append(*h, e)
}
func (h *leaseHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	e.index = -1
	return e
}
