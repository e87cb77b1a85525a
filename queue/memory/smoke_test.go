package memory

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/queue"
)

func TestSmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(queue.Policy{}, Options{})
		ctx := context.Background()
		go func() {
			time.Sleep(time.Second)
			q.Publish(ctx, []queue.Job{{Payload: []byte("x"), Delay: 3 * time.Second}})
		}()
		ls, err := q.Receive(ctx, queue.Request{Worker: "w", Max: 3, Wait: time.Minute})
		t.Log(ls, err)
		s, _ := q.Stats(ctx)
		t.Logf("%+v", s)
		time.Sleep(2 * time.Minute)
		ls2, err := q.Receive(ctx, queue.Request{Worker: "w", Max: 3, Wait: time.Minute})
		t.Log(ls2, err, q.Settle(ctx, []queue.Settlement{{Receipt: ls[0].Receipt(), Verdict: queue.Ack}, {Receipt: ls2[0].Receipt(), Verdict: queue.Ack}, {Receipt: ls2[0].Receipt(), Verdict: queue.Ack}}))
		r, err := q.Get(ctx, ls[0].JobID)
		t.Logf("%+v %v", r, err)
		d, _ := q.Drift(ctx)
		t.Log(d)
		q.Close(ctx)
	})
}
