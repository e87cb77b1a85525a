package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/actuator"
	downstreammemory "github.com/headrace/headrace/downstream/memory"
	"github.com/headrace/headrace/internal/control"
	"github.com/headrace/headrace/internal/dispatch"
	"github.com/headrace/headrace/internal/fleet"
	"github.com/headrace/headrace/internal/httpapi"
	journalsqlite "github.com/headrace/headrace/internal/journal/sqlite"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/sqlite"
	"github.com/headrace/headrace/scale"
	"github.com/headrace/headrace/worker/protocol"
)

var update = flag.Bool("update", false, "rewrite generated files")

// idle is an actuator of a pool without workers.
type idle struct{}

func (idle) Count(context.Context) (actuator.Count, error) {
	return actuator.Count{At: time.Now()}, nil
}
func (idle) Scale(context.Context, int, []string) error { return nil }

// api is a real API on a real queue, with the pools "a" and "b".
type api struct {
	t    testing.TB
	url  string
	loop *control.Loop
	db   *sqlite.DB
}

func newAPI(t testing.TB, opts httpapi.Options) *api {
	t.Helper()
	ctx := context.Background()
	dir := t.TempDir()
	db, err := sqlite.Open(ctx, filepath.Join(dir, "queue.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	j, err := journalsqlite.Open(ctx, filepath.Join(dir, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	queues := map[string]queue.Queue{}
	var pools []control.Pool
	var dpools []dispatch.Pool
	for _, name := range []string{"a", "b"} {
		q, err := db.Queue(ctx, name, queue.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		queues[name] = q
		pools = append(pools, control.Pool{Policy: scale.Policy{Pool: name, Max: 5}, Queue: q, Actuator: idle{}})
		dpools = append(dpools, dispatch.Pool{Name: name, Queue: q, Heartbeat: time.Second})
	}
	f, store := fleet.New(time.Minute), downstreammemory.New(nil)
	loop, err := control.New(ctx, pools, j, f, store, control.Options{})
	if err != nil {
		t.Fatal(err)
	}
	handler := httpapi.New(httpapi.Deps{
		Pools: queues, Dispatcher: dispatch.New(dpools, f, store), Loop: loop, Journal: j, Fleet: f, Store: store,
		Find: func(ctx context.Context, id string) (string, queue.Record, error) {
			r, err := db.Find(ctx, id)
			return r.Queue, r, err
		},
	}, opts)
	srv := httptest.NewServer(handler)
	t.Cleanup(func() {
		srv.Close()
		j.Close()
		db.Close()
	})
	return &api{t: t, url: srv.URL, loop: loop, db: db}
}

// do sends a request and returns the status and the answer's headers and body.
func (a *api) do(method, path, body string, headers ...string) (int, http.Header, []byte) {
	a.t.Helper()
	req, err := http.NewRequest(method, a.url+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	resp, err := http.DefaultClient.Do(req.WithContext(ctx))
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, raw
}

// get reads JSON and fails the test unless the status is 2xx.
func get[T any](a *api, method, path, body string, headers ...string) (out T) {
	a.t.Helper()
	code, _, raw := a.do(method, path, body, headers...)
	if code/100 != 2 {
		a.t.Fatalf("%s %s: %d %s", method, path, code, raw)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		a.t.Fatalf("%s %s: %v in %s", method, path, err, raw)
	}
	return out
}

// TestOpenAPIIsCommitted: the committed document is the one the types give.
func TestOpenAPIIsCommitted(t *testing.T) {
	got, err := httpapi.OpenAPI("dev")
	if err != nil {
		t.Fatal(err)
	}
	path := "../../docs/reference/openapi.json"
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from the types; run: make generate", path)
	}
	if bytes.Contains(got, []byte("uniqueItems")) {
		t.Error("the document promises uniqueItems, which the framework cannot check")
	}
}

func TestEnqueueReadAndList(t *testing.T) {
	a := newAPI(t, httpapi.Options{})
	code, head, raw := a.do("POST", "/api/v1/jobs", `{"pool":"a","payload":{"n":12345678901234567890,"s":"ü"},"tenant":"x","priority":3,"headers":{"k":"v"}}`)
	if code != http.StatusAccepted {
		t.Fatalf("%d %s", code, raw)
	}
	var one httpapi.Enqueued
	if err := json.Unmarshal(raw, &one); err != nil {
		t.Fatal(err)
	}
	if head.Get("Location") != "/api/v1/jobs/"+one.ID {
		t.Errorf("Location %q, want the job's", head.Get("Location"))
	}
	j := get[httpapi.Job](a, "GET", head.Get("Location"), "")
	if j.State != queue.Ready || j.Pool != "a" || j.Tenant != "x" || j.Priority != 3 || j.Headers["k"] != "v" || j.EnqueuedAt == nil || j.StartedAt != nil {
		t.Errorf("job %+v", j)
	}
	if string(j.Payload) != `{"n":12345678901234567890,"s":"ü"}` {
		t.Errorf("payload %s is not what was sent, byte for byte", j.Payload)
	}

	batch := get[httpapi.EnqueuedList](a, "POST", "/api/v1/jobs", `[{"pool":"b","payload":1},{"pool":"nope","payload":2},{"pool":"a","payload":3,"delay":"1h","key":"three"},{"pool":"a","payload":4,"delay":"soon"},{"pool":"a","payload":5,"priority":"high"}]`)
	if len(batch.Items) != 5 || batch.Items[0].ID == "" || batch.Items[2].ID == "" {
		t.Fatalf("batch %+v, want two of five taken", batch)
	}
	for i, want := range map[int]int{1: 404, 3: 422, 4: 422} {
		if p := batch.Items[i].Problem; p == nil || p.Status != want || p.Type == "" || p.Detail == "" {
			t.Errorf("item %d: problem %+v, want a %d", i, p, want)
		}
	}
	if p := batch.Items[4].Problem; p != nil && (len(p.Errors) != 1 || p.Errors[0].Location != "body[4].priority") {
		t.Errorf("item 4: %+v, want the error at body[4].priority", p)
	}
	if l := get[httpapi.JobList](a, "GET", "/api/v1/jobs?state=delayed", ""); len(l.Items) != 1 || l.Items[0].ID != batch.Items[2].ID || l.Items[0].Key != "three" {
		t.Errorf("delayed: %+v", l)
	}
	if l := get[httpapi.JobList](a, "GET", "/api/v1/jobs?state=dead", ""); l.Items == nil || len(l.Items) != 0 {
		t.Errorf("dead: %+v, want an empty list", l)
	}
}

// Pages cover all jobs of all pools, each once, whatever the page size.
func TestPagesCoverEverythingOnce(t *testing.T) {
	a := newAPI(t, httpapi.Options{})
	want := map[string]bool{}
	for _, pool := range []string{"a", "b", "a"} {
		batch := get[httpapi.EnqueuedList](a, "POST", "/api/v1/jobs", "["+strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`{"pool":%q,"payload":0},`, pool), 7), ",")+"]")
		for _, it := range batch.Items {
			want[it.ID] = true
		}
	}
	for _, size := range []int{1, 2, 7, 14, 21, 100} {
		seen, token := map[string]bool{}, ""
		for range 50 {
			l := get[httpapi.JobList](a, "GET", fmt.Sprintf("/api/v1/jobs?state=ready&page_size=%d&page_token=%s", size, token), "")
			if len(l.Items) > size {
				t.Fatalf("page of %d, want at most %d", len(l.Items), size)
			}
			for _, j := range l.Items {
				if seen[j.ID] {
					t.Fatalf("page size %d: %s twice", size, j.ID)
				}
				seen[j.ID] = true
			}
			if token = l.NextPageToken; token == "" {
				break
			}
		}
		if len(seen) != len(want) {
			t.Errorf("page size %d: %d jobs, want %d", size, len(seen), len(want))
		}
	}
}

