package memory_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/memory"
)

// Whatever is published is refused as invalid or comes back unchanged.
func FuzzPublish(f *testing.F) {
	f.Add("", "", "", 0, "h", "v", []byte("payload"), int64(0), int64(0))
	f.Add("0197f000-0000-7000-8000-00000000abcd", "key", "tenant", 9, "", "", []byte{}, int64(-1), int64(time.Hour))
	f.Add("{0197F000-0000-7000-8000-00000000ABCD}", "\x00", "\xff", -1, "\xff", "\x00", []byte{0}, int64(1<<62), int64(1))
	f.Fuzz(func(t *testing.T, id, key, tenant string, priority int, name, value string, payload []byte, delay, expires int64) {
		q := memory.New(queue.Policy{}, memory.Options{})
		defer q.Close(context.Background())
		job := queue.Job{
			ID: id, Key: key, Tenant: tenant, Priority: priority, Headers: map[string]string{name: value}, Payload: payload,
			Delay: time.Duration(delay), ExpiresIn: time.Duration(expires),
		}
		p := q.Publish(context.Background(), []queue.Job{job})[0]
		if p.Err != nil {
			if !errors.Is(p.Err, queue.ErrInvalid) || p.Err.Error() == "" {
				t.Fatal(p.Err)
			}
			return
		}
		r, err := q.Get(context.Background(), p.ID)
		if err != nil || r.Key != key || r.Tenant != tenant || r.Priority != priority || r.Headers[name] != value || !bytes.Equal(r.Payload, payload) {
			t.Fatalf("%+v became %+v, %v", job, r, err)
		}
		if drift, err := q.Drift(context.Background()); err != nil || len(drift) > 0 {
			t.Fatal(drift, err)
		}
	})
}
