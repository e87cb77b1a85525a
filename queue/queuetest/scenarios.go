package queuetest

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/queue"
)

// A holder that was stopped for longer than its lease wakes up and settles: refused, and exactly one result is kept.
func w10StaleSettle(k *kit) {
	id := k.publishN(1)[0]
	stale := k.one("stopped")
	ls := k.receiveWithin("other", 1, 100)
	if len(ls) != 1 {
		k.Fatal("the job did not come back")
	}
	k.wantErr(k.extend(stale, 0).Err, queue.ErrLost)
	k.wantErr(k.settleErr(queue.Settlement{Receipt: stale.Receipt(), Verdict: queue.Ack, Result: []byte("stale")}), queue.ErrLost)
	k.settleAs(queue.Settlement{Receipt: ls[0].Receipt(), Verdict: queue.Ack, Result: []byte("good")})
	k.wantErr(k.settleErr(queue.Settlement{Receipt: stale.Receipt(), Verdict: queue.Ack, Result: []byte("stale")}), queue.ErrLost)
	if r := k.wantState(id, queue.Succeeded); string(r.Result) != "good" {
		k.Fatalf("result is %q", r.Result)
	}
	if s := k.stats(); s.Completions.Value != 1 {
		k.Fatalf("%v completions", s.Completions.Value)
	}
}

// Extensions in a tight loop beside every kind of settlement: never a false "lost", and no lease left over.
func w11ExtendAndSettleCross(k *kit) {
	const batch = 50
	extends := int64(k.times(100_000))
	var tried, early atomic.Int64
	verdicts := []queue.Verdict{queue.Ack, queue.Nack, queue.Release}
	for round := 0; tried.Load() < extends; round++ {
		k.publishN(batch)
		ls := k.receive("w", batch)
		if len(ls) != batch {
			k.Fatalf("received %d, want %d", len(ls), batch)
		}
		var settled atomic.Int64 // leases whose settlement has been sent: from then on "lost" is true
		sent := make([]atomic.Bool, batch)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for settled.Load() < batch {
					for i, l := range ls {
						before := sent[i].Load()
						e := k.q.Extend(k.Context(), []queue.Receipt{l.Receipt()}, 0)[0]
						tried.Add(1)
						if e.Err != nil && !before && !sent[i].Load() {
							early.Add(1)
						}
					}
				}
			})
		}
		for i, l := range ls {
			sent[i].Store(true)
			if err := k.settleErr(queue.Settlement{Receipt: l.Receipt(), Verdict: verdicts[(i+round)%3], Delay: new(time.Duration(0))}); err != nil {
				k.Errorf("settling a lease in force: %v", err)
			}
			settled.Add(1)
		}
		wg.Wait()
		k.drain("cleaner")
	}
	if early.Load() != 0 {
		k.Errorf("%d of %d extensions were refused before the lease was settled", early.Load(), tried.Load())
	}
	k.wantLevels(0, 0, 0, 0)
}

// A job that runs 100 times as long as its lease (in real time, 3 times), extended by its holder, starts once.
func w12ExtendedLease(k *kit) {
	id := k.publishN(1)[0]
	l := k.one("w")
	leases := 3.0
	if k.Virtual {
		leases = 100
	}
	for held := 0.0; held < 10*leases; held += 10.0 / 3 {
		k.sleep(10.0 / 3)
		if e := k.extend(l, 0); e.Err != nil {
			k.Fatalf("after %v units: %v", held, e.Err)
		}
		k.none("thief")
	}
	if r := k.get(id); r.Attempts != 1 || r.State != queue.Leased {
		k.Fatalf("record is %+v", r)
	}
	k.settle(l, queue.Ack)
}

// However many look for expired leases at the same time, each is counted once.
func w17ExpiryCountedOnce(k *kit) {
	const jobs = 200
	k.publishN(jobs)
	if got := len(k.receive("dies", jobs)); got != jobs {
		k.Fatalf("received %d", got)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	for i := range 5 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(k.Unit / 6):
				}
				// Each of these calls makes the queue look.
				k.q.Settle(k.Context(), []queue.Settlement{{Receipt: queue.Receipt{JobID: "none", Token: int64(i)}, Verdict: queue.Ack}})
				_, _ = k.q.Stats(k.Context())
				_, _ = k.q.Abandon(k.Context(), "nobody", "")
			}
		})
	}
	k.eventually(10, "all expired", func() bool { return k.stats().InFlight.Value == 0 })
	k.sleep(2)
	if s := k.stats(); s.Totals["lost"] != jobs || s.Attempts.Value != jobs || s.Backlog.Value != jobs || s.Totals["crashed"] != 0 {
		k.Fatalf("stats are %+v", s)
	}
}

