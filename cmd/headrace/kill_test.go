//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// These tests kill real processes of the real binary.

// buildBinary builds headrace once for all tests of the package.
var buildBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "headrace-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "headrace")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// system is a running `headrace up` in a directory of its own, which survives its restarts.
type system struct {
	t   *testing.T
	dir string
	url string // of the API, another one after each start
	cmd *exec.Cmd
	// background starts it as "headrace up &" in a script does: with SIGINT ignored.
	background bool
	talk       *os.File // what it says is read from here
	log        *os.File // and kept here

	logged sync.WaitGroup
}

// newSystem writes a configuration with one pool, "p", and starts it. Every process that belongs to it has the directory's
// name in its environment.
func newSystem(t *testing.T, pool string) *system {
	t.Helper()
	s := &system{t: t, dir: t.TempDir()}
	text := "version: 1\nserver: { listen: 127.0.0.1:0, data_dir: data }\npools:\n  p:\n" + indent(pool)
	if err := os.WriteFile(filepath.Join(s.dir, "headrace.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.log, err = os.Create(filepath.Join(s.dir, "up.log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.kill()
		s.logged.Wait()
		if t.Failed() {
			out, _ := os.ReadFile(s.log.Name())
			t.Logf("headrace up said:\n%s", out)
		}
		s.log.Close()
	})
	s.start()
	return s
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"
}

// start runs `headrace up` and waits until it decides.
func (s *system) start() {
	s.t.Helper()
	bin, err := buildBinary()
	if err != nil {
		s.t.Fatal(err)
	}
	args := []string{bin, "up", "--config", filepath.Join(s.dir, "headrace.yaml")}
	if s.background {
		args = append([]string{"sh", "-c", `trap "" INT; exec "$@"`, "sh"}, args...)
	}
	s.cmd = exec.Command(args[0], args[1:]...)
	s.cmd.Env = append(os.Environ(), "SYSTEM="+s.dir)
	r, w, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	s.talk = r
	s.cmd.Stdout, s.cmd.Stderr = w, w
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a shell does
	err = s.cmd.Start()
	w.Close()
	if err != nil {
		s.t.Fatal(err)
	}
	urls := make(chan string, 1)
	s.logged.Go(func() { s.listen(r, urls) })
	select {
	case s.url = <-urls:
	case <-time.After(20 * time.Second):
		s.t.Fatal("headrace up did not say where it is")
	}
	s.until(20*time.Second, "the first decision", func() bool {
		resp, err := http.Get(s.url + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusNoContent
	})
}

// listen keeps what `headrace up` says until it says no more, and hands over the address that it names.
func (s *system) listen(talk *os.File, urls chan<- string) {
	defer talk.Close()
	for lines := bufio.NewScanner(talk); lines.Scan(); {
		if url, ok := strings.CutPrefix(lines.Text(), "headrace is up: "); ok {
			urls <- url
		}
		fmt.Fprintln(s.log, lines.Text())
	}
}

// kill ends `headrace up` as a power cut would.
func (s *system) kill() {
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Kill()
	s.cmd.Wait()
	s.cmd = nil
}

// terminate asks `headrace up` to end and returns how it did.
func (s *system) terminate(within time.Duration) error {
	s.t.Helper()
	s.cmd.Process.Signal(syscall.SIGTERM)
	done := make(chan error, 1)
	cmd := s.cmd
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		s.cmd = nil
		return err
	case <-time.After(within):
		s.t.Fatalf("headrace up is still there %v after SIGTERM", within)
		return nil
	}
}

// processes returns the processes that belong to the system, but for `headrace up` itself.
func (s *system) processes() []string {
	var out []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(d))
		if s.cmd != nil && pid == s.cmd.Process.Pid {
			continue
		}
		env, err := os.ReadFile(filepath.Join(d, "environ"))
		if err != nil || !bytes.Contains(env, []byte("SYSTEM="+s.dir+"\x00")) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(d, "cmdline"))
		out = append(out, fmt.Sprintf("%d %s", pid, bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
	}
	return out
}

// workerProcesses returns the processes that are the worker: not its guard, and not the programs that it runs.
func (s *system) workerProcesses(worker string) (pids []int) {
	for _, p := range s.processes() {
		pid, cmdline, _ := strings.Cut(p, " ")
		env, _ := os.ReadFile("/proc/" + pid + "/environ")
		if bytes.Contains(env, []byte("HEADRACE_WORKER="+worker+"\x00")) && strings.Contains(cmdline, " work --pool") && !strings.Contains(cmdline, " guard ") {
			n, _ := strconv.Atoi(pid)
			pids = append(pids, n)
		}
	}
	return pids
}

