//go:build linux

package process_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headrace/headrace/actuator"
	"github.com/headrace/headrace/actuator/actuatortest"
	"github.com/headrace/headrace/actuator/process"
)

// The test binary is also the guard, the worker and the parent that is killed: TestMain plays the role it is given.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "role" {
		switch role, args := os.Args[2], os.Args[3:]; role {
		case "guard":
			os.Exit(process.Guard(args))
		case "worker":
			worker()
		case "parent":
			parent(args)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// worker is a tidy worker: it ends when it is asked to.
func worker() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	fmt.Println("working as", os.Getenv("HEADRACE_WORKER"))
	<-signals
}

func guard() []string         { return []string{os.Args[0], "role", "guard"} }
func tidy() []string          { return []string{os.Args[0], "role", "worker"} }
func shell(s string) []string { return []string{"sh", "-c", s} }

func open(t *testing.T, opts process.Options) *process.Actuator {
	t.Helper()
	a := process.New("emails", opts)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := a.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return a
}

func scale(t *testing.T, a *process.Actuator, n int, prefer ...string) {
	t.Helper()
	if err := a.Scale(t.Context(), n, prefer); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, a *process.Actuator) actuator.Count {
	t.Helper()
	c, err := a.Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eventually waits until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10s", what)
		}
	}
}

func TestConformance(t *testing.T) {
	actuatortest.Run(t, func(t *testing.T) actuatortest.Target {
		return actuatortest.Target{Actuator: open(t, process.Options{Argv: shell("exec sleep 600")})}
	})
}

func TestConformanceGuarded(t *testing.T) {
	actuatortest.Run(t, func(t *testing.T) actuatortest.Target {
		return actuatortest.Target{Actuator: open(t, process.Options{Argv: shell("exec sleep 600"), Guard: guard()})}
	})
}

func TestWorkerIsToldWhoItIs(t *testing.T) {
	dir := t.TempDir()
	a := open(t, process.Options{
		Argv: shell(`echo "$HEADRACE_WORKER $HEADRACE_POOL $HEADRACE_GRACE $EXTRA $PWD"; exec sleep 600`),
		Env:  []string{"EXTRA=yes"}, Dir: dir, LogDir: filepath.Join(dir, "logs"), Grace: 5 * time.Second,
	})
	scale(t, a, 1)
	var text []byte
	eventually(t, "a line in the log", func() bool {
		text, _ = os.ReadFile(filepath.Join(dir, "logs", "emails-1.log"))
		return len(text) > 0
	})
	want := count(t, a).Workers[0].ID + " emails 5s yes " + dir + "\n"
	if string(text) != want {
		t.Errorf("got %q, want %q", text, want)
	}
	if !strings.HasPrefix(want, "emails-1-") {
		t.Errorf("id: got %q, want emails-1-…", want)
	}
}

// exits collects OnExit.
type exits struct {
	mu   sync.Mutex
	list []process.Exit
	ids  map[string]int
}

func (e *exits) add(id string, x process.Exit) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ids == nil {
		e.ids = map[string]int{}
	}
	e.ids[id]++
	e.list = append(e.list, x)
}

func (e *exits) all() []process.Exit {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]process.Exit(nil), e.list...)
}

func TestExitIsReported(t *testing.T) {
	for _, c := range []struct {
		name, script string
		code         int
		signal       string
	}{
		{"status", "echo out of cheese >&2; exit 3", 3, ""},
		{"signal", "echo out of cheese; kill -9 $$", -1, "killed"},
	} {
		for _, prefix := range [][]string{nil, guard()} {
			t.Run(fmt.Sprint(c.name, " guarded=", prefix != nil), func(t *testing.T) {
				var e exits
				a := open(t, process.Options{Argv: shell(c.script), Guard: prefix, OnExit: e.add, RestartMin: time.Hour, RestartMax: time.Hour})
				scale(t, a, 1)
				eventually(t, "an exit", func() bool { return len(e.all()) == 1 })
				x := e.all()[0]
				if x.Code != c.code || x.Signal != c.signal || x.Asked || x.LastLine != "out of cheese" || x.Ran <= 0 {
					t.Errorf("got %+v, want code %d, signal %q, not asked", x, c.code, c.signal)
				}
			})
		}
	}
}

func TestCrashLoopIsLimitedAndReported(t *testing.T) {
	var e exits
	a := open(t, process.Options{
		Argv: shell("echo no database; exit 1"), OnExit: e.add,
		RestartMin: 50 * time.Millisecond, RestartMax: time.Hour,
	})
	scale(t, a, 1)
	// Starts at 0, 50, 150, 350, 750, 1550 ms, each later by how long a start takes.
	time.Sleep(time.Second)
	if got := len(e.all()); got < 2 || got > 5 {
		t.Errorf("got %d starts in a second, want 2 to 5", got)
	}
	c := count(t, a)
	if c.Starting+c.Ready != 1 || !strings.Contains(c.Trouble, "1 of 1 workers keep dying") || !strings.Contains(c.Trouble, "exit status 1 (no database)") {
		t.Errorf("got %+v, want one that keeps dying, with the reason", c)
	}
	if c.Workers[0].Restarts < 2 {
		t.Errorf("restarts: got %d, want 2 or more", c.Workers[0].Restarts)
	}
	for id, n := range e.ids {
		if n != 1 {
			t.Errorf("id %s was used %d times", id, n)
		}
	}
	scale(t, a, 0) // goes at once, though it waits for its restart
	eventually(t, "nothing left", func() bool { return len(count(t, a).Workers) == 0 })
}

