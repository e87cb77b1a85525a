package queuetest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/queue"
)

func ackedJobsAreGone(k *kit) {
	ids := k.publishN(20)
	k.wantLevels(20, 0, 0, 0)
	ls := k.receive("w", 20)
	if len(ls) != 20 {
		k.Fatalf("received %d jobs, want 20", len(ls))
	}
	for i, l := range ls {
		if l.JobID != ids[i] {
			k.Fatalf("job %d is %s, want %s: not in order", i, l.JobID, ids[i])
		}
		k.settleAs(queue.Settlement{Receipt: l.Receipt(), Verdict: queue.Ack, Result: []byte("done")})
	}
	k.none("w")
	k.wantLevels(0, 0, 0, 0)
	for _, id := range ids {
		if r := k.wantState(id, queue.Succeeded); string(r.Result) != "done" || r.FinishedAt.IsZero() || r.Attempts != 1 {
			k.Fatalf("record is %+v", r)
		}
	}
}

func receiveReturnsNoMoreThanAsked(k *kit) {
	batch := k.q.Caps().MaxBatch
	k.publishN(batch + 10)
	for _, n := range []int{1, 3} {
		if got := len(k.receive("w", n)); got != n {
			k.Fatalf("received %d, want %d", got, n)
		}
	}
	if got := len(k.receive("w", batch+100)); got < 1 || got > batch {
		k.Fatalf("received %d jobs, the largest batch is %d", got, batch)
	}
}

func receiveWaitsAndWakes(k *kit) {
	start := time.Now()
	if ls := k.receiveWithin("w", 1, 3); len(ls) != 0 {
		k.Fatalf("received %v from an empty queue", ls)
	}
	k.took(start, 3, 3)
	var sent atomic.Int64
	go func() {
		k.sleep(2)
		k.publishN(1)
		sent.Store(time.Now().UnixNano())
	}()
	start = time.Now()
	ls := k.receiveWithin("w", 1, 100)
	if len(ls) != 1 {
		k.Fatal("a waiting Receive was not woken")
	}
	k.took(start, 2, 2)
	// The lease counts from before Receive was called, so it must include the time that was waited.
	if l := ls[0]; l.For < k.policy.Lease+k.units(2) || l.For > k.policy.Lease+k.units(2)+k.Slack {
		k.Fatalf("lease lasts %v from before Receive, want %v", l.For, k.policy.Lease+k.units(2))
	}
	k.settle(ls[0], queue.Ack)
}

// A Receive whose context ends at the very moment a job arrives returns it or leaves it, but never loses it.
func cancelledReceiveLosesNothing(k *kit) {
	tries := k.times(1000)
	got := 0
	for range tries {
		ctx, cancel := context.WithCancel(k.Context())
		var wg sync.WaitGroup
		wg.Go(func() { k.publishN(1) })
		wg.Go(func() {
			for range rand.IntN(200) {
				_ = ctx.Err()
			}
			cancel()
		})
		ls, err := k.q.Receive(ctx, queue.Request{Worker: "w", Max: 5, Wait: time.Hour})
		if err != nil {
			k.Fatal(err)
		}
		wg.Wait()
		got += len(ls)
		for _, l := range ls {
			k.settle(l, queue.Ack)
		}
	}
	for range k.drain("w") {
		got++
	}
	if got != tries {
		k.Fatalf("%d jobs were received, %d published", got, tries)
	}
}

