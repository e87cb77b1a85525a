package queuetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headrace/headrace/queue"
)

func statsAreExact(k *kit) {
	s := k.stats()
	if s.NextDue.Known() || s.NextDue.Unknown == "" {
		k.Fatalf("next due is %+v, want unknown with a reason", s.NextDue)
	}
	epoch := s.Epoch
	k.publishN(10)
	k.publish(queue.Job{Delay: time.Hour}, queue.Job{Delay: 2 * time.Hour})
	k.receive("alive", 2)
	k.receive("dead", 3)
	k.settle(k.one("w"), queue.Dead)
	k.wantLevels(4, 2, 5, 1)
	s = k.stats()
	if s.Arrivals.Value != 10 || s.Completions.Value != 1 || s.Totals["dead"] != 1 || s.Epoch != epoch || epoch == "" {
		k.Fatalf("stats are %+v", s)
	}
	if d := s.NextDue.Value; d > 3600 || d < 3600-k.Slack.Seconds()*50-1 {
		k.Fatalf("next due in %v s", d)
	}
	k.sleep(5)
	s = k.stats()
	if age := s.OldestLease.Value; age < k.units(5).Seconds() || age > (k.units(5)+5*k.Slack).Seconds() {
		k.Fatalf("oldest lease is %v s old", age)
	}
}

func statsAgeCountsFromReady(k *kit) {
	if s := k.stats(); !s.OldestAge.Known() || s.OldestAge.Value != 0 {
		k.Fatalf("oldest age of an empty queue is %+v", s.OldestAge)
	}
	k.publish(queue.Job{Delay: k.units(4)})
	k.sleep(7)
	age := func(least, most float64) {
		k.Helper()
		if got := k.stats().OldestAge.Value; got < k.units(least).Seconds()-k.Slack.Seconds() || got > (k.units(most)+k.Slack).Seconds() {
			k.Fatalf("oldest age is %v s, want %v to %v", got, k.units(least), k.units(most))
		}
	}
	age(3, 3)
	// A nacked job waits anew, from when its delay is over.
	k.settleAs(queue.Settlement{Receipt: k.one("w").Receipt(), Verdict: queue.Nack, Delay: new(k.units(5))})
	age(0, 0)
	k.sleep(7)
	age(2, 2)
	if s := k.stats(); s.Arrivals.Value != 1 {
		k.Fatalf("%v arrivals of one job", s.Arrivals.Value)
	}
}

func badJobHarmsNoNeighbour(k *kit) {
	ps := k.q.Publish(k.Context(), []queue.Job{
		{Payload: []byte("a"), Key: "k"}, {Priority: 99}, {Payload: []byte("b"), Key: "k"}, {Payload: []byte("a"), Key: "k"}, {Payload: []byte("c")},
	})
	if len(ps) != 5 || ps[0].Err != nil || ps[4].Err != nil || ps[3].Err != nil || !ps[3].Duplicate || ps[3].ID != ps[0].ID {
		k.Fatalf("published %+v", ps)
	}
	k.wantErr(ps[1].Err, queue.ErrInvalid)
	k.wantErr(ps[2].Err, queue.ErrConflict)
	k.wantLevels(2, 0, 0, 0)
	// One bad settlement among good ones.
	ls := k.receive("w", 2)
	errs := k.q.Settle(k.Context(), []queue.Settlement{
		{Receipt: ls[0].Receipt(), Verdict: queue.Ack}, {Receipt: queue.Receipt{JobID: ls[1].JobID, Token: 1 << 40}, Verdict: queue.Ack},
		{Receipt: ls[1].Receipt(), Verdict: queue.Ack},
	})
	if errs[0] != nil || errs[2] != nil {
		k.Fatalf("settled %v", errs)
	}
	k.wantErr(errs[1], queue.ErrLost)
}

func ownIDsAreKept(k *kit) {
	const id = "0197f000-0000-7000-8000-00000000abcd"
	if got := k.publish(queue.Job{ID: id, Payload: []byte("a")})[0]; got != id {
		k.Fatalf("id is %s, want %s", got, id)
	}
	p := k.q.Publish(k.Context(), []queue.Job{{ID: id, Payload: []byte("a")}, {ID: id, Payload: []byte("b")}})
	if p[0].Err != nil || !p[0].Duplicate || p[0].ID != id {
		k.Fatalf("published again: %+v", p[0])
	}
	k.wantErr(p[1].Err, queue.ErrConflict)
	k.wantLevels(1, 0, 0, 0)
}

func delayedJobsComeInTime(k *kit) {
	start := time.Now()
	ids := k.publish(queue.Job{Delay: k.units(6)}, queue.Job{Delay: k.units(3)}, queue.Job{})
	k.wantLevels(1, 2, 0, 0)
	for i, want := range []struct {
		id  string
		due float64
	}{{ids[2], 0}, {ids[1], 3}, {ids[0], 6}} {
		ls := k.receiveWithin("w", 5, 100)
		if len(ls) != 1 || ls[0].JobID != want.id {
			k.Fatalf("delivery %d is %+v, want job %s", i, ls, want.id)
		}
		k.took(start, want.due, want.due)
		if got := k.stats().Arrivals.Value; got != float64(i+1) {
			k.Fatalf("%v arrivals after %d jobs became due", got, i+1)
		}
		k.settle(ls[0], queue.Ack)
	}
}

