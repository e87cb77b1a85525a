package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/httpapi"
	"github.com/headrace/headrace/queue"
)

func newJobsCmd(c *cli) *cobra.Command {
	return newGroupCmd("jobs", "Enqueue, look up, list and cancel jobs",
		newEnqueueCmd(c), newJobGetCmd(c), newJobListCmd(c), newJobCancelCmd(c))
}

// stateTint colours a job's state; the word carries the meaning.
func stateTint(j httpapi.Job) colour {
	switch j.State {
	case queue.Succeeded:
		return green
	case queue.DeadState:
		return red
	case queue.Cancelled, queue.Expired:
		return yellow
	}
	return plain
}

func jobFields() []column[httpapi.Job] {
	type job = httpapi.Job
	value := func(raw json.RawMessage) string {
		const most = 400
		r := []rune(string(raw))
		if len(r) > most {
			return string(r[:most]) + "… (-o json shows all)"
		}
		return string(r)
	}
	return []column[job]{
		{name: "ID", fields: "id", text: func(j job) string { return j.ID }},
		{name: "POOL", fields: "pool", text: func(j job) string { return j.Pool }},
		{name: "STATE", fields: "state dead_reason", text: func(j job) string {
			if j.DeadReason != "" {
				return string(j.State) + " (" + j.DeadReason + ")"
			}
			return string(j.State)
		}, colour: stateTint},
		{name: "KEY", fields: "key", text: func(j job) string { return j.Key }},
		{name: "ATTEMPTS", fields: "attempts crashes", text: func(j job) string {
			if j.Crashes > 0 {
				return fmt.Sprintf("%d, of which %s", j.Attempts, plural(int64(j.Crashes), "crash of its worker"))
			}
			return fmt.Sprint(j.Attempts)
		}},
		{name: "WORKER", fields: "worker", text: func(j job) string { return j.Worker }},
		{name: "ENQUEUED", fields: "enqueued_at", text: func(j job) string { return momentOf(j.EnqueuedAt) }},
		{name: "READY", fields: "ready_at", text: func(j job) string { return momentOf(j.ReadyAt) }},
		{name: "STARTED", fields: "started_at", text: func(j job) string { return momentOf(j.StartedAt) }},
		{name: "FINISHED", fields: "finished_at", text: func(j job) string { return momentOf(j.FinishedAt) }},
		{name: "EXPIRES", fields: "expires_at", text: func(j job) string { return momentOf(j.ExpiresAt) }},
		{name: "PAYLOAD", fields: "payload", text: func(j job) string { return value(j.Payload) }},
		{name: "RESULT", fields: "result", text: func(j job) string { return value(j.Result) }},
		{name: "ERROR", fields: "error", text: func(j job) string { return j.Error }, colour: func(job) colour { return red }},
	}
}

func newJobGetCmd(c *cli) *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Show a job, its state and its result",
		Long: `Show a job, its state and its result.

With --wait it waits for the job's end, and exits with 0 when the job succeeded, with 3 when it ended otherwise, and
with 124 when the wait ran out first.`,
		Example: "  headrace jobs get 01990b1c-7d0e-7a3b-9a53-0c7b2f6f1f10\n  headrace jobs get 01990b1c-7d0e-7a3b-9a53-0c7b2f6f1f10 --wait 30s -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, err := c.client()
			if err != nil {
				return err
			}
			a, job, err := await(cmd, cl, args[0], wait)
			if err != nil {
				return err // it names the job
			}
			if err := single(c, a, jobFields()); err != nil || wait <= 0 {
				return err
			}
			switch {
			case !job.State.Terminal():
				return exitError{exitWait, fmt.Errorf("job %s is still %s after %v", job.ID, job.State, wait)}
			case job.State != queue.Succeeded:
				return exitError{code: exitBad}
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait up to this long for the job's end")
	return describe(withServer(c, cmd), jobFields())
}

// pollFor is the longest wait in one request. The server allows a minute.
const pollFor = 20 * time.Second

// await reads the job, as often as wait allows until it has ended.
func await(cmd *cobra.Command, cl *client, id string, wait time.Duration) (a answer, job httpapi.Job, err error) {
	limit := cl.timeout
	for deadline := time.Now().Add(wait); ; {
		params := map[string]string{}
		if left := time.Until(deadline); left > 0 {
			part := min(left, pollFor)
			params["wait"], cl.timeout = part.Round(time.Millisecond).String(), limit+part
		}
		if a, err = cl.get(cmd.Context(), "/api/v1/jobs/"+url.PathEscape(id), params); err != nil {
			return a, job, err
		}
		if err := json.Unmarshal(a.body, &job); err != nil {
			return a, job, fmt.Errorf("read the answer: %w", err)
		}
		if job.State.Terminal() || time.Until(deadline) <= 0 {
			return a, job, nil
		}
	}
}

