package scale_test

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/estimate"
	"github.com/headrace/headrace/scale"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// model is a queue with workers in virtual time: first come, first served; workers start after a delay, take jobs into
// their slots, and when told to go finish what they run, idle ones first. Each cycle runs the estimators and the
// engine on what it can observe, as the control loop does.
type model struct {
	t      *testing.T
	policy scale.Policy
	start  float64 // seconds from order to first job

	now      float64 // seconds since epoch
	arrivals []job   // to come, ascending
	queue    []job
	workers  []*worker
	running  runs
	desired  int

	arrived, completed, attempts float64
	busySeconds, busySquares     float64
	waits                        []float64 // of jobs that started, seconds
	ordered, peak, interrupted   int
	replicaSeconds               float64
	sizes                        []size // after each change
	state                        scale.State
	estimates                    estimate.State
	decisions                    []scale.Decision
	blind, deaf                  bool // the queue cannot be read; the actuator does nothing
	never                        bool // workers start nothing: jobs are never taken
	tweak                        func(*scale.Observation)
	permits, tokens, permitted   float64 // jobs/s that permits let start, those at hand, and when they were counted
	stuckHead                    bool    // the job at the head fails every try and stays where it is
}

type job struct{ at, service float64 }

type size struct {
	at float64
	n  int
}

type worker struct {
	orderedAt, readyAt float64
	counted, going     bool
	slots              []float64 // when each is free
}

type run struct {
	end, service float64
	w            *worker
}

type runs []run

func (r runs) Len() int           { return len(r) }
func (r runs) Less(i, j int) bool { return r[i].end < r[j].end }
func (r runs) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *runs) Push(x any)        { *r = append(*r, x.(run)) }
func (r *runs) Pop() any          { o := *r; x := o[len(o)-1]; *r = o[:len(o)-1]; return x }

