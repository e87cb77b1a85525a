package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/httpapi"
)

// What goes into one request. The server takes 1,000 jobs and 1 MiB.
const (
	batchJobs  = 500
	batchBytes = 1<<20 - 512
	// linger is how long a batch waits for more lines when they come slowly.
	linger = 100 * time.Millisecond
)

// enqueueFlags are what `jobs enqueue` is told.
type enqueueFlags struct {
	file     string
	lines    lineReader
	progress string
	retryFor time.Duration
}

func newEnqueueCmd(c *cli) *cobra.Command {
	f := enqueueFlags{}
	cmd := &cobra.Command{
		Use:   "enqueue [--pool POOL] [--file FILE]",
		Short: "Enqueue jobs from NDJSON, one a line",
		Long: `Enqueue jobs from a file or standard input, one a line:

  {"payload": {"file": "a.pdf"}, "key": "a.pdf", "delay": "10m"}

A job may name its pool; --pool is for those that do not. Fields: pool, payload, key, tenant, priority, delay,
expires_in, headers. With --payload-only each line is a payload.

Jobs go to the server in batches and are durable once they are counted. A batch that may not have arrived is sent again
under the same idempotency key, so no job is enqueued twice; a server that is not there yet is waited for as well. To make
running the whole command again safe too, give jobs a key each, or --key-prefix, which makes one of the prefix and the
line number.

A line that is no job is reported with its number, and the rest goes on; the exit code is then 3. An interrupt ends after
the batch that is under way, says how many jobs were taken, and exits with 130.`,
		Example: `  headrace jobs enqueue --pool emails --file jobs.ndjson
  find . -name '*.pdf' | jq -R '{payload: ., key: .}' -c | headrace jobs enqueue --pool documents
  headrace jobs enqueue --pool emails --payload-only --key-prefix launch/ --file payloads.ndjson -o ndjson`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), c) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "-", "file with a job a line; - is standard input")
	flags.StringVar(&f.lines.pool, "pool", "", "pool of the jobs that name none")
	flags.BoolVar(&f.lines.payloadOnly, "payload-only", false, "each line is a payload")
	flags.StringVar(&f.lines.keyPrefix, "key-prefix", "", "key of the jobs that have none: this and the line number")
	flags.StringVar(&f.progress, "progress", "auto", "how progress is shown: "+progressModes)
	flags.DurationVar(&f.retryFor, "retry-for", time.Minute, "how long a batch is tried while the server is busy or away")
	return withServer(c, cmd)
}

func (f enqueueFlags) run(ctx context.Context, c *cli) error {
	in, size, err := c.input(f.file)
	if err != nil {
		return err
	}
	defer in.Close()
	cl, err := c.client()
	if err != nil {
		return err
	}
	bar, err := c.progress(f.progress, size)
	if err != nil {
		return err
	}
	e := &enqueuer{c: c, cl: cl, bar: bar, retryFor: f.retryFor}
	err = e.all(ctx, f.lines, in)
	bar.clear()
	if out := e.finish(); out != nil && err == nil {
		err = out
	}
	e.tell()
	switch {
	case err == nil && e.refused > 0:
		return exitError{code: exitBad}
	case ctx.Err() != nil:
		return exitError{exitInterrupted, fmt.Errorf("interrupted: %s", e.rest())}
	case err != nil && (e.next > 1 || e.unsure > 0):
		return fmt.Errorf("enqueue jobs: %s: %w", e.rest(), err)
	case err != nil:
		return fmt.Errorf("enqueue jobs: %w", err)
	}
	return nil
}

// rest says which lines are left.
func (e *enqueuer) rest() string {
	first := max(1, e.next)
	if e.unsure > 0 {
		return fmt.Sprintf("lines %d to %d may or may not have been enqueued, later ones were not", first, e.unsure)
	}
	return fmt.Sprintf("lines from %d on were not enqueued", first)
}

// input opens a file or standard input, and says how many bytes it has; 0: not known.
func (c *cli) input(name string) (io.ReadCloser, int64, error) {
	if name == "-" {
		return io.NopCloser(c.stdin), 0, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, exitError{exitUsage, fmt.Errorf("open --file: %w", err)}
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return f, 0, nil // only the progress needs the size
	}
	return f, info.Size(), nil
}

