package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/internal/httpapi"
)

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"payload\":{\"n\":%d}}\n", i)
	}
	return b.String()
}

// Answers are lost after the server has acted, connections are cut, and the server is busy: each job is enqueued once,
// and the count is true.
func TestEnqueueIsExactOverLostAnswers(t *testing.T) {
	s := newTestServer(t)
	posts := 0
	s.failing(func(r *http.Request) *reply {
		if r.Method != http.MethodPost {
			return nil
		}
		posts++
		switch posts % 4 {
		case 1:
			return &reply{} // cut, after the server took the batch
		case 2:
			return &reply{status: http.StatusServiceUnavailable}
		case 3:
			return &reply{status: http.StatusTooManyRequests, retryAfter: "0.1"}
		}
		return nil
	})
	const n = 1250
	stdout := s.must(lines(n), "jobs", "enqueue", "--pool", "reports")
	if want := "1 250 jobs enqueued\n"; stdout != want {
		t.Errorf("got %q, want %q", stdout, want)
	}
	if posts < 12 {
		t.Errorf("%d requests: nothing was sent again", posts)
	}
	s.failing(nil)
	if got := s.jobs("reports", "ready"); got != n {
		t.Errorf("%d jobs in the queue, want %d", got, n)
	}
}

func TestEnqueueReportsBadLinesAndGoesOn(t *testing.T) {
	s := newTestServer(t)
	file := filepath.Join(t.TempDir(), "jobs.ndjson")
	text := `{"payload":1}
{"payload":2

{"payloud":3}
[4]
{"payload":5,"pool":"nowhere"}
{"payload":6,"priority":12}
{"payload":7,"delay":"soon"}
{"key":"8"}
{"payload":9,"delay":"1h"}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := s.run("", "jobs", "enqueue", "--pool", "reports", "--file", file)
	if want := "2 jobs enqueued, 7 lines refused\n"; code != exitBad || stdout != want {
		t.Errorf("exit code %d, want %d; got %q, want %q", code, exitBad, stdout, want)
	}
	for _, want := range []string{
		"line 2: not JSON", `line 4: unknown field "payloud"`, "line 5: not a job object", `line 6: no pool "nowhere"`,
		"line 7: priority 12: it must be between 0 and 9", `line 8: delay: "soon" is not a duration`, "line 9: payload is missing",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in:\n%s", want, stderr)
		}
	}
	if ready, delayed := s.jobs("reports", "ready"), s.jobs("reports", "delayed"); ready != 1 || delayed != 1 {
		t.Errorf("%d ready and %d delayed jobs, want 1 and 1", ready, delayed)
	}
}

func TestEnqueueWithKeysCanBeRunAgain(t *testing.T) {
	s := newTestServer(t)
	args := []string{"jobs", "enqueue", "--pool", "reports", "--key-prefix", "launch/"}
	if got, want := s.must(lines(700), args...), "700 jobs enqueued\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := s.must(lines(710), args...), "10 jobs enqueued, 700 already known by their key\n"; got != want {
		t.Errorf("again: got %q, want %q", got, want)
	}
	if got := s.jobs("reports", "ready"); got != 710 {
		t.Errorf("%d jobs in the queue, want 710", got)
	}
}

// slowInput gives a line at a time and never ends by itself.
type slowInput struct {
	stop <-chan struct{}
	n    int
}

func (r *slowInput) Read(p []byte) (int, error) {
	select {
	case <-r.stop:
		return 0, io.EOF
	case <-time.After(time.Millisecond):
	}
	r.n++
	return copy(p, "1\n"), nil
}

func TestInterruptedEnqueueSaysWhatWasTaken(t *testing.T) {
	s := newTestServer(t)
	ctx, interrupt := context.WithCancel(t.Context())
	input := &slowInput{stop: t.Context().Done()}
	posts := 0
	s.failing(func(r *http.Request) *reply {
		if r.Method == http.MethodPost {
			if posts++; posts == 3 {
				interrupt() // while the answer is on its way
			}
		}
		return nil
	})
	code, stdout, stderr := s.runIn(ctx, input, "jobs", "enqueue", "--pool", "reports", "--payload-only")
	s.failing(nil)
	if code != exitInterrupted || !strings.Contains(stderr, "interrupted: lines from ") {
		t.Errorf("exit code %d, want %d: %s", code, exitInterrupted, stderr)
	}
	ready := s.jobs("reports", "ready")
	if want := plural(int64(ready), "job") + " enqueued\n"; stdout != want || ready == 0 {
		t.Errorf("said %q, and the queue has %d", stdout, ready)
	}
	if want := fmt.Sprintf("lines from %d on", ready+1); !strings.Contains(stderr, want) {
		t.Errorf("no %q in %q", want, stderr)
	}
}

func TestEnqueueThatGivesUpSaysWhereItStopped(t *testing.T) {
	s := newTestServer(t)
	posts := 0
	s.failing(func(r *http.Request) *reply {
		if posts++; r.Method == http.MethodPost && posts > 1 {
			return &reply{} // the first batch is answered, no other
		}
		return nil
	})
	code, stdout, stderr := s.run(lines(700), "jobs", "enqueue", "--pool", "reports", "--retry-for", "300ms")
	s.failing(nil)
	if code != exitUnreachable || stdout != "500 jobs enqueued\n" {
		t.Errorf("exit code %d, want %d; got %q", code, exitUnreachable, stdout)
	}
	if want := "lines 501 to 700 may or may not have been enqueued"; !strings.Contains(stderr, want) {
		t.Errorf("no %q in %q", want, stderr)
	}
}

// A pipeline may be started before the server, or while it restarts.
func TestEnqueueWaitsForAServerThatIsDownAtItsStart(t *testing.T) {
	s := newTestServer(t)
	target := s.url
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"HEADRACE_SERVER": "http://" + addr, "HEADRACE_TOKEN": "hunter2"}

	code, stdout, stderr := runWith(t.Context(), env, strings.NewReader("1\n"), "jobs", "enqueue", "--pool", "reports",
		"--payload-only", "--retry-for", "300ms")
	if code != exitUnreachable || stdout != "0 jobs enqueued\n" {
		t.Errorf("nobody there: exit code %d, want %d; got %q", code, exitUnreachable, stdout)
	}
	if said := strings.Count(stderr, "waiting for the server, at most 300ms (--retry-for): cannot reach http://"+addr); said != 1 {
		t.Errorf("said %d times that it waits, want once:\n%s", said, stderr)
	}

	up := make(chan struct{})
	talk := &notice{want: "waiting for the server", seen: up}
	var late *http.Server
	started := make(chan struct{})
	go func() {
		defer close(started)
		<-up
		proxyTo, _ := url.Parse(target) // it is a server's
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Errorf("take %s again: %v", addr, err)
			return
		}
		late = &http.Server{Handler: httputil.NewSingleHostReverseProxy(proxyTo), ReadHeaderTimeout: time.Second}
		go late.Serve(l)
	}()
	var out bytes.Buffer
	code = run(t.Context(), []string{"jobs", "enqueue", "--pool", "reports", "--payload-only", "--retry-for", "20s"},
		strings.NewReader("1\n2\n"), &out, talk, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	select {
	case <-up:
	default:
		t.Fatalf("it did not say that it waits; exit code %d: %s", code, talk.text.String())
	}
	<-started
	if late != nil {
		defer late.Close()
	}
	if code != exitDone || out.String() != "2 jobs enqueued\n" {
		t.Errorf("exit code %d, want %d; got %q and %q", code, exitDone, out.String(), talk.text.String())
	}
	if got := s.jobs("reports", "ready"); got != 2 {
		t.Errorf("%d jobs in the queue, want 2", got)
	}
}

// notice is a writer that tells when a text was written.
type notice struct {
	text bytes.Buffer
	want string
	seen chan struct{} // closed then; nil afterwards
}

func (n *notice) Write(p []byte) (int, error) {
	n.text.Write(p)
	if n.seen != nil && strings.Contains(n.text.String(), n.want) {
		close(n.seen)
		n.seen = nil
	}
	return len(p), nil
}

// Requests stay within what the server takes, whatever the size of the jobs.
func TestEnqueueOfLargeJobs(t *testing.T) {
	s := newTestServer(t)
	posts := 0
	s.failing(func(r *http.Request) *reply {
		if r.Method == http.MethodPost {
			posts++
		}
		return nil
	})
	big := `"` + strings.Repeat("x", 256<<10-2) + `"` + "\n"
	if got, want := s.must(strings.Repeat(big, 7), "jobs", "enqueue", "--pool", "reports", "--payload-only"), "7 jobs enqueued\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if posts != 3 {
		t.Errorf("%d requests, want 3 of at most three jobs each", posts)
	}
}

func TestEnqueueOutput(t *testing.T) {
	s := newTestServer(t)
	list := decode[httpapi.EnqueuedList](t, s.must(lines(3), "jobs", "enqueue", "--pool", "reports", "-o", "json"))
	if len(list.Items) != 3 || list.Items[0].ID == "" || list.Items[0].Pool != "reports" {
		t.Errorf("got %+v, want three jobs with ids", list.Items)
	}
	if got, want := s.must("", "jobs", "enqueue", "--pool", "reports", "-o", "json"), "{\"items\":[]}\n"; got != want {
		t.Errorf("nothing to enqueue: got %q, want %q", got, want)
	}
	if got := strings.Count(s.must(lines(3), "jobs", "enqueue", "--pool", "reports", "-o", "ndjson"), "\n"); got != 3 {
		t.Errorf("got %d lines, want 3", got)
	}
}

func TestLinesBecomeJobs(t *testing.T) {
	type result struct {
		N   int
		Job string
		Why string
	}
	long := strings.Repeat("x", maxLine+10)
	for _, tc := range []struct {
		name   string
		reader lineReader
		in     string
		want   []result
	}{
		{"payload byte for byte", lineReader{pool: "p"}, "{\"payload\": {\"a\":  1.0, \"b\": \"<é>\"}}\n",
			[]result{{1, `{"pool":"p","payload": {"a":  1.0, "b": "<é>"}}`, ""}}},
		{"own pool and key win", lineReader{pool: "p", keyPrefix: "k"}, `{"payload":1,"pool":"q","key":"mine"}`,
			[]result{{1, `{"payload":1,"pool":"q","key":"mine"}`, ""}}},
		{"key of the line number", lineReader{pool: "p", keyPrefix: "k/"}, "\n{\"payload\":1}\r\n",
			[]result{{2, `{"pool":"p","key":"k/2","payload":1}`, ""}}},
		{"payload only", lineReader{pool: "p", payloadOnly: true}, "\"a\"\nnull\n{\"payload\":1}",
			[]result{{1, `{"pool":"p","payload":"a"}`, ""}, {2, `{"pool":"p","payload":null}`, ""}, {3, `{"pool":"p","payload":{"payload":1}}`, ""}}},
		{"no pool", lineReader{}, `{"payload":1}`, []result{{1, "", "names no pool, and --pool is not given"}}},
		{"wrong type", lineReader{pool: "p"}, `{"payload":1,"key":5}`, []result{{1, "", "key: it is a number, and must be a string"}}},
		{"two values", lineReader{pool: "p", payloadOnly: true}, `1 2`, []result{{1, "", "not JSON: invalid character '2' after top-level value"}}},
		{"too long, and the next", lineReader{pool: "p", payloadOnly: true}, "\"" + long + "\"\n7\n",
			[]result{{1, "", "longer than 1023 KiB: put large data elsewhere and its address in the job"}, {2, `{"pool":"p","payload":7}`, ""}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []result
			var offset int64
			err := tc.reader.read(strings.NewReader(tc.in), func(j *jobLine, b *badLine, at int64) bool {
				if b != nil {
					got = append(got, result{b.n, "", b.why})
				} else {
					got = append(got, result{j.n, string(j.job), ""})
				}
				offset = at
				return true
			})
			if d := cmp.Diff(tc.want, got); err != nil || d != "" {
				t.Errorf("error %v, jobs differ (-want +got):\n%s", err, d)
			}
			if int(offset) != len(tc.in) {
				t.Errorf("read %d bytes, want %d", offset, len(tc.in))
			}
		})
	}
}

// Whatever a line holds, what is sent is one JSON object with the pool in it.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{`{"payload":1}`, `{"payload":{},"key":"k"}`, `{}`, `[1]`, "\x00", `{"payload":1,"payload":2}`, `{"POOL":"q","payload":1}`} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, text string, payloadOnly bool) {
		r := lineReader{pool: "p", keyPrefix: "k", payloadOnly: payloadOnly}
		err := r.read(strings.NewReader(text), func(j *jobLine, b *badLine, _ int64) bool {
			if b != nil {
				return true
			}
			var in httpapi.JobInput
			dec := json.NewDecoder(bytes.NewReader(j.job))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&in); err != nil || dec.More() {
				t.Errorf("line %q became %q: %v", text, j.job, err)
			}
			if in.Pool == "" || in.Key == "" || in.Payload == nil {
				t.Errorf("line %q became %q, without pool, key or payload", text, j.job)
			}
			return true
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	c := &cli{stderr: &out, env: func(string) (string, bool) { return "", false }}
	show := func(mode string, total int64) string {
		out.Reset()
		p, err := c.progress("none", total)
		if err != nil {
			t.Fatal(err)
		}
		p.mode = mode
		p.begun, p.shown = time.Now().Add(-time.Minute), time.Now().Add(-time.Minute)
		p.update(50, 6000)
		p.update(51, 6001) // too soon for another
		return out.String()
	}
	if got := show("lines", 100); !strings.HasPrefix(got, "6 000 jobs, 100") || !strings.HasSuffix(got, "/s, 50%, about 1m left\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("lines: got %q", got)
	}
	if got := show("lines", 0); strings.Contains(got, "left") {
		t.Errorf("unknown total: got %q", got)
	}
	if got := show("bar", 100); !strings.Contains(got, "[████████████············]  50%  6 000 jobs") {
		t.Errorf("bar: got %q", got)
	}
	if got := decode[map[string]float64](t, show("json", 100)); got["jobs"] != 6000 || got["share"] != 0.5 {
		t.Errorf("json: got %v", got)
	}
	if show("none", 100) != "" {
		t.Errorf("none: got %q", out.String())
	}
	if _, err := c.progress("loud", 0); err == nil {
		t.Error("--progress loud is taken")
	}
}