func badRequestsAreRefused(k *kit) {
	_, err := k.q.Receive(k.Context(), queue.Request{Max: 1})
	k.wantErr(err, queue.ErrInvalid)
	_, err = k.q.Receive(k.Context(), queue.Request{Worker: "w"})
	k.wantErr(err, queue.ErrInvalid)
	k.publishN(1)
	l := k.one("w")
	k.wantErr(k.settleErr(queue.Settlement{Receipt: l.Receipt(), Verdict: "maybe"}), queue.ErrInvalid)
	k.wantErr(k.settleErr(queue.Settlement{Receipt: l.Receipt(), Verdict: queue.Ack, Result: make([]byte, queue.MaxPayload+1)}), queue.ErrInvalid)
	k.wantErr(k.settleErr(queue.Settlement{Receipt: l.Receipt(), Verdict: queue.Nack, Delay: new(-time.Second)}), queue.ErrInvalid)
	k.wantErr(k.settleErr(queue.Settlement{Receipt: queue.Receipt{JobID: "no such job", Token: 1}, Verdict: queue.Ack}), queue.ErrLost)
	k.settle(l, queue.Ack)
	for _, id := range []string{"", "no such job", "0197f000-0000-7000-8000-000000000000"} {
		_, err = k.q.Get(k.Context(), id)
		k.wantErr(err, queue.ErrNotFound)
		_, err = k.q.Cancel(k.Context(), id)
		k.wantErr(err, queue.ErrNotFound)
		_, err = k.q.Await(k.Context(), id)
		k.wantErr(err, queue.ErrNotFound)
	}
}

func payloadsSurvive(k *kit) {
	headers := map[string]string{"ünïcode": "日本語", "nul": "a\x00b", "bytes": "\xff\xfe", "empty": ""}
	for i := len(headers); i < queue.MaxHeaders; i++ {
		headers[fmt.Sprint("h", i)] = strings.Repeat("v", 50)
	}
	jobs := []queue.Job{
		{},
		{Payload: []byte{}},
		{Payload: []byte("\x00\xff\x00 binary \xc3\x28")},
		{Payload: bytes.Repeat([]byte{7}, queue.MaxPayload)},
		{Payload: []byte("x"), Headers: headers, Tenant: "acme/ß ünï", Priority: 9, Key: "k\x00ey \xff/ü"},
	}
	ids := k.publish(jobs...)
	for i, l := range k.receive("w", len(jobs)) {
		if !bytes.Equal(l.Payload, jobs[i].Payload) || l.Tenant != jobs[i].Tenant || l.Priority != jobs[i].Priority || !sameHeaders(l.Headers, jobs[i].Headers) {
			k.Fatalf("job %d came back changed", i)
		}
		result := bytes.Repeat([]byte{byte(i)}, i*100)
		k.settleAs(queue.Settlement{Receipt: l.Receipt(), Verdict: queue.Ack, Result: result})
		r := k.wantState(ids[i], queue.Succeeded)
		if !bytes.Equal(r.Payload, jobs[i].Payload) || r.Key != jobs[i].Key || !sameHeaders(r.Headers, jobs[i].Headers) || !bytes.Equal(r.Result, result) {
			k.Fatalf("record %d is changed", i)
		}
	}
	for _, bad := range []queue.Job{
		{Payload: make([]byte, queue.MaxPayload+1)},
		{Key: strings.Repeat("k", queue.MaxKey+1)},
		{Tenant: strings.Repeat("t", queue.MaxTenant+1)},
		{Tenant: "\xff"},
		{Priority: 10},
		{Priority: -1},
		{Delay: -1},
		{ExpiresIn: queue.MaxWait + 1},
		{ID: "42"},
		{Headers: map[string]string{"big": strings.Repeat("x", queue.MaxHeaderBytes)}},
	} {
		k.wantErr(k.q.Publish(k.Context(), []queue.Job{bad})[0].Err, queue.ErrInvalid)
	}
}

func sameHeaders(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name, v := range a {
		if w, ok := b[name]; !ok || v != w {
			return false
		}
	}
	return true
}