func expiredJobsAreNotRun(k *kit) {
	ids := k.publish(
		queue.Job{ExpiresIn: k.units(3)},                     // waits too long
		queue.Job{ExpiresIn: k.units(3), Delay: k.units(50)}, // is delayed beyond it
		queue.Job{ExpiresIn: k.units(6)},                     // is retried too late
		queue.Job{ExpiresIn: k.units(500)},                   // is in time
	)
	held := k.receive("w", 3)
	k.settle(held[0], queue.Release)
	k.sleep(4)
	k.wantState(ids[0], queue.Expired)
	k.wantState(ids[1], queue.Expired)
	k.wantState(ids[2], queue.Leased) // a run is never expired
	k.settleAs(queue.Settlement{Receipt: held[1].Receipt(), Verdict: queue.Nack, Delay: new(k.units(20))})
	k.settle(held[2], queue.Release)
	k.sleep(4)
	k.wantState(ids[2], queue.Expired)
	if l := k.one("w"); l.JobID != ids[3] {
		k.Fatalf("received %+v", l)
	} else {
		k.settle(l, queue.Ack)
	}
	k.none("w")
	if s := k.stats(); s.Totals["expired"] != 3 || s.Completions.Value != 4 {
		k.Fatalf("stats are %+v", s)
	}
}

func cancelWaiting(k *kit) {
	ids := k.publish(queue.Job{}, queue.Job{Delay: time.Hour})
	for _, id := range ids {
		r, err := k.q.Cancel(k.Context(), id)
		if err != nil || r.State != queue.Cancelled {
			k.Fatalf("cancelled: %+v, %v", r, err)
		}
		_, err = k.q.Cancel(k.Context(), id)
		k.wantErr(err, queue.ErrConflict)
	}
	k.none("w")
	k.wantLevels(0, 0, 0, 0)
}

func cancelLeased(k *kit) {
	for _, v := range []queue.Verdict{queue.Ack, queue.Nack, queue.Release, queue.Crash, queue.Dead} {
		id := k.publishN(1)[0]
		l := k.one("w")
		if e := k.extend(l, 0); e.Err != nil || e.Cancel {
			k.Fatalf("extension is %+v", e)
		}
		for range 2 {
			if r, err := k.q.Cancel(k.Context(), id); err != nil || r.State != queue.Leased {
				k.Fatalf("cancelled: %+v, %v", r, err)
			}
		}
		if e := k.extend(l, 0); e.Err != nil || !e.Cancel {
			k.Fatalf("extension after cancel is %+v", e)
		}
		s := queue.Settlement{Receipt: l.Receipt(), Verdict: v, Result: []byte("late")}
		k.settleAs(s)
		k.settleAs(s)
		r := k.wantState(id, queue.Cancelled)
		if v == queue.Ack && string(r.Result) != "late" {
			k.Fatalf("the result was not kept: %+v", r)
		}
	}
	// Nobody settles: the lease ends it.
	id := k.publishN(1)[0]
	k.one("w")
	if _, err := k.q.Cancel(k.Context(), id); err != nil {
		k.Fatal(err)
	}
	k.eventually(10, "cancelled", func() bool { return k.get(id).State == queue.Cancelled })
	if s := k.stats(); s.Totals["cancelled"] != 6 || s.Completions.Value != 6 {
		k.Fatalf("stats are %+v", s)
	}
}

func redriveGivesAnotherLife(k *kit) {
	ids := k.publishN(4)
	for range 3 {
		k.settleAs(queue.Settlement{Receipt: k.one("w").Receipt(), Verdict: queue.Dead, Reason: "bad"})
	}
	k.settle(k.one("w"), queue.Crash)
	k.settle(k.one("w"), queue.Crash) // the last one is poison
	k.wantLevels(0, 0, 0, 4)
	if n, err := k.q.Redrive(k.Context(), 2, false); err != nil || n != 2 {
		k.Fatalf("redrove %d, %v", n, err)
	}
	if n, err := k.q.Redrive(k.Context(), 100, false); err != nil || n != 1 {
		k.Fatalf("redrove %d, %v; the poison job must stay", n, err)
	}
	if r := k.wantState(ids[3], queue.DeadState); r.DeadReason != queue.ReasonPoison {
		k.Fatalf("record is %+v", r)
	}
	if n, err := k.q.Redrive(k.Context(), 100, true); err != nil || n != 1 {
		k.Fatalf("forced redrive moved %d, %v", n, err)
	}
	s := k.stats()
	if s.Arrivals.Value != 8 || s.Totals["redriven"] != 4 {
		k.Fatalf("stats are %+v", s)
	}
	for i, l := range k.receive("w", 10) {
		if l.JobID != ids[i] || l.Attempt != 1 || l.Crashes != 0 {
			k.Fatalf("redriven job %d is %+v", i, l)
		}
		k.settle(l, queue.Ack)
		if r := k.wantState(l.JobID, queue.Succeeded); r.Redrives != 1 || r.DeadReason != "" {
			k.Fatalf("record is %+v", r)
		}
	}
}

