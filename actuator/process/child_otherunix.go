//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

func groupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func guardAttr() *syscall.SysProcAttr { return groupAttr() }

// waitGroup waits for cmd, then calls last. There is no portable way to learn that a child has ended without reaping
// it, so for an instant the group's id may be free.
func waitGroup(cmd *exec.Cmd, last func()) error {
	err := cmd.Wait()
	last()
	return err
}

// killMarked does nothing: there is no portable way to read the environment of other processes.
func killMarked(string) {}
