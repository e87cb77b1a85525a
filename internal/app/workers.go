package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headrace/headrace/actuator/process"
	"github.com/headrace/headrace/internal/config"
	"github.com/headrace/headrace/internal/dispatch"
	"github.com/headrace/headrace/internal/fleet"
	"github.com/headrace/headrace/worker/protocol"
)

// workers are the actuators of all pools.
type workers struct {
	byPool     map[string]*process.Actuator
	dispatcher *dispatch.Dispatcher
	fleet      *fleet.Fleet
	log        *slog.Logger
}

// newWorkers makes an actuator for each pool. None starts a process before it is told to scale.
func newWorkers(cfg *config.Config, opts Options, url string, d *dispatch.Dispatcher, f *fleet.Fleet) (*workers, error) {
	ws := &workers{byPool: map[string]*process.Actuator{}, dispatcher: d, fleet: f, log: opts.Log}
	tokenFile, err := writeToken(cfg)
	if err != nil {
		return nil, err
	}
	shared := map[string]*process.Limit{}
	for name, a := range cfg.Actuators {
		if a.MaxTotal > 0 {
			shared[name] = process.NewLimit(a.MaxTotal)
		}
	}
	for _, p := range cfg.Pools {
		env := []string{
			"HEADRACE_SERVER=" + url, "HEADRACE_TOKEN_FILE=" + tokenFile, "HEADRACE_SLOTS=" + strconv.Itoa(p.Scale.Concurrency),
		}
		for _, k := range slices.Sorted(maps.Keys(p.Starts.Env)) {
			env = append(env, k+"="+string(p.Starts.Env[k]))
		}
		p.Starts.Grace = max(p.Starts.Grace, time.Millisecond) // zero is the default of those who are told
		ws.byPool[p.Name] = process.New(p.Name, process.Options{
			Argv: argv(opts.Executable, cfg, p), Env: env, Dir: p.Starts.Dir, Grace: p.Starts.Grace,
			LogDir:   filepath.Join(cfg.Server.DataDir, "logs"),
			Guard:    []string{opts.Executable, "guard", "--"},
			Drain:    func(_ context.Context, worker string) error { return ws.drain(worker) },
			DrainMax: p.Lease.Max,
			OnExit:   func(worker string, exit process.Exit) { ws.ended(p.Name, worker, exit) },
			Limit:    shared[p.Starts.Actuator],
			Log:      opts.Log,
		})
	}
	return ws, nil
}

// argv is what is run for each worker of a pool: the program itself when it speaks the worker protocol, else
// headrace work around it.
func argv(executable string, cfg *config.Config, p config.Pool) []string {
	if len(p.Starts.Worker) > 0 {
		return p.Starts.Worker
	}
	work := []string{executable, "work", "--pool", p.Name, "--slots", strconv.Itoa(p.Scale.Concurrency), "--grace", p.Starts.Grace.String()}
	if p.Starts.HTTP != "" {
		for _, u := range p.Uses {
			statuses := make([]string, len(cfg.Downstreams[u.Downstream].ThrottleStatus))
			for i, code := range cfg.Downstreams[u.Downstream].ThrottleStatus {
				statuses[i] = strconv.Itoa(code)
			}
			work = append(work, "--throttle", u.Downstream+"="+strings.Join(statuses, ","))
		}
		return append(work, "--http", p.Starts.HTTP)
	}
	return append(append(work, "--"), p.Starts.Command...)
}

// writeToken leaves the token where workers find it; the environment of a process can be read by others.
func writeToken(cfg *config.Config) (string, error) {
	if cfg.Server.Token == "" {
		return "", nil
	}
	path := filepath.Join(cfg.Server.DataDir, "worker.token")
	if err := os.WriteFile(path, []byte(cfg.Server.Token), 0o600); err != nil {
		return "", fmt.Errorf("write the workers' token: %w", err)
	}
	return path, nil
}

// errUnknownWorker makes the actuator send a signal instead.
var errUnknownWorker = errors.New("the worker has not reported yet")

func (ws *workers) drain(worker string) error {
	if !ws.fleet.Order(worker, protocol.Drain) {
		return errUnknownWorker
	}
	return nil
}

// ended takes note of a worker process that is gone. What is left of one that ended well, or that was made to go, is
// released; the jobs of one that died run again at once, as crashed.
func (ws *workers) ended(pool, worker string, exit process.Exit) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var n int
	var err error
	if exit.Asked || exit.Code == 0 && exit.Signal == "" {
		err = ws.dispatcher.Goodbye(ctx, worker)
	} else {
		n, err = ws.dispatcher.Died(ctx, pool, worker, "worker "+worker+" died: "+exit.String())
	}
	if err != nil {
		ws.log.Warn("leases of an ended worker not given back: they run out", "pool", pool, "worker", worker, "error", err)
	}
	if n > 0 {
		ws.log.Warn("worker died with jobs", "pool", pool, "worker", worker, "exit", exit.String(), "jobs", n)
	}
}

// watch returns what replaces workers that fall silent, which it looks for every so often.
func (ws *workers) watch(every time.Duration) *watch {
	w := &watch{fleet: ws.fleet, runners: map[string]runner{}, log: ws.log, every: every}
	for pool, a := range ws.byPool {
		w.runners[pool] = a
	}
	return w
}

// close drains all workers at once and returns when none is left.
func (ws *workers) close(ctx context.Context) error {
	errs := make([]error, len(ws.byPool))
	var wg sync.WaitGroup
	for i, name := range slices.Sorted(maps.Keys(ws.byPool)) {
		wg.Go(func() {
			if err := ws.byPool[name].Close(ctx); err != nil {
				errs[i] = fmt.Errorf("stop workers of pool %s: %w", name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
