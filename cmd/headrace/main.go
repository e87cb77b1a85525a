// Command headrace measures the work that waits, works out how many workers it needs, starts and stops them, and says why.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks to finish. A second one gets its usual effect, unless the command listens for it.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.LookupEnv))
}

// subCommands are all commands; a new one is a line here and a file of its own.
func subCommands(c *cli) []*cobra.Command {
	return []*cobra.Command{
		newUpCmd(c),
		newDemoCmd(c),
		newDemoWorkerCmd(c),
		newInitCmd(c),
		newConfigCmd(c),
		newWorkCmd(c),
		newPoolsCmd(c),
		newExplainCmd(c),
		newDecisionsCmd(c),
		newStatusCmd(c),
		newDownstreamsCmd(c),
		newWorkersCmd(c),
		newJobsCmd(c),
		newGuardCmd(c),
		newVersionCmd(c),
	}
}

// cli is what every command works with. Data goes to stdout, talk to stderr.
type cli struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            func(string) (string, bool)

	// Common flags.
	config  string        // file or directory
	server  string        // URL of the API
	output  string        // table, json or ndjson
	timeout time.Duration // of one request to the server

	tokenFile string // of commands that talk to a server: holds the bearer token
}

// getenv returns the variable called name, or otherwise when it is not set or empty.
func (c *cli) getenv(name, otherwise string) string {
	if v, ok := c.env(name); ok && v != "" {
		return v
	}
	return otherwise
}

// The exit codes, the same for every command.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2   // the command line makes no sense
	exitBad         = 3   // it ran, and the answer is bad
	exitDenied      = 4   // not allowed
	exitUnreachable = 5   // no server answers
	exitConflict    = 6   // refused as things stand
	exitWait        = 124 // the wait ran out
	exitInterrupted = 130
)

// exitError is an error that chooses the exit code. A nil err ends the command silently: all was said.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exitError) Unwrap() error { return e.err }

// usage returns an error for a command line that makes no sense.
func usage(format string, args ...any) error {
	return exitError{exitUsage, fmt.Errorf(format, args...)}
}

// run is the whole program. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) (string, bool)) int {
	c := &cli{stdin: stdin, stdout: stdout, stderr: stderr, env: env}
	root := newRootCmd(c)
	begun := false
	each(root, func(cmd *cobra.Command) {
		if body := cmd.RunE; body != nil {
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				begun = true
				return body(cmd, args)
			}
		}
	})
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	code := exitCode(ctx, err)
	if !begun { // cobra refused the command line
		code = exitUsage
	}
	if exit := (exitError{}); !errors.As(err, &exit) || exit.err != nil {
		fmt.Fprintf(stderr, "headrace: %v\n", err)
	}
	if code == exitUsage {
		fmt.Fprintf(stderr, "Run '%s --help' for what it takes.\n", cmd.CommandPath())
	}
	return code
}

func exitCode(ctx context.Context, err error) int {
	exit := exitError{}
	switch {
	case errors.As(err, &exit):
		return exit.code
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return exitInterrupted
	case errors.Is(err, context.DeadlineExceeded):
		return exitWait
	default:
		return exitFailed
	}
}

func each(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		each(sub, do)
	}
}

func newRootCmd(c *cli) *cobra.Command {
	root := &cobra.Command{
		Use:           "headrace",
		Short:         "Scale queue workers by the work that waits, and say why",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			switch c.output {
			case "table", "json", "ndjson":
				return nil
			}
			return usage("-o %s: it must be table, json or ndjson", c.output)
		},
	}
	flags := root.PersistentFlags()
	flags.StringVar(&c.config, "config", c.getenv("HEADRACE_CONFIG", "headrace.yaml"), "configuration: a file, or a directory of *.yaml")
	flags.StringVar(&c.server, "server", c.getenv("HEADRACE_SERVER", "http://127.0.0.1:8480"), "address of the server")
	flags.StringVarP(&c.output, "output", "o", "table", "output: table, json or ndjson")
	flags.Bool("no-input", false, "never ask; no command of this version does")
	flags.DurationVar(&c.timeout, "timeout", 30*time.Second, "longest time for one request to the server")
	root.AddCommand(subCommands(c)...)
	return root
}

// newGroupCmd is a command that only holds others.
func newGroupCmd(name, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name + " COMMAND",
		Short: short,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("%s: which of its commands?", cmd.Name())
			}
			hint := ""
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = fmt.Sprintf("; did you mean %q?", strings.Join(near, `" or "`))
			}
			return usage("%s has no command %q%s", cmd.Name(), args[0], hint)
		},
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(subs...)
	return cmd
}
