package app

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/config"
	"github.com/headrace/headrace/queue"
)

// What a drain did is read from the queues' totals, whatever they were before it.
func TestADrainCountsWhatBecameOfTheJobs(t *testing.T) {
	cfg, problems := config.Parse(filepath.Join(t.TempDir(), "headrace.yaml"), []byte(`
version: 1
pools:
  p:
    objective: { oldest_age: 10s }
    replicas: { max: 4 }
    retry: { attempts: 1 }
    actuator: { command: [cat] }
`), nil)
	if cfg == nil {
		t.Fatal(problems)
	}
	qs, err := openQueues(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer qs.Close()
	q := qs.byPool["p"]
	run := func(verdicts ...queue.Verdict) {
		t.Helper()
		jobs := make([]queue.Job, len(verdicts))
		for i := range jobs {
			jobs[i] = queue.Job{Payload: []byte("1")}
		}
		for _, p := range q.(queue.Publisher).Publish(t.Context(), jobs) {
			if p.Err != nil {
				t.Fatal(p.Err)
			}
		}
		for _, v := range verdicts {
			leases, err := q.Receive(t.Context(), queue.Request{Max: 1, Worker: "w", Wait: time.Second})
			if err != nil || len(leases) != 1 {
				t.Fatalf("got %d leases, want 1: %v", len(leases), err)
			}
			if v == "" {
				continue // it is held on
			}
			for _, err := range q.Settle(t.Context(), []queue.Settlement{{Receipt: leases[0].Receipt(), Verdict: v}}) {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	run(queue.Ack, queue.Nack)
	before := qs.count(t.Context())
	if got, want := qs.count(t.Context()).since(before).String(), "drained: no job was running"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	run(queue.Ack, queue.Ack, queue.Nack, queue.Dead, "", queue.Release)
	got := qs.count(t.Context()).since(before).String()
	if want := "drained: of the jobs that ran, 2 finished, 2 failed, 1 given back, 1 left until the lease runs out"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (Drained{Finished: 2, Unknown: errors.New("disk full")}).String(); !strings.HasSuffix(got, "not known: disk full") {
		t.Errorf("got %q, want the reason", got)
	}
}

func TestASecondServerSaysThatThePortIsTaken(t *testing.T) {
	open := func(listen string) (*App, error) {
		cfg, problems := config.Parse(filepath.Join(t.TempDir(), "headrace.yaml"), []byte("version: 1\nserver: { listen: \""+listen+"\" }\npools: {}\n"), nil)
		if cfg == nil {
			t.Fatal(problems)
		}
		return Open(t.Context(), cfg, Options{})
	}
	first, err := open("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.close()
	addr := strings.TrimPrefix(first.URL, "http://")
	_, err = open(addr)
	want := addr + " is in use: is another `headrace up` running? Stop it, or set server.listen (HEADRACE_LISTEN)"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
