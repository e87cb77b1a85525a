package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headrace/headrace/queue"
)

// Exit codes by which a program says what becomes of its job (after sysexits.h: EX_DATAERR, EX_UNAVAILABLE). 0 is
// done, any other code is a failed attempt, and death by a signal is a crash.
const (
	ExitDead    = 65 // the job can never succeed
	ExitRelease = 69 // not now: give the job back for 1 s; not an attempt
)

// CommandOptions tune [Command]. The zero value works.
type CommandOptions struct {
	// Env is added to this process's environment.
	Env []string
	// Dir is the working directory; default: this process's.
	Dir string
	// Stderr takes what the programs write to their standard error, whole lines at a time; default os.Stderr.
	Stderr io.Writer
	// KillAfter is how long a program may go on after the SIGTERM that follows the end of its context; default 1 s.
	KillAfter time.Duration
}

// Command returns a handler that runs a program once for each job, in a process group of its own.
//
// The payload is its standard input, its standard output (at most [queue.MaxPayload] bytes) the result, and
// HEADRACE_JOB_ID, HEADRACE_ATTEMPT and HEADRACE_POOL are in its environment. Exit codes: see [ExitDead]. Output
// beyond the limit makes a job that exits 0 dead. A program that does not read its input is fine.
//
// When the context ends the group gets SIGTERM, then SIGKILL, and the job is not taken for done even if the program then
// exits 0. What the program leaves running in its group is killed when it exits, and on Linux the program is killed
// when this process dies. A program that cannot be started is the worker's fault, not the job's: the job is released
// for 5 s.
func Command(argv []string, opts CommandOptions) Handler {
	if opts.Stderr == nil {
		opts.Stderr = os.Stderr
	}
	if opts.KillAfter <= 0 {
		opts.KillAfter = time.Second
	}
	stderr := &lockedWriter{w: opts.Stderr}
	return func(ctx context.Context, job *Job) ([]byte, error) {
		return runCommand(ctx, job, argv, opts, stderr)
	}
}

func runCommand(ctx context.Context, job *Job, argv []string, opts CommandOptions, stderr io.Writer) ([]byte, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = opts.Dir
	cmd.Env = append(append(os.Environ(), opts.Env...), "HEADRACE_JOB_ID="+job.ID,
		"HEADRACE_ATTEMPT="+strconv.Itoa(job.Attempt), "HEADRACE_POOL="+job.Pool)
	out := &limitedBuffer{max: queue.MaxPayload}
	lines := &lineWriter{w: stderr}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(job.Payload), out, lines
	// A process that left the group may hold the pipes open; it does not hold the slot.
	cmd.WaitDelay = time.Second

	killed, err := runGroup(ctx, cmd, opts.KillAfter)
	lines.flush()
	state := cmd.ProcessState
	if state == nil {
		return nil, &release{after: 5 * time.Second, why: fmt.Errorf("start %s: %w", argv[0], err)}
	}
	sig, signalled := killedBy(state)
	switch code := state.ExitCode(); {
	case code == ExitDead:
		return nil, Permanent(lines.explain(argv[0], "exit status 65"))
	case code == ExitRelease:
		return nil, ReleaseAfter(minAway)
	case killed: // however it ended, we ended it: many programs exit 0 when they are asked to stop
		return nil, fmt.Errorf("%s stopped: %w", argv[0], context.Cause(ctx))
	case code == 0 && out.over:
		return nil, Permanent(fmt.Errorf("%s wrote more than the %d bytes a result may have", argv[0], queue.MaxPayload))
	case code == 0:
		return out.buf.Bytes(), nil
	case signalled:
		return nil, Crashed(lines.explain(argv[0], "died of signal: "+sig))
	default:
		return nil, lines.explain(argv[0], "exit status "+strconv.Itoa(code))
	}
}

// limitedBuffer keeps the first max bytes.
type limitedBuffer struct {
	buf  bytes.Buffer
	max  int
	over bool
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if room := b.max - b.buf.Len(); len(p) > room {
		b.over = true
		b.buf.Write(p[:room])
		return len(p), nil
	}
	return b.buf.Write(p)
}

// lockedWriter serialises the lines of programs that run at the same time.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// lineWriter passes whole lines on and remembers the last ones.
type lineWriter struct {
	w    io.Writer
	part []byte // of a line
	tail []byte // the last tailBytes that were passed on
}

const (
	lineBytes = 64 << 10 // a longer line is passed on in parts
	tailBytes = 1 << 10
)

func (l *lineWriter) Write(p []byte) (int, error) {
	l.part = append(l.part, p...)
	end := bytes.LastIndexByte(l.part, '\n') + 1
	if end == 0 && len(l.part) > lineBytes {
		end = len(l.part)
	}
	l.pass(end)
	return len(p), nil
}

func (l *lineWriter) pass(n int) {
	if n == 0 {
		return
	}
	_, _ = l.w.Write(l.part[:n]) // a log that cannot be written does not fail the job
	l.tail = append(l.tail, l.part[:n]...)
	l.tail = l.tail[max(0, len(l.tail)-tailBytes):]
	l.part = append(l.part[:0], l.part[n:]...)
}

func (l *lineWriter) flush() {
	if len(l.part) > 0 {
		l.part = append(l.part, '\n')
		l.pass(len(l.part))
	}
}

// explain makes an error of how the program ended and its last words.
func (l *lineWriter) explain(program, how string) error {
	text := strings.TrimSpace(strings.ToValidUTF8(string(l.tail), "?"))
	if text == "" {
		return fmt.Errorf("%s: %s", program, how)
	}
	lines := strings.Split(text, "\n")
	return errors.New(program + ": " + how + ": " + strings.Join(lines[max(0, len(lines)-5):], "\n"))
}