func w18OldToken(k *kit) {
	id := k.publishN(1)[0]
	old := k.one("a")
	k.settle(old, queue.Release)
	cur := k.one("b")
	for _, v := range []queue.Verdict{queue.Ack, queue.Nack, queue.Dead, queue.Crash} {
		k.wantErr(k.settleErr(queue.Settlement{Receipt: old.Receipt(), Verdict: v, Result: []byte("x")}), queue.ErrLost)
	}
	if r := k.wantState(id, queue.Leased); r.Worker != "b" || r.Attempts != 1 || r.Result != nil {
		k.Fatalf("a stale settlement changed the job: %+v", r)
	}
	k.settle(cur, queue.Ack)
	if !k.q.Caps().Fenced {
		k.Fatal("stale settlements are refused, but Caps does not say so")
	}
}

// A job that kills its worker is dead after the second time, with the reason poison, and takes no neighbour along.
func w19Poison(k *kit) {
	const jobs = 20
	ids := k.publishN(jobs)
	poison := ids[7]
	runs := map[string]int{}
	for w := 0; ; w++ {
		worker := fmt.Sprint("w", w)
		ls := k.receive(worker, 5)
		if len(ls) == 0 {
			break
		}
		killed := false
		for _, l := range ls {
			runs[l.JobID]++
			killed = killed || l.JobID == poison
		}
		if killed {
			if _, err := k.q.Abandon(k.Context(), worker, "exit status 1"); err != nil {
				k.Fatal(err)
			}
			continue
		}
		for _, l := range ls {
			k.settle(l, queue.Ack)
		}
	}
	for _, id := range ids {
		if id == poison {
			if r := k.wantState(id, queue.DeadState); r.DeadReason != queue.ReasonPoison || r.Crashes != 2 || r.Error != "exit status 1" {
				k.Fatalf("poison job is %+v", r)
			}
			continue
		}
		if r := k.wantState(id, queue.Succeeded); r.Crashes > 1 || runs[id] > 2 {
			k.Fatalf("a neighbour crashed %d times and ran %d times", r.Crashes, runs[id])
		}
	}
}

// A handler that fails at once, always, for a minute: tries follow the backoff and no more.
func w21NackLoop(k *kit) {
	k.publishN(1)
	end := time.Now().Add(time.Minute)
	tries := 0
	ctx, cancel := within(k.Context(), time.Minute)
	defer cancel()
	for time.Now().Before(end) {
		ls, err := k.q.Receive(ctx, queue.Request{Worker: "w", Max: 1, Wait: time.Minute})
		if err != nil {
			k.Fatal(err)
		}
		for _, l := range ls {
			tries++
			k.settle(l, queue.Nack)
		}
	}
	// The n-th delay is at most 2^(n-1) s and half of that on average, but at least 0.5 s: in a minute there are about
	// 1 + log2(60·2) tries; twice as many are far beyond the 99th percentile of the schedule.
	if most := int(2 * (1 + math.Log2(120))); tries < 3 || tries > most {
		k.Fatalf("%d tries in a minute, want 3 to %d", tries, most)
	}
}

