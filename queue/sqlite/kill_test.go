package sqlite_test

import (
	"bufio"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/sqlite"
)

// What a process was told is durable survives its death at any moment: no acknowledged job, result or dead letter is
// lost, no token is used twice, and the numbers still add up.
func TestKilledProcessLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "queue.db")
	known := map[string]string{} // job id → the last that was acknowledged about it
	var highest int64
	rounds := 20
	if sqlite.Raced {
		rounds = 6
	}
	for round := range rounds {
		fresh := map[string]string{}
		killRound(t, path, fresh, &highest)
		for id, what := range fresh {
			if known[id] == "" || what != "published" {
				known[id] = what
			}
		}
		db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		q, err := db.Queue(t.Context(), "jobs", queue.Policy{Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if round == rounds-1 {
			fresh = known
		}
		checkKnown(t, db, fresh)
		if drift, err := db.Drift(t.Context()); err != nil || len(drift) > 0 {
			t.Errorf("round %d: drift %v, %v", round, drift, err)
		}
		publishN(t, q, 1)
		ls, err := q.Receive(t.Context(), queue.Request{Worker: "w", Max: 1})
		if err != nil || len(ls) != 1 || ls[0].Token <= highest {
			t.Errorf("round %d: received %+v, %v; token %d was given before", round, ls, err, highest)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			return
		}
	}
	ended := 0
	for _, what := range known {
		if what != "published" {
			ended++
		}
	}
	t.Logf("%d rounds, %d jobs acknowledged, %d of them ended", rounds, len(known), ended)
	if ended < rounds {
		t.Errorf("only %d jobs were ended in %d rounds: the test proves little", ended, rounds)
	}
}

func killRound(t *testing.T, path string, known map[string]string, highest *int64) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("child said %q", lines.Text())
	}
	time.AfterFunc(20*time.Millisecond+rand.N(150*time.Millisecond), func() { cmd.Process.Kill() })
	for lines.Scan() {
		what, id, ok := strings.Cut(lines.Text(), " ")
		switch {
		case !ok:
		case what == "token":
			var token int64
			fmt.Sscan(id, &token)
			*highest = max(*highest, token)
		case what == "nack", what == "release":
		default:
			if old := known[id]; old == "" || what != "published" {
				known[id] = what
			}
		}
	}
	_ = cmd.Wait() // killed
}

func checkKnown(t *testing.T, db *sqlite.DB, known map[string]string) {
	for id, what := range known {
		r, err := db.Find(t.Context(), id)
		if err != nil {
			t.Errorf("job %s, %s and acknowledged: %v", id, what, err)
			continue
		}
		switch what {
		case "ack":
			if r.State != queue.Succeeded || string(r.Result) != "result of "+id {
				t.Errorf("acknowledged result is lost: %+v", r)
			}
		case "dead":
			if r.State != queue.DeadState {
				t.Errorf("acknowledged dead letter is lost: %+v", r)
			}
		}
	}
}

// The file and its log, copied at any moment while others write, are a queue in which everything acknowledged before the
// copy is there: what a loss of power leaves.
func TestCopyTakenMidRunHasEverythingAcknowledged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "queue.db")
	_, q := openQueue(t, path, queue.Policy{})
	var mu sync.Mutex
	known := map[string]string{}
	stop := make(chan struct{})
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				p := q.Publish(t.Context(), []queue.Job{{Payload: []byte("x")}})[0]
				if p.Err != nil {
					t.Error(p.Err)
					return
				}
				mu.Lock()
				known[p.ID] = "published"
				mu.Unlock()
				ls, err := q.Receive(t.Context(), queue.Request{Worker: fmt.Sprint("w", w), Max: 1})
				if err != nil || len(ls) == 0 {
					continue
				}
				s := settle(ls, queue.Ack)
				s[0].Result = []byte("result of " + ls[0].JobID)
				if err := q.Settle(t.Context(), s)[0]; err == nil {
					mu.Lock()
					known[ls[0].JobID] = "ack"
					mu.Unlock()
				}
			}
		})
	}
	for i := range 5 {
		time.Sleep(50 * time.Millisecond)
		mu.Lock()
		before := make(map[string]string, len(known))
		maps.Copy(before, known)
		mu.Unlock()
		snapshot := copyFile(t, path, filepath.Join(dir, fmt.Sprintf("copy%d.db", i)))
		db, _ := openQueue(t, snapshot, queue.Policy{})
		checkKnown(t, db, before)
		if drift, err := db.Drift(t.Context()); err != nil || len(drift) > 0 {
			t.Errorf("copy %d: drift %v, %v", i, drift, err)
		}
	}
	close(stop)
	all.Wait()
	if len(known) == 0 {
		t.Error("nothing happened")
	}
}
