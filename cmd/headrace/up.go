package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/app"
)

// newUpCmd runs everything on one machine.
func newUpCmd(c *cli) *cobra.Command {
	var insecure, quiet bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run everything on this machine: queue, API, control loop, workers",
		Long: `Run everything on this machine from one configuration file: the queue, the API and the live page, the control
loop, and the workers as child processes.

The first SIGINT, SIGTERM or SIGHUP lets the workers finish within their grace; a second one ends at once, workers
included.`,
		Example: "  headrace init && headrace up\n  headrace up --config shop.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.load(c.config)
			if err != nil {
				return err
			}
			level := slog.LevelInfo
			if quiet {
				level = slog.LevelWarn
			}
			a, err := app.Open(cmd.Context(), cfg, app.Options{
				Log:     slog.New(slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: level})),
				Version: thisBuild().Version, Insecure: insecure,
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(c.stderr, "headrace is up: %s\n", a.URL)
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			hurry := context.AfterFunc(ctx, func() {
				fmt.Fprintln(c.stderr, "draining; interrupt again to end at once")
			})
			defer hurry()
			err = a.Run(ctx)
			fmt.Fprintln(c.stderr, a.Drained())
			return err
		},
	}
	cmd.Flags().BoolVar(&insecure, "insecure", false, "listen on an address that is not loopback without a token")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "say only what is wrong")
	return cmd
}

// untilSignal ends with ctx and at a SIGINT, SIGTERM or SIGHUP (unless that is ignored, as under nohup). A second signal
// ends the process, whatever the shell that started it in the background had it ignore; the guards of the workers notice
// and kill them. What reads the log going away first, as in "headrace up | tee log" at a Ctrl-C, does not end the process
// before its workers have finished.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a write fails instead; to ignore it would be inherited by workers
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	ctx, drain := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		for first := true; ; first = false {
			select {
			case <-over:
				return
			case got := <-signals:
				if !first {
					os.Exit(endedBy(got))
				}
				drain()
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); close(over); drain() }
}

// endedBy is the exit code of a process that a signal ended, as shells have it.
func endedBy(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exitInterrupted
}
