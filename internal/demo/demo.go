// Package demo is the story that `headrace demo` plays: a launch day at a service that calls a rate-limited provider.
//
// Nothing in it is pretended: jobs are enqueued over the HTTP API, workers are child processes that speak the worker
// protocol, the provider is an HTTP server that waits and refuses, and the summary is counted at the provider and in
// the results, not in what Headrace says of itself.
package demo

import (
	"context"
	_ "embed" // the configuration
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/internal/config"
)

//go:embed headrace.yaml
var configuration []byte

// Options of a run.
type Options struct {
	Story Story
	// Executable is the headrace binary; default: this one.
	Executable string
	// Dir keeps the run's data; default: a temporary directory, removed at the end.
	Dir string
	// Out is where the story is told; default nowhere.
	Out io.Writer
	// Version is shown in the API.
	Version string
}

// Run plays a story and returns its summary. When ctx ends, the story is cut short and summed up as far as it went.
func Run(ctx context.Context, opts Options) (Summary, error) {
	if opts.Out == nil {
		opts.Out = io.Discard
	}
	if opts.Executable == "" {
		var err error
		if opts.Executable, err = os.Executable(); err != nil {
			return Summary{}, fmt.Errorf("find own executable: %w", err)
		}
	}
	if opts.Dir == "" {
		dir, err := os.MkdirTemp("", "headrace-demo-")
		if err != nil {
			return Summary{}, fmt.Errorf("make a directory for the demo: %w", err)
		}
		defer os.RemoveAll(dir)
		opts.Dir = dir
	}
	provider := NewProvider(opts.Story.TokensPerMinute)
	served, err := serve(provider)
	if err != nil {
		return Summary{}, err
	}
	defer served.Close()

	log, closeLog, err := openLog(opts.Dir)
	if err != nil {
		return Summary{}, err
	}
	defer closeLog()
	cfg, err := configure(opts, "http://"+served.addr)
	if err != nil {
		return Summary{}, err
	}
	a, err := app.Open(ctx, cfg, app.Options{Log: log, Version: opts.Version, Executable: opts.Executable})
	if err != nil {
		return Summary{}, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(running) }()

	r := &run{opts: opts, app: a, api: &client{base: a.URL}, provider: provider, begunAt: time.Now()}
	s, err := r.play(ctx)
	stop()
	return s, errors.Join(err, <-ended)
}

// configure reads the demo's configuration with the story's numbers in it.
func configure(opts Options, provider string) (*config.Config, error) {
	s := opts.Story
	hold := min(max(s.Duration/20, time.Second), 5*time.Second)
	values := map[string]string{
		"DEMO_DIR":          opts.Dir,
		"DEMO_BINARY":       opts.Executable,
		"DEMO_PROVIDER":     provider,
		"DEMO_LIMIT":        fmt.Sprintf("%d/min", s.TokensPerMinute),
		"DEMO_TOKENS":       fmt.Sprintf("%d/job", s.TokensPerJob),
		"DEMO_SERVICE_TIME": fmt.Sprintf("%dms", max(1, s.ServiceTime.Milliseconds())),
		"DEMO_HOLD":         fmt.Sprintf("%dms", hold.Milliseconds()),
		"DEMO_DOWN":         "-50%/2s",
	}
	cfg, problems := config.Parse("headrace.yaml", configuration, func(name string) (string, bool) {
		v, ok := values[name]
		return v, ok
	})
	if cfg == nil {
		return nil, fmt.Errorf("read the demo's configuration: %w", problems.Err())
	}
	return cfg, nil
}

// openLog sends what the server says to a file, so that the story can be followed.
func openLog(dir string) (*slog.Logger, func(), error) {
	f, err := os.Create(filepath.Join(dir, "headrace.log"))
	if err != nil {
		return nil, nil, fmt.Errorf("open the demo's log: %w", err)
	}
	return slog.New(slog.NewTextHandler(f, nil)), func() { f.Close() }, nil
}

// listening is an HTTP server on a loopback port.
type listening struct {
	addr   string
	server *http.Server
	done   sync.WaitGroup
}

func serve(h http.Handler) (*listening, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the provider: %w", err)
	}
	s := &listening{addr: l.Addr().String(), server: &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}}
	s.done.Go(func() { s.server.Serve(l) }) //nolint:errcheck // it ends with Close
	return s, nil
}

// Close stops the server.
func (s *listening) Close() {
	s.server.Close()
	s.done.Wait()
}
