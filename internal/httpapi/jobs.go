package httpapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/headrace/headrace/queue"
)

// JobInput is a job to enqueue.
type JobInput struct {
	Pool      string            `json:"pool" doc:"The pool whose queue takes the job." minLength:"1" maxLength:"63"`
	Payload   json.RawMessage   `json:"payload" doc:"What the worker gets: any JSON value, at most 256 KiB, passed on byte for byte."`
	Key       string            `json:"key,omitempty" maxLength:"512" doc:"Idempotency key: enqueueing it again returns the first job."`
	Tenant    string            `json:"tenant,omitempty" maxLength:"128"`
	Priority  int               `json:"priority,omitempty" minimum:"0" maximum:"9"`
	Delay     string            `json:"delay,omitempty" doc:"Not before this long from now, such as 30s, 10m or 2d."`
	ExpiresIn string            `json:"expires_in,omitempty" doc:"Not run when it has waited this long; such as 10m."`
	Headers   map[string]string `json:"headers,omitempty"`
}

// Job is a job as the API shows it. Absent times have not happened.
type Job struct {
	ID         string            `json:"id"`
	Pool       string            `json:"pool"`
	State      queue.State       `json:"state" enum:"ready,delayed,leased,succeeded,dead,cancelled,expired"`
	Payload    json.RawMessage   `json:"payload,omitempty"`
	Key        string            `json:"key,omitempty"`
	Tenant     string            `json:"tenant,omitempty"`
	Priority   int               `json:"priority"`
	Headers    map[string]string `json:"headers,omitempty"`
	Attempts   int               `json:"attempts" doc:"Deliveries that counted, the running one included."`
	Crashes    int               `json:"crashes" doc:"Deliveries that ended with the death of their worker."`
	Worker     string            `json:"worker,omitempty" doc:"Who runs it."`
	EnqueuedAt *time.Time        `json:"enqueued_at,omitempty"`
	ReadyAt    *time.Time        `json:"ready_at,omitempty"`
	StartedAt  *time.Time        `json:"started_at,omitempty"`
	FinishedAt *time.Time        `json:"finished_at,omitempty"`
	ExpiresAt  *time.Time        `json:"expires_at,omitempty"`
	Result     json.RawMessage   `json:"result,omitempty" doc:"What the worker returned: JSON as it is, other text as a string, other bytes as base64 with result_encoding."`
	Encoding   string            `json:"result_encoding,omitempty" enum:"base64"`
	Error      string            `json:"error,omitempty" doc:"Why the last delivery that did not succeed failed or was given back; kept when a later one succeeds."`
	DeadReason string            `json:"dead_reason,omitempty" enum:"attempts,poison,rejected"`
}

// Enqueued is the answer to one job of a request.
type Enqueued struct {
	ID        string           `json:"id,omitempty"`
	Pool      string           `json:"pool,omitempty"`
	Duplicate bool             `json:"duplicate,omitempty" doc:"The key was known; id is the job that has it."`
	Problem   *huma.ErrorModel `json:"problem,omitempty" doc:"Why this job was not taken; the others were."`
}

// EnqueuedList is the answer to a batch, in order.
type EnqueuedList struct {
	Items []Enqueued `json:"items"`
}

// JobList is a page of jobs.
type JobList struct {
	Items         []Job  `json:"items"`
	NextPageToken string `json:"next_page_token,omitempty"`
}

// jobsBody is one job or an array of jobs, not yet looked into: each is judged on its own.
type jobsBody struct {
	jobs  []json.RawMessage
	batch bool
}

// maxJobs is the most jobs in one request.
const maxJobs = 1000

// UnmarshalJSON implements [json.Unmarshaler].
func (b *jobsBody) UnmarshalJSON(raw []byte) error {
	if t := bytes.TrimLeft(raw, " \t\r\n"); len(t) > 0 && t[0] == '[' {
		b.batch = true
		return json.Unmarshal(raw, &b.jobs)
	}
	b.jobs = []json.RawMessage{bytes.Clone(raw)} // raw is the framework's, and soon another request's
	return nil
}

// Schema implements [huma.SchemaProvider].
func (b *jobsBody) Schema(r huma.Registry) *huma.Schema {
	job := r.Schema(reflect.TypeFor[JobInput](), true, "JobInput")
	least, most := 1, maxJobs
	return &huma.Schema{OneOf: []*huma.Schema{job, {Type: huma.TypeArray, Items: job, MinItems: &least, MaxItems: &most}}}
}

