//go:build linux

package worker

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headrace/headrace/queue"
)

func runShell(t *testing.T, ctx context.Context, script string, payload []byte) (out []byte, stderr string, err error) {
	t.Helper()
	var talk bytes.Buffer
	h := Command([]string{"sh", "-c", script}, CommandOptions{Stderr: &talk, KillAfter: 100 * time.Millisecond})
	out, err = h(ctx, &Job{ID: "job-7", Attempt: 3, Pool: "ocr", Payload: payload})
	return out, talk.String(), err
}

func TestCommandExitCodesAreVerdicts(t *testing.T) {
	for _, c := range []struct{ name, script, action, reason string }{
		{"zero acks", "cat", "ack", ""},
		{"65 is dead", "echo no such page >&2; exit 65", "dead", "no such page"},
		{"69 releases", "exit 69", "release", ""},
		{"others nack with the code and last words", "echo one >&2; echo two >&2; exit 64", "nack", "sh: exit status 64: one\ntwo"},
		{"a signal is a crash", "kill -9 $$", "crash", "died of signal: killed"},
		{"a segmentation fault is a crash", "kill -SEGV $$", "crash", "segmentation fault"},
		{"a result as long as allowed", "head -c 262144 /dev/zero", "ack", ""},
		{"a longer result is dead", "head -c 262145 /dev/zero", "dead", "262144 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, _, err := runShell(t, t.Context(), c.script, []byte("in"))
			got := verdict(&held{}, out, err)
			if got.Action != c.action || !strings.Contains(got.Error, c.reason) {
				t.Errorf("got %s %q, want %s with %q", got.Action, got.Error, c.action, c.reason)
			}
		})
	}
}

// TestW21_AProgramThatReleasesEachTimeDoesNotSpin: a job that nobody can run now is tried about once a second, not as fast
// as programs can be started.
func TestW21_AProgramThatReleasesEachTimeDoesNotSpin(t *testing.T) {
	_, _, err := runShell(t, t.Context(), "exit 69", nil)
	if got := verdict(&held{}, nil, err); got.RetryIn == nil || got.RetryIn.Duration() != time.Second {
		t.Errorf("exit status 69: released for %v, want 1s", got.RetryIn)
	}
	for after, want := range map[time.Duration]time.Duration{
		0: time.Second, -time.Minute: time.Second, 20 * time.Second: 20 * time.Second, 1 << 62: time.Hour,
	} {
		got := verdict(&held{}, nil, &Throttled{Downstream: "llm", RetryAfter: after})
		if got.RetryIn.Duration() != want {
			t.Errorf("throttled for %v: released for %v, want %v", after, got.RetryIn.Duration(), want)
		}
	}
}

func TestCommandPassesPayloadAndEnvironment(t *testing.T) {
	out, stderr, err := runShell(t, t.Context(), `echo "$HEADRACE_JOB_ID $HEADRACE_ATTEMPT $HEADRACE_POOL"; echo talk >&2; cat`, []byte("a\x00b"))
	if want := "job-7 3 ocr\na\x00b"; err != nil || string(out) != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
	if stderr != "talk\n" {
		t.Errorf("stderr: got %q, want %q", stderr, "talk\n")
	}
}

func TestCommandThatIgnoresItsInput(t *testing.T) {
	if _, _, err := runShell(t, t.Context(), "exec true", make([]byte, queue.MaxPayload)); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}

func TestCommandThatCannotStartReleases(t *testing.T) {
	_, err := Command([]string{"/no/such/program"}, CommandOptions{})(t.Context(), &Job{})
	if got := verdict(&held{}, nil, err); got.Action != "release" || got.RetryIn == nil || *got.RetryIn < 1 {
		t.Errorf("got %+v, want a release for seconds", got)
	}
}

func TestCommandIsStoppedWithItsContext(t *testing.T) {
	for name, script := range map[string]string{
		"obeys SIGTERM":              "sleep 60",
		"exits 0 on SIGTERM, undone": `trap "exit 0" TERM; sleep 60 & wait`,
		"ignores SIGTERM":            `trap "" TERM; sleep 60 & wait; sleep 60`,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(50*time.Millisecond, func() { cancel(ErrStopping) })
			began := time.Now()
			_, _, err := runShell(t, ctx, script, nil)
			if !errors.Is(err, ErrStopping) {
				t.Errorf("got %v, want the cause of the cancellation", err)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("took %v, want well under 5s", took)
			}
		})
	}
}

func TestCommandLeavesNoProcessBehind(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	began := time.Now()
	out, _, err := runShell(t, t.Context(), "sleep 60 & echo $! > "+pidFile+"; echo done", nil)
	if err != nil || string(out) != "done\n" {
		t.Fatalf("got %q, %v, want done", out, err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v: the child that held the pipe was waited for", took)
	}
	b, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if syscall.Kill(pid, 0) != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d of the group still lives", pid)
		}
	}
}
