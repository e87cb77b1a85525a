package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/actuator"
	"github.com/headrace/headrace/downstream"
	downstreammemory "github.com/headrace/headrace/downstream/memory"
	"github.com/headrace/headrace/internal/control"
	"github.com/headrace/headrace/internal/fleet"
	"github.com/headrace/headrace/internal/journal"
	"github.com/headrace/headrace/internal/journal/journaltest"
	"github.com/headrace/headrace/internal/journal/sqlite"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/scale"
	"github.com/headrace/headrace/worker/protocol"
)

// source is a queue whose measurements a test chooses.
type source func(ctx context.Context) (queue.Stats, error)

func (s source) Stats(ctx context.Context) (queue.Stats, error) { return s(ctx) }

// waiting measures a backlog that nobody works on.
func waiting(n float64) source {
	return func(context.Context) (queue.Stats, error) {
		now := time.Now()
		return queue.Stats{
			Backlog: queue.Exactly(n, now), InFlight: queue.Exactly(0, now), Delayed: queue.Exactly(0, now),
			OldestAge: queue.Exactly(10, now), Arrivals: queue.Exactly(n, now), Completions: queue.Exactly(0, now),
		}, nil
	}
}

// target is an actuator without memory of its own that obeys at once, unless refuse says otherwise.
type target struct {
	n      int
	asked  []int
	refuse error
}

func (a *target) Count(context.Context) (actuator.Count, error) {
	return actuator.Count{At: time.Now(), Desired: a.n, Ready: a.n}, nil
}

func (a *target) Scale(_ context.Context, n int, _ []string) error {
	a.asked = append(a.asked, n)
	if a.refuse != nil {
		return a.refuse
	}
	a.n = n
	return nil
}

func policy(name string) scale.Policy {
	return scale.Policy{Pool: name, Min: 0, Max: 10, ServiceTime: time.Second, Objective: scale.Objective{OldestAge: 5 * time.Second}}
}

func newLoop(t *testing.T, j journal.Journal, pools ...control.Pool) *control.Loop {
	t.Helper()
	l, err := control.New(t.Context(), pools, j, fleet.New(time.Minute), downstreammemory.New(nil), control.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestS55_AHungBrokerDelaysNobody: of several pools, one's broker takes calls and never answers. The others are decided
// on time in every step; the hung one is unread and keeps its size; and reads do not pile up.
func TestS55_AHungBrokerDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		hung := source(func(ctx context.Context) (queue.Stats, error) {
			reads++
			<-ctx.Done()
			return queue.Stats{}, ctx.Err()
		})
		a, b := &target{}, &target{n: 7}
		l := newLoop(t, &journaltest.Memory{},
			control.Pool{Policy: policy("fine"), Queue: waiting(50), Actuator: a},
			control.Pool{Policy: policy("hung"), Queue: hung, Actuator: b})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		time.Sleep(8500 * time.Millisecond)
		synctest.Wait()
		if a.n == 0 {
			t.Error("the pool with a good broker was not scaled")
		}
		if b.n != 7 {
			t.Errorf("the pool with a hung broker went from 7 to %d", b.n)
		}
		for _, r := range l.Latest() {
			if age := time.Since(r.At); age > 2*time.Second {
				t.Errorf("pool %s was last decided %v ago", r.Pool, age)
			}
			if r.Pool == "hung" && (r.Observation.Unread == "" || r.Decision.Reason != scale.StaleHold) {
				t.Errorf("hung pool: unread %q, reason %s; want it held as unread", r.Observation.Unread, r.Decision.Reason)
			}
		}
		if reads > 2 {
			t.Errorf("%d reads of the hung broker in 8 s, want one at a time", reads)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// What cannot be a number is unknown, and unknown is held, never zero; and the record of it can be stored.
func TestImpossibleNumbersAreUnknown(t *testing.T) {
	for name, v := range map[string]float64{"NaN": math.NaN(), "infinite": math.Inf(1), "negative": -3} {
		j := &journaltest.Memory{}
		a := &target{n: 4}
		l := newLoop(t, j, control.Pool{Policy: policy("p"), Actuator: a, Queue: source(func(context.Context) (queue.Stats, error) {
			now := time.Now()
			return queue.Stats{Backlog: queue.Exactly(v, now), OldestAge: queue.Exactly(v, now)}, nil
		})})
		l.Step(t.Context(), time.Now())
		if a.n != 4 {
			t.Errorf("%s: the pool went from 4 to %d", name, a.n)
		}
		if len(j.Records()) != 1 {
			t.Fatalf("%s: %d records, want 1", name, len(j.Records()))
		}
		if _, err := json.Marshal(j.Records()[0]); err != nil {
			t.Errorf("%s: the record cannot be stored: %v", name, err)
		}
	}
}

// An actuator that refuses is asked again; the refusal is in the record; nothing winds up meanwhile.
func TestARefusalIsRecordedAndAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journaltest.Memory{}
		a := &target{refuse: errors.New("quota")}
		l := newLoop(t, j, control.Pool{Policy: policy("p"), Queue: waiting(3), Actuator: a})
		for range 3 {
			l.Step(t.Context(), time.Now())
			time.Sleep(time.Second)
		}
		if len(a.asked) != 3 {
			t.Fatalf("asked %v, want once a step", a.asked)
		}
		if got := j.Records()[0].Outcome; got.Applied || got.Error != "quota" {
			t.Errorf("outcome %+v, want the refusal", got)
		}
		a.refuse = nil
		l.Step(t.Context(), time.Now())
		if last := a.asked[len(a.asked)-1]; a.n != last || last > 3 {
			t.Errorf("at %d after it obeyed (asked for %v), want what three jobs need at most", a.n, a.asked)
		}
	})
}