// TestW42_OneKeyIsOneJob: many posts with one key, at the same time, give one job; another payload under the key is refused.
func TestW42_OneKeyIsOneJob(t *testing.T) {
	a := newAPI(t, httpapi.Options{})
	var mu sync.Mutex
	ids, fresh := map[string]bool{}, 0
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			code, _, raw := a.do("POST", "/api/v1/jobs", `{"pool":"a","payload":1}`, "Idempotency-Key", "order-1")
			var e httpapi.Enqueued
			if err := json.Unmarshal(raw, &e); err != nil || code != http.StatusAccepted {
				t.Errorf("%d %s", code, raw)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids[e.ID] = true
			if !e.Duplicate {
				fresh++
			}
		})
	}
	wg.Wait()
	if len(ids) != 1 || fresh != 1 {
		t.Errorf("%d ids, %d of them fresh; want one and one", len(ids), fresh)
	}
	code, _, raw := a.do("POST", "/api/v1/jobs", `{"pool":"a","payload":2}`, "Idempotency-Key", "order-1")
	if code != http.StatusUnprocessableEntity || !bytes.Contains(raw, []byte("key-reused")) {
		t.Errorf("another payload under the key: %d %s, want a 422 key-reused", code, raw)
	}
}

func TestWaitReturnsTheResultWhenItIsThere(t *testing.T) {
	a := newAPI(t, httpapi.Options{})
	id := get[httpapi.Enqueued](a, "POST", "/api/v1/jobs", `{"pool":"a","payload":{}}`).ID
	if j := get[httpapi.Job](a, "GET", "/api/v1/jobs/"+id+"?wait=50ms", ""); j.State != queue.Ready {
		t.Errorf("after a wait in vain: %s, want ready", j.State)
	}
	waited := make(chan httpapi.Job, 1)
	go func() { waited <- get[httpapi.Job](a, "GET", "/api/v1/jobs/"+id+"?wait=30s", "") }()
	claim := get[protocol.ClaimAnswer](a, "POST", "/worker/v1/pools/a/claims", `{"worker":"w","max":5,"wait":5}`)
	if len(claim.Leases) != 1 || claim.Leases[0].Attempt != 1 || claim.Leases[0].ExpiresIn <= 0 || claim.Leases[0].HeartbeatEvery <= 0 {
		t.Fatalf("claim %+v", claim)
	}
	l := claim.Leases[0]
	beat := get[protocol.HeartbeatAnswer](a, "POST", "/worker/v1/heartbeats", fmt.Sprintf(
		`{"worker":"w","pool":"a","slots":5,"busy":1,"incarnation":"i","totals":{"acked":0,"nacked":0,"released":0,"dead":0,"crashed":0,"busy_seconds":0,"busy_squares":0,"runs":0},"leases":[{"id":%q,"token":%d},{"id":"no-such","token":9}]}`, l.ID, l.Token))
	if len(beat.Leases) != 2 || beat.Leases[0].State != protocol.LeaseOK || beat.Leases[1].State != protocol.LeaseLost || beat.Order != protocol.Run {
		t.Errorf("heartbeat %+v, want ok, lost, run", beat)
	}
	settle := func(token int64) string {
		return get[protocol.SettleAnswer](a, "POST", "/worker/v1/settlements", fmt.Sprintf(
			`{"pool":"a","worker":"w","items":[{"lease":%q,"token":%d,"action":"ack","result":"aGk="}]}`, l.ID, token)).Items[0].State
	}
	if got := settle(l.Token + 1); got != protocol.SettledLost {
		t.Errorf("settled with another token: %s, want lost", got)
	}
	for range 2 {
		if got := settle(l.Token); got != protocol.SettledOK {
			t.Errorf("settled: %s, want settled, also when repeated", got)
		}
	}
	select {
	case j := <-waited:
		if j.State != queue.Succeeded || string(j.Result) != `"hi"` {
			t.Errorf("waited for %+v, want a success with the text as its result", j)
		}
	case <-time.After(5 * time.Second):
		t.Error("the waiter was not told")
	}
}