func TestProgramThatDoesNotExistIsReported(t *testing.T) {
	a := open(t, process.Options{Argv: []string{"/no/such/program"}, RestartMin: time.Hour, RestartMax: time.Hour})
	scale(t, a, 2)
	eventually(t, "trouble", func() bool { return strings.Contains(count(t, a).Trouble, "2 of 2 workers keep dying") })
	if c := count(t, a); c.Starting != 2 || !strings.Contains(c.Trouble, "no such file") {
		t.Errorf("got %+v, want two starting and why", c)
	}
}

func TestWorkerThatRanAWhileIsReplacedAtOnce(t *testing.T) {
	var e exits
	a := open(t, process.Options{
		Argv: shell("sleep 0.1"), OnExit: e.add,
		RestartMin: time.Hour, RestartMax: time.Hour, RestartReset: 50 * time.Millisecond,
	})
	scale(t, a, 1)
	eventually(t, "three exits", func() bool { return len(e.all()) >= 3 })
	if c := count(t, a); c.Trouble != "" {
		t.Errorf("trouble: got %q, want none", c.Trouble)
	}
}

func TestLimitIsSharedBetweenPools(t *testing.T) {
	limit := process.NewLimit(3)
	a := open(t, process.Options{Argv: shell("exec sleep 600"), Limit: limit})
	b := open(t, process.Options{Argv: shell("exec sleep 600"), Limit: limit})
	scale(t, a, 2)
	eventually(t, "two of a", func() bool { return count(t, a).Ready == 2 })
	scale(t, b, 2)
	eventually(t, "one of b, one waiting", func() bool {
		c := count(t, b)
		return c.Ready == 1 && c.Starting == 1 && strings.Contains(c.Trouble, "max_total")
	})
	scale(t, a, 1)
	eventually(t, "both of b", func() bool { c := count(t, b); return c.Ready == 2 && c.Trouble == "" })
}

