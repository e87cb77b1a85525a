package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/memory"
	"github.com/headrace/headrace/worker"
)

// A worker in the same process as its queue.
func ExampleNew() {
	ctx, drain := context.WithCancel(context.Background())
	q := memory.New(queue.Policy{}, memory.Options{})
	defer q.Close(context.Background())
	id := q.Publish(ctx, []queue.Job{{Payload: []byte("hello")}})[0].ID

	w := worker.New(worker.Local(q, worker.LocalOptions{Pool: "shout"}), func(ctx context.Context, job *worker.Job) ([]byte, error) {
		if len(job.Payload) == 0 {
			return nil, worker.Permanent(errors.New("nothing to shout"))
		}
		return []byte(strings.ToUpper(string(job.Payload))), nil
	}, worker.Options{Slots: 4})
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()

	rec, err := q.Await(ctx, id)
	fmt.Println(rec.State, string(rec.Result), err)

	drain() // finishes what runs
	fmt.Println(<-done)
	// Output:
	// succeeded HELLO <nil>
	// <nil>
}

// A worker process that an actuator starts: it learns from its environment where to work.
func ExampleReadEnvironment() {
	env, err := worker.ReadEnvironment(os.Getenv)
	if err != nil {
		fmt.Println(err)
		return
	}
	w := worker.New(env.Dial(), func(ctx context.Context, job *worker.Job) ([]byte, error) {
		return job.Payload, nil
	}, worker.Options{Grace: env.Grace})
	if err := w.RunUntilSignal(context.Background()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// Each job is one run of a program: its input is the payload, its output the result.
func ExampleCommand() {
	h := worker.Command([]string{"tr", "a-z", "A-Z"}, worker.CommandOptions{})
	result, err := h(context.Background(), &worker.Job{ID: "1", Attempt: 1, Payload: []byte("hello")})
	fmt.Println(string(result), err)
	// Output: HELLO <nil>
}