// enqueuer sends lines and counts what became of them.
type enqueuer struct {
	c        *cli
	cl       *client
	bar      *progress
	retryFor time.Duration

	taken, known, refused int64
	next                  int // the first line that was not dealt with
	unsure                int // the last line of a batch that was sent and not answered; 0: none
	held                  *input
	offset                int64 // bytes of the lines that were
	written               int64 // items on stdout
}

// input is a line that was read.
type input struct {
	job    *jobLine
	bad    *badLine
	offset int64
}

// all sends everything that in has.
func (e *enqueuer) all(ctx context.Context, lines lineReader, in io.Reader) error {
	// Reading from a terminal or a pipe cannot be interrupted: the reader is left behind when ctx ends, and goes with
	// the process.
	read := make(chan input, batchJobs)
	failed := make(chan error, 1)
	go func() {
		defer close(read)
		failed <- lines.read(in, func(j *jobLine, b *badLine, offset int64) bool {
			select {
			case read <- input{j, b, offset}:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	for {
		batch, offset, more := e.gather(ctx, read)
		if err := e.send(ctx, batch); err != nil {
			return err
		}
		e.offset = offset
		e.bar.update(e.offset, e.taken+e.known)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !more {
			return <-failed
		}
	}
}

// gather returns the next batch of jobs and reports bad lines. Without more there will be no other.
func (e *enqueuer) gather(ctx context.Context, read <-chan input) (batch []jobLine, offset int64, more bool) {
	offset = e.offset
	bytes := 2
	take := func(in input) {
		offset = in.offset
		if in.bad != nil {
			e.refuse(*in.bad)
			return
		}
		batch = append(batch, *in.job)
		bytes += len(in.job.job) + 1
	}
	if e.held != nil {
		take(*e.held)
		e.held = nil
	}
	late := time.After(linger)
	for {
		select {
		case in, ok := <-read:
			if !ok {
				return batch, offset, false
			}
			if in.job != nil && len(batch) > 0 && bytes+len(in.job.job)+1 > batchBytes {
				e.held = &in
				return batch, offset, true
			}
			take(in)
			if len(batch) == batchJobs {
				return batch, offset, true
			}
		case <-late:
			return batch, offset, true
		case <-ctx.Done():
			return nil, e.offset, false
		}
	}
}

// send enqueues a batch. A batch that the server refuses as a whole is halved until the jobs at fault are found.
func (e *enqueuer) send(ctx context.Context, batch []jobLine) error {
	if len(batch) == 0 {
		return nil
	}
	e.next = batch[0].n
	a, err := e.post(ctx, batch)
	if p := (problem{}); errors.As(err, &p) {
		switch p.Status {
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
			if len(batch) == 1 {
				e.next = batch[0].n + 1 // refused: dealt with
				e.refuse(badLine{batch[0].n, p.Error()})
				return nil
			}
			if err := e.send(ctx, batch[:len(batch)/2]); err != nil {
				return err
			}
			return e.send(ctx, batch[len(batch)/2:])
		}
	}
	if err != nil {
		return err
	}
	if err := e.took(batch, a); err != nil {
		return err
	}
	e.next = batch[len(batch)-1].n + 1
	return nil
}

// took counts the answers to a batch, and writes them where the output wants them.
func (e *enqueuer) took(batch []jobLine, items []json.RawMessage) error {
	for i, raw := range items {
		var it httpapi.Enqueued
		if err := json.Unmarshal(raw, &it); err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		switch {
		case it.Problem != nil:
			e.refuse(badLine{batch[i].n, it.Problem.Detail})
		case it.Duplicate && batch[i].keyed:
			e.known++
		default: // under the batch's own key a duplicate is this very job, sent again
			e.taken++
		}
		if err := e.write(raw); err != nil {
			return err
		}
	}
	return nil
}

// post sends a batch until it is answered, under one idempotency key, and returns an answer a job.
func (e *enqueuer) post(ctx context.Context, batch []jobLine) ([]json.RawMessage, error) {
	bodies := make([][]byte, len(batch))
	for i, j := range batch {
		bodies[i] = j.job
	}
	body := append(append([]byte{'['}, bytes.Join(bodies, []byte{','})...), ']')
	header := map[string]string{"Idempotency-Key": rand.Text()}
	deadline := time.Now().Add(e.retryFor)
	told := false
	for try := 0; ; try++ {
		// A request that is under way when the command is interrupted is waited for, so that what is counted is true.
		once, cancel := context.WithCancel(context.WithoutCancel(ctx))
		stop := context.AfterFunc(ctx, func() { time.AfterFunc(5*time.Second, cancel) })
		a, err := e.cl.do(once, http.MethodPost, "/api/v1/jobs", header, body)
		stop()
		cancel()
		var items []json.RawMessage
		if err == nil {
			e.unsure = 0
			if items, err = answers(a, len(batch)); err == nil {
				return items, nil
			}
		}
		wait, retry := passing(err)
		if retry && !refused(err) {
			e.unsure = batch[len(batch)-1].n
		}
		wait = max(wait, backoff(try))
		if !retry || time.Now().Add(wait).After(deadline) {
			return nil, err
		}
		// A server that is not there may also be a wrong address: that is said at once. Else, a try or two may be a hiccup.
		if u := (unreachable{}); !told && (try == 2 || errors.As(err, &u) && u.refused) {
			told = true
			e.bar.clear()
			why, _, _ := strings.Cut(err.Error(), "\n")
			fmt.Fprintf(e.c.stderr, "waiting for the server, at most %v (--retry-for): %s\n", e.retryFor, why)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// refused reports whether a request that failed certainly had no effect.
func refused(err error) bool {
	if p := (problem{}); errors.As(err, &p) {
		return p.Status == http.StatusTooManyRequests
	}
	u := unreachable{}
	return errors.As(err, &u) && u.refused
}

// answers splits the answer to a batch. One that could not be taken for now makes the whole batch worth sending again:
// under its key the others are not enqueued twice.
func answers(a answer, n int) ([]json.RawMessage, error) {
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(a.body, &list); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if len(list.Items) != n {
		return nil, fmt.Errorf("read the answer: %d answers to %d jobs", len(list.Items), n)
	}
	for _, raw := range list.Items {
		var it struct{ Problem *problem }
		if err := json.Unmarshal(raw, &it); err != nil {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
		if it.Problem != nil {
			if _, ok := passing(*it.Problem); ok {
				return nil, *it.Problem
			}
		}
	}
	return list.Items, nil
}

// backoff is exponential from 0.2 s to 5 s with full jitter.
func backoff(try int) time.Duration {
	top := min(5*time.Second, 200*time.Millisecond<<min(try, 10))
	return time.Duration(mathrand.Int64N(int64(top)))
}

// tellAtMost is how many bad lines are reported one by one.
const tellAtMost = 100

func (e *enqueuer) refuse(b badLine) {
	e.refused++
	e.bar.clear()
	switch {
	case e.refused <= tellAtMost:
		fmt.Fprintf(e.c.stderr, "line %d: %s\n", b.n, b.why)
	case e.refused == tellAtMost+1:
		fmt.Fprintln(e.c.stderr, "further bad lines are only counted")
	}
}

// write shows an answer as it comes: a million of them are not kept.
func (e *enqueuer) write(item json.RawMessage) error {
	switch e.c.output {
	case "ndjson":
		return e.c.line(item)
	case "json":
		before := ","
		if e.written == 0 {
			before = `{"items":[`
		}
		e.written++
		return e.c.raw(append([]byte(before), item...))
	}
	return nil
}

// finish ends what write began.
func (e *enqueuer) finish() error {
	if e.c.output != "json" {
		return nil
	}
	if e.written == 0 {
		return e.c.raw([]byte("{\"items\":[]}\n"))
	}
	return e.c.raw([]byte("]}\n"))
}

// tell says what became of the lines.
func (e *enqueuer) tell() {
	text := plural(e.taken, "job") + " enqueued"
	if e.known > 0 {
		text += ", " + amount(e.known) + " already known by their key"
	}
	if e.refused > 0 {
		text += ", " + plural(e.refused, "line") + " refused"
	}
	w := e.c.stderr
	if e.c.output == "table" {
		w = e.c.stdout
	}
	fmt.Fprintln(w, text)
}
