package sqlite_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/sqlite"
)

// The test binary is its own child: with childEnv set it works on that file until it is killed, as taskEnv says.
const (
	childEnv = "HEADRACE_TEST_QUEUE_FILE"
	taskEnv  = "HEADRACE_TEST_QUEUE_TASK"
)

// childTasks are what a child can do. The first is what it does when it is not told.
var childTasks = map[string]func(path string) error{"": childWork, "hold": childHold}

func child() func() int {
	path := os.Getenv(childEnv)
	if path == "" {
		return nil
	}
	return func() int {
		fmt.Fprintln(os.Stderr, "child:", childTasks[os.Getenv(taskEnv)](path))
		return 1
	}
}

// childWork publishes, receives and settles from several goroutines, and prints what was acknowledged.
func childWork(path string) error {
	ctx := context.Background()
	db, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	q, err := db.Queue(ctx, "jobs", queue.Policy{Lease: time.Minute, BackoffMin: time.Millisecond, BackoffMax: time.Millisecond, Attempts: 1000})
	if err != nil {
		return err
	}
	var out sync.Mutex
	say := func(lines []string) {
		out.Lock()
		defer out.Unlock()
		os.Stdout.WriteString(strings.Join(lines, "\n") + "\n")
	}
	say([]string{"ready"})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for {
				jobs := make([]queue.Job, 1+rand.IntN(5))
				for i := range jobs {
					jobs[i].Payload = []byte("payload")
				}
				var lines []string
				for _, p := range q.Publish(ctx, jobs) {
					if p.Err == nil {
						lines = append(lines, "published "+p.ID)
					}
				}
				say(lines)
			}
		})
	}
	for w := range 3 {
		all.Go(func() {
			for {
				ls, err := q.Receive(ctx, queue.Request{Worker: fmt.Sprint("w", w), Max: 1 + rand.IntN(10), Wait: time.Second})
				if err != nil || len(ls) == 0 {
					continue
				}
				verdict := []queue.Verdict{queue.Ack, queue.Ack, queue.Ack, queue.Nack, queue.Dead, queue.Release}[rand.IntN(6)]
				ss := settle(ls, verdict)
				var lines []string
				for i := range ss {
					ss[i].Result = []byte("result of " + ss[i].JobID)
					lines = append(lines, fmt.Sprint("token ", ss[i].Token))
				}
				say(lines)
				lines = nil
				for i, err := range q.Settle(ctx, ss) {
					if err == nil {
						lines = append(lines, string(verdict)+" "+ss[i].JobID)
					}
				}
				say(lines)
			}
		})
	}
	all.Wait()
	return nil
}

const (
	stallLease = 2 * time.Second
	stallHeld  = 20
)

// childHold takes jobs and prints, again and again, how many of them are in flight and how many leases were lost. It extends
// nothing.
func childHold(path string) error {
	ctx := context.Background()
	db, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	q, err := db.Queue(ctx, "jobs", queue.Policy{Lease: stallLease})
	if err != nil {
		return err
	}
	q.Publish(ctx, make([]queue.Job, stallHeld))
	ls, err := q.Receive(ctx, queue.Request{Worker: "w", Max: stallHeld})
	if err != nil {
		return err
	}
	for {
		s, err := q.Stats(ctx)
		if err != nil {
			return err
		}
		fmt.Println(time.Now().UnixMilli(), len(ls), int(s.InFlight.Value), s.Totals["lost"])
		time.Sleep(20 * time.Millisecond)
	}
}
