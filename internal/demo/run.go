package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/internal/httpapi"
	"github.com/headrace/headrace/scale"
)

// run is one playing of a story.
type run struct {
	opts     Options
	app      *app.App
	api      *client
	provider *Provider
	begunAt  time.Time

	asked map[string]Task // what was enqueued, by job id

	// While more jobs waited than there were workers: how long, and how many tokens the provider let through.
	waited     time.Duration
	waitedUsed float64
	lastUsed   float64
	lastAt     time.Time
	lastWaits  bool
	maxReady   int
	toldSeq    int64
}

// watchEvery is how often the run looks, and tells what it sees.
const (
	watchEvery = 200 * time.Millisecond
	tellEvery  = 2 * time.Second
	drainLimit = 2 * time.Minute
)

// play enqueues the story's jobs as they arrive, waits for their end, and sums up.
func (r *run) play(ctx context.Context) (Summary, error) {
	s := r.opts.Story
	r.asked = make(map[string]Task, len(s.Arrivals))
	fmt.Fprintf(r.opts.Out, "%s: %d jobs in %v; each asks a provider that takes %d tokens a minute (%.1f jobs/s)\n",
		s.Title, len(s.Arrivals), s.Duration, s.TokensPerMinute, float64(s.TokensPerMinute)/60/float64(s.TokensPerJob))
	fmt.Fprintf(r.opts.Out, "watch it at %s\n\n", r.app.URL)
	if err := r.ready(ctx); err != nil {
		return Summary{}, err
	}
	r.begunAt = time.Now()
	produced := make(chan error, 1)
	producing, stopProducing := context.WithCancel(ctx)
	sent := make(chan sending, 64)
	go func() { defer close(sent); produced <- r.produce(producing, sent) }()
	defer func(sent <-chan sending) {
		stopProducing()
		for range sent { // until the producer has ended
		}
	}(sent)

	watch := time.NewTicker(watchEvery)
	defer watch.Stop()
	var before told
	var drainedBy time.Time
	for {
		select {
		case b, ok := <-sent:
			if ok {
				for i, id := range b.ids {
					r.asked[id] = b.tasks[i]
				}
				continue
			}
			if err := <-produced; err != nil && ctx.Err() == nil {
				return Summary{}, err
			}
			sent = nil
			// The arrivals are over: what is decided from here on belongs to the final drain.
			var err error
			if before, err = r.decisions(context.WithoutCancel(ctx)); err != nil {
				return Summary{}, err
			}
			drainedBy = time.Now().Add(drainLimit)
			r.tell("the arrivals are over; what is left is worked off")
		case <-watch.C:
			p, err := r.look(context.WithoutCancel(ctx))
			if err != nil {
				return Summary{}, err
			}
			if sent != nil {
				continue
			}
			empty := p.Backlog != nil && p.InFlight != nil && p.Delayed != nil && *p.Backlog+*p.InFlight+*p.Delayed == 0 && p.At.After(r.begunAt)
			if empty && time.Until(drainedBy) < drainLimit-time.Second || time.Now().After(drainedBy) {
				return r.sumUp(context.WithoutCancel(ctx), before, ctx.Err() != nil)
			}
		}
	}
}

// ready waits for the first decision.
func (r *run) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		_, err := r.api.pool(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the first decision: %w", errors.Join(ctx.Err(), err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// sending is a batch that was enqueued.
type sending struct {
	ids   []string
	tasks []Task
}

// produce enqueues every job when it arrives; what is due together goes together.
func (r *run) produce(ctx context.Context, sent chan<- sending) error {
	arrivals := r.opts.Story.Arrivals
	for len(arrivals) > 0 {
		if !sleepUntil(ctx, r.begunAt.Add(arrivals[0].At)) {
			return ctx.Err()
		}
		since := time.Since(r.begunAt)
		n := 1
		for n < len(arrivals) && n < 500 && arrivals[n].At <= since {
			n++
		}
		tasks := make([]Task, n)
		for i, a := range arrivals[:n] {
			tasks[i] = a.Task
		}
		ids, err := r.api.enqueue(ctx, tasks)
		if err != nil {
			return err
		}
		sent <- sending{ids, tasks}
		arrivals = arrivals[n:]
	}
	if !sleepUntil(ctx, r.begunAt.Add(r.opts.Story.Duration)) {
		return ctx.Err()
	}
	return nil
}

func sleepUntil(ctx context.Context, t time.Time) bool {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// look reads the pool, keeps account of the time that jobs waited, and tells what is new.
func (r *run) look(ctx context.Context) (httpapi.Pool, error) {
	p, err := r.api.pool(ctx)
	if err != nil {
		return p, err
	}
	now, used := time.Now(), r.provider.Account().Used
	// A job or two that wait for the next free worker are no backlog, and no reason to use up a provider.
	waits := p.Backlog != nil && *p.Backlog > float64(p.Ready)
	if waits && r.lastWaits {
		r.waited += now.Sub(r.lastAt)
		r.waitedUsed += used - r.lastUsed
	}
	tick := r.since().Truncate(tellEvery) != r.lastAt.Sub(r.begunAt).Truncate(tellEvery)
	r.lastAt, r.lastUsed, r.lastWaits = now, used, waits
	r.maxReady = max(r.maxReady, p.Ready)
	if err := r.tellDecisions(ctx); err != nil {
		return p, err
	}
	if tick {
		r.tell(fmt.Sprintf("   %s waiting, oldest %s · in %.1f/s, out %.1f/s · %d of %d workers",
			count(p.Backlog), seconds(p.OldestAge), deref(p.Arrivals), p.Completions, p.Ready, p.Desired))
	}
	return p, nil
}

// tellDecisions tells every change of size since the last time, and the first time a new reason holds the size.
func (r *run) tellDecisions(ctx context.Context) error {
	ds, err := r.api.decisions(ctx)
	if err != nil {
		return err
	}
	for _, d := range slices.Backward(ds) {
		if d.Seq <= r.toldSeq {
			continue
		}
		r.toldSeq = d.Seq
		switch {
		case d.Desired > d.From:
			r.tell(fmt.Sprintf("▲  %d ▸ %d  %s", d.From, d.Desired, d.Sentence))
		case d.Desired < d.From:
			r.tell(fmt.Sprintf("▼  %d ▸ %d  %s", d.From, d.Desired, d.Sentence))
		case d.Reason != scale.DemandMet:
			r.tell(fmt.Sprintf("●  %d      %s", d.Desired, d.Sentence))
		}
	}
	return nil
}

func (r *run) since() time.Duration { return time.Since(r.begunAt) }

func (r *run) tell(text string) {
	at := r.since()
	fmt.Fprintf(r.opts.Out, "%2d:%04.1f  %s\n", int(at.Minutes()), (at % time.Minute).Seconds(), text)
}

func count(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%.0f", *v)
}

func seconds(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%.1fs", *v)
}

func deref(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}