// TestS1_DrainingWorkerIsNotKilledBeforeItFinishes: a worker that is told to drain finishes by itself, gets no signal
// however long it takes, and does not count as ready meanwhile.
func TestS1_DrainingWorkerIsNotKilledBeforeItFinishes(t *testing.T) {
	dir := t.TempDir()
	var e exits
	a := open(t, process.Options{
		Argv:  shell(`trap "exit 9" TERM; while [ ! -e "` + dir + `/$HEADRACE_WORKER" ]; do sleep 0.02; done; exit 0`),
		Drain: func(_ context.Context, id string) error { return nil }, // the job ends when its file appears
		Grace: 20 * time.Millisecond, OnExit: e.add,
	})
	scale(t, a, 2)
	eventually(t, "two ready", func() bool { return count(t, a).Ready == 2 })
	ws := count(t, a).Workers
	scale(t, a, 1, ws[0].ID)
	time.Sleep(200 * time.Millisecond) // ten times the grace
	c := count(t, a)
	if c.Ready != 1 || c.Draining != 1 || len(e.all()) != 0 {
		t.Fatalf("got %+v and exits %v, want one ready, one draining, none gone", c, e.all())
	}
	if err := os.WriteFile(filepath.Join(dir, ws[0].ID), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the drained one gone", func() bool { return count(t, a).Draining == 0 })
	if x := e.all(); len(x) != 1 || x[0].Code != 0 || !x[0].Asked {
		t.Errorf("got %+v, want one exit with status 0", x)
	}
}

func TestDrainErrorAndDrainMaxFallBackToSIGTERM(t *testing.T) {
	for name, o := range map[string]process.Options{
		"drain fails":          {Drain: func(context.Context, string) error { return errors.New("unreachable") }},
		"drain takes too long": {Drain: func(context.Context, string) error { return nil }, DrainMax: 50 * time.Millisecond},
		"no drain":             {},
	} {
		t.Run(name, func(t *testing.T) {
			var e exits
			o.Argv, o.OnExit = shell(`trap "exit 9" TERM; echo ready; while :; do sleep 0.02; done`), e.add
			o.LogDir = t.TempDir()
			a := open(t, o)
			scale(t, a, 1)
			ready(t, o.LogDir)
			scale(t, a, 0)
			eventually(t, "gone", func() bool { return len(e.all()) == 1 })
			if x := e.all()[0]; x.Code != 9 || !x.Asked {
				t.Errorf("got %+v, want the status of the SIGTERM handler", x)
			}
		})
	}
}

// ready waits for the first line of the first worker's log.
func ready(t *testing.T, logDir string) {
	t.Helper()
	eventually(t, "a log", func() bool {
		b, _ := os.ReadFile(filepath.Join(logDir, "emails-1.log"))
		return strings.Contains(string(b), "ready")
	})
}

// A worker that is stopped hears no signal but the last. Another takes its place; one that is told to go goes.
func TestHangingWorkerIsReplaced(t *testing.T) {
	var e exits
	a := open(t, process.Options{Argv: shell("kill -STOP $$"), Guard: guard(), OnExit: e.add, RestartMin: time.Millisecond, Grace: time.Hour})
	scale(t, a, 1)
	eventually(t, "a worker", func() bool { return count(t, a).Ready == 1 })
	first := count(t, a).Workers[0].ID
	if !a.Replace(first) {
		t.Fatalf("worker %s was not found", first)
	}
	eventually(t, "another worker", func() bool {
		w := count(t, a).Workers
		return len(w) == 1 && w[0].ID != first && w[0].State == actuator.Running
	})
	if x := e.all()[0]; x.Signal != "killed" || x.Asked {
		t.Errorf("it ended as %+v, want killed unasked", x)
	}
	if a.Replace(first) {
		t.Error("the dead worker was replaced again")
	}
	second := count(t, a).Workers[0].ID
	scale(t, a, 0)
	a.Replace(second)
	eventually(t, "no worker", func() bool { return len(count(t, a).Workers) == 0 })
}

func TestWorkerThatIgnoresSIGTERMIsKilledAfterItsGrace(t *testing.T) {
	for _, prefix := range [][]string{nil, guard()} {
		t.Run(fmt.Sprint("guarded=", prefix != nil), func(t *testing.T) {
			var e exits
			logs := t.TempDir()
			a := open(t, process.Options{
				Argv:  shell(`trap "" TERM; echo ready; while :; do sleep 0.05; done`),
				Grace: 100 * time.Millisecond, OnExit: e.add, Guard: prefix, LogDir: logs,
			})
			scale(t, a, 1)
			ready(t, logs)
			began := time.Now()
			scale(t, a, 0)
			eventually(t, "gone", func() bool { return len(e.all()) == 1 })
			if took := time.Since(began); took < 100*time.Millisecond {
				t.Errorf("killed after %v, want not before its grace of 100ms", took)
			}
			if x := e.all()[0]; x.Signal != "killed" {
				t.Errorf("got %+v, want killed", x)
			}
		})
	}
}

// TestS2_IdleProcessesGoFirst: the idle ones go, all of them and only them, whoever is busy. The choice alone is
// tested over many more seeds in TestS2_IdleWorkersGoFirst.
func TestS2_IdleProcessesGoFirst(t *testing.T) {
	a := open(t, process.Options{Argv: tidy()})
	for seed := range 5 {
		scale(t, a, 8)
		eventually(t, "eight ready", func() bool { return count(t, a).Ready == 8 })
		busy, idle := map[string]bool{}, []string(nil)
		for i, w := range count(t, a).Workers {
			if (i*7+seed*3)%8 < 3 {
				busy[w.ID] = true
			} else {
				idle = append(idle, w.ID)
			}
		}
		scale(t, a, 3, idle...)
		eventually(t, "three left", func() bool { c := count(t, a); return c.Ready == 3 && c.Draining == 0 })
		for _, w := range count(t, a).Workers {
			if !busy[w.ID] {
				t.Errorf("seed %d: idle worker %s stays and a busy one went", seed, w.ID)
			}
		}
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	pids := t.TempDir()
	a := process.New("emails", process.Options{
		Argv:  shell(`trap "" TERM; sleep 600 & echo $! > ` + pids + `/$$; echo $$ >> ` + pids + `/$$; wait; wait; sleep 600`),
		Grace: 100 * time.Millisecond,
	})
	scale(t, a, 3)
	eventually(t, "three at work", func() bool { return len(readPIDs(pids)) == 6 })
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all dead", func() bool { return len(living(readPIDs(pids))) == 0 })
	if err := a.Scale(t.Context(), 1, nil); !errors.Is(err, process.ErrClosed) {
		t.Errorf("scale after close: got %v, want ErrClosed", err)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestLogIsRotated(t *testing.T) {
	dir := t.TempDir()
	a := open(t, process.Options{
		Argv:   shell(`i=0; while [ $i -lt 400 ]; do echo "line $i of some length"; i=$((i+1)); done; echo ready; exec sleep 600`),
		LogDir: dir, LogMax: 4096,
	})
	scale(t, a, 1)
	ready(t, dir)
	for _, name := range []string{"emails-1.log", "emails-1.log.1"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() == 0 || info.Size() > 4096 {
			t.Errorf("%s has %d bytes, want 1 to 4096", name, info.Size())
		}
	}
	if files, _ := os.ReadDir(dir); len(files) != 2 {
		t.Errorf("got %d files, want 2", len(files))
	}
}
