package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/sqlite"
)

func openQueue(t testing.TB, path string, p queue.Policy) (*sqlite.DB, *sqlite.Queue) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	q, err := db.Queue(t.Context(), "jobs", p)
	if err != nil {
		t.Fatal(err)
	}
	return db, q
}

func publishN(t testing.TB, q *sqlite.Queue, n int) {
	t.Helper()
	for n > 0 {
		jobs := make([]queue.Job, min(n, 1000))
		for i := range jobs {
			jobs[i].Payload = make([]byte, 100)
		}
		for _, p := range q.Publish(context.Background(), jobs) {
			if p.Err != nil {
				t.Fatal(p.Err)
			}
		}
		n -= len(jobs)
	}
}

// BenchmarkPublish publishes one job a call, durably, from 1 and from 64 callers at a time. Compare the two in one run,
// because the disk's speed of the moment decides both:
//
//	go test ./queue/sqlite -run '^$' -bench Publish
func BenchmarkPublish(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			_, q := openQueue(b, filepath.Join(b.TempDir(), "q.db"), queue.Policy{})
			payload := make([]byte, 100)
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for range callers {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if p := q.Publish(context.Background(), []queue.Job{{Payload: payload}}); p[0].Err != nil {
							b.Error(p[0].Err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// BenchmarkClaimStanding claims ten jobs, and gives them back untimed, with few and with many jobs standing.
func BenchmarkClaimStanding(b *testing.B) {
	for _, standing := range []int{1_000, 200_000} {
		b.Run(fmt.Sprintf("standing=%d", standing), func(b *testing.B) {
			_, q := openQueue(b, filepath.Join(b.TempDir(), "q.db"), queue.Policy{})
			publishN(b, q, standing)
			b.ResetTimer()
			for b.Loop() {
				ls, err := q.Receive(context.Background(), queue.Request{Worker: "w", Max: 10})
				if err != nil || len(ls) != 10 {
					b.Fatal(len(ls), err)
				}
				b.StopTimer()
				for _, err := range q.Settle(context.Background(), settle(ls, queue.Release)) {
					if err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
			}
		})
	}
}

func settle(ls []queue.Lease, v queue.Verdict) []queue.Settlement {
	ss := make([]queue.Settlement, len(ls))
	for i, l := range ls {
		ss[i] = queue.Settlement{Receipt: l.Receipt(), Verdict: v}
	}
	return ss
}

// BenchmarkWork is a job's whole life, in batches: publish, claim, ack.
func BenchmarkWork(b *testing.B) {
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			_, q := openQueue(b, filepath.Join(b.TempDir(), "q.db"), queue.Policy{})
			b.ReportAllocs()
			for b.Loop() {
				publishN(b, q, batch)
				ls, err := q.Receive(context.Background(), queue.Request{Worker: "w", Max: batch})
				if err != nil || len(ls) != batch {
					b.Fatal(len(ls), err)
				}
				for _, err := range q.Settle(context.Background(), settle(ls, queue.Ack)) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
