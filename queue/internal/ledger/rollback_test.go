package ledger_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/internal/ledger"
)

// Random operations, the store failing at a random call of every third batch: the books in memory always say what the
// store says, and no claim is ever answered with a lease that was rolled back.
func TestRolledBackBatchLeavesNoTrace(t *testing.T) {
	d := newDesk(t, queue.Policy{Lease: 5 * time.Second, MaxLease: 20 * time.Second, Attempts: 4, AfterCrashes: 3, KeepResults: 2 * time.Second})
	r := rand.New(rand.NewPCG(1, 1))
	var held []queue.Lease
	var parked []*ledger.Claim
	failures := 0
	for range 2_000 {
		d.now += r.Int64N(int64(400 * time.Millisecond))
		before := d.Counters()
		if r.IntN(3) == 0 {
			d.store.failIn = 1 + r.IntN(12)
		}
		var c *ledger.Claim
		err := d.batch(func() error {
			for range 1 + r.IntN(3) {
				if err := d.anything(r, held, &c); err != nil {
					return err
				}
			}
			return nil
		})
		d.store.failIn = 0
		if err != nil {
			failures++
			if !errors.Is(err, errDisk) || d.Counters() != before {
				t.Fatalf("after %v the counters are %v, want %v", err, d.Counters(), before)
			}
		} else if c != nil {
			parked = append(parked, c)
		}
		d.noDrift()
		waiting := parked[:0]
		for _, c := range parked {
			select {
			case <-c.Done:
				held = append(held, c.Leases...)
			default:
				if len(c.Leases) != 0 {
					t.Fatalf("a claim that waits has leases already: %+v", c.Leases)
				}
				waiting = append(waiting, c)
			}
		}
		parked = waiting
		fresh := held[:0]
		for _, l := range held { // what was answered is as it is stored
			row, _, _ := d.store.Get(l.JobID)
			if row != nil && row.State == ledger.Leased && row.Token == l.Token {
				fresh = append(fresh, l)
			} else if row != nil && row.Token < l.Token {
				t.Fatalf("token %d was given out, the highest stored is %d", l.Token, row.Token)
			}
		}
		held = fresh
		if t.Failed() {
			t.FailNow()
		}
	}
	n := d.Counters()
	t.Logf("%d batches failed; totals %v", failures, n.Totals)
	for i, v := range n.Totals {
		if v == 0 {
			t.Errorf("the run had no %s: it proves little", ledger.Total(i))
		}
	}
	if failures < 200 {
		t.Errorf("only %d batches failed", failures)
	}
}

// anything does one operation. A claim is left in c.
func (d *desk) anything(r *rand.Rand, held []queue.Lease, c **ledger.Claim) error {
	switch op := r.IntN(10); {
	case op < 3:
		job := queue.Job{Payload: []byte{byte(r.IntN(4))}}
		switch r.IntN(4) {
		case 0:
			job.Delay = time.Duration(r.Int64N(int64(5 * time.Second)))
		case 1:
			job.ExpiresIn = time.Duration(1 + r.Int64N(int64(8*time.Second)))
		case 2:
			job.Key = fmt.Sprint(r.IntN(500))
		}
		_, err := d.Publish(d.now, []queue.Job{job})
		return err
	case op < 6 && *c == nil:
		*c = newClaim(fmt.Sprint("w", r.IntN(6)), 1+r.IntN(4))
		(*c).Park = r.IntN(2) == 0
		return d.Claim(d.now, *c)
	case op == 9:
		if _, err := d.Redrive(d.now, 2, r.IntN(2) == 0); err != nil {
			return err
		}
		if r.IntN(10) == 0 {
			_, err := d.Abandon(d.now, fmt.Sprint("w", r.IntN(6)), "gone")
			return err
		}
		return nil
	case len(held) == 0:
		return nil
	}
	l := held[r.IntN(len(held))]
	switch r.IntN(8) {
	case 0, 1:
		d.Extend(d.now, []queue.Receipt{l.Receipt()}, 0)
		return nil
	case 2:
		_, _, err := d.Cancel(d.now, l.JobID)
		return err
	}
	verdicts := []queue.Verdict{queue.Ack, queue.Nack, queue.Release, queue.Dead, queue.Crash}
	_, err := d.Settle(d.now, []queue.Settlement{{Receipt: l.Receipt(), Verdict: verdicts[r.IntN(len(verdicts))]}})
	return err
}

// A claim that waited was served one job, and the next one could not be stored: the first lease, which was rolled back
// with it, must not be among those that it gets in the end.
func TestWaitingClaimForgetsLeasesThatWereRolledBack(t *testing.T) {
	d := newDesk(t, queue.Policy{})
	c := newClaim("w", 5)
	c.Park = true
	d.must(func() error { return d.Claim(d.now, c) })
	err := d.batch(func() error {
		if _, err := d.Publish(d.now, []queue.Job{{}, {}, {}}); err != nil {
			return err
		}
		d.store.failIn = 3 // find them, store the first as leased, store the second
		return nil
	})
	if !errors.Is(err, errDisk) {
		t.Fatalf("got %v: the store did not fail while the claim was served", err)
	}
	d.publish(queue.Job{}, queue.Job{})
	<-c.Done
	if len(c.Leases) != 2 {
		t.Fatalf("got %d leases, want 2", len(c.Leases))
	}
	for _, l := range c.Leases {
		if err := d.settle(l.Receipt(), queue.Ack); err != nil {
			t.Errorf("a lease that was given out: %v", err)
		}
	}
	d.noDrift()
}
