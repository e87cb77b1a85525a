// Package fleet knows which workers are alive, what they hold and what they have done.
//
// Workers report over the worker protocol; the control loop reads what they are doing before it sizes a pool,
// and chooses from here who should go first. The registry is in memory: workers report again after a restart.
package fleet

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/headrace/headrace/worker/protocol"
)

// Fleet is the registry of live workers. All methods are safe for concurrent use.
type Fleet struct {
	// silence is how long a worker may say nothing before it is forgotten.
	silence time.Duration

	mu      sync.Mutex
	workers map[string]*worker
	totals  map[string]protocol.Totals // by pool, over all workers that ever reported
	started map[string]int64           // by pool, workers that were ever seen
	lives   map[string]life            // by incarnation: what totals already counts
}

// life is what one incarnation of a worker has reported so far. It is kept for a while after the worker fell silent,
// so that one that comes back is not counted twice.
type life struct {
	totals protocol.Totals
	seenAt time.Time
}

// lifeKept is how long the last report of a silent worker is remembered.
const lifeKept = time.Hour

// worker is one live worker.
type worker struct {
	pool, name string
	slots      int
	firstAt    time.Time
	seenAt     time.Time
	held       map[string]lease
	settled    map[string]time.Time // leases that ended lately
	stray      int                  // busy slots whose job was taken away
	order      protocol.Order
	// ordered ends when order is no longer run.
	ordered context.Context //nolint:containedctx // it ends a wait and is handed to nobody as a call's context
	tell    context.CancelFunc
}

// onItsWay is how long a report may have been on its way: what was given or ended meanwhile is not in it yet.
const onItsWay = 2 * time.Second

// lease is a lease a worker holds.
type lease struct {
	token   int64
	givenAt time.Time
}

// Worker is what others may know about a worker.
type Worker struct {
	Pool    string         `json:"pool"`
	Name    string         `json:"name"`
	Slots   int            `json:"slots"`
	Held    int            `json:"held"` // leases
	Busy    int            `json:"busy"` // slots that are not free: those of leases, and of handlers that go on without one
	Order   protocol.Order `json:"order"`
	FirstAt time.Time      `json:"first_seen_at"`
	SeenAt  time.Time      `json:"seen_at"`
}

// Pool is the sum over the workers of one pool.
type Pool struct {
	Workers []Worker
	// Slots and Busy count workers that were not told to go.
	Slots, Busy int
	// Totals only grow: they include workers that are gone.
	Totals protocol.Totals
	// Started counts the workers that were ever seen.
	Started int64
}

// New returns an empty registry that forgets a worker after silence.
func New(silence time.Duration) *Fleet {
	return &Fleet{silence: silence, workers: map[string]*worker{}, totals: map[string]protocol.Totals{}, started: map[string]int64{}, lives: map[string]life{}}
}

// Claimed notes that a worker asks for jobs, with all its slots where it says so. ordered ends once the worker is told
// to drain or stop, or is gone.
func (f *Fleet) Claimed(pool, name string, slots int) (o protocol.Order, ordered context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.see(pool, name)
	w.slots = max(w.slots, slots)
	return w.order, w.ordered
}

// Given notes that a worker's claim is answered with leases, and returns its order. A worker that is no longer known
// stays unknown: it was given nothing.
func (f *Fleet) Given(name string, leases []protocol.LeaseRef) (o protocol.Order, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.workers[name]
	if w == nil {
		return "", false
	}
	now := time.Now() // not a sign of life: it may no longer be there to read the answer
	for _, l := range leases {
		w.held[l.ID] = lease{token: l.Token, givenAt: now}
	}
	return w.order, true
}

// Settled notes that a worker ended leases.
func (f *Fleet) Settled(name string, leases []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.workers[name]
	if w == nil {
		return
	}
	for _, id := range leases {
		delete(w.held, id)
		w.settled[id] = time.Now()
	}
}

