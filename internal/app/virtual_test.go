package app_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/actuator"
	"github.com/headrace/headrace/downstream"
	downstreammemory "github.com/headrace/headrace/downstream/memory"
	"github.com/headrace/headrace/internal/control"
	"github.com/headrace/headrace/internal/dispatch"
	"github.com/headrace/headrace/internal/fleet"
	"github.com/headrace/headrace/internal/journal"
	"github.com/headrace/headrace/internal/journal/journaltest"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/memory"
	"github.com/headrace/headrace/scale"
	"github.com/headrace/headrace/worker"
	"github.com/headrace/headrace/worker/protocol"
)

// world is a whole Headrace in virtual time: the production loop, dispatcher, fleet, engine and worker runtime on a
// queue in memory. Only the processes are missing: workers are goroutines that need startsIn until they claim.
type world struct {
	t          *testing.T
	queue      *memory.Queue
	journal    *journaltest.Memory
	dispatcher *dispatch.Dispatcher
	fleet      *fleet.Fleet
	store      downstream.Store
	actuator   *goroutines
	loop       *control.Loop
	pool       control.Pool
	begunAt    time.Time

	mu   sync.Mutex
	runs map[string]int // starts of a handler, by job
}

// handler is what a world's workers do with a job.
type handler func(ctx context.Context, job *worker.Job) ([]byte, error)

// sleepFor works for a fixed time.
func sleepFor(d time.Duration) handler {
	return func(ctx context.Context, _ *worker.Job) ([]byte, error) {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return []byte(`"done"`), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// inWorld runs f in a world where one pool serves one queue.
func inWorld(t *testing.T, policy scale.Policy, qp queue.Policy, startsIn time.Duration, h handler, f func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, journal: &journaltest.Memory{}, runs: map[string]int{}, begunAt: time.Now()}
		policy.Pool = "p"
		policy.StartsIn = startsIn
		w.queue = memory.New(qp, memory.Options{})
		defer w.queue.Close(context.Background())
		w.fleet = fleet.New(90 * time.Second)
		w.store = downstreammemory.New(nil)
		lease := qp.WithDefaults().Lease
		w.dispatcher = dispatch.New([]dispatch.Pool{{Name: "p", Queue: w.queue, Heartbeat: lease / 3}}, w.fleet, w.store)
		w.actuator = &goroutines{w: w, startsIn: startsIn, slots: max(1, policy.Concurrency), handle: w.counted(h)}
		w.pool = control.Pool{Policy: policy, Queue: w.queue, Actuator: w.actuator}
		w.restart()
		defer w.actuator.stop()
		f(w)
	})
}

// restart replaces the control loop by a new one, as after a crash of the control plane.
func (w *world) restart() {
	w.t.Helper()
	loop, err := control.New(w.t.Context(), []control.Pool{w.pool}, w.journal, w.fleet, w.store, control.Options{Cycle: time.Second})
	if err != nil {
		w.t.Fatal(err)
	}
	w.loop = loop
}

func (w *world) counted(h handler) worker.Handler {
	return func(ctx context.Context, job *worker.Job) ([]byte, error) {
		w.mu.Lock()
		w.runs[job.ID]++
		w.mu.Unlock()
		return h(ctx, job)
	}
}

// publish enqueues n jobs now.
func (w *world) publish(n int) {
	w.t.Helper()
	jobs := make([]queue.Job, n)
	for i := range jobs {
		jobs[i].Payload = []byte(`{}`)
	}
	for _, p := range w.queue.Publish(w.t.Context(), jobs) {
		if p.Err != nil {
			w.t.Fatal(p.Err)
		}
	}
}

// steps runs the loop for d, a cycle a second, and calls each after each step.
func (w *world) steps(d time.Duration, each func(at time.Duration, r journal.Record)) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
		w.loop.Step(w.t.Context(), time.Now())
		if each != nil {
			each(time.Since(w.begunAt), w.loop.Latest()[0])
		}
	}
}

func (w *world) stats() queue.Stats {
	w.t.Helper()
	st, err := w.queue.Stats(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return st
}

// restarted returns how many jobs were begun more than once.
func (w *world) restarted() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, k := range w.runs {
		if k > 1 {
			n++
		}
	}
	return n
}

