package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/internal/config"
)

// testConfig has pools that decide and start nothing, so that jobs stay where tests put them.
const testConfig = `
version: 1
server: { listen: "127.0.0.1:0", data_dir: data, auth: { token: hunter2 } }
downstreams:
  provider: { limits: { tokens: 6k/min } }
defaults: { mode: observe }
pools:
  emails:
    objective: { oldest_age: 30s }
    replicas: { min: 0, max: 4 }
    downstreams: { provider: { tokens: 60/job } }
    actuator: { command: ["true"] }
  reports:
    objective: { oldest_age: 5m }
    replicas: { min: 0, max: 4 }
    actuator: { command: ["true"] }
`

// testServer is everything that "headrace up" is, in this process, with a proxy in front that tests can make fail.
type testServer struct {
	t   *testing.T
	url string // of the proxy

	mu   sync.Mutex
	last []byte // the body of the last answer
	// fail, when set, sees every request that was answered. What it returns instead of nil is sent instead.
	fail func(r *http.Request) *reply
}

// reply stands for the server's answer. The zero value is none: the connection is cut.
type reply struct {
	status     int
	retryAfter string
}

func newTestServer(t *testing.T) *testServer {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "headrace.yaml")
	if err := os.WriteFile(file, []byte(testConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, problems := config.Load(file, func(string) (string, bool) { return "", false })
	if cfg == nil {
		t.Fatalf("configuration: %v", problems)
	}
	a, err := app.Open(t.Context(), cfg, app.Options{Version: "v0.0.0-test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	target, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := &testServer{t: t}
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: s.answered,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:       quietLog,
	}
	front := httptest.NewUnstartedServer(proxy)
	front.Config.ErrorLog = quietLog
	front.Start()
	s.url = front.URL
	t.Cleanup(func() {
		front.Close()
		stop()
		if err := <-done; err != nil {
			t.Errorf("server ended with: %v", err)
		}
	})
	s.until("the first decision", func() bool { code, _, _ := s.run("", "status"); return code == exitDone })
	return s
}

func (s *testServer) answered(resp *http.Response) error {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = body
	if s.fail == nil {
		return nil
	}
	instead := s.fail(resp.Request)
	switch {
	case instead == nil:
		return nil
	case instead.status == 0:
		return io.ErrUnexpectedEOF
	}
	resp.StatusCode, resp.Header = instead.status, http.Header{"Retry-After": {instead.retryAfter}}
	resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader("not now")), -1
	return nil
}

// failing makes every answer go through fail until the test ends.
func (s *testServer) failing(fail func(r *http.Request) *reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

func (s *testServer) lastBody() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.last)
}

// run runs headrace with stdin against the server.
func (s *testServer) run(stdin string, args ...string) (code int, stdout, stderr string) {
	return s.runIn(s.t.Context(), strings.NewReader(stdin), args...)
}

func (s *testServer) runIn(ctx context.Context, stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	env := map[string]string{"HEADRACE_SERVER": s.url, "HEADRACE_TOKEN": "hunter2"}
	return runWith(ctx, env, stdin, args...)
}

func runWith(ctx context.Context, env map[string]string, stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	var out, talk bytes.Buffer
	code = run(ctx, args, stdin, &out, &talk, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	return code, out.String(), talk.String()
}

// must runs headrace and fails the test unless it ends well.
func (s *testServer) must(stdin string, args ...string) (stdout string) {
	s.t.Helper()
	code, stdout, stderr := s.run(stdin, args...)
	if code != exitDone {
		s.t.Fatalf("headrace %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// post sends JSON as a worker would.
func (s *testServer) post(path, body string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer hunter2")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if raw, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode >= 300 {
		s.t.Fatalf("POST %s: %d %s %v", path, resp.StatusCode, raw, err)
	}
}

// jobs returns how many jobs of a pool are in a state.
func (s *testServer) jobs(pool, state string) int {
	s.t.Helper()
	return strings.Count(s.must("", "jobs", "list", "--pool", pool, "--state", state, "--all", "-o", "ndjson"), "\n")
}

func (s *testServer) until(what string, cond func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited 10 s for %s", what)
		}
	}
}

// decode reads JSON.
func decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}
