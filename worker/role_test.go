package worker_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/headrace/headrace/worker"
)

// playRole makes the test binary a worker process when it is started as one.
func playRole() {
	if len(os.Args) < 3 || os.Args[1] != "role" {
		return
	}
	env, err := worker.ReadEnvironment(os.Getenv)
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	h := map[string]worker.Handler{"effects": effects, "sleep": sleeper, "spin": spinner}[os.Args[2]]
	w := worker.New(env.Dial(), h, worker.Options{Grace: env.Grace, StartDelay: 1})
	if err := w.RunUntilSignal(context.Background()); err != nil {
		fmt.Println("run:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// effects does side effects, a post to the URL in its payload, for as long as it may.
func effects(ctx context.Context, job *worker.Job) ([]byte, error) {
	for ctx.Err() == nil {
		res, err := http.Post(string(job.Payload), "text/plain", strings.NewReader(os.Getenv("HEADRACE_WORKER")))
		if err != nil {
			return nil, err
		}
		res.Body.Close()
		time.Sleep(5 * time.Millisecond)
	}
	fmt.Println("cancelled:", context.Cause(ctx))
	return []byte("by the one that was stopped"), nil
}

// sleeper runs for the duration in its payload.
func sleeper(ctx context.Context, job *worker.Job) ([]byte, error) {
	d, err := time.ParseDuration(string(job.Payload))
	if err != nil {
		return nil, worker.Permanent(err)
	}
	fmt.Println("running")
	return work(d)(ctx, job)
}

// spinner keeps a processor busy for the duration in its payload.
func spinner(_ context.Context, job *worker.Job) ([]byte, error) {
	d, err := time.ParseDuration(string(job.Payload))
	if err != nil {
		return nil, worker.Permanent(err)
	}
	n := 0
	for began := time.Now(); time.Since(began) < d; n++ {
	}
	return fmt.Appendf(nil, "spun: %v", n > 0), nil
}
