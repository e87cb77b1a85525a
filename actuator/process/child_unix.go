//go:build unix

package process

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

const supported = true

// child is a worker process in a process group of its own, or the guard that runs it.
type child struct {
	cmd   *exec.Cmd
	mark  string   // in the environment of the worker and, unless they clear it, of all that it starts; no other has it
	life  *os.File // guarded: while it is open the guard lets the worker live
	ended chan struct{}
	exit  Exit // valid once ended is closed

	mu   sync.Mutex
	done bool // it must not be signalled any more: its id may soon be another's
}

// start starts a worker. The first of env is no other worker's.
func start(o Options, env []string, out io.Writer) (*child, error) {
	argv := slices.Concat(o.Guard, o.Argv)
	if len(o.Argv) == 0 {
		return nil, errors.New("no program given")
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = o.Dir
	cmd.Env = slices.Concat(os.Environ(), o.Env, env)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second // a process that left the group may hold the output open
	cmd.SysProcAttr = groupAttr()
	c := &child{cmd: cmd, mark: env[0], ended: make(chan struct{})}
	var guardEnd *os.File
	if len(o.Guard) > 0 {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		guardEnd, c.life, cmd.Stdin = r, w, r
		cmd.SysProcAttr = guardAttr()
	}
	started := make(chan error)
	go c.run(started) // ends with the process; c.ended tells
	err := <-started
	if guardEnd != nil {
		guardEnd.Close()
	}
	if err != nil && c.life != nil {
		c.life.Close()
	}
	return c, err
}

// run starts the process and waits for it, on a thread of its own: the kernel sends the death signal when the thread
// that forked ends.
func (c *child) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	_ = waitGroup(c.cmd, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.done = true
		_ = syscall.Kill(-c.pid(), syscall.SIGKILL) // what it left behind; the guard has seen to its own
		if c.life != nil {
			c.life.Close()
		}
	})
	state := c.cmd.ProcessState
	c.exit.Code = state.ExitCode()
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		c.exit.Signal = ws.Signal().String()
		if c.life != nil {
			killMarked(c.mark) // it may be the guard itself that was killed
		}
	}
	close(c.ended)
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// terminate asks the worker to finish. Only its own process is asked: it knows what to do about those it started.
func (c *child) terminate() { c.signal(c.pid(), syscall.SIGTERM) }

// kill ends the worker and all that it started.
func (c *child) kill() {
	c.mu.Lock()
	guarded := c.life != nil && !c.done
	if guarded {
		c.life.Close()
	}
	c.mu.Unlock()
	if guarded {
		select { // the guard kills the whole tree
		case <-c.ended:
			return
		case <-time.After(5 * time.Second):
		}
	}
	c.signal(-c.pid(), syscall.SIGKILL)
}

func (c *child) signal(to int, s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.done {
		_ = syscall.Kill(to, s)
	}
}
