// Package app wires the parts of a Headrace process together, from one configuration.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/headrace/headrace/downstream"
	downstreammemory "github.com/headrace/headrace/downstream/memory"
	"github.com/headrace/headrace/internal/config"
	"github.com/headrace/headrace/internal/control"
	"github.com/headrace/headrace/internal/dashboard"
	"github.com/headrace/headrace/internal/dispatch"
	"github.com/headrace/headrace/internal/fleet"
	"github.com/headrace/headrace/internal/httpapi"
	journalsqlite "github.com/headrace/headrace/internal/journal/sqlite"
	"github.com/headrace/headrace/internal/telemetry"
)

// Options of an [App]. The zero value works.
type Options struct {
	// Log; default discards.
	Log *slog.Logger
	// Version is shown in the API.
	Version string
	// Insecure allows a listen address that is not loopback without a token.
	Insecure bool
	// Silence is how long a worker may say nothing before it no longer counts; a third longer, and its process is replaced.
	// Default 90 s.
	Silence time.Duration
	// Executable is the headrace binary that workers are run with; default: this one.
	Executable string
}

// App is everything in one process: queues, control loop, API, dashboard, and workers as child processes.
type App struct {
	cfg  *config.Config
	opts Options

	// URL is where the API answers.
	URL string
	// Loop is the control loop, to read what it decided.
	Loop *control.Loop
	// Fleet is the registry of live workers.
	Fleet *fleet.Fleet

	listener net.Listener
	server   *server
	queues   *queues
	journal  *journalsqlite.Journal
	workers  *workers
	drained  Drained
	closers  []io.Closer // in the order they were opened
}

// Open opens queues, journal and the listening socket of cfg. It starts nothing; [App.Run] does, and closes them.
func Open(ctx context.Context, cfg *config.Config, opts Options) (_ *App, err error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Silence <= 0 {
		opts.Silence = 90 * time.Second
	}
	if opts.Executable == "" {
		if opts.Executable, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find own executable: %w", err)
		}
	}
	if err := checkListen(cfg, opts); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Server.DataDir, 0o750); err != nil {
		return nil, fmt.Errorf("create server.data_dir: %w", err)
	}
	a := &App{cfg: cfg, opts: opts}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	if a.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Server.Listen); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("%s is in use: is another `headrace up` running? Stop it, or set server.listen (HEADRACE_LISTEN)", cfg.Server.Listen)
		}
		return nil, fmt.Errorf("listen on server.listen: %w", err)
	}
	a.closers = append(a.closers, a.listener)
	a.URL = "http://" + reachable(a.listener.Addr())
	if a.queues, err = openQueues(ctx, cfg); err != nil {
		return nil, err
	}
	a.closers = append(a.closers, a.queues)
	if a.journal, err = journalsqlite.Open(ctx, filepath.Join(cfg.Server.DataDir, "journal.db")); err != nil {
		return nil, err
	}
	a.closers = append(a.closers, a.journal)
	return a, a.wire(ctx)
}

// wire connects the parts.
func (a *App) wire(ctx context.Context) error {
	a.Fleet = fleet.New(a.opts.Silence)
	store := downstreammemory.New(limits(a.cfg))
	dispatcher := dispatch.New(dispatchPools(a.cfg, a.queues), a.Fleet, store)

	var err error
	if a.workers, err = newWorkers(a.cfg, a.opts, a.URL, dispatcher, a.Fleet); err != nil {
		return err
	}
	pools := make([]control.Pool, 0, len(a.cfg.Pools))
	for _, p := range a.cfg.Pools {
		pools = append(pools, control.Pool{Policy: p.Scale, Queue: a.queues.byPool[p.Name], Actuator: a.workers.byPool[p.Name]})
	}
	a.Loop, err = control.New(ctx, pools, a.journal, a.Fleet, store, control.Options{
		Cycle: a.cfg.Server.Cycle, History: a.cfg.Server.History, Log: a.opts.Log,
	})
	if err != nil {
		return err
	}
	names := downstreamNames(a.cfg)
	handler := httpapi.New(httpapi.Deps{
		Pools: a.queues.contracts(), Find: a.queues.find, Dispatcher: dispatcher, Loop: a.Loop, Journal: a.journal,
		Fleet: a.Fleet, Store: store, Downstreams: names, Pages: dashboard.Handler(),
		Metrics: telemetry.Handler(telemetry.Sources{
			Loop: a.Loop, Fleet: a.Fleet, Store: store, Downstreams: names, Queues: a.queues.contracts(), Version: a.opts.Version,
		}),
	}, httpapi.Options{
		Token: string(a.cfg.Server.Token), AnyHost: a.opts.Insecure && !a.cfg.Server.Loopback(), Version: a.opts.Version,
	})
	a.server = newServer(handler, a.opts.Log)
	return nil
}

// Run serves until ctx is done, then lets the workers finish within their grace while they can still reach the API,
// and closes everything. It returns nil after a clean end.
func (a *App) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := a.server.Serve(a.listener); !errors.Is(err, http.ErrServerClosed) {
			cancel(fmt.Errorf("serve: %w", err))
		}
	}()
	watched := make(chan struct{})
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	go func() {
		defer close(watched)
		a.workers.watch(a.opts.Silence / looksPerSilence).run(watching)
	}()
	err := a.Loop.Run(ctx)
	unwatch()
	<-watched

	// No decision is made any more. Workers drain; their last settlements still arrive.
	down := context.WithoutCancel(ctx)
	before := a.queues.count(down)
	err = errors.Join(err, a.workers.close(down))
	a.drained = a.queues.count(down).since(before)
	err = errors.Join(err, a.server.end(down, 2*time.Second))
	<-served
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = errors.Join(err, cause)
	}
	return errors.Join(err, a.close())
}

// Drained says what became of the jobs that ran when [App.Run] was told to end. It is known when Run has returned.
func (a *App) Drained() Drained { return a.drained }

func (a *App) close() error {
	var errs []error
	for _, v := range slices.Backward(a.closers) {
		if err := v.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	a.closers = nil
	return errors.Join(errs...)
}

// checkListen refuses to offer the API to a network without a token.
func checkListen(cfg *config.Config, opts Options) error {
	if cfg.Server.Loopback() || cfg.Server.Token != "" || opts.Insecure {
		return nil
	}
	return fmt.Errorf("server.listen %q is not a loopback address: anybody who reaches it could enqueue jobs and read payloads; set server.auth.token, or pass --insecure", cfg.Server.Listen)
}

// reachable is the address by which this machine reaches a listener.
func reachable(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

func downstreamNames(cfg *config.Config) []string { return slices.Sorted(maps.Keys(cfg.Downstreams)) }

func limits(cfg *config.Config) map[string][]downstream.Limit {
	out := map[string][]downstream.Limit{}
	for name, d := range cfg.Downstreams {
		for _, l := range d.Limits {
			out[name] = append(out[name], downstream.Limit{Unit: l.Unit, PerSecond: l.PerSecond})
		}
	}
	return out
}

func dispatchPools(cfg *config.Config, qs *queues) []dispatch.Pool {
	out := make([]dispatch.Pool, 0, len(cfg.Pools))
	for _, p := range cfg.Pools {
		dp := dispatch.Pool{Name: p.Name, Queue: qs.byPool[p.Name], Heartbeat: p.Lease.Heartbeat}
		for _, u := range p.Uses {
			dp.Uses = append(dp.Uses, dispatch.Use{Downstream: u.Downstream, Unit: u.Unit, Units: u.UnitsPerJob, Measured: u.Measure})
		}
		out = append(out, dp)
	}
	return out
}