func newModel(t *testing.T, p scale.Policy) *model {
	t.Helper()
	if p.Pool == "" {
		p.Pool = "jobs"
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	p = p.WithDefaults()
	return &model{t: t, policy: p, start: p.StartsIn.Seconds()}
}

// flow adds arrivals at a constant rate between two times, evenly spaced, or Poisson when r is given.
func (m *model) flow(from, to, rate, service float64, r *rand.Rand) {
	for at := from; ; {
		gap := 1 / rate
		if r != nil {
			gap = r.ExpFloat64() / rate
		}
		if at += gap; at > to {
			break
		}
		m.arrivals = append(m.arrivals, job{at, service})
	}
	sort.SliceStable(m.arrivals, func(i, j int) bool { return m.arrivals[i].at < m.arrivals[j].at })
}

// dump adds n arrivals at once.
func (m *model) dump(at float64, n int, service float64) {
	for range n {
		m.arrivals = append(m.arrivals, job{at, service})
	}
	sort.SliceStable(m.arrivals, func(i, j int) bool { return m.arrivals[i].at < m.arrivals[j].at })
}

// have gives the pool n workers that are ready.
func (m *model) have(n int) {
	m.order(n)
	for _, w := range m.workers {
		w.readyAt, w.counted = m.now, true
	}
	m.ordered, m.state.Desired = 0, n
}

func (m *model) order(n int) {
	alive := 0
	for _, w := range m.workers {
		if !w.going {
			alive++
		}
	}
	for ; alive < n; alive++ {
		w := &worker{orderedAt: m.now, readyAt: m.now + m.start, slots: make([]float64, m.policy.Concurrency)}
		m.workers = append(m.workers, w)
		m.ordered++
	}
	if alive > n { // those that run least go first
		sorted := slices.Clone(m.workers)
		sort.SliceStable(sorted, func(i, j int) bool { return m.load(sorted[i]) < m.load(sorted[j]) })
		for _, w := range sorted {
			if alive > n && !w.going {
				w.going = true
				alive--
				for _, free := range w.slots {
					if free-m.now > m.policy.Grace.Seconds() {
						m.interrupted++
					}
				}
			}
		}
	}
	m.desired = n
}

func (m *model) load(w *worker) float64 {
	if w.readyAt > m.now {
		return -1
	}
	n := 0.0
	for _, free := range w.slots {
		if free > m.now {
			n++
		}
	}
	return n
}

// until runs cycles up to a time.
func (m *model) until(end float64) {
	for m.now < end {
		m.cycle()
	}
}

func (m *model) cycle() {
	d := m.decide()
	if d.Apply && !m.deaf {
		if d.Desired != m.desired {
			m.sizes = append(m.sizes, size{m.now, d.Desired})
		}
		m.order(d.Desired)
	}
	m.peak = max(m.peak, m.desired)
	m.advance(m.now + m.policy.Cycle.Seconds())
}

// advance serves jobs until a time.
func (m *model) advance(end float64) {
	for {
		next := end
		if len(m.arrivals) > 0 {
			next = min(next, m.arrivals[0].at)
		}
		if len(m.running) > 0 {
			next = min(next, m.running[0].end)
		}
		for _, w := range m.workers {
			if w.readyAt > m.now {
				next = min(next, w.readyAt)
			}
		}
		if m.permits > 0 && len(m.queue) > 0 && m.tokens < 1-1e-9 {
			next = min(next, m.now+(1-m.tokens)/m.permits)
		}
		m.replicaSeconds += (next - m.now) * float64(len(m.workers))
		m.now = next
		for len(m.running) > 0 && m.running[0].end <= m.now {
			r := heap.Pop(&m.running).(run)
			m.completed++
			m.attempts++
			m.busySeconds += r.service
			m.busySquares += r.service * r.service
		}
		m.workers = slices.DeleteFunc(m.workers, func(w *worker) bool { return w.going && m.load(w) <= 0 })
		for len(m.arrivals) > 0 && m.arrivals[0].at <= m.now {
			m.queue = append(m.queue, m.arrivals[0])
			m.arrivals = m.arrivals[1:]
			m.arrived++
		}
		if m.permits > 0 {
			m.tokens = min(max(1, m.permits), m.tokens+(m.now-m.permitted)*m.permits)
			m.permitted = m.now
		}
		for !m.never && (m.permits == 0 || m.tokens >= 1-1e-9) {
			first := 0
			if m.stuckHead {
				first = 1
			}
			w, slot := m.free()
			if w == nil || len(m.queue) <= first {
				break
			}
			j := m.queue[first]
			if first == 0 {
				m.queue = m.queue[1:]
			} else {
				m.queue = slices.Delete(m.queue, first, first+1)
			}
			m.waits = append(m.waits, m.now-j.at)
			m.tokens--
			w.slots[slot] = m.now + j.service
			heap.Push(&m.running, run{m.now + j.service, j.service, w})
		}
		if m.now >= end {
			return
		}
	}
}

// free finds a slot of the worker that runs least.
func (m *model) free() (*worker, int) {
	var best *worker
	at, least := 0, math.Inf(1)
	for _, w := range m.workers {
		if w.going || w.readyAt > m.now {
			continue
		}
		load := m.load(w)
		for i, f := range w.slots {
			if f <= m.now && load < least {
				best, at, least = w, i, load
			}
		}
		if least == 0 {
			break
		}
	}
	return best, at
}

func (m *model) at() time.Time { return epoch.Add(time.Duration(m.now * float64(time.Second))) }

func (m *model) observe() scale.Observation {
	now := m.at()
	o := scale.Observation{At: now, Replicas: scale.Replicas{At: now, Desired: m.desired}}
	sample := estimate.Sample{At: now}
	occupied := 0
	for _, w := range m.workers {
		switch {
		case w.going:
			o.Replicas.Draining++
		case w.readyAt > m.now:
			o.Replicas.Starting = append(o.Replicas.Starting, m.now-w.orderedAt)
		default:
			o.Replicas.Ready++
			if m.load(w) > 0 {
				occupied++
			}
			if !w.counted {
				w.counted = true
				sample.Starts = append(sample.Starts, w.readyAt-w.orderedAt)
			}
		}
	}
	o.Replicas.Busy, o.Replicas.Occupied = scale.Read(float64(len(m.running)), now), scale.Read(float64(occupied), now)
	if m.blind {
		o.Unread = "connection refused"
	} else {
		o.Backlog, o.InFlight = scale.Read(float64(len(m.queue)), now), scale.Read(float64(len(m.running)), now)
		o.Delayed, o.Completions = scale.Read(0, now), scale.Read(m.completed, now)
		oldest := 0.0
		if len(m.queue) > 0 {
			oldest = m.now - m.queue[0].at
		}
		o.OldestAge = scale.Read(oldest, now)
		sample.Arrivals, sample.Completions = scale.Read(m.arrived, now), scale.Read(m.completed, now)
	}
	for _, u := range m.policy.Downstreams {
		o.Limits = append(o.Limits, scale.Limit{Downstream: u.Downstream, Unit: u.Unit, PerSecond: m.permits * u.UnitsPerJob})
	}
	sample.Attempts = scale.Read(m.attempts, now)
	sample.BusySeconds, sample.BusySquares = scale.Read(m.busySeconds, now), scale.Read(m.busySquares, now)
	if len(m.running) > 0 {
		longest := 0.0
		for _, r := range m.running {
			longest = max(longest, m.now-(r.end-r.service))
		}
		sample.Running = scale.Read(longest, now)
	}
	prior := estimate.Prior{ServiceTime: m.policy.ServiceTime, ColdStart: m.policy.StartsIn, Cycle: m.policy.Cycle, Horizon: m.policy.Horizon()}
	m.estimates, o.Estimates = estimate.Update(m.estimates, prior, sample)
	if m.tweak != nil {
		m.tweak(&o)
	}
	return o
}

func (m *model) decide() scale.Decision {
	o := m.observe()
	grant := scale.Share([]scale.Need{scale.Size(m.policy, m.state, o)}, nil)[0]
	var d scale.Decision
	d, m.state = scale.Decide(m.policy, m.state, o, grant)
	m.decisions = append(m.decisions, d)
	return d
}

func (m *model) last() scale.Decision { return m.decisions[len(m.decisions)-1] }

// changes counts the changes of size since a time, and how many of them turned around.
func (m *model) changes(since float64) (n, reversals int) {
	direction, before := 0, 0
	for i, s := range m.sizes {
		if i > 0 {
			before = m.sizes[i-1].n
		}
		turn := 1
		if s.n < before {
			turn = -1
		}
		if s.at >= since {
			n++
			if direction != 0 && turn != direction {
				reversals++
			}
		}
		direction = turn
	}
	return n, reversals
}

// bounds are the least and the largest size since a time.
func (m *model) bounds(since float64) (least, most int) {
	least = math.MaxInt
	for _, d := range m.decisions {
		if d.At.Sub(epoch).Seconds() >= since {
			least, most = min(least, d.Desired), max(most, d.Desired)
		}
	}
	return least, most
}

// percentile is the p-quantile of waits.
func (m *model) percentile(p float64) float64 {
	if len(m.waits) == 0 {
		return 0
	}
	w := slices.Sorted(slices.Values(m.waits))
	return w[min(len(w)-1, int(p*float64(len(w))))]
}

func (m *model) saw(r scale.Reason) bool {
	return slices.ContainsFunc(m.decisions, func(d scale.Decision) bool { return d.Reason == r })
}