// jobReader reads jobs strictly, by the schema that the document shows.
type jobReader struct {
	registry huma.Registry
	schema   *huma.Schema
}

// read returns the job, or a problem that names every bad field by its path below at.
func (jr jobReader) read(raw json.RawMessage, at string) (j JobInput, p *huma.ErrorModel) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return j, newProblem(http.StatusUnprocessableEntity, problemInvalid, err.Error())
	}
	res := &huma.ValidateResult{}
	huma.Validate(jr.registry, jr.schema, huma.NewPathBuffer([]byte(at), len(at)), huma.ModeWriteToServer, v, res)
	if len(res.Errors) > 0 {
		p = newProblem(http.StatusUnprocessableEntity, problemInvalid, "the job is not valid: "+errors.Join(res.Errors...).Error())
		for _, err := range res.Errors {
			p.Add(err)
		}
		return j, p
	}
	if err := json.Unmarshal(raw, &j); err != nil {
		return j, newProblem(http.StatusUnprocessableEntity, problemInvalid, err.Error())
	}
	return j, nil
}

type enqueueInput struct {
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"500" doc:"The key of a job that has none of its own. In a batch, job i gets key/i."`
	Body           jobsBody
}

type enqueueOutput struct {
	Status   int
	Location string `header:"Location"`
	Body     any
}

func (s *server) registerJobs(api huma.API) {
	registry := api.OpenAPI().Components.Schemas
	s.jobs = jobReader{registry, registry.Schema(reflect.TypeFor[JobInput](), true, "JobInput")}
	taken := map[string]*huma.Response{"202": {
		Description: "The jobs are durable: they survive a crash of the machine.",
		Headers:     map[string]*huma.Param{"Location": {Schema: &huma.Schema{Type: "string"}, Description: "The job, when one was sent."}},
		Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{OneOf: []*huma.Schema{
			registry.Schema(reflect.TypeFor[Enqueued](), true, "Enqueued"),
			registry.Schema(reflect.TypeFor[EnqueuedList](), true, "EnqueuedList"),
		}}}},
	}}
	huma.Register(api, huma.Operation{
		OperationID: "enqueue-jobs", Method: http.MethodPost, Path: "/api/v1/jobs", Tags: []string{"jobs"},
		Summary: "Enqueue one job, or a batch as an array", DefaultStatus: http.StatusAccepted, Responses: taken,
		MaxBodyBytes: 1 << 20, Errors: []int{400, 401, 404, 413, 422, 503},
		SkipValidateBody: true, // jobReader does, job by job: that no schema of a oneOf fits helps nobody
	}, s.enqueue)
	huma.Register(api, huma.Operation{
		OperationID: "list-jobs", Method: http.MethodGet, Path: "/api/v1/jobs", Tags: []string{"jobs"},
		Summary: "List jobs in one state, oldest first, without headers, payloads and results", Errors: []int{401, 404, 422, 503},
	}, s.listJobs)
	huma.Register(api, huma.Operation{
		OperationID: "get-job", Method: http.MethodGet, Path: "/api/v1/jobs/{id}", Tags: []string{"jobs"},
		Summary: "Read a job; wait for its end if asked to", Errors: []int{401, 404, 422, 503},
	}, s.getJob)
	huma.Register(api, huma.Operation{
		OperationID: "cancel-job", Method: http.MethodPost, Path: "/api/v1/jobs/{id}/cancel", Tags: []string{"jobs"},
		Summary: "Cancel a job: a waiting one at once, a running one at its worker's next heartbeat", Errors: []int{401, 404, 409, 503},
	}, s.cancelJob)
}

func (s *server) enqueue(ctx context.Context, in *enqueueInput) (*enqueueOutput, error) {
	if n := len(in.Body.jobs); n < 1 || n > maxJobs {
		return nil, newProblem(http.StatusUnprocessableEntity, problemInvalid, fmt.Sprintf("%d jobs; want 1 to %d", n, maxJobs))
	}
	items := make([]Enqueued, len(in.Body.jobs))
	byPool := map[string][]int{}
	jobs := make([]queue.Job, len(items))
	for i, raw := range in.Body.jobs {
		at := "body"
		if in.Body.batch {
			at = fmt.Sprintf("body[%d]", i)
		}
		j, problem := s.jobs.read(raw, at)
		if problem != nil {
			items[i].Problem = problem
			continue
		}
		items[i].Pool = j.Pool
		if _, ok := s.Pools[j.Pool]; !ok {
			items[i].Problem = newProblem(http.StatusNotFound, problemNotFound, s.noPool(j.Pool))
			continue
		}
		job, err := j.job()
		if err != nil {
			items[i].Problem = newProblem(http.StatusUnprocessableEntity, problemInvalid, err.Error())
			continue
		}
		if job.Key == "" && in.IdempotencyKey != "" {
			job.Key = in.IdempotencyKey
			if in.Body.batch {
				job.Key += "/" + strconv.Itoa(i)
			}
		}
		jobs[i] = job
		byPool[j.Pool] = append(byPool[j.Pool], i)
	}
	for _, name := range slices.Sorted(maps.Keys(byPool)) {
		if err := s.publish(ctx, name, jobs, byPool[name], items); err != nil {
			return nil, problemOf(err)
		}
	}
	if !in.Body.batch {
		if p := items[0].Problem; p != nil {
			return nil, p
		}
		return &enqueueOutput{Status: http.StatusAccepted, Location: "/api/v1/jobs/" + items[0].ID, Body: items[0]}, nil
	}
	if p := nothingTaken(items); p != nil {
		return nil, p
	}
	return &enqueueOutput{Status: http.StatusAccepted, Body: EnqueuedList{Items: items}}, nil
}

// nothingTaken returns the problem of a batch of which no job was taken for a reason on this side, such as a full disk:
// that is no 202 to be told from a good one by reading it.
func nothingTaken(items []Enqueued) (p *huma.ErrorModel) {
	for _, it := range items {
		if p = it.Problem; p == nil || p.Status < 500 {
			return nil
		}
	}
	return p
}

// publish enqueues those of jobs that at names and writes what came of each to items.
func (s *server) publish(ctx context.Context, pool string, jobs []queue.Job, at []int, items []Enqueued) error {
	pub, ok := s.Pools[pool].(queue.Publisher)
	if !ok {
		return fmt.Errorf("pool %q: its broker takes no jobs from here: %w", pool, queue.ErrInvalid)
	}
	batch := make([]queue.Job, len(at))
	for k, i := range at {
		batch[k] = jobs[i]
	}
	for k, p := range pub.Publish(ctx, batch) {
		it := &items[at[k]]
		if p.Err != nil {
			it.Problem = publishProblem(p.Err)
			continue
		}
		it.ID, it.Duplicate = p.ID, p.Duplicate
	}
	return nil
}

func publishProblem(err error) *huma.ErrorModel {
	p := problemOf(err)
	if p.Type == problemConflict {
		p.Type, p.Status, p.Title = problemKeyReused, http.StatusUnprocessableEntity, http.StatusText(http.StatusUnprocessableEntity)
	}
	return p
}

func (s *server) noPool(name string) string {
	return fmt.Sprintf("no pool %q; there are: %s", name, strings.Join(slices.Sorted(maps.Keys(s.Pools)), ", "))
}

// job turns what was sent into what is enqueued.
func (j JobInput) job() (queue.Job, error) {
	delay, err := parseSpan("delay", j.Delay)
	if err != nil {
		return queue.Job{}, err
	}
	expires, err := parseSpan("expires_in", j.ExpiresIn)
	if err != nil {
		return queue.Job{}, err
	}
	return queue.Job{
		Key: j.Key, Tenant: j.Tenant, Priority: j.Priority, Headers: j.Headers, Payload: j.Payload, Delay: delay, ExpiresIn: expires,
	}, nil
}

// parseSpan reads a duration with a unit; besides Go's units it knows d. Empty is zero.
func parseSpan(field, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n >= 0 && n <= 3650 {
			return time.Duration(n * float64(24*time.Hour)), nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s: %q is not a duration such as 30s, 10m, 1h30m or 7d", field, text)
	}
	return d, nil
}

type listInput struct {
	Pool  string      `query:"pool" doc:"Only this pool's jobs."`
	State queue.State `query:"state" required:"true" enum:"ready,delayed,leased,succeeded,dead,cancelled,expired"`
	Size  int         `query:"page_size" default:"100" minimum:"1" maximum:"1000"`
	Token string      `query:"page_token" doc:"next_page_token of the page before."`
}

type listOutput struct{ Body JobList }

// listJobs walks the pools by name; a page token is the pool to go on with and that pool's own place.
func (s *server) listJobs(ctx context.Context, in *listInput) (*listOutput, error) {
	names := slices.Sorted(maps.Keys(s.Pools))
	if in.Pool != "" {
		if _, ok := s.Pools[in.Pool]; !ok {
			return nil, newProblem(http.StatusNotFound, problemNotFound, s.noPool(in.Pool))
		}
		names = []string{in.Pool}
	}
	after := ""
	if in.Token != "" {
		pool, place, err := decodePage(in.Token)
		if err != nil {
			return nil, newProblem(http.StatusUnprocessableEntity, problemInvalid, err.Error())
		}
		names = slices.DeleteFunc(names, func(n string) bool { return n < pool })
		if len(names) > 0 && names[0] == pool {
			after = place
		}
	}
	out := &listOutput{Body: JobList{Items: []Job{}}}
	for i, name := range names {
		finder, ok := s.Pools[name].(queue.Finder)
		if !ok {
			continue
		}
		page, next, err := finder.List(ctx, queue.Filter{State: in.State, Limit: in.Size - len(out.Body.Items), After: after})
		if err != nil {
			return nil, problemOf(err)
		}
		after = ""
		for _, r := range page {
			out.Body.Items = append(out.Body.Items, jobOf(name, r))
		}
		if next != "" {
			out.Body.NextPageToken = encodePage(name, next)
			break
		}
		if len(out.Body.Items) == in.Size && i+1 < len(names) {
			out.Body.NextPageToken = encodePage(names[i+1], "")
			break
		}
	}
	return out, nil
}

func encodePage(pool, after string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(pool + "\x00" + after))
}

func decodePage(token string) (pool, after string, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	pool, after, ok := strings.Cut(string(raw), "\x00")
	if err != nil || !ok {
		return "", "", fmt.Errorf("page_token %q: not a token of this list", token)
	}
	return pool, after, nil
}

type getInput struct {
	ID   string `path:"id"`
	Wait string `query:"wait" doc:"Wait up to this long for the job's end, such as 20s; at most 60s."`
}

type jobOutput struct{ Body Job }

func (s *server) getJob(ctx context.Context, in *getInput) (*jobOutput, error) {
	wait, err := parseSpan("wait", in.Wait)
	if err != nil {
		return nil, newProblem(http.StatusUnprocessableEntity, problemInvalid, err.Error())
	}
	pool, r, err := s.Find(ctx, in.ID)
	if err != nil {
		return nil, problemOf(err)
	}
	if finder, ok := s.Pools[pool].(queue.Finder); ok && wait > 0 && !r.State.Terminal() {
		waiting, cancel := context.WithTimeout(ctx, min(wait, time.Minute))
		defer cancel()
		if r, err = finder.Await(waiting, in.ID); err != nil {
			return nil, problemOf(err)
		}
	}
	return &jobOutput{Body: jobOf(pool, r)}, nil
}

type cancelInput struct {
	ID string `path:"id"`
}

func (s *server) cancelJob(ctx context.Context, in *cancelInput) (*jobOutput, error) {
	pool, _, err := s.Find(ctx, in.ID)
	if err != nil {
		return nil, problemOf(err)
	}
	canceller, ok := s.Pools[pool].(queue.Canceller)
	if !ok {
		return nil, newProblem(http.StatusUnprocessableEntity, problemInvalid, fmt.Sprintf("pool %q: its broker cannot cancel jobs", pool))
	}
	r, err := canceller.Cancel(ctx, in.ID)
	if err != nil {
		return nil, problemOf(err)
	}
	return &jobOutput{Body: jobOf(pool, r)}, nil
}

func jobOf(pool string, r queue.Record) Job {
	j := Job{
		ID: r.ID, Pool: pool, State: r.State, Key: r.Key, Tenant: r.Tenant, Priority: r.Priority, Headers: r.Headers,
		Attempts: r.Attempts, Crashes: r.Crashes, Worker: r.Worker, Error: r.Error, DeadReason: r.DeadReason,
		EnqueuedAt: timeOf(r.EnqueuedAt), ReadyAt: timeOf(r.ReadyAt), StartedAt: timeOf(r.StartedAt),
		FinishedAt: timeOf(r.FinishedAt), ExpiresAt: timeOf(r.ExpiresAt),
	}
	j.Payload, _ = valueOf(r.Payload)
	j.Result, j.Encoding = valueOf(r.Result)
	return j
}

func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// valueOf shows bytes in JSON: JSON as it is, text as a string, anything else in base64.
func valueOf(b []byte) (value json.RawMessage, encoding string) {
	switch {
	case len(b) == 0:
		return nil, ""
	case json.Valid(b):
		return b, ""
	case utf8.Valid(b):
		value, _ = json.Marshal(string(b)) // a string always encodes
		return value, ""
	default:
		value, _ = json.Marshal(base64.StdEncoding.EncodeToString(b))
		return value, "base64"
	}
}
