package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/headrace/headrace/queue"
)

// openWithHistory opens a new file whose queue has n jobs that succeeded, the last of them at the time last, one each
// millisecond.
func openWithHistory(t testing.TB, n int, last time.Time, p queue.Policy) (*DB, *Queue) {
	t.Helper()
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "queue.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	err = db.doAlone(t.Context(), func(int64) error {
		_, err := db.w.conn.ExecContext(background, `BEGIN IMMEDIATE;
			INSERT INTO queue (queue, name, epoch) VALUES (1, 'jobs', 'e');
			WITH RECURSIVE n(i) AS (SELECT 1 WHERE ?1 > 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
			INSERT INTO job (seq, id, queue, state, at, tenant, priority, arrived, enqueued_at, ready_at, started_at, expires_at, token, worker, attempts, settled_token, settled)
				SELECT i, unhex('0197f000000070008000' || printf('%012x', i)), 1, 4, ?2 - (?1 - i) * 1000000, '', 0, 1, ?2, ?2, ?2, 0, i, '', 1, i, 'ack' FROM n;
			INSERT INTO payload SELECT seq, NULL, NULL, zeroblob(100) FROM job;
			INSERT INTO result SELECT seq, zeroblob(50) FROM job;
			UPDATE queue SET succeeded = ?1, arrivals = ?1, completions = ?1, attempts = ?1, total_succeeded = ?1;
			UPDATE file SET token = ?1;
			COMMIT; PRAGMA wal_checkpoint(TRUNCATE)`, n, last.UnixNano())
		db.w.token, db.w.savedToken = int64(n), int64(n)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	q, err := db.Queue(t.Context(), "jobs", p)
	if err != nil {
		t.Fatal(err)
	}
	return db, q
}

// BenchmarkHistory publishes, and receives and acks, in batches of ten, with no finished job in the file and with a
// million. The two must cost about the same:
//
//	go test ./queue/sqlite -run '^$' -bench History
func BenchmarkHistory(b *testing.B) {
	for _, finished := range []int{0, 1_000_000} {
		_, q := openWithHistory(b, finished, time.Now(), queue.Policy{})
		jobs := make([]queue.Job, 10)
		for i := range jobs {
			jobs[i].Payload = make([]byte, 100)
		}
		publish := func(b *testing.B) {
			for _, p := range q.Publish(context.Background(), jobs) {
				if p.Err != nil {
					b.Fatal(p.Err)
				}
			}
		}
		b.Run(fmt.Sprintf("publish/finished=%d", finished), func(b *testing.B) {
			for b.Loop() {
				publish(b)
			}
		})
		b.Run(fmt.Sprintf("work/finished=%d", finished), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				publish(b)
				b.StartTimer()
				work(b, q, len(jobs))
			}
		})
	}
}

func work(t testing.TB, q *Queue, n int) {
	t.Helper()
	ls, err := q.Receive(context.Background(), queue.Request{Worker: "w", Max: n})
	if err != nil || len(ls) != n {
		t.Fatal(len(ls), err)
	}
	ss := make([]queue.Settlement, n)
	for i, l := range ls {
		ss[i] = queue.Settlement{Receipt: l.Receipt(), Verdict: queue.Ack, Result: make([]byte, 50)}
	}
	for _, err := range q.Settle(context.Background(), ss) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkForgetting publishes and works ten jobs at a time while the janitor forgets jobs that finished too long ago,
// and while it has nothing to do. It reports what a caller waits, and how fast jobs are forgotten:
//
//	go test ./queue/sqlite -run '^$' -bench Forgetting -benchtime 300x
func BenchmarkForgetting(b *testing.B) {
	for _, finished := range []int{0, 1_000_000} {
		_, q := openWithHistory(b, finished, time.Now().Add(-25*time.Hour), queue.Policy{KeepResults: 24 * time.Hour})
		b.Run(fmt.Sprintf("finished=%d", finished), func(b *testing.B) {
			var waits []time.Duration
			left := func() float64 { return leftFinished(b, q) }
			before := left()
			for b.Loop() {
				start := time.Now()
				for _, p := range q.Publish(context.Background(), make([]queue.Job, 10)) {
					if p.Err != nil {
						b.Fatal(p.Err)
					}
				}
				work(b, q, 10)
				waits = append(waits, time.Since(start))
			}
			slices.Sort(waits)
			b.ReportMetric(waits[len(waits)/2].Seconds()*1e3, "p50-ms")
			b.ReportMetric(waits[len(waits)-1].Seconds()*1e3, "max-ms")
			b.ReportMetric((before-left()+float64(10*b.N))/b.Elapsed().Seconds(), "forgotten/s")
		})
	}
}

func leftFinished(t testing.TB, q *Queue) float64 {
	t.Helper()
	var n float64
	err := q.do(1, func(int64) error { n = float64(q.books.Counters().Level[4]); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// However many jobs pass their retention at once, they are forgotten in steps, with callers in between.
func TestMassForgettingLetsCallersPass(t *testing.T) {
	finished := 20_000
	if Raced {
		finished = 5_000
	}
	db, q := openWithHistory(t, finished, time.Now().Add(-25*time.Hour), queue.Policy{KeepResults: 24 * time.Hour})
	passed := 0
	for leftFinished(t, q) > float64(passed*10) {
		if p := q.Publish(t.Context(), make([]queue.Job, 10)); p[0].Err != nil {
			t.Fatal(p[0].Err)
		}
		work(t, q, 10)
		passed++
	}
	if passed < finished/500/8 { // a step forgets 500, and publishing, receiving and settling may each meet one
		t.Errorf("callers got in %d times while %d jobs were forgotten", passed, finished)
	}
	if drift, err := db.Drift(t.Context()); err != nil || len(drift) > 0 {
		t.Errorf("drift %v, %v", drift, err)
	}
}
