// Package control is the loop that turns measurements into workers: observe, size, share, decide, record, act.
//
//	       Stats, Count, fleet, downstreams          scale.Size   scale.Share   scale.Decide
//	observe ───────────────────────────▶ estimate ──▶ a need ─────▶ a grant ─────▶ a decision ──▶ record ──▶ act ──▶ record
//	(all pools at once, a deadline each)             (each pool)   (all pools)    (each pool)    (intent)          (outcome)
//
// [Loop.Step] is one cycle at a given time; [Loop.Run] is a ticker around it. A Loop may be stopped and started anew at
// any point: what it must remember is in the journal, and a restart lowers no pool before its first hold has passed.
package control

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/headrace/headrace/actuator"
	"github.com/headrace/headrace/downstream"
	"github.com/headrace/headrace/internal/estimate"
	"github.com/headrace/headrace/internal/fleet"
	"github.com/headrace/headrace/internal/journal"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/scale"
)

// Pool is what the loop scales.
type Pool struct {
	Policy   scale.Policy
	Queue    queue.StatsReader
	Actuator actuator.Actuator
}

// Options of a [Loop]. The zero value works.
type Options struct {
	// Cycle is the time between steps of Run; default 1 s.
	Cycle time.Duration
	// ObserveWithin is the deadline of each source in a step; default half a second. A source that is later counts as
	// unread in that step, and its answer is taken by the next one.
	ObserveWithin time.Duration
	// ActWithin is the deadline of each actuator call; default 10 s.
	ActWithin time.Duration
	// RecordEvery is how often an unchanged decision is journaled; default 1 min; of a pool at rest, a fifteenth as often.
	// Changed ones always are.
	RecordEvery time.Duration
	// History is how long records are kept; default 14 days.
	History time.Duration
	// Log; default discards.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	set(&o.Cycle, time.Second)
	set(&o.ObserveWithin, 500*time.Millisecond)
	set(&o.ActWithin, 10*time.Second)
	set(&o.RecordEvery, time.Minute)
	set(&o.History, 14*24*time.Hour)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Loop is the control loop of all pools.
type Loop struct {
	opts        Options
	journal     journal.Journal
	fleet       *fleet.Fleet
	downstreams downstream.Store
	pools       []*pool // owned by Step, which one goroutine calls
	savedAt     time.Time
	prunedAt    time.Time
	observing   sync.WaitGroup // reads of sources that outlived their step

	mu        sync.RWMutex
	latest    map[string]journal.Record
	series    map[string]*series
	counts    map[string]map[scale.Reason]int64
	steppedAt time.Time
	took      time.Duration
}

// pool is what the loop remembers of a pool between steps.
type pool struct {
	Pool
	memory    memory
	stats     source[queue.Stats]
	count     source[actuator.Count]
	seen      map[string]bool // workers that have been seen working
	since     time.Time       // of the first count in this process
	acted     bool            // Scale was called since this process started
	recorded  time.Time
	trouble   string // what the actuator said when it was last counted
	givenBack givenBack
	last      journal.Record
}

// memory is what survives a restart.
type memory struct {
	Scale    scale.State    `json:"scale"`
	Estimate estimate.State `json:"estimate"`
}

// New returns a loop that starts nothing until Run or Step. It reads the pools' saved memory from the journal.
func New(ctx context.Context, pools []Pool, j journal.Journal, f *fleet.Fleet, d downstream.Store, opts Options) (*Loop, error) {
	l := &Loop{
		opts: opts.withDefaults(), journal: j, fleet: f, downstreams: d,
		latest: map[string]journal.Record{}, series: map[string]*series{}, counts: map[string]map[scale.Reason]int64{},
	}
	saved, err := j.LoadStates(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range pools {
		if err := p.Policy.Validate(); err != nil {
			return nil, fmt.Errorf("pool %s: %w", p.Policy.Pool, err)
		}
		p.Policy = p.Policy.WithDefaults()
		np := &pool{Pool: p, seen: map[string]bool{}}
		if raw, ok := saved[p.Policy.Pool]; ok {
			if err := json.Unmarshal(raw, &np.memory); err != nil {
				l.opts.Log.WarnContext(ctx, "saved state is unreadable, starting without it", "pool", p.Policy.Pool, "error", err)
				np.memory = memory{}
			}
			np.memory.Scale.StartedAt = time.Time{} // this process has not decided yet: the restart hold begins
		}
		l.pools = append(l.pools, np)
		l.series[p.Policy.Pool] = &series{}
		l.counts[p.Policy.Pool] = map[scale.Reason]int64{}
	}
	return l, nil
}

// Run steps every cycle until ctx is done, then waits for what it started.
func (l *Loop) Run(ctx context.Context) error {
	defer l.observing.Wait()
	tick := time.NewTicker(l.opts.Cycle)
	defer tick.Stop()
	for {
		l.Step(ctx, time.Now())
		select {
		case <-ctx.Done():
			l.saveStates(context.WithoutCancel(ctx), time.Now())
			return nil
		case <-tick.C:
		}
	}
}

// Step runs one cycle of all pools at the time now. It returns when all have been decided and every actuator was told
// or has used up its time. It must not be called by two goroutines at once.
func (l *Loop) Step(ctx context.Context, now time.Time) {
	began := time.Now()
	observations := l.observe(ctx, now)
	if ctx.Err() != nil {
		return // half an observation is no observation
	}
	needs := make([]scale.Need, len(l.pools))
	for i, p := range l.pools {
		needs[i] = scale.Size(p.Policy, p.memory.Scale, observations[i])
	}
	grants := scale.Share(needs, nil)
	records := make([]journal.Record, len(l.pools))
	for i, p := range l.pools {
		d, state := scale.Decide(p.Policy, p.memory.Scale, observations[i], grants[i])
		records[i] = journal.Record{
			At: now, Pool: p.Policy.Pool, Policy: p.Policy, State: p.memory.Scale,
			Observation: observations[i], Grant: grants[i], Decision: d,
			Trouble: p.trouble,
		}
		p.memory.Scale = state
	}
	l.recordIntents(ctx, records, now)
	l.act(ctx, records)
	for i, p := range l.pools {
		p.last = records[i]
	}
	l.publish(records, now, time.Since(began))
	if now.Sub(l.savedAt) >= 5*time.Second {
		l.saveStates(ctx, now)
	}
	if now.Sub(l.prunedAt) >= time.Hour {
		l.prunedAt = now
		if err := l.journal.Prune(ctx, now.Add(-l.opts.History)); err != nil {
			l.opts.Log.WarnContext(ctx, "old decisions not pruned", "error", err)
		}
	}
}

// saveStates persists the memory of all pools.
func (l *Loop) saveStates(ctx context.Context, now time.Time) {
	l.savedAt = now
	states := make(map[string]json.RawMessage, len(l.pools))
	for _, p := range l.pools {
		raw, err := json.Marshal(p.memory)
		if err != nil {
			l.opts.Log.ErrorContext(ctx, "state cannot be saved", "pool", p.Policy.Pool, "error", err)
			continue
		}
		states[p.Policy.Pool] = raw
	}
	if err := l.journal.SaveStates(ctx, states); err != nil {
		l.opts.Log.ErrorContext(ctx, "states not saved: a restart now would begin from older ones", "error", err)
	}
}
