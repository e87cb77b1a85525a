//go:build unix

package app

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/headrace/headrace/actuator/process"
	"github.com/headrace/headrace/internal/config"
	"github.com/headrace/headrace/worker"
)

// The test binary is also the guard and the worker that an App starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "guard":
			os.Exit(process.Guard(os.Args[3:]))
		case "stopping-worker":
			stoppingWorker()
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// stoppingWorker works; the first of its kind in the current directory soon stops, as by a signal that nobody takes back.
func stoppingWorker() {
	env, err := worker.ReadEnvironment(os.Getenv)
	if err != nil {
		os.Exit(1)
	}
	if os.Mkdir("stopped", 0o700) == nil {
		time.AfterFunc(500*time.Millisecond, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) })
	}
	none := func(context.Context, *worker.Job) ([]byte, error) { return nil, nil }
	_ = worker.New(env.Dial(), none, worker.Options{Report: 50 * time.Millisecond, Wait: time.Second, StartDelay: 1}).RunUntilSignal(context.Background())
}

// A pool of one whose only worker stops for good has another soon.
func TestAStoppedWorkerProcessIsReplaced(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cfg, problems := config.Parse(filepath.Join(dir, "headrace.yaml"), []byte(`
version: 1
server: { listen: "127.0.0.1:0", data_dir: `+dir+` }
pools:
  p:
    objective: { oldest_age: 5s }
    replicas: { min: 1, max: 1 }
    actuator: { worker: [`+self+`, stopping-worker], dir: `+dir+`, grace: 2s }
`), os.LookupEnv)
	if cfg == nil {
		t.Fatal(problems.Err())
	}
	a, err := Open(t.Context(), cfg, Options{Silence: 900 * time.Millisecond, Executable: self})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	first, another := "", ""
	for end := time.Now().Add(20 * time.Second); another == "" && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for _, w := range a.Fleet.Pool("p").Workers {
			if first == "" {
				first = w.Name
			}
			if w.Name != first {
				another = w.Name
			}
		}
	}
	if first == "" || another == "" {
		t.Errorf("worker %q, then %q: want one, and another in its place", first, another)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
