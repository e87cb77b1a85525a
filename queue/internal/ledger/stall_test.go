package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/internal/ledger"
)

// A process that was stopped for many leases gives all of them back what they had left, hard maximum included, whichever
// call comes first when it goes on.
func TestStallCountsForNoLease(t *testing.T) {
	policy := queue.Policy{Lease: 10 * time.Second, MaxLease: 15 * time.Second}
	for name, first := range map[string]func(d *desk, mine queue.Lease){
		"the clock": func(*desk, queue.Lease) {},
		"an extension of another": func(d *desk, _ queue.Lease) {
			d.Extend(d.now, []queue.Receipt{{JobID: "none"}}, 0)
		},
		"another claim": func(d *desk, _ queue.Lease) { d.claim("x", 1) },
		"its own extension": func(d *desk, mine queue.Lease) {
			if e, _ := d.Extend(d.now, []queue.Receipt{mine.Receipt()}, 3*time.Second); e[0].Err != nil || e[0].Left != 3*time.Second {
				d.Errorf("extension is %+v", e[0])
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, policy)
			d.publish(queue.Job{}, queue.Job{})
			mine := d.claim("w", 1)[0]
			d.pass(7*time.Second, nil)
			d.now += int64(time.Hour)
			first(d, mine)
			d.pass(2*time.Second, nil)
			if s := d.state(mine.JobID); s != ledger.Leased {
				t.Fatalf("2 s after the stall the job is %v", s.Public())
			}
			d.pass(2*time.Second, nil) // of 3 that were left
			if s := d.state(mine.JobID); s == ledger.Leased {
				t.Fatal("the lease got more than the lost time")
			}
			if err := d.settle(mine.Receipt(), queue.Ack); !errors.Is(err, queue.ErrLost) {
				t.Errorf("got %v, want lost", err)
			}
		})
	}
}

func TestStallDoesNotShortenTheHardMaximum(t *testing.T) {
	d := newDesk(t, queue.Policy{Lease: 10 * time.Second, MaxLease: 15 * time.Second})
	d.publish(queue.Job{})
	l := d.claim("w", 1)[0]
	d.pass(8*time.Second, nil)
	d.now += int64(time.Hour)
	if e, _ := d.Extend(d.now, []queue.Receipt{l.Receipt()}, 0); e[0].Err != nil || e[0].Left < 6900*time.Millisecond || e[0].Left > 7500*time.Millisecond {
		t.Errorf("extension is %+v, want 7 s and at most a pulse more", e[0])
	}
}

// No leases, no pulse: an idle queue sleeps, and what it slept is no stall.
func TestSleepWithoutLeasesIsNoStall(t *testing.T) {
	d := newDesk(t, queue.Policy{Lease: 10 * time.Second})
	if d.pass(time.Second, nil); d.Next() != ledger.Never {
		t.Fatalf("an empty queue wants to be called in %v", time.Duration(d.Next()-d.now))
	}
	d.now += int64(time.Hour)
	d.publish(queue.Job{})
	l := d.claim("w", 1)[0]
	if next := time.Duration(d.Next() - d.now); next <= 0 || next > time.Second {
		t.Fatalf("with a lease in force it wants to be called in %v", next)
	}
	d.pass(10*time.Second+400*time.Millisecond, nil)
	if s := d.state(l.JobID); s == ledger.Leased {
		t.Fatal("the lease did not end in time")
	}
}

// A worker reserves a suspect, becomes idle and is never seen again. The reservation lapses, and with it the wish to be
// called: it once stayed due for ever, and the queue's goroutine spun.
func TestLapsedReservationIsNotDueForEver(t *testing.T) {
	d := newDesk(t, queue.Policy{})
	d.publish(queue.Job{})
	busy := d.claim("busy", 1)[0]
	d.publish(queue.Job{})
	crashed := d.claim("dies", 1)[0]
	if err := d.settle(crashed.Receipt(), queue.Crash); err != nil {
		t.Fatal(err)
	}
	if ls := d.claim("busy", 1); len(ls) != 0 {
		t.Fatalf("a busy worker received a suspect: %+v", ls)
	}
	if err := d.settle(busy.Receipt(), queue.Ack); err != nil {
		t.Fatal(err)
	}
	d.pass(10*time.Second, nil)
	if next := time.Duration(d.Next() - d.now); next < time.Minute {
		t.Fatalf("with nothing to do the queue wants to be called in %v", next)
	}
	if ls := d.claim("other", 1); len(ls) != 1 || ls[0].JobID != crashed.JobID {
		t.Fatalf("received %+v, want the suspect", ls)
	}
}

// The clock was set back between two lives of the process: a lease lasts one term from now, and its hard maximum is not
// what the old clock said.
func TestInheritedLeaseIsBoundedWhateverTheClockShows(t *testing.T) {
	for _, step := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		d := newDesk(t, queue.Policy{Lease: 10 * time.Second, MaxLease: 30 * time.Second})
		id := d.publish(queue.Job{})[0]
		l := d.claim("w", 1)[0]
		row, _, _ := d.store.Get(id)
		now := d.now + int64(step)
		again := &desk{T: t, Ledger: ledger.New(d.store, d.Policy(), d.Counters()), store: d.store, now: now}
		again.Inherit(now, row)
		again.pass(9*time.Second, nil)
		for range 2 { // 12 s more are asked for, each time
			if e, _ := again.Extend(again.now, []queue.Receipt{l.Receipt()}, 12*time.Second); e[0].Err != nil {
				t.Fatalf("step %v: %v", step, e[0].Err)
			}
		}
		again.pass(22*time.Second, func() { again.Extend(again.now, []queue.Receipt{l.Receipt()}, 0) })
		if s := again.state(id); s == ledger.Leased {
			t.Errorf("step %v: the lease outlived its hard maximum", step)
		}
		again.noDrift()
	}
}

// An extension read the clock, then the process was stopped, and when it goes on somebody else notices first. The extension
// counts from now, and the stall is not given back twice.
func TestStallBetweenReadingTheClockAndExtending(t *testing.T) {
	d := newDesk(t, queue.Policy{Lease: 10 * time.Second})
	d.publish(queue.Job{})
	l := d.claim("w", 1)[0]
	read := d.now
	d.now += int64(time.Hour)
	d.must(func() error { return nil }) // the clock
	if e, _ := d.Extend(read, []queue.Receipt{l.Receipt()}, 0); e[0].Err != nil || e[0].Left != 10*time.Second {
		t.Fatalf("extension is %+v", e[0])
	}
	d.pass(9*time.Second, nil)
	if s := d.state(l.JobID); s != ledger.Leased {
		t.Fatal("9 s of 10 after the extension the lease is over")
	}
	d.pass(2*time.Second, nil)
	if s := d.state(l.JobID); s == ledger.Leased {
		t.Fatal("the stall was given back twice")
	}
}
