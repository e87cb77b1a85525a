package queuetest

import (
	"time"

	"github.com/headrace/headrace/queue"
)

// suspects makes n jobs that crashed a worker once.
func (k *kit) suspects(n int) []string {
	k.Helper()
	ids := k.publishN(n)
	if got := len(k.receive("killed", n)); got != n {
		k.Fatalf("received %d, want %d", got, n)
	}
	if got, err := k.q.Abandon(k.Context(), "killed", "killed"); err != nil || got != n {
		k.Fatalf("abandoned %d, %v", got, err)
	}
	return ids
}

func suspectRunsAlone(k *kit) {
	ids := k.suspects(2)
	k.publishN(3)
	l := k.receive("w", 10)
	if len(l) != 1 || l[0].JobID != ids[0] {
		k.Fatalf("received %+v, want the first suspect alone", l)
	}
	k.none("w") // nothing beside it
	other := k.receive("x", 10)
	if len(other) != 1 || other[0].JobID != ids[1] {
		k.Fatalf("received %+v, want the second suspect alone", other)
	}
	if got := k.receive("y", 10); len(got) != 3 {
		k.Fatalf("received %d ordinary jobs, want 3", len(got))
	}
	k.settle(l[0], queue.Ack)
	k.settle(other[0], queue.Ack)
}

func suspectDoesNotStarve(k *kit) {
	k.publishN(1)
	busy := k.one("busy")
	id := k.suspects(1)[0]
	k.sleep(1)
	k.publishN(3)
	k.none("busy") // it has met the suspect, and gets nothing until it is idle
	// An idle worker need not wait.
	if got := k.receive("idle", 10); len(got) != 1 || got[0].JobID != id {
		k.Fatalf("an idle worker received %+v, want the suspect alone", got)
	} else {
		k.sleep(1)
		k.settle(got[0], queue.Release)
	}
	if got := k.receive("other", 10); len(got) != 3 { // they came before it now
		k.Fatalf("received %d ordinary jobs, want 3", len(got))
	}
	if e := k.extend(busy, 0); e.Err != nil {
		k.Fatal(e.Err)
	}
	k.none("busy") // reserves
	got := make(chan []queue.Lease, 1)
	go func() { got <- k.receiveWithin("busy", 10, 100) }()
	k.sleep(1)
	k.settle(busy, queue.Ack) // now it is idle: the waiting Receive gets the suspect
	if ls := <-got; len(ls) != 1 || ls[0].JobID != id || ls[0].Crashes != 1 {
		k.Fatalf("received %+v, want the suspect", ls)
	} else {
		k.settle(ls[0], queue.Ack)
	}
}

func reservationLapses(k *kit) {
	k.publishN(2)
	a, b := k.one("a"), k.one("b")
	id := k.suspects(1)[0]
	k.sleep(1)
	k.publishN(2)
	k.none("a")                    // a reserves the suspect
	ordinary := k.receive("b", 10) // b passes it
	if len(ordinary) != 2 {
		k.Fatalf("received %d, want the 2 ordinary jobs behind the suspect", len(ordinary))
	}
	k.settle(a, queue.Ack) // and a is never seen again
	for _, l := range ordinary {
		k.settle(l, queue.Ack)
	}
	got := make(chan []queue.Lease, 1)
	go func() { got <- k.receiveWithin("b", 10, 200) }()
	stop := time.Now().Add(10*time.Second + k.Slack)
	for time.Now().Before(stop) {
		if e := k.extend(b, 0); e.Err != nil {
			k.Fatal(e.Err)
		}
		select {
		case ls := <-got:
			k.Fatalf("a busy worker received %+v", ls)
		case <-time.After(k.Unit):
		}
		if time.Until(stop) < 4*time.Second {
			break // a's time is over: b has reserved it meanwhile
		}
	}
	k.settle(b, queue.Ack)
	if ls := <-got; len(ls) != 1 || ls[0].JobID != id {
		k.Fatalf("received %+v, want the suspect", ls)
	} else {
		k.settle(ls[0], queue.Ack)
	}
}
