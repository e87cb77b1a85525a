package worker

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// Environment is what an actuator tells a worker that it starts.
type Environment struct {
	Server    string        // HEADRACE_SERVER; default http://127.0.0.1:8480
	Pool      string        // HEADRACE_POOL
	Worker    string        // HEADRACE_WORKER; default made by [Name]
	TokenFile string        // HEADRACE_TOKEN_FILE; wins over Token
	Token     string        // HEADRACE_TOKEN; empty: no token
	Slots     int           // HEADRACE_SLOTS, the pool's concurrency; default 1
	Grace     time.Duration // HEADRACE_GRACE, such as 30s; zero: the default of [Options]
}

// ReadEnvironment reads it with getenv, such as os.Getenv.
func ReadEnvironment(getenv func(string) string) (Environment, error) {
	e := Environment{
		Server: getenv("HEADRACE_SERVER"), Pool: getenv("HEADRACE_POOL"), Worker: getenv("HEADRACE_WORKER"),
		TokenFile: getenv("HEADRACE_TOKEN_FILE"), Token: getenv("HEADRACE_TOKEN"),
	}
	if e.Server == "" {
		e.Server = "http://127.0.0.1:8480"
	}
	if e.Worker == "" {
		e.Worker = Name()
	}
	e.Slots = 1
	if s := getenv("HEADRACE_SLOTS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return e, fmt.Errorf("HEADRACE_SLOTS: %q is not a number of at least 1", s)
		}
		e.Slots = n
	}
	if g := getenv("HEADRACE_GRACE"); g != "" {
		d, err := time.ParseDuration(g)
		if err != nil || d <= 0 {
			return e, fmt.Errorf("HEADRACE_GRACE: %q is not a positive duration such as 30s", g)
		}
		e.Grace = d
	}
	return e, nil
}

// Dial connects as the environment says.
func (e Environment) Dial() *Remote {
	return Dial(e.Server, e.Pool, DialOptions{Worker: e.Worker, TokenFile: e.TokenFile, Token: e.Token})
}

// RunUntilSignal is [Worker.Run] for a whole process: the first SIGTERM, SIGINT or SIGHUP (unless that is ignored, as
// under nohup) drains, a second one stops. When what reads the process's output is gone, writes to it fail; they do not
// end the process.
func (w *Worker) RunUntilSignal(ctx context.Context) error {
	ctx, drain := context.WithCancel(ctx)
	defer drain()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE) // not ignored: programs that are started would inherit that
	defer signal.Stop(pipes)
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for first := true; ; first = false {
			select {
			case <-ended:
				return
			case <-signals:
			}
			if first {
				drain()
			} else {
				w.Stop()
			}
		}
	}()
	err := w.Run(ctx)
	close(ended)
	<-watched
	return err
}