func jobColumns(now answer) []column[httpapi.Job] {
	type job = httpapi.Job
	return []column[job]{
		{name: "ID", fields: "id", text: func(j job) string { return j.ID }},
		{name: "POOL", fields: "pool", text: func(j job) string { return j.Pool }},
		{name: "STATE", fields: "state", text: func(j job) string { return string(j.State) }, colour: stateTint},
		{name: "AGE", fields: "enqueued_at", right: true, text: func(j job) string {
			if j.EnqueuedAt == nil {
				return unknown
			}
			return span(now.age(*j.EnqueuedAt))
		}},
		{name: "ATTEMPTS", fields: "attempts", right: true, text: func(j job) string { return fmt.Sprint(j.Attempts) }},
		{name: "CRASHES", fields: "crashes", right: true, text: func(j job) string { return fmt.Sprint(j.Crashes) }},
		{name: "KEY", fields: "key", text: func(j job) string { return j.Key }},
		{name: "ERROR", fields: "error dead_reason", text: func(j job) string {
			if j.DeadReason != "" && j.Error != "" {
				return j.DeadReason + ": " + j.Error
			}
			return j.DeadReason + j.Error
		}},
	}
}

func newJobListCmd(c *cli) *cobra.Command {
	var state, pool string
	var limit int
	var all bool
	cmd := &cobra.Command{
		Use:   "list --state STATE",
		Short: "List the jobs in one state, oldest first",
		Long: fmt.Sprintf(`List the jobs in one state, oldest first. States: %s.

With --all every page is read. -o json then writes one body that has the items of all pages; -o ndjson writes each page
as it comes.`, states(", ")),
		Example: "  headrace jobs list --state dead\n  headrace jobs list --state ready --pool emails --limit 20\n  headrace jobs list --state dead --all -o ndjson > dead.ndjson",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case !slices.Contains(queue.States, queue.State(state)):
				return usage("--state %s: it must be one of %s", state, states(", "))
			case limit < 1 || limit > 1000:
				return usage("--limit %d: it must be between 1 and 1000; --all lists everything", limit)
			case all && !cmd.Flags().Changed("limit"):
				limit = 1000
			}
			cl, err := c.client()
			if err != nil {
				return err
			}
			pages := &pages{c: c}
			params := map[string]string{"state": state, "pool": pool, "page_size": strconv.Itoa(limit)}
			for more := true; more; more = all && params["page_token"] != "" {
				a, err := cl.get(cmd.Context(), "/api/v1/jobs", params)
				if err != nil {
					return fmt.Errorf("list jobs: %w", err)
				}
				if params["page_token"], err = pages.add(a, all); err != nil {
					return err
				}
			}
			return pages.end(params["page_token"] != "")
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "the state: "+states(", "))
	cmd.Flags().StringVar(&pool, "pool", "", "only jobs of this pool")
	cmd.Flags().IntVar(&limit, "limit", 100, "at most this many, 1 to 1000")
	cmd.Flags().BoolVar(&all, "all", false, "all of them, however many")
	return describe(withServer(c, cmd), jobColumns(answer{}))
}

func states(separator string) string {
	names := make([]string, len(queue.States))
	for i, s := range queue.States {
		names[i] = string(s)
	}
	return strings.Join(names, separator)
}

// pages gathers the pages of a list as far as the output needs it.
type pages struct {
	c     *cli
	last  answer
	items []json.RawMessage
}

// add takes a page and returns the token of the next one.
func (p *pages) add(a answer, all bool) (next string, err error) {
	var page struct {
		Items []json.RawMessage `json:"items"`
		Next  string            `json:"next_page_token"`
	}
	if err := json.Unmarshal(a.body, &page); err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	p.last = a
	switch {
	case p.c.output == "ndjson":
		return page.Next, list[httpapi.Job](p.c, a, nil, nil)
	case p.c.output == "json" && !all:
		return page.Next, p.c.raw(a.body)
	}
	p.items = append(p.items, page.Items...)
	return page.Next, nil
}

// end writes what was gathered. more: there are jobs beyond it.
func (p *pages) end(more bool) error {
	if p.items == nil && p.c.output != "table" {
		return nil
	}
	body, err := json.Marshal(map[string]any{"items": p.items})
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if p.c.output == "json" {
		return p.c.raw(append(body, '\n'))
	}
	if err := list(p.c, answer{body, p.last.at}, jobColumns(p.last), nil); err != nil {
		return err
	}
	switch {
	case len(p.items) == 0:
		fmt.Fprintln(p.c.stderr, "No job is in this state.")
	case more:
		fmt.Fprintf(p.c.stderr, "These are the oldest %d; --limit or --all lists more.\n", len(p.items))
	}
	return nil
}

func newJobCancelCmd(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a job: a waiting one at once, a running one at its worker's next heartbeat",
		Long: `Cancel a job: a waiting one at once, a running one at its worker's next heartbeat.

Exits with 6 when the job has already ended.`,
		Example: "  headrace jobs cancel 01990b1c-7d0e-7a3b-9a53-0c7b2f6f1f10",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, err := c.client()
			if err != nil {
				return err
			}
			a, err := cl.do(cmd.Context(), http.MethodPost, "/api/v1/jobs/"+url.PathEscape(args[0])+"/cancel", nil, nil)
			if err != nil {
				return err // it names the job
			}
			return single(c, a, jobFields())
		},
	}
	return describe(withServer(c, cmd), jobFields())
}
