package ledger

import (
	"time"

	"github.com/headrace/headrace/queue"
)

// Counters are the kept numbers of a queue: nothing is ever counted by scanning.
type Counters struct {
	Level  [NumStates]int64 // jobs in each state now
	Totals [NumTotals]int64 // running
}

// Total names a running total. The numbers are part of the file format.
type Total int

// The totals.
const (
	Arrivals Total = iota
	Completions
	Attempts
	TotalSucceeded
	TotalDead
	TotalCancelled
	TotalExpired
	Nacked
	Released
	Crashed
	Lost // leases that ran out
	Redriven
	NumTotals = int(Redriven) + 1
)

var totalNames = [NumTotals]string{
	"arrivals", "completions", "attempts", "succeeded", "dead", "cancelled", "expired",
	"nacked", "released", "crashed", "lost", "redriven",
}

func (t Total) String() string { return totalNames[t] }

func (n *Counters) add(t Total) { n.Totals[t]++ }

// ended counts a job that reached the terminal state s.
func (n *Counters) ended(s State) {
	n.add(Completions)
	n.add(TotalSucceeded + Total(s-Succeeded))
}

// Edges are the three moments that [queue.Stats] is computed from; zero means that there is none.
type Edges struct{ OldestReady, OldestLease, NextDue int64 }

// Stats returns the measurements in the words of the contract. now is the queue's clock, which ages are counted by; at is
// the wall clock, which readers compare with theirs: the two differ after the machine was suspended.
func (n *Counters) Stats(now int64, at time.Time, e Edges, epoch string) queue.Stats {
	at = at.Round(0).UTC()
	count := func(v int64) queue.Number { return queue.Exactly(float64(v), at) }
	age := func(since int64) queue.Number {
		if since == 0 {
			return queue.Exactly(0, at)
		}
		return queue.Exactly(max(0, time.Duration(now-since).Seconds()), at)
	}
	s := queue.Stats{
		Backlog:     count(n.Level[Ready] + n.Level[Suspect]),
		Delayed:     count(n.Level[Delayed]),
		InFlight:    count(n.Level[Leased]),
		Dead:        count(n.Level[Dead]),
		OldestAge:   age(e.OldestReady),
		OldestLease: age(e.OldestLease),
		NextDue:     queue.Number{Unknown: "no job is delayed"},
		Arrivals:    count(n.Totals[Arrivals]),
		Completions: count(n.Totals[Completions]),
		Attempts:    count(n.Totals[Attempts]),
		Totals:      make(map[string]int64, NumTotals),
		Epoch:       epoch,
	}
	if e.NextDue != 0 {
		s.NextDue = queue.Exactly(max(0, time.Duration(e.NextDue-now).Seconds()), at)
	}
	for t := TotalSucceeded; int(t) < NumTotals; t++ {
		s.Totals[t.String()] = n.Totals[t]
	}
	return s
}