// goroutines is an actuator whose workers are goroutines with the real worker runtime.
type goroutines struct {
	w        *world
	startsIn time.Duration
	slots    int
	handle   worker.Handler

	mu      sync.Mutex
	desired int
	made    int
	starts  int
	members []*member
	running sync.WaitGroup
	scales  []int // every size that was asked for
}

type member struct {
	id        string
	orderedAt time.Time
	leaving   bool
	stop      context.CancelFunc
}

func (g *goroutines) Count(context.Context) (actuator.Count, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := actuator.Count{At: time.Now(), Desired: g.desired, Workers: []actuator.Worker{}}
	for _, m := range g.members {
		wk := actuator.Worker{ID: m.id, State: actuator.Running, OrderedAt: m.orderedAt}
		switch {
		case m.leaving:
			wk.State = actuator.Draining
			c.Draining++
		case time.Since(m.orderedAt) < g.startsIn:
			wk.State = actuator.Starting
			c.Starting++
		default:
			c.Ready++
		}
		c.Workers = append(c.Workers, wk)
	}
	return c, nil
}

func (g *goroutines) Scale(_ context.Context, n int, prefer []string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.desired = n
	g.scales = append(g.scales, n)
	staying := slices.DeleteFunc(slices.Clone(g.members), func(m *member) bool { return m.leaving })
	for len(staying) < n {
		m := g.start()
		staying = append(staying, m)
	}
	order := append(slices.Clone(prefer), ids(staying)...)
	for _, id := range order {
		if len(staying) <= n {
			break
		}
		i := slices.IndexFunc(staying, func(m *member) bool { return m.id == id })
		if i < 0 {
			continue
		}
		m := staying[i]
		staying = slices.Delete(staying, i, i+1)
		m.leaving = true
		if !g.w.fleet.Order(m.id, protocol.Drain) {
			m.stop()
		}
	}
	return nil
}

func ids(ms []*member) []string {
	var out []string
	for _, m := range slices.Backward(ms) {
		out = append(out, m.id)
	}
	return out
}

// start begins a worker. The caller holds mu.
func (g *goroutines) start() *member {
	g.made++
	g.starts++
	ctx, stop := context.WithCancel(context.Background())
	m := &member{id: fmt.Sprintf("w%03d", g.made), orderedAt: time.Now(), stop: stop}
	g.members = append(g.members, m)
	g.running.Go(func() {
		defer stop()
		defer g.remove(m)
		timer := time.NewTimer(g.startsIn)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		wk := worker.New(conn{g.w.dispatcher, m.id}, g.handle, worker.Options{Slots: g.slots, StartDelay: time.Nanosecond, Report: 5 * time.Second})
		if err := wk.Run(ctx); err != nil {
			g.w.t.Errorf("worker %s: %v", m.id, err)
		}
	})
	return m
}

func (g *goroutines) remove(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members = slices.DeleteFunc(g.members, func(x *member) bool { return x == m })
}

// stop ends all workers and waits for them.
func (g *goroutines) stop() {
	g.mu.Lock()
	for _, m := range g.members {
		m.stop()
	}
	g.mu.Unlock()
	g.running.Wait()
}

// conn is a worker's connection to a dispatcher in the same process: the worker protocol without a wire.
type conn struct {
	d    *dispatch.Dispatcher
	name string
}

var _ worker.Conn = conn{}

func (c conn) Pool() string { return "p" }

func (c conn) Claim(ctx context.Context, r protocol.ClaimRequest) (protocol.ClaimAnswer, error) {
	r.Worker = c.name
	return c.d.Claim(ctx, "p", r)
}

func (c conn) Heartbeat(ctx context.Context, r protocol.HeartbeatRequest) (protocol.HeartbeatAnswer, error) {
	r.Worker, r.Pool = c.name, "p"
	return c.d.Heartbeat(ctx, r)
}

func (c conn) Settle(ctx context.Context, items []protocol.Settlement) ([]protocol.Settled, error) {
	a, err := c.d.Settle(ctx, protocol.SettleRequest{Worker: c.name, Pool: "p", Items: items})
	return a.Items, err
}

func (c conn) Permit(ctx context.Context, r protocol.PermitRequest) (protocol.PermitAnswer, error) {
	return c.d.Permit(ctx, r)
}

func (c conn) Goodbye(ctx context.Context) error { return c.d.Goodbye(ctx, c.name) }
