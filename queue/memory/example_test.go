package memory_test

import (
	"context"
	"fmt"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/memory"
)

func ExampleNew() {
	ctx := context.Background()
	q := memory.New(queue.Policy{}, memory.Options{})
	defer q.Close(ctx)

	p := q.Publish(ctx, []queue.Job{{Payload: []byte("hello")}})[0]
	leases, err := q.Receive(ctx, queue.Request{Worker: "w1", Max: 10})
	if err != nil {
		panic(err)
	}
	for _, l := range leases {
		q.Settle(ctx, []queue.Settlement{{Receipt: l.Receipt(), Verdict: queue.Ack, Result: []byte("world")}})
	}
	r, _ := q.Get(ctx, p.ID)
	fmt.Printf("%s %s: %s\n", r.Payload, r.State, r.Result)
	// Output: hello succeeded: world
}
