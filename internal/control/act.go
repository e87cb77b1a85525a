package control

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/headrace/headrace/internal/journal"
)

// recordIntents journals what is about to be done: every decision that changes something a reader would ask about, and
// each pool once in a while; one at rest more rarely, since hundreds of them would fill a disk with nothing. A decision
// is acted upon even when it cannot be recorded: work comes first.
func (l *Loop) recordIntents(ctx context.Context, records []journal.Record, now time.Time) {
	var due []journal.Record
	var at []int
	for i, p := range l.pools {
		every := l.opts.RecordEvery
		if atRest(records[i]) {
			every *= restFactor
		}
		if tells(p.last, records[i]) || now.Sub(p.recorded) >= every {
			due, at = append(due, records[i]), append(at, i)
		}
	}
	if err := l.journal.Append(ctx, due); err != nil {
		l.opts.Log.ErrorContext(ctx, "decisions not recorded", "error", err)
		return
	}
	for k, i := range at {
		records[i].Seq = due[k].Seq
		l.pools[i].recorded = now
	}
}

// restFactor is how much longer than RecordEvery a pool at rest goes without a record.
const restFactor = 15

// atRest reports that nothing waits, runs or is wanted.
func atRest(r journal.Record) bool {
	o := r.Observation
	return r.Decision.Desired == r.Decision.Current && o.Unread == "" &&
		o.Backlog.Known() && o.Backlog.Value == 0 && o.InFlight.Known() && o.InFlight.Value == 0
}

// tells reports whether b says something that a did not. A change that was wanted before and did not come about, because
// the pool only observes or its actuator refuses, is no news.
func tells(a, b journal.Record) bool {
	x, y := a.Decision, b.Decision
	return a.At.IsZero() || x.Desired != y.Desired || x.Current != y.Current && y.Current != y.Desired ||
		x.Reason != y.Reason || x.Subject != y.Subject || !slices.Equal(x.Alarms, y.Alarms)
}

// act tells every actuator whose target is not what was decided, all at once, and records what came of it.
func (l *Loop) act(ctx context.Context, records []journal.Record) {
	var wg sync.WaitGroup
	for i, p := range l.pools {
		r := &records[i]
		if !r.Decision.Apply || r.Observation.Replicas.At.IsZero() {
			continue
		}
		if p.acted && r.Observation.Replicas.Desired == r.Decision.Desired {
			continue
		}
		wg.Go(func() { l.scaleTo(ctx, p, r) })
	}
	wg.Wait()
}

func (l *Loop) scaleTo(ctx context.Context, p *pool, r *journal.Record) {
	ctx, cancel := context.WithTimeout(ctx, l.opts.ActWithin)
	defer cancel()
	d := r.Decision
	var prefer []string
	if d.Desired < d.Current {
		prefer = l.fleet.Pool(p.Policy.Pool).FirstToGo()
	}
	err := p.Actuator.Scale(ctx, d.Desired, prefer)
	r.Outcome = journal.Outcome{Applied: err == nil}
	if err != nil {
		r.Outcome.Error = err.Error()
		l.opts.Log.WarnContext(ctx, "actuator refused", "pool", d.Pool, "desired", d.Desired, "error", err)
	} else {
		p.acted = true
		if d.Desired != d.Current {
			l.opts.Log.InfoContext(ctx, "scaled", "pool", d.Pool, "from", d.Current, "desired", d.Desired, "reason", d.Reason, "why", d.Sentence)
		}
	}
	if r.Seq > 0 {
		if err := l.journal.SetOutcome(context.WithoutCancel(ctx), r.Seq, r.Outcome); err != nil {
			l.opts.Log.ErrorContext(ctx, "outcome not recorded", "pool", d.Pool, "error", err)
		}
	}
}

// publish makes the step's records visible to readers.
func (l *Loop) publish(records []journal.Record, now time.Time, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steppedAt, l.took = now, took
	for _, r := range records {
		l.latest[r.Pool] = r
		l.counts[r.Pool][r.Decision.Reason]++
		l.series[r.Pool].add(point(r))
	}
}
