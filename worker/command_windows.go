package worker

import (
	"context"
	"os"
	"os/exec"
	"time"
)

// runGroup runs cmd and kills it when ctx ends. Windows has no process groups to signal: programs that the program
// started are not reached, and there is no gentle way to ask it to stop.
func runGroup(ctx context.Context, cmd *exec.Cmd, _ time.Duration) (killed bool, err error) {
	if err := cmd.Start(); err != nil {
		return false, err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	err = cmd.Wait()
	return !stop(), err
}

// killedBy: a process on Windows always ends with a code.
func killedBy(*os.ProcessState) (string, bool) { return "", false }