func (s *system) until(within time.Duration, what string, cond func() bool) {
	s.t.Helper()
	for end := time.Now().Add(within); !cond(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("waited %v in vain for %s", within, what)
		}
	}
}

func (s *system) call(method, path, body string, out any) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		s.t.Fatalf("%s %s: %s: %s %v", method, path, resp.Status, raw, err)
	}
	if err := json.Unmarshal(raw, out); err != nil {
		s.t.Fatal(err)
	}
}

// enqueue adds n jobs, each with the payload, and returns their ids.
func (s *system) enqueue(n int, payload string) []string {
	s.t.Helper()
	job := fmt.Sprintf(`{"pool":"p","payload":%s}`, payload)
	var out struct {
		Items []struct{ ID string } `json:"items"`
	}
	s.call("POST", "/api/v1/jobs", "["+strings.TrimSuffix(strings.Repeat(job+",", n), ",")+"]", &out)
	ids := make([]string, len(out.Items))
	for i, it := range out.Items {
		ids[i] = it.ID
	}
	return ids
}

// seenJob is what the tests read of a job.
type seenJob struct {
	State     string          `json:"state"`
	Attempts  int             `json:"attempts"`
	Crashes   int             `json:"crashes"`
	Result    json.RawMessage `json:"result"`
	Error     string          `json:"error"`
	Worker    string          `json:"worker"`
	StartedAt time.Time       `json:"started_at"`
}

func (s *system) job(id string) (j seenJob) {
	s.t.Helper()
	s.call("GET", "/api/v1/jobs/"+id, "", &j)
	return j
}

func (s *system) count(ids []string, state string) int {
	n := 0
	for _, id := range ids {
		if s.job(id).State == state {
			n++
		}
	}
	return n
}

func (s *system) decisions() int {
	var out struct {
		Items []struct{} `json:"items"`
	}
	s.call("GET", "/api/v1/decisions?page_size=1000", "", &out)
	return len(out.Items)
}

