package queuetest

import (
	"strings"
	"time"

	"github.com/headrace/headrace/queue"
)

func silentHolderLosesItsJob(k *kit) {
	id := k.publishN(1)[0]
	start := time.Now()
	first := k.one("dies")
	k.none("waits")
	ls := k.receiveWithin("waits", 1, 100)
	if len(ls) != 1 {
		k.Fatal("the job did not come back")
	}
	k.took(start, 10, 10)
	second := ls[0]
	if second.JobID != id || second.Attempt != 2 || second.Crashes != 1 || second.Token <= first.Token {
		k.Fatalf("second delivery is %+v after %+v", second, first)
	}
	k.wantErr(k.extend(first, 0).Err, queue.ErrLost)
	k.settle(second, queue.Ack)
	s := k.stats()
	if s.Totals["lost"] != 1 || s.Attempts.Value != 2 || s.Completions.Value != 1 || s.Arrivals.Value != 1 {
		k.Fatalf("stats are %+v", s)
	}
}

func settlingTwiceIsOnce(k *kit) {
	for _, v := range []queue.Verdict{queue.Ack, queue.Nack, queue.Release, queue.Dead, queue.Crash} {
		k.publishN(1)
		l := k.one("w")
		s := queue.Settlement{Receipt: l.Receipt(), Verdict: v, Delay: new(time.Hour)}
		before := k.stats()
		for range 3 {
			k.settleAs(s)
		}
		after := k.stats()
		if d := after.Attempts.Value - before.Attempts.Value; d != 1 && v != queue.Release || d > 1 {
			k.Fatalf("%s three times counted %v attempts", v, d)
		}
		for _, other := range []queue.Verdict{queue.Ack, queue.Nack} {
			if other != v {
				s.Verdict = other
				k.wantErr(k.settleErr(s), queue.ErrLost)
			}
		}
		k.wantErr(k.extend(l, 0).Err, queue.ErrLost)
	}
	// The resent settlement of an earlier delivery is still known while the next one runs.
	k.publishN(1)
	first := k.one("w")
	nack := queue.Settlement{Receipt: first.Receipt(), Verdict: queue.Nack, Delay: new(time.Duration(0))}
	k.settleAs(nack)
	second := k.one("w2")
	k.settleAs(nack)
	if second.JobID != first.JobID || k.extend(second, 0).Err != nil {
		k.Fatal("a resent nack touched the next delivery")
	}
	k.settle(second, queue.Ack)
	k.wantErr(k.settleErr(nack), queue.ErrLost)
}

func releaseIsNotAnAttempt(k *kit) {
	id := k.publishN(1)[0]
	for range 20 { // more often than attempts are allowed
		l := k.one("w")
		if l.JobID != id || l.Attempt != 1 {
			k.Fatalf("delivery after releases is %+v", l)
		}
		k.settle(l, queue.Release)
	}
	l := k.one("w")
	start := time.Now()
	k.settleAs(queue.Settlement{Receipt: l.Receipt(), Verdict: queue.Release, Delay: new(k.units(3))})
	k.none("w")
	if ls := k.receiveWithin("w", 1, 100); len(ls) != 1 || ls[0].Attempt != 1 {
		k.Fatalf("received %+v", ls)
	}
	k.took(start, 3, 3)
	if s := k.stats(); s.Attempts.Value != 0 || s.Totals["released"] != 21 {
		k.Fatalf("stats are %+v", s)
	}
}

func nackComesBackAfterItsDelay(k *kit) {
	for _, delay := range []float64{0, 3, 8} { // long enough for what comes between
		id := k.publishN(1)[0]
		l := k.one("w")
		start := time.Now()
		k.settleAs(queue.Settlement{Receipt: l.Receipt(), Verdict: queue.Nack, Reason: "why not", Delay: new(k.units(delay))})
		other := k.publishN(1)[0]
		if delay > 0 { // others are not held up
			if o := k.one("w"); o.JobID != other {
				k.Fatalf("received %s, want %s", o.JobID, other)
			} else {
				k.settle(o, queue.Ack)
			}
			if r := k.wantState(id, queue.Delayed); r.Error != "why not" || r.ReadyAt.Before(start.Add(k.units(delay)).Round(0).UTC().Add(-time.Millisecond)) {
				k.Fatalf("record is %+v", r)
			}
		}
		ls := k.receiveWithin("w", 1, 100)
		if len(ls) != 1 || ls[0].JobID != id || ls[0].Attempt != 2 || ls[0].Crashes != 0 {
			k.Fatalf("received %+v", ls)
		}
		k.took(start, delay, delay)
		k.settle(ls[0], queue.Ack)
		k.drain("w")
	}
}

func attemptsAreCountedExactly(k *kit) {
	k.publishN(1)
	want := 1
	for i, v := range []queue.Verdict{queue.Nack, queue.Release, queue.Crash, queue.Release, queue.Nack, queue.Ack} {
		l := k.one("w")
		if l.Attempt != want {
			k.Fatalf("delivery %d is attempt %d, want %d", i, l.Attempt, want)
		}
		if r := k.get(l.JobID); r.Attempts != want || r.Worker != "w" || r.State != queue.Leased {
			k.Fatalf("record while leased is %+v", r)
		}
		k.settleAs(queue.Settlement{Receipt: l.Receipt(), Verdict: v, Delay: new(time.Duration(0))})
		if v != queue.Release {
			want++
		}
	}
	if s := k.stats(); s.Attempts.Value != 4 || s.Totals["nacked"] != 2 || s.Totals["released"] != 2 || s.Totals["crashed"] != 1 {
		k.Fatalf("stats are %+v", s)
	}
}

