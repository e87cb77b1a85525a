package process

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

func groupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// guardAttr: the guard itself needs no death signal, since the pipe tells it; it must live on to kill the others.
func guardAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// waitGroup waits for cmd and calls last when it has ended but is not reaped yet: until then its id, which is also
// that of its group, belongs to nobody else.
func waitGroup(cmd *exec.Cmd, last func()) error {
	for unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	last()
	return cmd.Wait()
}