// What an actuator says of its workers reaches those who ask why a pool does not come up, until it is over.
func TestTroubleOfWorkersIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &dying{trouble: "1 of 1 workers keep dying: exit status 3"}
		l := newLoop(t, &journaltest.Memory{}, control.Pool{Policy: policy("p"), Queue: waiting(5), Actuator: a})
		for _, want := range []string{a.trouble, ""} {
			a.trouble = want
			l.Step(t.Context(), time.Now())
			if got := l.Latest()[0].Trouble; got != want {
				t.Errorf("trouble %q, want %q", got, want)
			}
			time.Sleep(time.Second)
		}
	})
}

// dying is a target whose workers are in trouble.
type dying struct {
	target
	trouble string
}

func (a *dying) Count(ctx context.Context) (actuator.Count, error) {
	c, err := a.target.Count(ctx)
	c.Trouble = a.trouble
	return c, err
}

// The journal does not grow with what stays as it is: a pool that observes and wants workers for an hour, one whose actuator
// refuses for an hour, and one at rest. What happens in between is recorded all the same.
func TestTheJournalGrowsWithWhatHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journaltest.Memory{}
		observed := policy("observed")
		observed.Observe = true
		rest := 0.0
		resting := source(func(ctx context.Context) (queue.Stats, error) { return waiting(rest)(ctx) })
		l := newLoop(t, j,
			control.Pool{Policy: observed, Queue: waiting(50), Actuator: &target{}},
			control.Pool{Policy: policy("refused"), Queue: waiting(50), Actuator: &target{refuse: errors.New("quota")}},
			control.Pool{Policy: policy("resting"), Queue: resting, Actuator: &target{}})
		step := func() {
			l.Step(t.Context(), time.Now())
			time.Sleep(time.Second)
		}
		for range 3600 {
			step()
		}
		records := map[string]int{}
		for _, r := range j.Records() {
			records[r.Pool]++
		}
		if n := records["observed"]; n < 60 || n > 90 {
			t.Errorf("observed: %d records an hour, want about one a minute", n)
		}
		if n := records["refused"]; n < 60 || n > 90 {
			t.Errorf("refused: %d records an hour, want about one a minute", n)
		}
		if n := records["resting"]; n < 3 || n > 6 {
			t.Errorf("resting: %d records an hour, want about one in a quarter of an hour", n)
		}
		rest = 50
		before := len(j.Records())
		step()
		if news := j.Records()[before:]; len(news) == 0 || news[len(news)-1].Pool != "resting" {
			t.Error("the end of the rest was not recorded")
		}
	})
}

