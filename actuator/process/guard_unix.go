//go:build unix

package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

func guard(args []string) int {
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "guard: no command given")
		return 2
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		fmt.Fprintf(os.Stderr, "guard: %v\n", err)
		return 127
	}
	// The command is killed when the thread that forked it ends; this one ends with the process.
	runtime.LockOSThread()
	adoptOrphans()

	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)

	null, err := os.Open(os.DevNull)
	if err != nil {
		fmt.Fprintf(os.Stderr, "guard: %v\n", err)
		return 126
	}
	pid, err := syscall.ForkExec(path, args, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{null.Fd(), 1, 2}, Sys: groupAttr(),
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "guard: start %s: %v\n", path, err)
		return 126
	}

	orphaned := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(orphaned)
	}()
	ended := make(chan syscall.WaitStatus)
	go func() { ended <- reap(pid) }()
	for {
		select {
		case s := <-signals:
			if sig, ok := s.(syscall.Signal); ok {
				_ = syscall.Kill(pid, sig)
			}
		case <-orphaned:
			orphaned = nil
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		case status := <-ended:
			_ = syscall.Kill(-pid, syscall.SIGKILL)
			killDescendants()
			if status.Signaled() {
				dieBy(status.Signal())
				return 128 + int(status.Signal())
			}
			return status.ExitStatus()
		}
	}
}

// reap waits for the command, and for orphans that end before it.
func reap(pid int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case got == pid && (status.Exited() || status.Signaled()):
			return status
		case err == syscall.ECHILD:
			return 0 // cannot be: the command was never reaped
		}
	}
}
