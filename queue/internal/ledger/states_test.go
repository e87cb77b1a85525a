package ledger_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/internal/ledger"
)

var stateNames = [ledger.NumStates]string{"ready", "suspect", "delayed", "leased", "succeeded", "dead", "cancelled", "expired"}

// The drawing in package queue, as a table: what each operation makes of a job in each state. A settlement brings the
// token of the job's last lease. "lost", "conflict": that error, and the state stays; "-": the state stays.
//
// lease ends: its holder is silent; due: 20 s later, when the delay is over; expires: later still, when the job's time to
// start is over. In the last two the holder, if there is one, keeps its lease.
const transitions = `
state     | claim  | ack       | nack    | release | dead | crash   | cancel    | redrive | abandon | lease ends | due   | expires
ready     | leased | lost      | lost    | lost    | lost | lost    | cancelled | -       | -       | -          | -     | expired
suspect   | leased | lost      | lost    | lost    | lost | -       | cancelled | -       | -       | -          | -     | expired
delayed   | -      | lost      | lost    | lost    | lost | lost    | cancelled | -       | -       | -          | ready | expired
leased    | -      | succeeded | delayed | ready   | dead | suspect | -         | -       | suspect | suspect    | -     | -
succeeded | -      | -         | lost    | lost    | lost | lost    | conflict  | -       | -       | -          | -     | -
dead      | -      | lost      | lost    | lost    | -    | lost    | conflict  | ready   | -       | -          | -     | -
cancelled | -      | lost      | lost    | lost    | lost | lost    | conflict  | -       | -       | -          | -     | -
expired   | -      | lost      | lost    | lost    | lost | lost    | conflict  | -       | -       | -          | -     | -
`

func TestEveryOperationInEveryState(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(transitions), "\n")
	cells := func(line string) []string {
		all := strings.Split(line, "|")
		for i := range all {
			all[i] = strings.TrimSpace(all[i])
		}
		return all
	}
	ops := cells(lines[0])[1:]
	if len(lines)-1 != ledger.NumStates {
		t.Fatalf("the table has %d states, there are %d", len(lines)-1, ledger.NumStates)
	}
	for _, line := range lines[1:] {
		row := cells(line)
		for i, op := range ops {
			t.Run(row[0]+"/"+op, func(t *testing.T) { transition(t, row[0], op, row[1+i]) })
		}
	}
}

func transition(t *testing.T, from, op, want string) {
	d := newDesk(t, queue.Policy{Lease: 10 * time.Second, Attempts: 5, AfterCrashes: 2})
	receipt := d.jobIn(from)
	err := d.operate(op, receipt)
	state := want
	var wantErr error
	switch want {
	case "-":
		state = from
	case "lost":
		state, wantErr = from, queue.ErrLost
	case "conflict":
		state, wantErr = from, queue.ErrConflict
	}
	if !errors.Is(err, wantErr) {
		t.Errorf("got error %v, want %v", err, wantErr)
	}
	if got := stateNames[d.state(receipt.JobID)]; got != state {
		t.Errorf("got state %s, want %s", got, state)
	}
	d.noDrift()
}

// jobIn makes a job in the state and returns the receipt of its last lease, or one that was never given.
func (d *desk) jobIn(state string) queue.Receipt {
	job := queue.Job{ExpiresIn: time.Minute}
	if state == "delayed" {
		job.Delay = 15 * time.Second
	}
	r := queue.Receipt{JobID: d.publish(job)[0], Token: 1}
	lease := func() {
		d.Helper()
		ls := d.claim("w", 1)
		if len(ls) != 1 {
			d.Fatalf("received %+v", ls)
		}
		r = ls[0].Receipt()
	}
	var err error
	switch state {
	case "leased":
		lease()
	case "suspect":
		lease()
		err = d.settle(r, queue.Crash)
	case "succeeded":
		lease()
		err = d.settle(r, queue.Ack)
	case "dead":
		lease()
		err = d.settle(r, queue.Dead)
	case "cancelled":
		err = d.operate("cancel", r)
	case "expired":
		err = d.operate("expires", r)
	}
	if err != nil {
		d.Fatal(err)
	}
	if got := stateNames[d.state(r.JobID)]; got != state {
		d.Fatalf("made a job that is %s, want %s", got, state)
	}
	return r
}

func (d *desk) operate(op string, r queue.Receipt) (answer error) {
	keep := func() { d.Extend(d.now, []queue.Receipt{r}, 0) }
	switch op {
	case "claim":
		d.claim("x", 1)
	case "cancel":
		d.must(func() (err error) {
			_, answer, err = d.Cancel(d.now, r.JobID)
			return err
		})
	case "redrive":
		d.must(func() error { _, err := d.Redrive(d.now, 10, false); return err })
	case "abandon":
		d.must(func() error { _, err := d.Abandon(d.now, "w", "gone"); return err })
	case "lease ends":
		d.pass(11*time.Second, nil)
	case "due":
		d.pass(20*time.Second, keep)
	case "expires":
		d.pass(61*time.Second, keep)
	default:
		return d.settle(r, queue.Verdict(op))
	}
	return answer
}

// What is kept of a reason is text of at most 4 KiB, whatever a handler wrote and wherever that is cut.
func TestReasonIsCutBetweenCharacters(t *testing.T) {
	for name, long := range map[string]string{
		"two bytes each": "x" + strings.Repeat("ü", queue.MaxReason),
		"three":          strings.Repeat("日", queue.MaxReason),
		"no text at all": strings.Repeat("\xff", 5000),
		"short":          "short",
	} {
		d := newDesk(t, queue.Policy{})
		d.publish(queue.Job{})
		l := d.claim("w", 1)[0]
		d.must(func() error {
			_, err := d.Settle(d.now, []queue.Settlement{{Receipt: l.Receipt(), Verdict: queue.Dead, Reason: long}})
			return err
		})
		r, _, _ := d.store.Get(l.JobID)
		if len(r.Error) > queue.MaxReason || !utf8.ValidString(r.Error) || r.Error == "" {
			t.Errorf("%s: kept %d bytes, valid: %v", name, len(r.Error), utf8.ValidString(r.Error))
		}
		if utf8.ValidString(long) && (!strings.HasPrefix(long, r.Error) || len(r.Error) < min(len(long), queue.MaxReason-3)) {
			t.Errorf("%s: what is kept, %d bytes, is not its beginning", name, len(r.Error))
		}
	}
}
