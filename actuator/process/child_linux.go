package process

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

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

// killMarked kills the processes that were started with mark, a "NAME=value", in their environment, until a pass over
// /proc finds none.
func killMarked(mark string) {
	for range 1000 {
		found := false
		eachProcess(func(pid int) {
			env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ") // empty once it is dying
			if err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+mark+"\x00")) {
				found = true
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		})
		if !found {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// eachProcess calls do with the id of every process of the machine.
func eachProcess(do func(pid int)) {
	dir, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			do(pid)
		}
	}
}
