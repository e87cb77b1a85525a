//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAnInterruptedDemoLosesNothing: a demo that is interrupted works off what was enqueued, judges only what can be judged
// of half a story, and leaves nothing behind.
func TestAnInterruptedDemoLosesNothing(t *testing.T) {
	t.Parallel()
	bin, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s := &system{t: t, dir: t.TempDir()}
			cmd := exec.Command(bin, "demo", "--duration", "1m", "-o", "json")
			cmd.Env = append(os.Environ(), "SYSTEM="+s.dir, "TMPDIR="+s.dir)
			var out bytes.Buffer
			cmd.Stdout = &out
			talk, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill()
			lines := bufio.NewScanner(talk)
			for lines.Scan() && !strings.Contains(lines.Text(), "waiting, oldest") { // jobs arrive
			}
			go io.Copy(io.Discard, talk)
			time.Sleep(time.Second)
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			cmd.Wait()
			var sum struct {
				Interrupted bool
				Jobs        struct{ Enqueued, Completed, Dead, Lost int }
			}
			if err := json.Unmarshal(out.Bytes(), &sum); err != nil {
				t.Fatalf("%v in %q", err, out.String())
			}
			if j := sum.Jobs; cmd.ProcessState.ExitCode() != exitInterrupted || !sum.Interrupted || j.Enqueued == 0 || j.Completed+j.Dead != j.Enqueued || j.Lost != 0 {
				t.Errorf("exit code %d, %+v; want 130, and every job of those enqueued done", cmd.ProcessState.ExitCode(), sum)
			}
			if left := s.processes(); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if files, _ := filepath.Glob(filepath.Join(s.dir, "*")); len(files) > 0 {
				t.Errorf("left behind: %v", files)
			}
		})
	}
}