func TestCancel(t *testing.T) {
	a := newAPI(t, httpapi.Options{})
	id := get[httpapi.Enqueued](a, "POST", "/api/v1/jobs", `{"pool":"a","payload":{}}`).ID
	if j := get[httpapi.Job](a, "POST", "/api/v1/jobs/"+id+"/cancel", ""); j.State != queue.Cancelled {
		t.Errorf("state %s, want cancelled", j.State)
	}
	if code, _, raw := a.do("POST", "/api/v1/jobs/"+id+"/cancel", ""); code != http.StatusConflict {
		t.Errorf("cancelled again: %d %s, want 409", code, raw)
	}
	if code, _, _ := a.do("POST", "/worker/v1/pools/a/claims", `{"worker":"w","max":1}`); code != http.StatusNoContent {
		t.Errorf("claim of a cancelled job: %d, want 204", code)
	}
}

// Bad input gets a problem of the closed list that says what is wrong, and nothing is enqueued.
func TestBadInputIsAProblem(t *testing.T) {
	a := newAPI(t, httpapi.Options{})
	for name, tc := range map[string]struct {
		method, path, body string
		code               int
		kind               string
	}{
		"no JSON":         {"POST", "/api/v1/jobs", `{"pool":`, 422, "invalid-request"},
		"unknown key":     {"POST", "/api/v1/jobs", `{"pool":"a","payload":1,"dealy":"3s"}`, 422, "invalid-request"},
		"no payload":      {"POST", "/api/v1/jobs", `{"pool":"a"}`, 422, "invalid-request"},
		"empty batch":     {"POST", "/api/v1/jobs", `[]`, 422, "invalid-request"},
		"huge batch":      {"POST", "/api/v1/jobs", `[` + strings.Repeat(`{"pool":"a","payload":0},`, 1000) + `0]`, 422, "invalid-request"},
		"wrong types":     {"POST", "/api/v1/jobs", `{"pool":1,"payload":1,"priority":12}`, 422, "invalid-request"},
		"no pool":         {"POST", "/api/v1/jobs", `{"pool":"nope","payload":1}`, 404, "not-found"},
		"bad duration":    {"POST", "/api/v1/jobs", `{"pool":"a","payload":1,"delay":"-5s"}`, 422, "invalid-request"},
		"huge payload":    {"POST", "/api/v1/jobs", `{"pool":"a","payload":"` + strings.Repeat("x", queue.MaxPayload) + `"}`, 422, "invalid-request"},
		"huge body":       {"POST", "/api/v1/jobs", `[` + strings.Repeat(`{"pool":"a","payload":"`+strings.Repeat("x", 1000)+`"},`, 1100) + `0]`, 413, "too-large"},
		"no such job":     {"GET", "/api/v1/jobs/0192-nope", "", 404, "not-found"},
		"no state":        {"GET", "/api/v1/jobs", "", 422, "invalid-request"},
		"bad state":       {"GET", "/api/v1/jobs?state=lost", "", 422, "invalid-request"},
		"unknown query":   {"GET", "/api/v1/jobs?state=ready&sate=dead", "", 422, "invalid-request"},
		"bad page token":  {"GET", "/api/v1/jobs?state=ready&page_token=%21", "", 422, "invalid-request"},
		"bad wait":        {"GET", "/api/v1/jobs/x?wait=long", "", 422, "invalid-request"},
		"bad claim":       {"POST", "/worker/v1/pools/a/claims", `{"worker":"","max":1}`, 422, "invalid-request"},
		"bad action":      {"POST", "/worker/v1/settlements", `{"pool":"a","items":[{"lease":"x","token":1,"action":"done"}]}`, 422, "invalid-request"},
		"claim elsewhere": {"POST", "/worker/v1/pools/zz/claims", `{"worker":"w","max":1}`, 404, "not-found"},
	} {
		code, head, raw := a.do(tc.method, tc.path, tc.body)
		var p struct{ Type, Title, Detail string }
		if code != tc.code || head.Get("Content-Type") != "application/problem+json" || json.Unmarshal(raw, &p) != nil {
			t.Errorf("%s: %d %s %.200s, want a problem with %d", name, code, head.Get("Content-Type"), raw, tc.code)
			continue
		}
		if p.Type != "urn:headrace:problem:"+tc.kind || p.Title == "" || p.Detail == "" {
			t.Errorf("%s: problem %+v, want type %s", name, p, tc.kind)
		}
	}
	for _, state := range queue.States {
		if l := get[httpapi.JobList](a, "GET", "/api/v1/jobs?state="+string(state), ""); len(l.Items) != 0 {
			t.Errorf("%d jobs are %s after refusals only", len(l.Items), state)
		}
	}
}

