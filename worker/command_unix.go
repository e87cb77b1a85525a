//go:build unix

package worker

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// runGroup runs cmd in a process group of its own and leaves none of the group behind. When ctx ends the group gets
// SIGTERM, and killAfter later SIGKILL; killed reports that this happened before the program ended.
func runGroup(ctx context.Context, cmd *exec.Cmd, killAfter time.Duration) (killed bool, err error) {
	// The kernel sends the death signal when the thread that forked ends, so the thread must live as long as cmd.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = groupAttr()
	if err := cmd.Start(); err != nil {
		return false, err
	}
	g := &group{pid: cmd.Process.Pid}
	stop := context.AfterFunc(ctx, func() { g.end(killAfter) })
	err = waitGroup(cmd, func() {
		stop()
		killed = g.close()
	})
	return killed, err
}

// group signals a process group, but never after its leader's id may belong to somebody else.
type group struct {
	pid int

	mu     sync.Mutex
	closed bool
	termed bool
	timer  *time.Timer
}

// end begins to end the group.
func (g *group) end(killAfter time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.termed = true
	g.signal(syscall.SIGTERM)
	g.timer = time.AfterFunc(killAfter, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if !g.closed {
			g.signal(syscall.SIGKILL)
		}
	})
}

// close kills what is left of the group and reports whether end had begun.
func (g *group) close() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if g.timer != nil {
		g.timer.Stop()
	}
	g.signal(syscall.SIGKILL)
	return g.termed
}

func (g *group) signal(s syscall.Signal) { _ = syscall.Kill(-g.pid, s) } // an empty group is fine

// killedBy returns the name of the signal that ended a process.
func killedBy(s *os.ProcessState) (name string, ok bool) {
	ws, isUnix := s.Sys().(syscall.WaitStatus)
	if !isUnix || !ws.Signaled() {
		return "", false
	}
	return ws.Signal().String(), true
}
