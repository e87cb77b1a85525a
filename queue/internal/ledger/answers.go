package ledger

import (
	"fmt"

	"github.com/headrace/headrace/queue"
)

// MaxBatch is the most jobs that one Receive returns.
const MaxBatch = 500

// Caps returns the facts about a queue that this package keeps the books of.
func Caps(p queue.Policy, durable bool) queue.Caps {
	return queue.Caps{
		MaxBatch: MaxBatch, MaxLease: p.MaxLease, MaxDelay: queue.MaxWait,
		Fenced: true, FreeRelease: true, ExactAttempts: true, Durable: durable,
	}
}

// Same returns err n times.
func Same(err error, n int) []error {
	out := make([]error, n)
	for i := range out {
		out[i] = err
	}
	return out
}

// NoExtension returns n extensions that were refused with err.
func NoExtension(err error, n int) []queue.Extension {
	out := make([]queue.Extension, n)
	for i := range out {
		out[i].Err = err
	}
	return out
}

// PublishValid answers for the invalid jobs itself and publishes the others.
func PublishValid(jobs []queue.Job, publish func([]queue.Job) ([]queue.Published, error)) []queue.Published {
	out := make([]queue.Published, len(jobs))
	valid, place := jobs, make([]int, 0, len(jobs))
	for i := range jobs {
		if out[i].Err = jobs[i].Validate(); out[i].Err == nil {
			place = append(place, i)
		}
	}
	if len(place) == 0 {
		return out
	}
	if len(place) < len(jobs) {
		valid = make([]queue.Job, len(place))
		for i, p := range place {
			valid[i] = jobs[p]
		}
	}
	answers, err := publish(valid)
	for i, p := range place {
		if err != nil {
			out[p].Err = err
		} else {
			out[p] = answers[i]
		}
	}
	return out
}

// Sooner makes [Ledger.Next] no later than at.
func (l *Ledger) Sooner(at int64) { l.sooner(at) }

// Drift compares the counters with the jobs there really are in each state, and the leases in memory with those that
// are stored. It returns every difference.
func (l *Ledger) Drift(name string, real [NumStates]int64) []string {
	var out []string
	for st := range State(NumStates) {
		if l.n.Level[st] != real[st] {
			out = append(out, fmt.Sprintf("queue %q: counted %d jobs in state %d (%s), there are %d", name, l.n.Level[st], st, st.Public(), real[st]))
		}
	}
	var held int
	for _, h := range l.leases.held {
		held += h.jobs
	}
	l.leases.mu.Lock()
	defer l.leases.mu.Unlock()
	for what, n := range map[string]int{"leases in memory": len(l.leases.byID), "leases under watch": len(l.leases.due), "leases by worker": held} {
		if int64(n) != real[Leased] {
			out = append(out, fmt.Sprintf("queue %q: %d %s, %d jobs are leased", name, n, what, real[Leased]))
		}
	}
	sum := l.n.Totals[TotalSucceeded] + l.n.Totals[TotalDead] + l.n.Totals[TotalCancelled] + l.n.Totals[TotalExpired]
	if sum != l.n.Totals[Completions] {
		out = append(out, fmt.Sprintf("queue %q: %d completions, %d by outcome", name, l.n.Totals[Completions], sum))
	}
	return out
}