// Whatever way a delivery ends, its place is free again.
func w25Exits(k *kit) {
	const each, rounds = 4, 10 // few at a time, so that a slow disk costs no lease
	exits := []func(l queue.Lease) error{
		func(l queue.Lease) error {
			return k.settleErr(queue.Settlement{Receipt: l.Receipt(), Verdict: queue.Ack})
		},
		func(l queue.Lease) error {
			return k.settleErr(queue.Settlement{Receipt: l.Receipt(), Verdict: queue.Nack})
		},
		func(l queue.Lease) error {
			return k.settleErr(queue.Settlement{Receipt: l.Receipt(), Verdict: queue.Release})
		},
		func(l queue.Lease) error {
			return k.settleErr(queue.Settlement{Receipt: l.Receipt(), Verdict: queue.Dead})
		},
		func(l queue.Lease) error {
			return k.settleErr(queue.Settlement{Receipt: l.Receipt(), Verdict: queue.Crash})
		},
		func(l queue.Lease) error { _, err := k.q.Cancel(k.Context(), l.JobID); return err },
		func(l queue.Lease) error { return k.extend(l, k.Unit).Err }, // and then silence
		func(l queue.Lease) error { return nil },                     // silence
		func(l queue.Lease) error {
			if err := k.settleErr(queue.Settlement{Receipt: l.Receipt(), Verdict: queue.Ack}); err != nil {
				return err
			}
			if err := k.settleErr(queue.Settlement{Receipt: l.Receipt(), Verdict: queue.Nack}); !errors.Is(err, queue.ErrLost) {
				return fmt.Errorf("nack after ack: %w", err)
			}
			return nil
		},
	}
	for round := range rounds {
		mine := map[string]bool{}
		for _, id := range k.publishN(each * len(exits)) {
			mine[id] = true
		}
		var wg sync.WaitGroup
		started := 0
		for worker := 0; len(mine) > 0; worker++ {
			ls := k.receive(fmt.Sprint("w", round, ".", worker), 100) // an idle worker each time: it may get a suspect
			if len(ls) == 0 {
				k.Fatalf("%d new jobs were not received", len(mine))
			}
			for _, l := range ls {
				if !mine[l.JobID] { // an earlier round's, come back
					k.settleAs(queue.Settlement{Receipt: l.Receipt(), Verdict: queue.Release, Delay: new(k.units(5))})
					continue
				}
				delete(mine, l.JobID)
				exit := started % len(exits)
				started++
				wg.Go(func() {
					if err := exits[exit](l); err != nil {
						k.Errorf("exit %d: %v", exit, err)
					}
				})
			}
		}
		wg.Wait()
	}
	if k.h.Reopen != nil {
		k.use(k.h.Reopen())
	}
	k.eventually(12, "0 in flight", func() bool { return k.stats().InFlight.Value == 0 })
	k.noDrift()
	// All that is left can be received: nothing is stuck.
	k.sleep(8)
	k.eventually(100, "all ended", func() bool {
		k.drain("last")
		s := k.stats()
		return s.Backlog.Value+s.Delayed.Value+s.InFlight.Value == 0
	})
}

func w42Keys(k *kit) {
	callers := k.times(1000)
	job := queue.Job{Key: "k", Payload: []byte("p")}
	ids := make([]queue.Published, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { ids[i] = k.q.Publish(k.Context(), []queue.Job{job})[0] })
	}
	wg.Wait()
	first := 0
	for _, p := range ids {
		if p.Err != nil || p.ID != ids[0].ID {
			k.Fatalf("published %+v, want id %s", p, ids[0].ID)
		}
		if !p.Duplicate {
			first++
		}
	}
	if first != 1 {
		k.Fatalf("%d callers were the first", first)
	}
	k.wantLevels(1, 0, 0, 0)
	again := func(want string) {
		k.Helper()
		if p := k.q.Publish(k.Context(), []queue.Job{job})[0]; p.Err != nil || p.ID != want || !p.Duplicate {
			k.Fatalf("published %+v, want a duplicate of %s", p, want)
		}
		other := queue.Job{Key: "k", Payload: []byte("another")}
		k.wantErr(k.q.Publish(k.Context(), []queue.Job{other})[0].Err, queue.ErrConflict)
	}
	l := k.one("w")
	again(l.JobID) // running
	k.settle(l, queue.Ack)
	again(l.JobID) // done, and kept
	k.sleep(21)    // no longer kept, whether or not the janitor came by
	p := k.q.Publish(k.Context(), []queue.Job{{Key: "k", Payload: []byte("another")}})[0]
	if p.Err != nil || p.Duplicate || p.ID == l.JobID {
		k.Fatalf("published %+v after the key was free", p)
	}
	// A dead job keeps its key.
	k.settle(k.one("w"), queue.Dead)
	k.sleep(25)
	if d := k.q.Publish(k.Context(), []queue.Job{{Key: "k", Payload: []byte("another")}})[0]; d.ID != p.ID || !d.Duplicate {
		k.Fatalf("published %+v, want a duplicate of the dead %s", d, p.ID)
	}
}
