//go:build unix && !linux

package process

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

func adoptOrphans() {}

// killDescendants has nothing to do: the group was killed, and others are not known.
func killDescendants() {}

// dieBy ends this process by s, as the command ended.
func dieBy(s syscall.Signal) {
	signal.Reset(s)
	_ = syscall.Kill(os.Getpid(), s)
	time.Sleep(100 * time.Millisecond)
}