// TestS9_KillOfTheServerWithTwentyBusyWorkers: kill -9 of `headrace up` while 20 workers work. The workers, and what they
// started, die with it. After a restart the held jobs run again within one lease, nothing acknowledged is lost, no
// job counts a crash for it, and the decisions are still there.
func TestS9_KillOfTheServerWithTwentyBusyWorkers(t *testing.T) {
	const lease = 3 * time.Second
	s := newSystem(t, `
objective: { oldest_age: 5s }
replicas: { min: 20, max: 20 }
lease: { for: 3s, heartbeat: 1s, max: 1m }
actuator: { command: [sh, -c, "read line; sleep 2 & wait; echo \"$line\""] }`)
	done := s.enqueue(5, `"before"`)
	s.until(20*time.Second, "five results before the kill", func() bool { return s.count(done, "succeeded") == 5 })
	held := s.enqueue(20, `"held"`)
	waiting := s.enqueue(10, `"waiting"`)
	s.until(20*time.Second, "20 busy workers", func() bool { return s.count(append(held, waiting...), "leased") == 20 })
	before := s.decisions()

	s.kill()
	s.until(3*time.Second, "the workers to be gone", func() bool { return len(s.processes()) == 0 })

	restarted := time.Now()
	s.start()
	if after := s.decisions(); after < before {
		t.Errorf("%d decisions after the restart, want at least the %d before", after, before)
	}
	all := append(append(held, waiting...), done...)
	s.until(lease+30*time.Second, "every job to succeed", func() bool { return s.count(all, "succeeded") == len(all) })
	for _, id := range held {
		j := s.job(id)
		if j.Crashes != 0 || j.Attempts != 1 {
			t.Errorf("held job: %d attempts, %d crashes; want 1 and 0: the server died, not the job's worker", j.Attempts, j.Crashes)
		}
		// The leases begin anew when the server is back; a worker needs a moment to start.
		if late := j.StartedAt.Sub(restarted); late > lease+3*time.Second {
			t.Errorf("held job ran again %v after the restart, want within a lease (%v)", late, lease)
		}
		if string(j.Result) != `"held"` {
			t.Errorf("held job's result is %s, want \"held\"", j.Result)
		}
	}
	if err := s.terminate(15 * time.Second); err != nil {
		t.Errorf("end after SIGTERM: %v", err)
	}
	if left := s.processes(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestKillOfAWorkerMidJob: kill -9 of a worker process. Its job runs again at once on another, with the crash counted.
func TestKillOfAWorkerMidJob(t *testing.T) {
	t.Parallel()
	s := newSystem(t, `
objective: { oldest_age: 5s }
replicas: { min: 2, max: 2 }
lease: { for: 30s, heartbeat: 5s, max: 5m }
actuator: { command: [sh, -c, "read line; sleep 2; echo done"] }`)
	id := s.enqueue(1, `"x"`)[0]
	s.until(20*time.Second, "the job to run", func() bool { return s.job(id).State == "leased" })
	holder := s.job(id).Worker
	var pids []int
	// For a moment a program that the worker starts looks like the worker.
	s.until(5*time.Second, "one process of worker "+holder, func() bool { pids = s.workerProcesses(holder); return len(pids) == 1 })
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	s.until(15*time.Second, "the job to succeed", func() bool { return s.job(id).State == "succeeded" })
	if took := time.Since(at); took > 12*time.Second {
		t.Errorf("it took %v: the job waited for its lease of 30s to run out", took)
	}
	if j := s.job(id); j.Attempts != 2 || j.Crashes != 1 {
		t.Errorf("%d attempts, %d crashes; want 2 and 1", j.Attempts, j.Crashes)
	}
}

// TestATerminalsEndsFinishWhatRuns: Ctrl-C, which the whole foreground group of a terminal gets; a terminal that is closed;
// and a log that nobody reads any more ("headrace up | tee log", interrupted). The running job finishes each time.
func TestATerminalsEndsFinishWhatRuns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		deaf   bool // what read the output is gone
	}{
		{name: "Ctrl-C", signal: syscall.SIGINT},
		{name: "closed terminal", signal: syscall.SIGHUP},
		{name: "nobody reads the log", signal: syscall.SIGTERM, deaf: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t, `
objective: { oldest_age: 5s }
replicas: { min: 1, max: 1 }
lease: { for: 1m, heartbeat: 10s, max: 10m }
actuator: { command: [sh, -c, "read t; echo working >&2; sleep $t; echo done"], grace: 6s }`)
			if c.deaf {
				s.talk.Close()
			}
			id := s.enqueue(1, `1`)[0]
			s.until(20*time.Second, "the job to run", func() bool { return s.job(id).State == "leased" })
			if err := syscall.Kill(-s.cmd.Process.Pid, c.signal); err != nil {
				t.Fatal(err)
			}
			if err := s.cmd.Wait(); err != nil {
				t.Errorf("headrace up: %v, want a clean end", err)
			}
			s.cmd = nil
			if left := s.processes(); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			s.start()
			if j := s.job(id); j.State != "succeeded" || j.Attempts != 1 {
				t.Errorf("the job is %s after %d attempts, want succeeded in one", j.State, j.Attempts)
			}
		})
	}
}