// Observe mode decides, records and explains, and tells the actuator nothing.
func TestObserveModeChangesNothing(t *testing.T) {
	p := policy("p")
	p.Observe = true
	j, a := &journaltest.Memory{}, &target{}
	l := newLoop(t, j, control.Pool{Policy: p, Queue: waiting(50), Actuator: a})
	l.Step(t.Context(), time.Now())
	if len(a.asked) != 0 {
		t.Errorf("the actuator was asked for %v", a.asked)
	}
	if len(j.Records()) != 1 || j.Records()[0].Decision.Desired == 0 {
		t.Errorf("records %+v, want one that wants workers", j.Records())
	}
	a.n = 1 // by somebody else's hand
	l.Step(t.Context(), time.Now())
	if d := l.Latest()[0].Decision; d.Current != 1 {
		t.Errorf("decides from %d replicas, the pool has 1", d.Current)
	}
}

// State survives a restart: what the estimators knew, and that the last size was asked for, although the new process's
// actuator remembers nothing.
func TestARestartGoesOnFromTheLastSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	run := func(a *target, q source) journal.Record {
		j, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		l := newLoop(t, j, control.Pool{Policy: policy("p"), Queue: q, Actuator: a})
		l.Step(t.Context(), time.Now())
		return l.Latest()[0]
	}
	first := run(&target{}, waiting(50))
	if first.Decision.Desired < 2 {
		t.Fatalf("first decision: %d, want several", first.Decision.Desired)
	}
	empty := source(func(context.Context) (queue.Stats, error) {
		now := time.Now()
		return queue.Stats{Backlog: queue.Exactly(0, now), InFlight: queue.Exactly(0, now), OldestAge: queue.Exactly(0, now)}, nil
	})
	a := &target{}
	second := run(a, empty)
	if second.Decision.Desired < first.Decision.Desired {
		t.Errorf("after the restart: %d desired, want the %d from before until the hold has passed", second.Decision.Desired, first.Decision.Desired)
	}
	if a.n != second.Decision.Desired {
		t.Errorf("the forgetful actuator is at %d, want %d", a.n, second.Decision.Desired)
	}
}

// A saved state is as old as the stop was long. The restart hold counts from the first decision of the new process all the same.
func TestTheRestartHoldBeginsAnewAfterALongStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, a := &journaltest.Memory{}, &target{}
		process := func(backlog float64) journal.Record { // it runs for ten seconds
			l := newLoop(t, j, control.Pool{Policy: policy("p"), Queue: waiting(backlog), Actuator: a})
			for range 10 {
				l.Step(t.Context(), time.Now())
				time.Sleep(time.Second)
			}
			return l.Latest()[0]
		}
		before := process(50).Decision.Desired
		if before < 2 {
			t.Fatalf("%d desired, want several", before)
		}
		time.Sleep(24 * time.Hour)
		if got := process(0); got.Decision.Desired < before || got.Decision.Reason != scale.RestartHold {
			t.Errorf("ten seconds after a stop of a day: %d by %s, want the %d from before, held by the restart", got.Decision.Desired, got.Decision.Reason, before)
		}
	})
}

// While a downstream asks to be left alone, what runs take says more about it than about the jobs: the service time stays.
func TestAPausedDownstreamFreezesTheServiceTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, store := fleet.New(time.Hour), downstreammemory.New(map[string][]downstream.Limit{"api": {{Unit: "tokens", PerSecond: 100}}})
		p := policy("p")
		p.Downstreams = []scale.Use{{Downstream: "api", Unit: "tokens", UnitsPerJob: 1, Permits: true}}
		l, err := control.New(t.Context(), []control.Pool{{Policy: p, Queue: waiting(5), Actuator: &target{n: 2}}}, &journaltest.Memory{}, f, store, control.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var total protocol.Totals
		run := func(seconds float64) float64 { // a hundred runs of so many seconds, and what is then believed
			total.Runs, total.BusySeconds, total.BusySquares = total.Runs+100, total.BusySeconds+100*seconds, total.BusySquares+100*seconds*seconds
			f.Heartbeat(protocol.HeartbeatRequest{Worker: "w", Pool: "p", Slots: 1, Incarnation: "i", Totals: total})
			time.Sleep(time.Second)
			l.Step(t.Context(), time.Now())
			return l.Latest()[0].Observation.Estimates.ServiceTime
		}
		l.Step(t.Context(), time.Now())
		calm := run(1)
		if err := store.Report(t.Context(), []downstream.Report{{Downstream: "api", Outcome: downstream.Throttled, RetryAfter: time.Hour}}); err != nil {
			t.Fatal(err)
		}
		run(1) // sees the pause
		if got := run(30); got > 1.2*calm {
			t.Errorf("service time %.2f s while the downstream is paused, want about the %.2f s from before", got, calm)
		}
	})
}

