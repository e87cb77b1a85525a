package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/worker"
)

// workFlags are what a worker is told; each flag's default is the variable that an actuator sets.
type workFlags struct {
	pool, worker, tokenFile string
	httpURL                 string
	throttle                []string
	slots                   int
	grace, startDelay       time.Duration
	verbose                 bool
}

func newWorkCmd(c *cli) *cobra.Command {
	f := workFlags{}
	getenv := func(name string) string { return c.getenv(name, "") }
	env, envErr := worker.ReadEnvironment(getenv)
	if env.Grace == 0 {
		env.Grace = 30 * time.Second
	}
	cmd := &cobra.Command{
		Use:   "work --pool POOL [--http URL | -- CMD [ARG...]]",
		Short: "Work for a pool: run a program, or post to one, for each job",
		Long: `Work for a pool: run CMD once for each job, or post each job to URL.

CMD gets the payload on standard input; its standard output (at most 256 KiB) is the result. HEADRACE_JOB_ID,
HEADRACE_ATTEMPT and HEADRACE_POOL are in its environment. Exit status 0 is done, 65 dead (it can never succeed),
69 released (not now), any other a failed attempt; death by a signal is a crash.

URL gets the payload as a POST. 2xx is done and the body is the result; 429 and 503 release the job for as long as
Retry-After says; other 4xx are dead; 5xx is a failed attempt.

The first SIGTERM or SIGINT finishes what runs, for at most --grace; a second one gives it back at once.`,
		Example: `  headrace work --pool thumbnails --slots 4 -- convert - -resize 200x200 png:-
  headrace work --pool emails --http http://127.0.0.1:9000/job`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if envErr != nil {
				return usage("%v", envErr)
			}
			handler, err := f.handler(c, args)
			if err != nil {
				return err
			}
			level := slog.LevelInfo
			if f.verbose {
				level = slog.LevelDebug
			}
			log := slog.New(slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: level})).With("worker", f.worker)
			if err := f.admission(cmd.Context(), c); err != nil {
				return err
			}
			conn := worker.Dial(c.server, f.pool, worker.DialOptions{
				Worker: f.worker, Token: c.getenv("HEADRACE_TOKEN", ""), TokenFile: f.tokenFile,
			})
			w := worker.New(conn, handler, worker.Options{
				Slots: f.slots, Grace: f.grace, StartDelay: max(f.startDelay, 1), Log: log,
			})
			if err := w.RunUntilSignal(cmd.Context()); err != nil {
				if errors.Is(err, worker.ErrRefused) {
					if plain := f.admission(cmd.Context(), c); plain != nil {
						return plain
					}
					return exitError{exitDenied, fmt.Errorf("work for pool %s: %w", f.pool, err)}
				}
				return fmt.Errorf("work for pool %s: %w", f.pool, err)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.pool, "pool", env.Pool, "pool to work for (HEADRACE_POOL)")
	flags.StringVar(&f.worker, "worker", env.Worker, "unique name of this worker (HEADRACE_WORKER)")
	flags.StringVar(&f.tokenFile, "token-file", env.TokenFile, "file that holds the bearer token (HEADRACE_TOKEN_FILE); HEADRACE_TOKEN is the token itself")
	flags.StringVar(&f.httpURL, "http", "", "post each job to this URL")
	flags.StringArrayVar(&f.throttle, "throttle", nil, "with --http: DOWNSTREAM=STATUS[,STATUS], answers that mean that the downstream had too many calls")
	flags.IntVar(&f.slots, "slots", env.Slots, "jobs at a time (HEADRACE_SLOTS)")
	flags.DurationVar(&f.grace, "grace", env.Grace, "longest time to finish after SIGTERM (HEADRACE_GRACE)")
	flags.DurationVar(&f.startDelay, "start-delay", 200*time.Millisecond, "longest random wait before the first claim")
	flags.BoolVar(&f.verbose, "verbose", false, "log each job")
	if f.worker == env.Worker && getenv("HEADRACE_WORKER") == "" {
		flags.Lookup("worker").DefValue = "HOST-PID-RANDOM" // help reads the same everywhere
	}
	return cmd
}

// admission returns why this worker would be refused: a token file that cannot be read, a token that is not the server's,
// a pool that it does not have. A server that does not answer, or not now, is no reason: a worker waits for it.
func (f workFlags) admission(ctx context.Context, c *cli) error {
	asking := *c
	asking.tokenFile = f.tokenFile
	if !strings.Contains(asking.server, "://") {
		asking.server = "http://" + asking.server // as worker.Dial does
	}
	cl, err := asking.client()
	if err != nil {
		return err
	}
	cl.timeout = min(cl.timeout, 5*time.Second)
	_, err = cl.get(ctx, "/api/v1/pools/"+url.PathEscape(f.pool)+"/series", map[string]string{"since": time.Now().UTC().Format(time.RFC3339)})
	if p := (problem{}); errors.As(err, &p) && (p.Status == http.StatusUnauthorized || p.Status == http.StatusNotFound) {
		return p
	}
	return nil
}

// throttles reads the --throttle flags.
func (f workFlags) throttles() (map[int]string, error) {
	out := map[int]string{}
	for _, text := range f.throttle {
		name, statuses, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usage("work: --throttle %q: it must be like llm-provider=429,529", text)
		}
		for s := range strings.SplitSeq(statuses, ",") {
			code, err := strconv.Atoi(s)
			if err != nil || code < 400 || code > 599 {
				return nil, usage("work: --throttle %q: %q is not a status from 400 to 599", text, s)
			}
			if out[code] == "" {
				out[code] = name
			}
		}
	}
	return out, nil
}

// handler makes what runs each job, and finds mistakes before a job does.
func (f workFlags) handler(c *cli, args []string) (worker.Handler, error) {
	switch {
	case f.pool == "":
		return nil, usage("work: which pool? give --pool")
	case f.slots < 1:
		return nil, usage("work: --slots %d: it must be at least 1", f.slots)
	case f.grace <= 0:
		return nil, usage("work: --grace %v: it must be positive", f.grace)
	case f.httpURL != "" && len(args) > 0:
		return nil, usage("work: give --http URL or -- CMD, not both")
	case f.httpURL != "":
		u, err := url.Parse(f.httpURL)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return nil, usage("work: --http %q is not an http or https URL", f.httpURL)
		}
		throttles, err := f.throttles()
		if err != nil {
			return nil, err
		}
		return worker.HTTP(f.httpURL, worker.HTTPOptions{Throttles: throttles}), nil
	case len(args) == 0:
		return nil, usage("work: what runs the jobs? give --http URL or -- CMD")
	}
	if _, err := exec.LookPath(args[0]); err != nil {
		return nil, exitError{exitFailed, fmt.Errorf("work: %w", err)}
	}
	// A program that ignores SIGTERM must be gone before the grace is.
	return worker.Command(args, worker.CommandOptions{Stderr: c.stderr, KillAfter: min(time.Second, f.grace/8)}), nil
}