// TestASecondInterruptEndsAtOnce: also where the shell had interrupts ignored. No worker is left, and nothing is lost.
func TestASecondInterruptEndsAtOnce(t *testing.T) {
	t.Parallel()
	for _, background := range []bool{false, true} {
		t.Run(fmt.Sprintf("background %v", background), func(t *testing.T) {
			t.Parallel()
			s := newSystem(t, `
objective: { oldest_age: 5s }
replicas: { min: 1, max: 1 }
lease: { for: 2s, heartbeat: 500ms, max: 10m }
actuator: { command: [sh, -c, "read t; sleep $t"], grace: 50s }`)
			s.kill()
			s.background = background
			s.start()
			id := s.enqueue(1, `60`)[0]
			s.until(20*time.Second, "the job to run", func() bool { return s.job(id).State == "leased" })
			cmd := s.cmd
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			interrupt := func() {
				if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
			}
			interrupt()
			s.until(10*time.Second, "the drain", func() bool {
				said, _ := os.ReadFile(s.log.Name())
				return bytes.Contains(said, []byte("draining; interrupt again"))
			})
			select {
			case err := <-ended:
				t.Fatalf("the first interrupt ended it: %v", err)
			case <-time.After(300 * time.Millisecond):
			}
			interrupt()
			select {
			case err := <-ended:
				if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
					t.Errorf("exit code %d, want %d: %v", code, exitInterrupted, err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("still there 10 s after the second interrupt")
			}
			s.cmd = nil
			s.until(10*time.Second, "the workers' end", func() bool { return len(s.processes()) == 0 })
			s.start()
			s.until(20*time.Second, "the job to run again", func() bool { return s.job(id).State == "leased" })
			s.kill()
		})
	}
}

// TestANoticeFromADyingWorker: a worker that exits with 2 is quoted with its own last words.
func TestANoticeFromADyingWorker(t *testing.T) {
	t.Parallel()
	s := newSystem(t, `
objective: { oldest_age: 5s }
replicas: { min: 1, max: 1 }
actuator: { worker: [sh, -c, "echo no such table >&2; exit 2"] }`)
	s.until(10*time.Second, "the worker's last words in the log", func() bool {
		out, err := os.ReadFile(s.log.Name())
		return err == nil && strings.Contains(string(out), "exit status 2 (no such table)")
	})
	s.until(10*time.Second, "the pool to say what is wrong with its workers", func() bool {
		var p struct{ Trouble string }
		s.call("GET", "/api/v1/pools/p", "", &p)
		return strings.HasPrefix(p.Trouble, "1 of 1 workers keep dying: the last: exit status 2 (no such table)")
	})
	_, _, stderr := runWith(t.Context(), map[string]string{"HEADRACE_SERVER": s.url}, strings.NewReader(""), "pools")
	if !strings.Contains(stderr, "\np: 1 of 1 workers keep dying: ") && !strings.HasPrefix(stderr, "p: 1 of 1 workers keep dying: ") {
		t.Errorf("headrace pools says below the table:\n%s\nwant what is wrong with p's workers", stderr)
	}
}

// TestAPoolWithoutGraceWorks: no time to finish is a choice; its jobs are released when it is called upon.
func TestAPoolWithoutGraceWorks(t *testing.T) {
	t.Parallel()
	s := newSystem(t, `
objective: { oldest_age: 5s }
replicas: { min: 1, max: 1 }
actuator: { command: [sh, -c, "read t; sleep $t; echo done"], grace: 0s }`)
	short := s.enqueue(1, `0`)[0]
	s.until(10*time.Second, "a job to succeed", func() bool { return s.job(short).State == "succeeded" })
	long := s.enqueue(1, `20`)[0]
	s.until(10*time.Second, "a job to run", func() bool { return s.job(long).State == "leased" })
	if err := s.terminate(5 * time.Second); err != nil {
		t.Errorf("end after SIGTERM: %v", err)
	}
	s.start()
	s.until(10*time.Second, "the job to run again, before its lease of a minute is over", func() bool { return s.job(long).State == "leased" })
	if j := s.job(long); j.Attempts != 1 || j.Crashes != 0 {
		t.Errorf("%d attempts, %d crashes; want 1 and 0", j.Attempts, j.Crashes)
	}
}

// TestSIGTERMFinishesWhatFits: jobs that end within the grace finish; a longer one is released, keeps its attempt, and
// runs again as soon as there is a worker: nothing waits for a lease.
func TestSIGTERMFinishesWhatFits(t *testing.T) {
	t.Parallel()
	s := newSystem(t, `
objective: { oldest_age: 5s }
replicas: { min: 4, max: 4 }
lease: { for: 1m, heartbeat: 10s, max: 10m }
actuator: { command: [sh, -c, "read t; sleep $t; echo done"], grace: 6s }`)
	short := s.enqueue(3, `2`)
	long := s.enqueue(1, `30`)[0]
	all := append(short, long)
	s.until(20*time.Second, "four running jobs", func() bool { return s.count(all, "leased") == 4 })
	if err := s.terminate(15 * time.Second); err != nil {
		t.Errorf("end after SIGTERM: %v", err)
	}
	if left := s.processes(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	s.logged.Wait()
	said, err := os.ReadFile(s.log.Name())
	if want := "\ndrained: of the jobs that ran, 3 finished, 1 given back\n"; err != nil || strings.Count(string(said), want) != 1 {
		t.Errorf("it does not end with %q: %v", want, err)
	}
	s.start()
	at := time.Now()
	if n := s.count(short, "succeeded"); n != 3 {
		t.Errorf("%d of 3 short jobs finished within the grace", n)
	}
	s.until(15*time.Second, "the long job to run again", func() bool { return s.job(long).State == "leased" })
	if took := time.Since(at); took > 10*time.Second {
		t.Errorf("the long job ran again after %v: it waited for its lease", took)
	}
	for _, id := range all {
		if j := s.job(id); j.Attempts != 1 || j.Crashes != 0 {
			t.Errorf("job %s: %d attempts, %d crashes; want 1 and 0", j.State, j.Attempts, j.Crashes)
		}
	}
	s.kill()
}
