package process

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes descendants whose parent dies children of this process, wherever they moved.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// killDescendants kills all descendants until none is left. Each round reaches those that the one before orphaned.
func killDescendants() {
	self := os.Getpid()
	for range 1000 {
		for _, pid := range descendants(self) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if err == syscall.ECHILD {
				return
			}
			if err == nil && pid == 0 {
				break // some are dying still
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// descendants lists the processes below root, from one pass over /proc.
func descendants(root int) []int {
	children := map[int][]int{}
	eachProcess(func(pid int) {
		if parent, ok := parentOf(pid); ok {
			children[parent] = append(children[parent], pid)
		}
	})
	var all []int
	for next := children[root]; len(next) > 0; {
		pid := next[0]
		next = append(next[1:], children[pid]...)
		all = append(all, pid)
	}
	return all
}

// parentOf reads the fourth field of /proc/PID/stat; the second, the name in brackets, may hold anything.
func parentOf(pid int) (int, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return parent, err == nil
}

// dieBy ends this process by s, as the command ended. The runtime handles some signals itself, so the default action
// is put back in the kernel.
func dieBy(s syscall.Signal) {
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) // the command left its own core
	var deflt [64]byte                                   // a zero sigaction is SIG_DFL
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&deflt)), 0, 8, 0, 0)
	_ = syscall.Kill(os.Getpid(), s)
	time.Sleep(100 * time.Millisecond) // the signal may go to another thread
}
