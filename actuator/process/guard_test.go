//go:build linux

package process_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headrace/headrace/actuator/process"
)

// family is a worker with children in its group, in a group of their own, and a daemon that left its session and whose
// parent is gone. Each writes its id into the directory.
const family = `
me() { echo $1 > "$DIR/$1"; }
me $$
sleep 600 & me $!
setsid sh -c 'echo $$ > "$DIR/$$"; sleep 600 & echo $! > "$DIR/$!"; wait' &
( setsid sh -c 'echo $$ > "$DIR/$$"; trap "" TERM HUP INT; sleep 600; sleep 600' & )
wait
`

const familySize = 5 // and the sleep inside the daemon

// parent is a process that owns guarded workers until it is killed.
func parent(args []string) {
	a := process.New("emails", process.Options{Argv: []string{"sh", "-c", family}, Guard: guard()})
	if err := a.Scale(context.Background(), 2, nil); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("scaled")
	time.Sleep(10 * time.Minute)
}

func readPIDs(dir string) []int {
	files, _ := os.ReadDir(dir)
	var pids []int
	for _, f := range files {
		b, _ := os.ReadFile(filepath.Join(dir, f.Name()))
		for w := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(w); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// living returns those of pids that run; a zombie does not.
func living(pids []int) []int {
	var alive []int
	for _, pid := range pids {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err == nil && !strings.Contains(string(stat), ") Z ") {
			alive = append(alive, pid)
		}
	}
	return alive
}

func TestKillOfTheParentLeavesNoDescendant(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "role", "parent")
	cmd.Env = append(os.Environ(), "DIR="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "scaled\n" {
		t.Fatalf("parent: got %q, want scaled", line)
	}
	eventually(t, "two families", func() bool { return len(readPIDs(dir)) == 2*familySize })
	if got := len(living(readPIDs(dir))); got != 2*familySize {
		t.Fatalf("got %d processes, want %d", got, 2*familySize)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "no descendant of the killed parent", func() bool { return len(living(readPIDs(dir))) == 0 })
}

// A guard that is killed, by hand or for want of memory, cannot see to its descendants any more: the actuator does,
// before the worker is replaced.
func TestKillOfAGuardLeavesNoDescendant(t *testing.T) {
	dir, told := t.TempDir(), filepath.Join(t.TempDir(), "guard")
	var e exits
	a := open(t, process.Options{
		Argv: shell(`echo $PPID > "$TOLD"` + family), Env: []string{"DIR=" + dir, "TOLD=" + told}, Guard: guard(), OnExit: e.add,
		RestartMin: time.Hour, RestartMax: time.Hour,
	})
	scale(t, a, 1)
	eventually(t, "a family", func() bool { return len(readPIDs(dir)) == familySize })
	b, err := os.ReadFile(told)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its exit", func() bool { return len(e.all()) == 1 })
	if alive := living(readPIDs(dir)); len(alive) != 0 {
		t.Errorf("%d of its processes outlive it", len(alive))
	}
}

func TestGuardKillsWhatTheWorkerLeavesBehind(t *testing.T) {
	dir := t.TempDir()
	var e exits
	script := strings.TrimSuffix(strings.TrimSpace(family), "wait") + `while [ $(ls "$DIR" | wc -l) -lt 5 ]; do sleep 0.01; done; exit 4`
	a := open(t, process.Options{
		Argv: shell(script), Env: []string{"DIR=" + dir}, Guard: guard(), OnExit: e.add,
		RestartMin: time.Hour, RestartMax: time.Hour,
	})
	scale(t, a, 1)
	eventually(t, "its exit", func() bool { return len(e.all()) == 1 })
	if x := e.all()[0]; x.Code != 4 {
		t.Errorf("got %+v, want status 4", x)
	}
	if alive := living(readPIDs(dir)); len(alive) != 0 {
		t.Errorf("%d of its processes outlive it", len(alive))
	}
}

func TestGuardPassesSIGTERMOn(t *testing.T) {
	var e exits
	logs := t.TempDir()
	a := open(t, process.Options{
		Argv:  shell(`trap "echo bye; exit 5" TERM; echo ready; while :; do sleep 0.02; done`),
		Guard: guard(), OnExit: e.add, LogDir: logs,
	})
	scale(t, a, 1)
	ready(t, logs)
	scale(t, a, 0)
	eventually(t, "its exit", func() bool { return len(e.all()) == 1 })
	if x := e.all()[0]; x.Code != 5 || x.LastLine != "bye" {
		t.Errorf("got %+v, want status 5 and its last words", x)
	}
}

func TestGuardDiesAsItsCommand(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGABRT, syscall.SIGUSR1, syscall.SIGTERM} {
		t.Run(s.String(), func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "role", "guard", "sh", "-c", fmt.Sprintf("kill -%d $$", int(s)))
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			_ = cmd.Run()
			ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if !ok || !ws.Signaled() || ws.Signal() != s {
				t.Errorf("got %v, want %v", cmd.ProcessState, s)
			}
		})
	}
}
