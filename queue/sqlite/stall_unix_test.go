//go:build unix

package sqlite_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A server stopped for several leases ends none of them when it goes on: each gets the time back that it had left. After
// that, with no extension, they end.
func TestW10_StoppedServerEndsNoLease(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+filepath.Join(t.TempDir(), "queue.db"), taskEnv+"=hold")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		_ = cmd.Wait() // killed
	}()
	lines := bufio.NewScanner(out)
	next := func() (at time.Time, held, inFlight, lost int) {
		t.Helper()
		var ms int64
		if !lines.Scan() {
			t.Fatal("the child ended")
		}
		if _, err := fmt.Sscan(lines.Text(), &ms, &held, &inFlight, &lost); err != nil {
			t.Fatalf("child said %q", lines.Text())
		}
		return time.UnixMilli(ms), held, inFlight, lost
	}
	start, held, _, _ := next()
	if held != stallHeld {
		t.Fatalf("the child holds %d jobs", held)
	}
	const stopped = 2 * stallLease
	signal(t, cmd, syscall.SIGSTOP)
	time.Sleep(stopped)
	resumed := time.Now()
	signal(t, cmd, syscall.SIGCONT)
	for {
		at, _, inFlight, lost := next()
		left := resumed.Add(stallLease).Sub(at) // all of it, but for the little before the stop
		switch {
		case at.Before(resumed): // printed before the stop
		case left > stallLease/2 && (inFlight != stallHeld || lost != 0):
			t.Fatalf("%v after the stop %d leases are in force and %d lost", at.Sub(resumed), inFlight, lost)
		case inFlight == 0:
			if lost != stallHeld {
				t.Fatalf("%d leases are lost, want %d", lost, stallHeld)
			}
			t.Logf("leases of %v ended %v after the start, %v of it stopped", stallLease, at.Sub(start), stopped)
			return
		case left < -5*time.Second:
			t.Fatal("the leases never ended")
		}
	}
}

func signal(t *testing.T, cmd *exec.Cmd, s syscall.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
