package queuetest

import (
	"time"

	"github.com/headrace/headrace/queue"
)

func reopenKeepsEverything(k *kit) {
	ids := k.publish(
		queue.Job{Payload: []byte("ready"), Key: "key"}, queue.Job{Delay: time.Hour}, queue.Job{Payload: []byte("acked")},
		queue.Job{Payload: []byte("dead")}, queue.Job{Payload: []byte("held")},
	)
	ls := k.receive("w", 4)
	k.settle(ls[0], queue.Release)
	k.settleAs(queue.Settlement{Receipt: ls[1].Receipt(), Verdict: queue.Ack, Result: []byte("result")})
	k.settleAs(queue.Settlement{Receipt: ls[2].Receipt(), Verdict: queue.Dead, Reason: "because"})
	before := k.stats()
	k.use(k.h.Reopen())
	after := k.stats()
	for name, pair := range map[string][2]queue.Number{
		"backlog": {before.Backlog, after.Backlog}, "delayed": {before.Delayed, after.Delayed}, "in flight": {before.InFlight, after.InFlight},
		"dead": {before.Dead, after.Dead}, "arrivals": {before.Arrivals, after.Arrivals}, "completions": {before.Completions, after.Completions},
		"attempts": {before.Attempts, after.Attempts},
	} {
		if pair[0].Value != pair[1].Value {
			k.Errorf("%s was %v and is %v", name, pair[0].Value, pair[1].Value)
		}
	}
	if before.Epoch != after.Epoch {
		k.Error("the totals went on, but the epoch changed")
	}
	k.wantState(ids[0], queue.Ready)
	k.wantState(ids[1], queue.Delayed)
	if r := k.wantState(ids[2], queue.Succeeded); string(r.Result) != "result" {
		k.Errorf("record is %+v", r)
	}
	if r := k.wantState(ids[3], queue.DeadState); r.Error != "because" {
		k.Errorf("record is %+v", r)
	}
	if p := k.q.Publish(k.Context(), []queue.Job{{Payload: []byte("ready"), Key: "key"}})[0]; p.ID != ids[0] || !p.Duplicate {
		k.Errorf("published %+v", p)
	}
	// The settlement whose answer may have been lost, and that of the job that is held still.
	k.settleAs(queue.Settlement{Receipt: ls[1].Receipt(), Verdict: queue.Ack, Result: []byte("result")})
	k.settle(ls[3], queue.Ack)
	if l := k.one("w"); l.Token <= ls[3].Token || l.JobID != ids[0] {
		k.Errorf("token %d after %d", l.Token, ls[3].Token)
	}
}

func reopenGivesLeasesAnotherTerm(k *kit) {
	k.publishN(3)
	ls := k.receive("w", 3)
	k.sleep(5)
	start := time.Now()
	k.use(k.h.Reopen())
	k.sleep(6) // 11 since the claim: the lease would be over
	if e := k.extend(ls[0], 0); e.Err != nil {
		k.Fatalf("the lease did not survive: %v", e.Err)
	}
	k.settle(ls[1], queue.Ack)
	// The third is never extended. It comes back as if nothing had been: the server died, not its holder.
	got := k.receiveWithin("x", 5, 100)
	k.took(start, 10, 10)
	if len(got) != 1 || got[0].JobID != ls[2].JobID || got[0].Attempt != 1 || got[0].Crashes != 0 {
		k.Fatalf("received %+v, want attempt 1 of %s", got, ls[2].JobID)
	}
	// The first was extended and then not: its holder died.
	more := k.receiveWithin("y", 5, 100)
	if len(more) != 1 || more[0].JobID != ls[0].JobID || more[0].Attempt != 2 || more[0].Crashes != 1 {
		k.Fatalf("received %+v, want attempt 2 of %s", more, ls[0].JobID)
	}
	k.wantErr(k.settleErr(queue.Settlement{Receipt: ls[2].Receipt(), Verdict: queue.Ack}), queue.ErrLost)
}
