package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/demo"
	"github.com/headrace/headrace/worker"
)

// newDemoCmd plays the built-in story.
func newDemoCmd(c *cli) *cobra.Command {
	var (
		duration time.Duration
		seed     uint64
		speed    float64
		trace    string
	)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch a launch day: arrivals jump eightfold at a rate-limited provider",
		Long: `Play a story that needs no services and no network: jobs that call a local provider which really waits and really
refuses calls above its rate, worker processes that are started and stopped as the work needs, and a poison job that
kills its worker. It ends with a summary, counted at the provider and in the results.

Exits with 3 when the run did not show what it promises.`,
		Example: "  headrace demo\n  headrace demo --duration 30s -o json\n  headrace demo --trace requests.csv.gz --speed 20",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if duration < 10*time.Second || duration > time.Hour {
				return usage("--duration %v: it must be between 10s and 1h", duration)
			}
			if !(speed > 0 && speed <= 1e6) {
				return usage("--speed %g: it must be positive", speed)
			}
			story := demo.LaunchDay(duration, seed)
			if trace != "" {
				var err error
				if story, err = demo.FromTrace(trace, speed, duration, seed); err != nil {
					return err
				}
			} else if cmd.Flags().Changed("speed") {
				return usage("--speed plays a trace faster; it needs --trace")
			}
			talk := c.stderr
			if c.output == "table" {
				talk = c.stdout
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			s, err := demo.Run(ctx, demo.Options{Story: story, Out: talk, Version: thisBuild().Version})
			if err != nil {
				return err
			}
			if err := printSummary(c.stdout, c.output, s); err != nil {
				return err
			}
			if !s.Kept() {
				return exitError{exitBad, errors.New("the run did not show what it promises")}
			}
			if s.Interrupted {
				return exitError{code: exitInterrupted}
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&duration, "duration", time.Minute, "how long jobs arrive")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "equal seeds give equal arrivals")
	cmd.Flags().StringVar(&trace, "trace", "", "play this trace instead: CSV, may be gzipped")
	cmd.Flags().Float64Var(&speed, "speed", 1, "play a trace this many times as fast")
	return cmd
}

func printSummary(w io.Writer, output string, s demo.Summary) error {
	if output == "table" {
		s.Print(w)
		return nil
	}
	enc := json.NewEncoder(w)
	if output == "json" {
		enc.SetIndent("", "  ")
	}
	return enc.Encode(s)
}

// newDemoWorkerCmd is a worker of the demo: a program that speaks the worker protocol by the SDK.
func newDemoWorkerCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:    "demo-worker",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			env, err := worker.ReadEnvironment(func(name string) string { return c.getenv(name, "") })
			if err != nil {
				return err
			}
			handler := demo.Handler(c.getenv("DEMO_PROVIDER", ""))
			w := worker.New(env.Dial(), handler, worker.Options{
				Slots: env.Slots, Grace: env.Grace, StartDelay: time.Millisecond, Wait: 5 * time.Second, Report: time.Second,
			})
			return w.RunUntilSignal(context.WithoutCancel(cmd.Context()))
		},
	}
}