// A queue that can take nothing is told by the status, for a batch as for one job: nobody must read a 202 to find out.
func TestABatchThatCannotBeKeptIsNotAccepted(t *testing.T) {
	a := newAPI(t, httpapi.Options{})
	if err := a.db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{`{"pool":"a","payload":1}`, `[{"pool":"a","payload":1},{"pool":"b","payload":2}]`} {
		if code, _, answer := a.do("POST", "/api/v1/jobs", body); code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s, want 503", body, code, answer)
		}
	}
}

// What curl sends without a header is refused with the cure: a form is what another site's page could post.
func TestContentTypeMustBeJSON(t *testing.T) {
	a := newAPI(t, httpapi.Options{})
	code, _, raw := a.do("POST", "/api/v1/jobs", `{"pool":"a","payload":1}`, "Content-Type", "application/x-www-form-urlencoded")
	if code != http.StatusUnprocessableEntity || !bytes.Contains(raw, []byte("send Content-Type: application/json")) {
		t.Errorf("%d %s, want a 422 that says what to send", code, raw)
	}
}

func TestTokenGuardsEverythingButHealth(t *testing.T) {
	a := newAPI(t, httpapi.Options{Token: "s3cret"})
	for _, path := range []string{"/api/v1/jobs?state=ready", "/api/v1/pools", "/worker/v1/pools/a/claims"} {
		for _, auth := range []string{"", "Bearer wrong", "Bearer ", "s3cre", "s3cret", "Basic s3cret", "Bearers3cret"} {
			if code, head, _ := a.do("GET", path, "", "Authorization", auth); code != http.StatusUnauthorized || head.Get("WWW-Authenticate") == "" {
				t.Errorf("%s with %q: %d, want 401", path, auth, code)
			}
		}
	}
	for _, auth := range []string{"Bearer s3cret", "bearer s3cret", "BEARER  s3cret"} { // RFC 9110, 11.1 and 11.4
		if code, _, _ := a.do("GET", "/api/v1/pools", "", "Authorization", auth); code != http.StatusOK {
			t.Errorf("with %q: %d, want 200", auth, code)
		}
	}
	if code, _, _ := a.do("GET", "/healthz", ""); code != http.StatusNoContent {
		t.Errorf("/healthz without a token: %d, want 204", code)
	}
}