func awaitReturnsAtTheEnd(k *kit) {
	id := k.publishN(1)[0]
	ctx, cancel := within(k.Context(), k.units(2))
	start := time.Now()
	r, err := k.q.Await(ctx, id)
	cancel()
	if err != nil || r.State != queue.Ready {
		k.Fatalf("await: %+v, %v", r, err)
	}
	k.took(start, 2, 2)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if r, err := k.q.Await(k.Context(), id); err != nil || r.State != queue.Succeeded || string(r.Result) != "done" {
				k.Errorf("await: %+v, %v", r, err)
			}
		})
	}
	k.sleep(2)
	start = time.Now()
	k.settleAs(queue.Settlement{Receipt: k.one("w").Receipt(), Verdict: queue.Ack, Result: []byte("done")})
	wg.Wait()
	k.took(start, 0, 0)
	if r, err := k.q.Await(k.Context(), id); err != nil || r.State != queue.Succeeded {
		k.Fatalf("await of an ended job: %+v, %v", r, err)
	}
}

func listPages(k *kit) {
	ids := k.publishN(25)
	ls := k.receive("w", 2)
	k.sleep(1)
	for _, l := range ls { // two suspects: they are ready jobs like the others, and the youngest
		k.settle(l, queue.Crash)
	}
	want := append(ids[2:], ids[0], ids[1])
	var got []string
	after := ""
	for pages := 1; ; pages++ {
		page, next, err := k.q.List(k.Context(), queue.Filter{State: queue.Ready, Limit: 5, After: after})
		if err != nil {
			k.Fatal(err)
		}
		for _, r := range page {
			if r.State != queue.Ready || r.Payload != nil {
				k.Fatalf("listed %+v", r)
			}
			got = append(got, r.ID)
		}
		if after = next; next == "" {
			if pages != 5 {
				k.Fatalf("%d pages", pages)
			}
			break
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		k.Fatalf("listed %v, want %v", got, want)
	}
	seen := map[string]bool{}
	for _, id := range got {
		if seen[id] {
			k.Fatalf("%s was listed twice", id)
		}
		seen[id] = true
	}
	k.publish(queue.Job{Key: "k", Payload: []byte("x"), Headers: map[string]string{"a": "b"}, Delay: time.Hour})
	if page, _, err := k.q.List(k.Context(), queue.Filter{State: queue.Delayed, Limit: 1}); err != nil || len(page) != 1 || page[0].Key != "k" || page[0].Payload != nil {
		k.Fatalf("listed %+v, %v; want the job with its key, without its payload", page, err)
	}
	for _, f := range []queue.Filter{{State: "odd", Limit: 1}, {State: queue.Ready}, {State: queue.Ready, Limit: 1001}, {State: queue.Ready, Limit: 1, After: "?"}} {
		_, _, err := k.q.List(k.Context(), f)
		k.wantErr(err, queue.ErrInvalid)
	}
	for _, st := range queue.States {
		if _, _, err := k.q.List(k.Context(), queue.Filter{State: st, Limit: 1}); err != nil {
			k.Fatalf("list %s: %v", st, err)
		}
	}
}

func waitTellsOfWork(k *kit) {
	ctx, cancel := within(k.Context(), k.units(2))
	err := k.q.Wait(ctx, "w")
	cancel()
	if !errors.Is(err, context.DeadlineExceeded) {
		k.Fatalf("wait on an empty queue: %v", err)
	}
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			if err := k.q.Wait(k.Context(), fmt.Sprint("w", i)); err != nil {
				k.Error(err)
			}
		})
	}
	k.sleep(1)
	start := time.Now()
	k.publishN(1)
	wg.Wait()
	k.took(start, 0, 0)
	if err := k.q.Wait(k.Context(), "w"); err != nil { // waiting takes nothing
		k.Fatal(err)
	}
	k.settle(k.one("w"), queue.Ack)
}

func finishedJobsAreForgotten(k *kit) {
	ids := k.publishN(500)
	for range 5 {
		var all []queue.Settlement // at once: one by one may take longer than they are kept
		for _, l := range k.receive("w", 100) {
			v := queue.Ack
			if l.JobID == ids[499] {
				v = queue.Dead
			}
			all = append(all, queue.Settlement{Receipt: l.Receipt(), Verdict: v, Result: []byte("r")})
		}
		for _, err := range k.q.Settle(k.Context(), all) {
			if err != nil {
				k.Fatal(err)
			}
		}
	}
	k.wantState(ids[0], queue.Succeeded)
	// The janitor comes at least a second apart, and lets others pass between its batches.
	k.eventually(20+float64(4*time.Second/k.Unit), "all forgotten", func() bool {
		for _, id := range []string{ids[0], ids[250], ids[498]} {
			if _, err := k.q.Get(k.Context(), id); !errors.Is(err, queue.ErrNotFound) {
				return false
			}
		}
		return true
	})
	k.wantState(ids[499], queue.DeadState) // dead letters stay
	k.wantLevels(0, 0, 0, 1)
}
