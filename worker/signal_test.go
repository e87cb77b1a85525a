//go:build unix

package worker_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/worker"
)

// spawn starts a worker process.
func spawn(t *testing.T, s *server, role, name string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "role", role)
	cmd.Env = append(os.Environ(), "HEADRACE_SERVER="+s.URL, "HEADRACE_POOL=p", "HEADRACE_WORKER="+name, "HEADRACE_GRACE=2s",
		"GORACE=atexit_sleep_ms=0") // the race detector would sleep for a second
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, bufio.NewReader(out)
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	if err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return strings.TrimSpace(s)
}

// TestW10_StoppedProcessSeesTheLossBeforeItsNextSideEffect: a worker process is stopped for three leases while another
// takes its job over. Awake again it does no further side effect, and its result is not the one that is kept.
func TestW10_StoppedProcessSeesTheLossBeforeItsNextSideEffect(t *testing.T) {
	r := newRig(t, queue.Policy{Lease: 800 * time.Millisecond, BackoffMin: time.Millisecond, BackoffMax: time.Millisecond})
	s := serve(t, r.q)
	var mu sync.Mutex
	counts := map[string]int{}
	count := func() int { mu.Lock(); defer mu.Unlock(); return counts["stopped"] }
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		mu.Lock()
		defer mu.Unlock()
		counts[string(b)]++
	}))
	t.Cleanup(sink.Close)

	id := r.publish(sink.URL)[0]
	cmd, out := spawn(t, s, "effects", "stopped")
	for deadline := time.Now().Add(10 * time.Second); count() < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no side effects within 10s")
		}
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2400 * time.Millisecond)
	if rec := r.get(id); rec.State == queue.Leased {
		t.Fatal("still leased after three leases")
	}
	second := start(t, s.conn("other"), work(0), worker.Options{})
	rec := r.await(id)
	before := count()
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := line(t, out); got != "cancelled: lease lost" {
		t.Errorf("the stopped worker said %q, want that it lost its lease", got)
	}
	if after := count(); after > before+1 { // one may have been under way
		t.Errorf("%d side effects after the wake-up, want none", after-before)
	}
	second.endCleanly()
	if again := r.get(id); string(rec.Result) != "did "+sink.URL || string(again.Result) != string(rec.Result) {
		t.Errorf("result: got %q, then %q, want the other worker's", rec.Result, again.Result)
	}
}

func TestSIGTERMFinishesWhatRunsAndASecondStops(t *testing.T) {
	for _, c := range []struct {
		name, payload string
		signals       int
		state         queue.State
		atMost        time.Duration
	}{
		{"short job finishes", "300ms", 1, queue.Succeeded, 2 * time.Second},
		{"long job is released within the grace", "1h", 1, queue.Ready, 2 * time.Second},
		{"second signal releases now", "1h", 2, queue.Ready, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, queue.Policy{})
			s := serve(t, r.q)
			id := r.publish(c.payload)[0]
			cmd, out := spawn(t, s, "sleep", "w")
			if got := line(t, out); got != "running" {
				t.Fatalf("worker said %q, want running", got)
			}
			began := time.Now()
			for range c.signals {
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				time.Sleep(50 * time.Millisecond)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("worker: got %v, want exit 0", err)
			}
			if took := time.Since(began); took > c.atMost {
				t.Errorf("took %v, want at most %v", took, c.atMost)
			}
			if rec := r.state(id, c.state); c.state == queue.Ready && rec.Attempts != 0 {
				t.Errorf("attempts: got %d, want 0", rec.Attempts)
			}
		})
	}
}

// TestW15_BusyHandlerDoesNotStarveTheHeartbeat: a handler that never yields the only processor keeps its lease.
func TestW15_BusyHandlerDoesNotStarveTheHeartbeat(t *testing.T) {
	t.Setenv("GOMAXPROCS", "1")
	r := newRig(t, queue.Policy{Lease: 500 * time.Millisecond})
	s := serve(t, r.q)
	id := r.publish("2s")[0]
	spawn(t, s, "spin", "w")
	if rec := r.await(id); rec.Attempts != 1 || string(rec.Result) != "spun: true" {
		t.Errorf("got %q after %d attempts, want it done in one", rec.Result, rec.Attempts)
	}
}
