package control

import (
	"context"
	"sync"
	"time"

	"github.com/headrace/headrace/internal/journal"
)

// recordIntents journals what is about to be done: every decision that changes something a reader would ask about,
// and each pool once in a while. A decision is acted upon even when it cannot be recorded: work comes first.
func (l *Loop) recordIntents(ctx context.Context, records []journal.Record, now time.Time) {
	var due []journal.Record
	var at []int
	for i, p := range l.pools {
		if tells(p.last, records[i]) || now.Sub(p.recorded) >= l.opts.RecordEvery {
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

// tells reports whether b says something that a did not.
func tells(a, b journal.Record) bool {
	x, y := a.Decision, b.Decision
	return a.At.IsZero() || y.Desired != y.Current || x.Desired != y.Desired || x.Reason != y.Reason || x.Subject != y.Subject ||
		len(x.Alarms) != len(y.Alarms)
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
	for i, p := range l.pools {
		p.last = records[i]
	}
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
