package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/internal/config"
)

var (
	jobID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}`)
	post  = regexp.MustCompile("`POST (/worker/v1/\\S+)`")
)

// TestProtocolPageIsTrue sends every request of docs/reference/worker-protocol.md, in its order, to a server with the
// page's configuration, and compares the answers with those on the page.
func TestProtocolPageIsTrue(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/reference/worker-protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	p := page{"docs/reference/worker-protocol.md", string(text)}
	blocks, prose := p.split()
	server := serveConfig(t, strings.Join(blocks[0].lines, "\n"))

	// The page's job, under the id that it gets here.
	var enqueued struct{ ID string }
	send(t, server+"/api/v1/jobs", `{"pool": "ask", "payload": {"q": "why?"}}`, &enqueued)
	shown := jobID.FindString(p.text)
	here := func(s string) string { return strings.ReplaceAll(s, shown, enqueued.ID) }

	calls := 0
	for i := 1; i < len(blocks); i++ {
		if blocks[i].info != "json" {
			continue
		}
		request, answer := blocks[i], blocks[i+1]
		i++
		var path string
		for _, line := range prose[:request.line] {
			if m := post.FindStringSubmatch(line); m != nil {
				path = strings.NewReplacer("{pool}", "ask", "{worker}", "w1").Replace(m[1])
			}
		}
		var got, want any
		send(t, server+path, here(request.lines[0]), &got)
		if err := json.Unmarshal([]byte(here(answer.lines[0])), &want); err != nil {
			t.Fatalf("%s:%d: %v", p.name, answer.line, err)
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(near)); diff != "" {
			t.Errorf("%s:%d: POST %s (-page +server):\n%s", p.name, answer.line, path, diff)
		}
		calls++
	}
	if calls != 5 {
		t.Errorf("%d calls were found, want 5: the search is broken", calls)
	}
	send(t, server+"/worker/v1/workers/w1/goodbye", "", nil)
}

// near lets durations differ by what a call takes.
func near(a, b float64) bool { return math.Abs(a-b) < 1 }

// serveConfig runs a whole server from a configuration, on a port of its own, until the test ends.
func serveConfig(t *testing.T, text string) (url string) {
	t.Helper()
	dir := t.TempDir()
	env := map[string]string{"HEADRACE_LISTEN": "127.0.0.1:0"}
	cfg, problems := config.Parse(filepath.Join(dir, "headrace.yaml"), []byte(text), func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})
	if cfg == nil {
		t.Fatal(problems)
	}
	a, err := app.Open(t.Context(), cfg, app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("end of the server: %v", err)
		}
	})
	return a.URL
}

// send posts a body and reads the answer into out, when that is not nil.
func send(t *testing.T, url, body string, out any) {
	t.Helper()
	resp, err := http.Post(url, "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		t.Fatalf("POST %s: %s: %s %v", url, resp.Status, answer, err)
	}
	if out != nil {
		if err := json.Unmarshal(answer, out); err != nil {
			t.Fatalf("POST %s: %s: %v", url, answer, err)
		}
	}
}
