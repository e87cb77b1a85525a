package process

import (
	"context"
	"log/slog"
	"time"
)

// Options say how the workers of a pool are run. Only Argv is required.
type Options struct {
	// Argv is the program of a worker and its arguments.
	Argv []string
	// Env is added to this process's environment, before HEADRACE_WORKER, HEADRACE_POOL and HEADRACE_GRACE.
	Env []string
	// Dir is the working directory; default: this process's.
	Dir string
	// Grace is how long a worker may take from SIGTERM to SIGKILL; default 30 s.
	Grace time.Duration
	// LogDir is where the output of workers goes, a file for each place in the pool ("emails-3.log"); default: it is
	// thrown away.
	LogDir string
	// LogMax is the size in bytes at which a log file becomes "….log.1", replacing the one before; default 10 MiB.
	LogMax int64
	// Guard is the command that runs a worker under [Guard], such as {"/usr/bin/headrace", "guard", "--"}. Empty: workers
	// run without, and what they start themselves may outlive a kill -9 of this process.
	Guard []string
	// Drain tells a worker to finish and exit. When it is nil or returns an error the worker gets SIGTERM instead.
	Drain func(ctx context.Context, workerID string) error
	// DrainMax is how long a drained worker may take before it gets SIGTERM; default 1 h.
	DrainMax time.Duration
	// OnExit is told of each worker that has ended, from a goroutine of that worker; it should return soon.
	OnExit func(workerID string, exit Exit)
	// Limit bounds the processes of several pools together; nil: no bound.
	Limit *Limit
	// A worker that ends unasked is started again: at once when it ran for RestartReset (default 10 s), else after a
	// wait that doubles from RestartMin (default 1 s) to RestartMax (default 1 min).
	RestartMin, RestartMax, RestartReset time.Duration
	// Log takes what happens; default: nothing is logged.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.Grace, 30*time.Second)
	def(&o.DrainMax, time.Hour)
	def(&o.RestartMin, time.Second)
	def(&o.RestartMax, time.Minute)
	def(&o.RestartReset, 10*time.Second)
	if o.LogMax <= 0 {
		o.LogMax = 10 << 20
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Exit is how a worker process ended.
type Exit struct {
	// Code is the exit status; meaningless when Signal is set.
	Code int
	// Signal names the signal that killed it, such as "killed".
	Signal string
	// Asked: it had been told to go.
	Asked bool
	Ran   time.Duration
	// LastLine is the last line it wrote.
	LastLine string
}

// Limit bounds how many processes run at a time, over all actuators that share it.
type Limit struct{ room chan struct{} }

// NewLimit returns a limit of n ≥ 1 processes.
func NewLimit(n int) *Limit { return &Limit{room: make(chan struct{}, max(1, n))} }

// take waits for room, and reports false when gone is closed first. It calls waits when it has to wait.
func (l *Limit) take(gone <-chan struct{}, waits func()) bool {
	if l == nil {
		return true
	}
	select {
	case l.room <- struct{}{}:
		return true
	default:
		waits()
	}
	select {
	case l.room <- struct{}{}:
		return true
	case <-gone:
		return false
	}
}

func (l *Limit) give() {
	if l != nil {
		<-l.room
	}
}
