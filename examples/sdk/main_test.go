package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/downstream"
	downstreammemory "github.com/headrace/headrace/downstream/memory"
	"github.com/headrace/headrace/internal/dispatch"
	"github.com/headrace/headrace/internal/fleet"
	"github.com/headrace/headrace/internal/httpapi"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/memory"
	"github.com/headrace/headrace/worker"
)

// provider takes each payload as an instruction.
func provider(t *testing.T) *httptest.Server {
	t.Helper()
	var refused sync.Map // jobs
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id := r.Header.Get("Idempotency-Key")
		_, known := refused.LoadOrStore(id, true)
		switch what := string(body); {
		case what == "busy" && !known:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case what == "nonsense":
			http.Error(w, "I do not understand", http.StatusBadRequest)
		default:
			w.Header().Set("Tokens-Used", "70")
			io.WriteString(w, "you said: "+what)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestWorkerOverTheProtocol runs the worker against the real server side: HTTP API, dispatcher, queue and limiter.
func TestWorkerOverTheProtocol(t *testing.T) {
	q := memory.New(queue.Policy{BackoffMin: 10 * time.Millisecond}, memory.Options{})
	store := downstreammemory.New(map[string][]downstream.Limit{"provider": {{Unit: "tokens", PerSecond: 1500}}})
	members := fleet.New(time.Minute)
	d := dispatch.New([]dispatch.Pool{{
		Name: "ask", Queue: q, Heartbeat: time.Second,
		Uses: []dispatch.Use{{Downstream: "provider", Unit: "tokens", Units: 60, Measured: true}},
	}}, members, store)
	server := httptest.NewServer(httpapi.New(httpapi.Deps{
		Pools: map[string]queue.Queue{"ask": q}, Dispatcher: d, Fleet: members, Store: store,
	}, httpapi.Options{}))
	defer server.Close()

	var ids []string
	for _, p := range q.Publish(t.Context(), []queue.Job{{Payload: []byte("hello")}, {Payload: []byte("nonsense")}, {Payload: []byte("busy")}}) {
		ids = append(ids, p.ID)
	}
	env, err := worker.ReadEnvironment(func(name string) string {
		return map[string]string{"HEADRACE_SERVER": server.URL, "HEADRACE_POOL": "ask", "HEADRACE_WORKER": "w1"}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, drain := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker.New(env.Dial(), ask(provider(t).URL), worker.Options{StartDelay: 1}).Run(ctx) }()

	deadline, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for i, want := range []struct {
		state    queue.State
		attempts int
		result   string
		err      string
	}{
		{queue.Succeeded, 1, "you said: hello", ""},
		{queue.DeadState, 1, "", "provider: 400 Bad Request: I do not understand\n"},
		{queue.Succeeded, 1, "you said: busy", "throttled by provider for 1s"}, // refused once, which is no attempt
	} {
		r, err := q.Await(deadline, ids[i])
		if err != nil || r.State != want.state || r.Attempts != want.attempts || string(r.Result) != want.result || r.Error != want.err {
			t.Errorf("job %d: got %s, %d attempts, %q, %q, %v; want %+v", i, r.State, r.Attempts, r.Result, r.Error, err, want)
		}
	}
	drain()
	if err := <-ended; err != nil {
		t.Errorf("drained worker: %v", err)
	}
	st, err := store.State(t.Context(), "provider")
	if err != nil || st.OK != 2 || st.Throttled != 1 {
		t.Errorf("limiter: got %d ok, %d throttled, %v; want 2 and 1", st.OK, st.Throttled, err)
	}
	if got := st.Limits[0].UnitsPerUse; got != 70 {
		t.Errorf("measured cost: got %v tokens a job, want 70", got)
	}
}