// Heartbeat takes a worker's report and returns what it shall do.
func (f *Fleet) Heartbeat(r protocol.HeartbeatRequest) protocol.Order {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.see(r.Pool, r.Worker)
	w.slots, w.stray = r.Slots, max(0, r.Busy-len(r.Leases))
	f.totals[r.Pool] = grow(f.totals[r.Pool], f.lives[r.Incarnation].totals, r.Totals)
	f.lives[r.Incarnation] = life{totals: r.Totals, seenAt: w.seenAt}
	// The report is older than what was claimed in the last moments.
	reported := make(map[string]lease, len(r.Leases))
	for id, at := range w.settled {
		if w.seenAt.Sub(at) > onItsWay {
			delete(w.settled, id)
		}
	}
	for _, l := range r.Leases {
		if _, over := w.settled[l.ID]; over {
			continue
		}
		reported[l.ID] = lease{token: l.Token, givenAt: w.seenAt}
	}
	for id, l := range w.held {
		if _, ok := reported[id]; !ok && w.seenAt.Sub(l.givenAt) < onItsWay {
			reported[id] = l
		}
	}
	w.held = reported
	if r.Draining && w.order == protocol.Run {
		w.obey(protocol.Drain) // it goes by itself: its open claim is answered now
	}
	return w.order
}

// see returns the worker, which is alive now. The caller holds mu.
func (f *Fleet) see(pool, name string) *worker {
	now := time.Now()
	w := f.workers[name]
	if w == nil {
		w = &worker{pool: pool, name: name, firstAt: now, order: protocol.Run, held: map[string]lease{}, settled: map[string]time.Time{}}
		w.ordered, w.tell = context.WithCancel(context.Background())
		f.workers[name] = w
		f.started[pool]++
	}
	w.seenAt = now
	return w
}

// Order tells a worker what to do from now on. Telling a worker that is not known is no error: it is gone.
func (f *Fleet) Order(name string, o protocol.Order) (known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.workers[name]
	if w == nil {
		return false
	}
	w.obey(o)
	return true
}

func (w *worker) obey(o protocol.Order) {
	w.order = o
	if o != protocol.Run {
		w.tell()
	}
}

// Gone forgets a worker and returns its pool and the leases it still held. What it did stays in its pool's totals.
func (f *Fleet) Gone(name string) (pool string, left []protocol.LeaseRef) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.workers[name]
	if w == nil {
		return "", nil
	}
	for id, l := range w.held {
		left = append(left, protocol.LeaseRef{ID: id, Token: l.token})
	}
	f.forget(w)
	return w.pool, left
}

func (f *Fleet) forget(w *worker) {
	w.tell()
	delete(f.workers, w.name)
}

// Pool returns what is known of a pool's workers, by name. Workers that were silent too long are forgotten first.
func (f *Fleet) Pool(pool string) Pool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	p := Pool{}
	for _, name := range slices.Sorted(maps.Keys(f.workers)) {
		w := f.workers[name]
		if w.pool != pool {
			continue
		}
		if now.Sub(w.seenAt) > f.silence {
			f.forget(w)
			continue
		}
		busy := len(w.held) + w.stray
		p.Workers = append(p.Workers, Worker{
			Pool: w.pool, Name: w.name, Slots: w.slots, Held: len(w.held), Busy: busy, Order: w.order, FirstAt: w.firstAt, SeenAt: w.seenAt,
		})
		if w.order == protocol.Run {
			p.Slots += w.slots
			p.Busy += busy
		}
	}
	for id, l := range f.lives {
		if now.Sub(l.seenAt) > lifeKept {
			delete(f.lives, id)
		}
	}
	p.Totals, p.Started = f.totals[pool], f.started[pool]
	return p
}

// FirstToGo returns the names of a pool's workers in the order in which they should go: those that hold nothing
// first, even when their handlers go on without a lease, then those that hold the fewest jobs; among equals the youngest.
func (p Pool) FirstToGo() []string {
	ws := slices.DeleteFunc(slices.Clone(p.Workers), func(w Worker) bool { return w.Order != protocol.Run })
	slices.SortStableFunc(ws, func(a, b Worker) int {
		return cmp.Or(cmp.Compare(a.Held, b.Held), b.FirstAt.Compare(a.FirstAt))
	})
	names := make([]string, len(ws))
	for i, w := range ws {
		names[i] = w.Name
	}
	return names
}

// grow returns total plus what is new in now over before. A report that goes backwards adds nothing.
func grow(total, before, now protocol.Totals) protocol.Totals {
	total.Acked += max(0, now.Acked-before.Acked)
	total.Nacked += max(0, now.Nacked-before.Nacked)
	total.Released += max(0, now.Released-before.Released)
	total.Dead += max(0, now.Dead-before.Dead)
	total.Crashed += max(0, now.Crashed-before.Crashed)
	total.BusySeconds += max(0, now.BusySeconds-before.BusySeconds)
	total.BusySquares += max(0, now.BusySquares-before.BusySquares)
	total.Runs += max(0, now.Runs-before.Runs)
	return total
}
