package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/headrace/headrace/internal/httpapi"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/scale"
)

// Summary is what came of a run.
type Summary struct {
	Jobs      JobsSummary            `json:"jobs"`
	Wait      WaitSummary            `json:"wait"`
	Replicas  ReplicasSummary        `json:"replicas"`
	Decisions map[scale.Reason]int64 `json:"decisions"`
	Provider  ProviderSummary        `json:"provider"`
	Promises  []Promise              `json:"promises"`
	// Interrupted: the story was not played to its end. Nothing is promised then but that no job is lost or answered twice.
	Interrupted bool `json:"interrupted,omitempty"`
}

// JobsSummary counts jobs from the outside.
type JobsSummary struct {
	Enqueued  int `json:"enqueued"`
	Completed int `json:"completed"` // with the result that belongs to what was asked
	Dead      int `json:"dead"`
	// Lost is what was acknowledged and has neither its result nor a place in the dead letters.
	Lost int `json:"lost"`
	// Duplicates is how many complete answers the provider gave beyond one a job.
	Duplicates int `json:"duplicates"`
}

// WaitSummary is how long completed jobs waited for their start, in seconds.
type WaitSummary struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	Max float64 `json:"max"`
}

// ReplicasSummary counts what happened to the pool before the final drain.
type ReplicasSummary struct {
	Max       int   `json:"max"`
	Starts    int64 `json:"starts"`
	ScaleOuts int   `json:"scale_outs"`
	ScaleIns  int   `json:"scale_ins"`
}

// ProviderSummary is the provider's own account.
type ProviderSummary struct {
	LimitPerMinute int   `json:"limit_per_minute"` // tokens
	Calls          int64 `json:"calls"`
	Throttled      int64 `json:"throttled"`
	// UsedWhileWaiting is the share of the limit that was used while more jobs waited than there were workers, the time
	// until the first new worker worked included; absent when that never was.
	UsedWhileWaiting *float64 `json:"used_while_waiting,omitempty"`
}

// Promise is something the run had to show, and whether it did.
type Promise struct {
	Text string `json:"text"`
	Kept bool   `json:"kept"`
}

// Kept reports whether all promises were.
func (s Summary) Kept() bool {
	return !slices.ContainsFunc(s.Promises, func(p Promise) bool { return !p.Kept })
}

// told is what had been decided at the end of the arrivals.
type told struct {
	outs, ins int
	starts    int64
	reasons   map[scale.Reason]int64
}

func (r *run) decisions(ctx context.Context) (told, error) {
	t := told{reasons: r.app.Loop.Decisions()[poolName], starts: r.app.Fleet.Pool(poolName).Started}
	ds, err := r.api.decisions(ctx)
	if err != nil {
		return t, err
	}
	for _, d := range ds {
		switch {
		case d.Desired > d.From:
			t.outs++
		case d.Desired < d.From:
			t.ins++
		}
	}
	return t, nil
}

// sumUp compares what was asked with what came back.
func (r *run) sumUp(ctx context.Context, before told, interrupted bool) (Summary, error) {
	account := r.provider.Account()
	s := Summary{
		Interrupted: interrupted,
		Jobs:        JobsSummary{Enqueued: len(r.asked)},
		Replicas:    ReplicasSummary{Max: r.maxReady, Starts: before.starts, ScaleOuts: before.outs, ScaleIns: before.ins},
		Decisions:   before.reasons,
		Provider:    ProviderSummary{LimitPerMinute: r.opts.Story.TokensPerMinute, Calls: account.Calls, Throttled: account.Refused},
	}
	if r.waited > 0 {
		share := r.waitedUsed / r.waited.Seconds() / (float64(r.opts.Story.TokensPerMinute) / 60)
		share = math.Round(share*1000) / 1000
		s.Provider.UsedWhileWaiting = &share
	}
	for _, n := range account.Answered {
		s.Jobs.Duplicates += max(0, n-1)
	}
	var waits []float64
	poisoned := false
	for id, task := range r.asked {
		j, err := r.api.job(ctx, id)
		switch {
		case err != nil:
			s.Jobs.Lost++
		case j.State == queue.Succeeded && answers(j, task):
			s.Jobs.Completed++
			if j.StartedAt != nil && j.EnqueuedAt != nil {
				waits = append(waits, j.StartedAt.Sub(*j.EnqueuedAt).Seconds())
			}
		case j.State == queue.DeadState:
			s.Jobs.Dead++
			poisoned = poisoned || task.Poison && j.DeadReason == queue.ReasonPoison
		default:
			s.Jobs.Lost++
		}
	}
	s.Wait = spread(waits)
	s.Promises = promises(r.opts.Story, s, poisoned)
	return s, nil
}