func closeWakesEverybody(k *kit) {
	id := k.publishN(1)[0]
	l := k.one("holder")
	var wg sync.WaitGroup
	errs := make(chan error, 6)
	for i := range 3 {
		wg.Go(func() {
			_, err := k.q.Receive(k.Context(), queue.Request{Worker: fmt.Sprint("w", i), Max: 1, Wait: time.Hour})
			errs <- err
		})
		wg.Go(func() { errs <- k.q.Wait(k.Context(), fmt.Sprint("p", i)) })
	}
	k.sleep(1)
	for range 2 { // twice is once
		if err := k.q.Close(k.Context()); err != nil {
			k.Fatalf("close: %v", err)
		}
	}
	wg.Wait()
	for range cap(errs) {
		k.wantErr(<-errs, queue.ErrClosed)
	}
	_, err := k.q.Receive(k.Context(), queue.Request{Worker: "w", Max: 1, Wait: time.Hour})
	k.wantErr(err, queue.ErrClosed)
	k.wantErr(k.settleErr(queue.Settlement{Receipt: l.Receipt(), Verdict: queue.Ack}), queue.ErrClosed)
	k.wantErr(k.extend(l, 0).Err, queue.ErrClosed)
	k.wantErr(k.q.Publish(k.Context(), []queue.Job{{}})[0].Err, queue.ErrClosed)
	k.wantErr(k.q.Wait(k.Context(), "w"), queue.ErrClosed)
	_, err = k.q.Stats(k.Context())
	k.wantErr(err, queue.ErrClosed)
	_, err = k.q.Get(k.Context(), id)
	k.wantErr(err, queue.ErrClosed)
	_, err = k.q.Cancel(k.Context(), id)
	k.wantErr(err, queue.ErrClosed)
	_, err = k.q.Redrive(k.Context(), 1, false)
	k.wantErr(err, queue.ErrClosed)
	_, err = k.q.Abandon(k.Context(), "holder", "")
	k.wantErr(err, queue.ErrClosed)
}

// While leases are kept, no job has two holders at any time, and each is seen once.
func noJobHasTwoHolders(k *kit) {
	const workers = 8
	jobs := 4 * k.times(500)
	for range 4 {
		k.publishN(jobs / 4)
	}
	var mu sync.Mutex
	holder := map[string]string{}
	done := 0
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			me := fmt.Sprint("w", i)
			for {
				ls := k.receive(me, 1+rand.IntN(20))
				if len(ls) == 0 {
					return
				}
				mu.Lock()
				for _, l := range ls {
					if other := holder[l.JobID]; other != "" {
						k.Errorf("%s was given to %s, %s had it", l.JobID, me, other)
					}
					holder[l.JobID] = me
				}
				mu.Unlock()
				for _, l := range ls {
					k.settle(l, queue.Ack)
				}
				mu.Lock()
				done += len(ls)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if done != jobs {
		k.Fatalf("%d jobs were done, %d published", done, jobs)
	}
}

// everythingAtOnce is for the race detector.
func everythingAtOnce(k *kit) {
	var wg sync.WaitGroup
	stop := make(chan struct{})
	worker := func(i int) {
		me := fmt.Sprint("w", i)
		for range k.times(30) {
			select {
			case <-stop:
				return
			default:
			}
			k.q.Publish(k.Context(), []queue.Job{{Payload: []byte(me)}, {Delay: k.Unit / 10}})
			ls, _ := k.q.Receive(k.Context(), queue.Request{Worker: me, Max: 3})
			for _, l := range ls {
				wg.Go(func() { k.q.Extend(k.Context(), []queue.Receipt{l.Receipt()}, 0) })
				k.q.Settle(k.Context(), []queue.Settlement{{Receipt: l.Receipt(), Verdict: queue.Nack}})
				_, _ = k.q.Get(k.Context(), l.JobID)
				_, _ = k.q.Cancel(k.Context(), l.JobID)
			}
			_, _ = k.q.Stats(k.Context())
			_ = k.q.Caps()
		}
	}
	for i := range 32 {
		wg.Go(func() { worker(i) })
	}
	k.sleep(5)
	close(stop)
	wg.Wait()
	k.noDrift()
	if err := k.q.Close(k.Context()); err != nil {
		k.Fatal(err)
	}
}