func tooManyAttemptsAreDead(k *kit) {
	id := k.publishN(1)[0]
	for range k.policy.Attempts {
		k.settleAs(queue.Settlement{Receipt: k.one("w").Receipt(), Verdict: queue.Nack, Reason: "no luck", Delay: new(time.Duration(0))})
	}
	k.none("w")
	if r := k.wantState(id, queue.DeadState); r.DeadReason != queue.ReasonAttempts || r.Error != "no luck" || r.Attempts != k.policy.Attempts {
		k.Fatalf("record is %+v", r)
	}
	k.wantLevels(0, 0, 0, 1)
}

func deadKeepsItsReason(k *kit) {
	id := k.publishN(1)[0]
	long := strings.Repeat("ü", queue.MaxReason)
	k.settleAs(queue.Settlement{Receipt: k.one("w").Receipt(), Verdict: queue.Dead, Reason: long})
	k.none("w")
	if r := k.wantState(id, queue.DeadState); r.DeadReason != queue.ReasonRejected || len(r.Error) > queue.MaxReason || !strings.HasPrefix(long, r.Error) || r.Error == "" {
		k.Fatalf("record is %+v", r)
	}
}

func hardMaximumEndsALease(k *kit) {
	id := k.publishN(1)[0]
	start := time.Now()
	l := k.one("w")
	if l.Max < 25*k.Unit {
		k.Fatalf("Max is %v, want at least %v", l.Max, 25*k.Unit)
	}
	var last queue.Extension
	for i := 0; ; i++ {
		k.sleep(4)
		e := k.extend(l, 0)
		if e.Err != nil {
			k.wantErr(e.Err, queue.ErrLost)
			break
		}
		if left := k.units(25) - time.Since(start); e.Left > left+k.Slack {
			k.Fatalf("extension %d gives %v, only %v are left of the maximum", i, e.Left, left)
		}
		last = e
	}
	k.took(start, 25, 28)
	if last.Left >= k.policy.Lease {
		k.Fatalf("the last extension gave %v: it was not capped", last.Left)
	}
	k.eventually(1, "taken away", func() bool { return k.get(id).State != queue.Leased })
	r := k.get(id)
	if r.Crashes != 0 || r.Error != "held longer than lease.max" || r.Attempts != 1 {
		k.Fatalf("record is %+v", r)
	}
	k.wantErr(k.settleErr(queue.Settlement{Receipt: l.Receipt(), Verdict: queue.Ack}), queue.ErrLost)
	// One extension may ask for more than a lease, and may not get more than the maximum.
	if ls := k.receiveWithin("w", 1, 20); len(ls) != 1 {
		k.Fatal("the job did not come back")
	} else if e := k.extend(ls[0], time.Hour); e.Err != nil || e.Left > k.units(25) || e.Left < k.units(24)-k.Slack {
		k.Fatalf("extension is %+v", e)
	}
}

func shorterExtensionEndsSooner(k *kit) {
	k.publishN(1)
	start := time.Now()
	l := k.one("w")
	if e := k.extend(l, 3*k.Unit); e.Err != nil || e.Left != 3*k.Unit {
		k.Fatalf("extension is %+v", e)
	}
	if ls := k.receiveWithin("w2", 1, 100); len(ls) != 1 {
		k.Fatal("the job did not come back")
	}
	k.took(start, 3, 3)
}

func abandonedJobsCrash(k *kit) {
	k.publishN(5)
	dead := k.receive("dead", 3)
	alive := k.receive("alive", 1)
	if n, err := k.q.Abandon(k.Context(), "dead", "exit status 137"); err != nil || n != 3 {
		k.Fatalf("abandoned %d, %v", n, err)
	}
	if n, err := k.q.Abandon(k.Context(), "dead", "again"); err != nil || n != 0 {
		k.Fatalf("abandoned %d again, %v", n, err)
	}
	for _, l := range dead {
		if r := k.wantState(l.JobID, queue.Ready); r.Crashes != 1 || r.Attempts != 1 || r.Error != "exit status 137" {
			k.Fatalf("record is %+v", r)
		}
		k.wantErr(k.settleErr(queue.Settlement{Receipt: l.Receipt(), Verdict: queue.Ack}), queue.ErrLost)
	}
	k.settle(alive[0], queue.Ack)
	k.wantLevels(4, 0, 0, 0)
}

func firstCrashComesBackAtOnce(k *kit) {
	id := k.publishN(1)[0]
	k.settle(k.one("w"), queue.Crash)
	l := k.one("w")
	if l.JobID != id || l.Crashes != 1 {
		k.Fatalf("received %+v", l)
	}
	k.settle(l, queue.Release)
	if l = k.one("w"); l.Crashes != 1 || l.Attempt != 2 {
		k.Fatalf("received %+v", l)
	}
	k.settle(l, queue.Ack)
}
