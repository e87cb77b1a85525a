package queuetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/headrace/headrace/queue"
)

// full is a queue with every optional interface.
type full interface {
	queue.Queue
	queue.Extender
	queue.Publisher
	queue.StatsReader
	queue.Waiter
	queue.Finder
	queue.Canceller
	queue.Redriver
	queue.Abandoner
}

// kit is what a story works with.
type kit struct {
	*testing.T
	Config
	h      *Harness
	policy queue.Policy
	q      full
	held   map[string]bool
}

func (k *kit) use(q queue.Queue) {
	k.Helper()
	f, ok := q.(full)
	if !ok {
		k.Fatalf("%T lacks an optional interface that this suite tests", q)
	}
	k.q = f
}

func (k *kit) sleep(units float64) { time.Sleep(time.Duration(units * float64(k.Unit))) }

func (k *kit) units(n float64) time.Duration { return time.Duration(n * float64(k.Unit)) }

// publish publishes jobs that must be accepted and returns their ids.
func (k *kit) publish(jobs ...queue.Job) []string {
	k.Helper()
	ids := make([]string, len(jobs))
	for i, p := range k.q.Publish(k.Context(), jobs) {
		if p.Err != nil {
			k.Fatalf("publish job %d: %v", i, p.Err)
		}
		ids[i] = p.ID
	}
	return ids
}

// publishN publishes n jobs whose payloads are their numbers.
func (k *kit) publishN(n int) []string {
	k.Helper()
	jobs := make([]queue.Job, n)
	for i := range jobs {
		jobs[i].Payload = fmt.Append(nil, i)
	}
	return k.publish(jobs...)
}

// receive asks once, without waiting.
func (k *kit) receive(worker string, n int) []queue.Lease {
	k.Helper()
	return k.receiveWithin(worker, n, 0)
}

// receiveWithin asks once and waits up to units for the first job.
func (k *kit) receiveWithin(worker string, n int, units float64) []queue.Lease {
	k.Helper()
	ls, err := k.q.Receive(k.Context(), queue.Request{Worker: worker, Max: n, Wait: k.units(units)})
	if err != nil {
		k.Fatalf("receive: %v", err)
	}
	if len(ls) > n {
		k.Fatalf("received %d jobs, asked for %d", len(ls), n)
	}
	return ls
}

// one receives exactly one job, now.
func (k *kit) one(worker string) queue.Lease {
	k.Helper()
	ls := k.receive(worker, 1)
	if len(ls) != 1 {
		k.Fatalf("received %d jobs, want 1", len(ls))
	}
	return ls[0]
}

// none receives nothing, now.
func (k *kit) none(worker string) {
	k.Helper()
	if ls := k.receive(worker, 10); len(ls) != 0 {
		k.Fatalf("%s received %d jobs, want none", worker, len(ls))
	}
}

func (k *kit) settleErr(s queue.Settlement) error {
	k.Helper()
	errs := k.q.Settle(k.Context(), []queue.Settlement{s})
	if len(errs) != 1 {
		k.Fatalf("settling one job gave %d answers", len(errs))
	}
	return errs[0]
}

// settle must succeed.
func (k *kit) settle(l queue.Lease, v queue.Verdict) {
	k.Helper()
	k.settleAs(queue.Settlement{Receipt: l.Receipt(), Verdict: v})
}

func (k *kit) settleAs(s queue.Settlement) {
	k.Helper()
	if err := k.settleErr(s); err != nil {
		k.Fatalf("%s: %v", s.Verdict, err)
	}
}

func (k *kit) extend(l queue.Lease, d time.Duration) queue.Extension {
	k.Helper()
	es := k.q.Extend(k.Context(), []queue.Receipt{l.Receipt()}, d)
	if len(es) != 1 {
		k.Fatalf("extending one lease gave %d answers", len(es))
	}
	return es[0]
}

func (k *kit) get(id string) queue.Record {
	k.Helper()
	r, err := k.q.Get(k.Context(), id)
	if err != nil {
		k.Fatalf("get: %v", err)
	}
	return r
}

func (k *kit) wantState(id string, want queue.State) queue.Record {
	k.Helper()
	r := k.get(id)
	if r.State != want {
		k.Fatalf("job %s is %s, want %s (%+v)", id, r.State, want, r)
	}
	return r
}

func (k *kit) wantErr(got, want error) {
	k.Helper()
	if !errors.Is(got, want) {
		k.Fatalf("error is %v, want %v", got, want)
	}
}

func (k *kit) stats() queue.Stats {
	k.Helper()
	s, err := k.q.Stats(k.Context())
	if err != nil {
		k.Fatalf("stats: %v", err)
	}
	for name, n := range map[string]queue.Number{"backlog": s.Backlog, "delayed": s.Delayed, "in flight": s.InFlight, "dead": s.Dead, "oldest age": s.OldestAge} {
		if n.Known() && n.Value < 0 {
			k.Fatalf("%s is %v", name, n.Value)
		}
	}
	return s
}

// levels are backlog, delayed, in-flight and dead.
func (k *kit) wantLevels(backlog, delayed, inFlight, dead float64) {
	k.Helper()
	s := k.stats()
	got := [4]float64{s.Backlog.Value, s.Delayed.Value, s.InFlight.Value, s.Dead.Value}
	if want := [4]float64{backlog, delayed, inFlight, dead}; got != want {
		k.Fatalf("backlog, delayed, in flight, dead are %v, want %v", got, want)
	}
}

// eventually waits until ok holds, up to units.
func (k *kit) eventually(units float64, what string, ok func() bool) {
	k.Helper()
	end := time.Now().Add(k.units(units) + k.Slack)
	for !ok() {
		if time.Now().After(end) {
			k.Fatalf("after %v units: not %s", units, what)
		}
		time.Sleep(k.Unit / 10)
	}
}

// took fails unless the time since start is from least to most units, plus slack.
func (k *kit) took(start time.Time, least, most float64) {
	k.Helper()
	// Leases and delays count from when the operation ran, which is after start: they are never early.
	if d := time.Since(start); d < k.units(least) || d > k.units(most)+k.Slack {
		k.Fatalf("took %v, want %v to %v", d, k.units(least), k.units(most)+k.Slack)
	}
}

func (k *kit) noDrift() {
	k.Helper()
	if k.h.Drift == nil {
		return
	}
	drift, err := k.h.Drift()
	if errors.Is(err, queue.ErrClosed) {
		return // the story ended with it
	}
	if err != nil {
		k.Errorf("drift: %v", err)
	}
	for _, d := range drift {
		k.Error("drift: " + d)
	}
}

// drain receives and acks until nothing is left and returns how often each job was seen.
func (k *kit) drain(worker string) map[string]int {
	k.Helper()
	seen := map[string]int{}
	for {
		ls := k.receive(worker, 100)
		if len(ls) == 0 {
			return seen
		}
		for _, l := range ls {
			seen[l.JobID]++
			k.settle(l, queue.Ack)
		}
	}
}

func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}