// Workers that outlive a restart of the control plane come back to it. How long ago they were ordered is not how long they took to start.
func TestWorkersOlderThanTheProcessSayNothingOfStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fleet.New(time.Minute)
		a := &crew{workers: []actuator.Worker{{ID: "a", State: actuator.Running, OrderedAt: time.Now().Add(-5 * time.Hour)}}}
		l, err := control.New(t.Context(), []control.Pool{{Policy: policy("p"), Queue: waiting(1), Actuator: a}}, &journaltest.Memory{}, f, downstreammemory.New(nil), control.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l.Step(t.Context(), time.Now())
		f.Claimed("p", "a", 1)
		time.Sleep(2 * time.Second)
		a.workers = append(a.workers, actuator.Worker{ID: "b", State: actuator.Running, OrderedAt: time.Now()})
		time.Sleep(3 * time.Second)
		f.Claimed("p", "b", 1)
		l.Step(t.Context(), time.Now())
		e := l.Latest()[0].Observation.Estimates
		if e.ColdStarts != 1 || e.ColdStart != 3 {
			t.Errorf("cold start %v s from %d starts, want 3 s from the one that was seen", e.ColdStart, e.ColdStarts)
		}
	})
}

// crew is an actuator that knows its workers.
type crew struct {
	target
	workers []actuator.Worker
}

func (a *crew) Count(context.Context) (actuator.Count, error) {
	return actuator.Count{At: time.Now(), Desired: len(a.workers), Workers: a.workers}, nil
}

// timeless is an actuator whose counts are of the moment they are read.
type timeless struct{ target }

func (a *timeless) Count(ctx context.Context) (actuator.Count, error) {
	c, err := a.target.Count(ctx)
	c.At = time.Time{}
	return c, err
}

// BenchmarkStep decides many pools in one cycle; the sources answer from memory.
func BenchmarkStep(b *testing.B) {
	now := time.Now()
	fresh := source(func(context.Context) (queue.Stats, error) {
		s, err := waiting(50)(b.Context())
		for _, n := range []*queue.Number{&s.Backlog, &s.InFlight, &s.Delayed, &s.OldestAge, &s.Arrivals, &s.Completions} {
			n.At = now
		}
		return s, err
	})
	pools := make([]control.Pool, 1000)
	for i := range pools {
		pools[i] = control.Pool{Policy: policy(fmt.Sprint("p", i)), Queue: fresh, Actuator: &timeless{}}
	}
	l, err := control.New(b.Context(), pools, &journaltest.Memory{}, fleet.New(time.Minute), downstreammemory.New(nil), control.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Second)
		l.Step(b.Context(), now)
	}
}

// Jobs that are given back again and again while none ends are told of: nothing fails, and hardly anything waits.
func TestJobsThatAreOnlyGivenBackAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var released int64
		ended := 3.0
		q := source(func(context.Context) (queue.Stats, error) {
			now := time.Now()
			return queue.Stats{
				Backlog: queue.Exactly(0, now), InFlight: queue.Exactly(1, now), Completions: queue.Exactly(ended, now),
				Totals: map[string]int64{"released": released},
			}, nil
		})
		l := newLoop(t, &journaltest.Memory{}, control.Pool{Policy: policy("p"), Queue: q, Actuator: &target{n: 1}})
		after := func(seconds int, each func()) string {
			for range seconds {
				each()
				l.Step(t.Context(), time.Now())
				time.Sleep(time.Second)
			}
			return l.Latest()[0].Trouble
		}
		if got := after(30, func() { released++; ended++ }); got != "" {
			t.Errorf("while jobs end too: %q", got)
		}
		if got := after(9, func() { released++ }); got != "" {
			t.Errorf("after nine seconds: %q, want nothing yet", got)
		}
		if got := after(30, func() { released++ }); !strings.Contains(got, "given back") {
			t.Errorf("after 39 seconds: %q, want it told", got)
		}
		if got := after(1, func() { ended++ }); got != "" {
			t.Errorf("after one ended: %q", got)
		}
	})
}