// answers reports whether a job's result is the answer to its task.
func answers(j httpapi.Job, t Task) bool {
	var a Answer
	return json.Unmarshal(j.Result, &a) == nil && a.Number == t.Number && a.Tokens == t.Tokens
}

func spread(waits []float64) WaitSummary {
	if len(waits) == 0 {
		return WaitSummary{}
	}
	slices.Sort(waits)
	at := func(q float64) float64 {
		return math.Round(waits[int(q*float64(len(waits)-1))]*1000) / 1000
	}
	return WaitSummary{P50: at(0.5), P95: at(0.95), Max: at(1)}
}

func promises(story Story, s Summary, poisoned bool) []Promise {
	ps := []Promise{
		{fmt.Sprintf("no job lost: %d enqueued, %d completed, %d dead", s.Jobs.Enqueued, s.Jobs.Completed, s.Jobs.Dead), s.Jobs.Lost == 0},
		{"no job answered twice", s.Jobs.Duplicates == 0},
	}
	if !story.Launch || s.Interrupted {
		return ps
	}
	used := 0.0
	if s.Provider.UsedWhileWaiting != nil {
		used = *s.Provider.UsedWhileWaiting
	}
	return append(ps,
		Promise{"the poison job, and no other, is in the dead letters", poisoned && s.Jobs.Dead == 1},
		Promise{fmt.Sprintf("the provider refused at most 1%% of calls: %d of %d", s.Provider.Throttled, s.Provider.Calls), float64(s.Provider.Throttled) <= 0.01*float64(s.Provider.Calls)},
		Promise{fmt.Sprintf("at least 90%% of the provider's limit was used while jobs waited: %.0f%%", 100*used), used >= 0.9},
		Promise{fmt.Sprintf("scaled up (%d times), held by the provider's limit, scaled down (%d times)", s.Replicas.ScaleOuts, s.Replicas.ScaleIns),
			s.Replicas.ScaleOuts > 0 && s.Replicas.ScaleIns > 0 && s.Decisions[scale.DownstreamThroughput] > 0},
	)
}

// Print writes the summary for people.
func (s Summary) Print(w io.Writer) {
	fmt.Fprintf(w, "\njobs       %d enqueued, %d completed, %d dead, %d lost, %d duplicates\n",
		s.Jobs.Enqueued, s.Jobs.Completed, s.Jobs.Dead, s.Jobs.Lost, s.Jobs.Duplicates)
	fmt.Fprintf(w, "wait       %.1fs median, %.1fs p95, %.1fs longest\n", s.Wait.P50, s.Wait.P95, s.Wait.Max)
	fmt.Fprintf(w, "replicas   %d at most, %d started, scaled out %d and in %d times\n",
		s.Replicas.Max, s.Replicas.Starts, s.Replicas.ScaleOuts, s.Replicas.ScaleIns)
	fmt.Fprintf(w, "provider   %d calls, %d refused", s.Provider.Calls, s.Provider.Throttled)
	if s.Provider.UsedWhileWaiting != nil {
		fmt.Fprintf(w, "; %.0f%% of %d tokens/min used while jobs waited", 100**s.Provider.UsedWhileWaiting, s.Provider.LimitPerMinute)
	}
	fmt.Fprint(w, "\n\n")
	if s.Interrupted {
		fmt.Fprintln(w, "interrupted: the story was not played to its end")
	}
	for _, p := range s.Promises {
		mark := "✓"
		if !p.Kept {
			mark = "✗"
		}
		fmt.Fprintf(w, "%s %s\n", mark, p.Text)
	}
}