// Without a token a page of another site must not reach the API, neither by a cross-origin post nor by a name that
// resolves to this machine.
func TestOtherSitesAreKeptOut(t *testing.T) {
	a := newAPI(t, httpapi.Options{})
	code, _, _ := a.do("POST", "/api/v1/jobs", `{"pool":"a","payload":1}`, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
	if code != http.StatusForbidden {
		t.Errorf("cross-site post: %d, want 403", code)
	}
	for host, want := range map[string]int{"evil.example": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example:80": 403, "LocalHost:1": 200, "[::1]": 200} {
		if code := a.asked(host); code != want {
			t.Errorf("asked as %s: %d, want %d", host, code, want)
		}
	}
}

// Who listens for a network without a token, or with one, is reached by whatever name the network has for the machine.
func TestOtherMachinesAreLetInWhenAskedFor(t *testing.T) {
	if code := newAPI(t, httpapi.Options{AnyHost: true}).asked("build-7.lan:8480"); code != http.StatusOK {
		t.Errorf("without a token: %d, want 200", code)
	}
	if code := newAPI(t, httpapi.Options{Token: "s3cret"}).asked("build-7.lan:8480", "Authorization", "Bearer s3cret"); code != http.StatusOK {
		t.Errorf("with the token: %d, want 200", code)
	}
}

// asked returns the status of a request for the pools that names host.
func (a *api) asked(host string, headers ...string) int {
	a.t.Helper()
	req, err := http.NewRequest("GET", a.url+"/api/v1/pools", nil)
	if err != nil {
		a.t.Fatal(err)
	}
	req.Host = host
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

func TestPoolsExplainThemselves(t *testing.T) {
	a := newAPI(t, httpapi.Options{})
	if code, _, _ := a.do("GET", "/readyz", ""); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz before the first step: %d, want 503", code)
	}
	get[httpapi.EnqueuedList](a, "POST", "/api/v1/jobs", `[{"pool":"a","payload":1}]`)
	a.loop.Step(context.Background(), time.Now())
	if code, _, _ := a.do("GET", "/readyz", ""); code != http.StatusNoContent {
		t.Errorf("/readyz after the first step: %d, want 204", code)
	}
	pools := get[httpapi.PoolList](a, "GET", "/api/v1/pools", "")
	if len(pools.Items) != 2 || pools.Items[0].Name != "a" || *pools.Items[0].Backlog != 1 || pools.Items[1].State != httpapi.PoolIdle {
		t.Errorf("pools %+v", pools)
	}
	e := get[httpapi.PoolExplanation](a, "GET", "/api/v1/pools/a/explanation", "")
	if e.Decision.Desired != 1 || len(e.Decision.Steps) == 0 {
		t.Errorf("explanation %+v, want the steps to 1", e)
	}
	ds := get[httpapi.DecisionList](a, "GET", "/api/v1/pools/a/decisions", "")
	if len(ds.Items) != 1 || ds.Items[0].Desired != 1 || ds.Items[0].Reason == "" {
		t.Fatalf("decisions %+v, want one to 1", ds)
	}
	if r := get[struct{ Seq int64 }](a, "GET", fmt.Sprintf("/api/v1/decisions/%d", ds.Items[0].Seq), ""); r.Seq != ds.Items[0].Seq {
		t.Errorf("decision %d answers %d", ds.Items[0].Seq, r.Seq)
	}
	first := get[httpapi.DecisionList](a, "GET", "/api/v1/decisions?page_size=1", "")
	if len(first.Items) != 1 || first.NextPageToken == "" {
		t.Fatalf("a page of one of two decisions: %+v, want one and the token of the next page", first)
	}
	second := get[httpapi.DecisionList](a, "GET", "/api/v1/decisions?page_size=1&page_token="+first.NextPageToken, "")
	if len(second.Items) != 1 || second.Items[0].Seq >= first.Items[0].Seq {
		t.Errorf("the next page: %+v, want the decision before %d", second, first.Items[0].Seq)
	}
	if code, _, _ := a.do("GET", "/api/v1/pools/a/explanation?at=2001-01-01T00:00:00Z", ""); code != http.StatusNotFound {
		t.Errorf("explanation of the distant past: %d, want 404", code)
	}
}

// FuzzEnqueue: whatever is posted, the answer is 202 or a problem, and never a 500.
func FuzzEnqueue(f *testing.F) {
	a := newAPI(f, httpapi.Options{})
	for _, s := range []string{`{"pool":"a","payload":1}`, `[{"pool":"a","payload":null,"delay":"1h"}]`, `{}`, `[[]]`, "\x00", `{"pool":"a","payload":1,"headers":{"":""}}`, `{"pool":"a","payload":1,"priority":1e400}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		code, _, raw := (&api{t: t, url: a.url}).do("POST", "/api/v1/jobs", body)
		if code >= 500 || code != http.StatusAccepted && !json.Valid(raw) {
			t.Fatalf("%d %s for %q", code, raw, body)
		}
	})
}

// FuzzWorkerProtocol: whatever a worker sends, the answer is 2xx or a problem, and never a 500.
func FuzzWorkerProtocol(f *testing.F) {
	a := newAPI(f, httpapi.Options{})
	f.Add("/worker/v1/pools/a/claims", `{"worker":"w","max":1e9,"wait":-1}`)
	f.Add("/worker/v1/heartbeats", `{"worker":"w","pool":"a","leases":[{"id":"","token":-1}]}`)
	f.Add("/worker/v1/settlements", `{"pool":"a","items":[{"lease":"x","token":1,"action":"ack","retry_in":1e308}]}`)
	f.Add("/worker/v1/permits", `{"downstream":"d","units":{"t":-1}}`)
	f.Add("/worker/v1/workers/%00/goodbye", ``)
	f.Fuzz(func(t *testing.T, path, body string) {
		req, err := http.NewRequest("POST", a.url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.URL.Path = "/worker/v1/" + strings.TrimPrefix(path, "/worker/v1/")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		resp, err := http.DefaultClient.Do(req.WithContext(ctx))
		if err != nil {
			return // a long wait, or a path that is none
		}
		defer resp.Body.Close()
		if resp.StatusCode >= 500 {
			raw, _ := io.ReadAll(resp.Body)
			t.Fatalf("%d %s for %s %q", resp.StatusCode, raw, path, body)
		}
	})
}
