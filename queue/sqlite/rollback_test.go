package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/queue/queuetest"
)

// The stress again, while something else makes transactions fail all the time: each is rolled back, in the file and in
// memory, and its operations are run again one by one. Nothing may show.
func TestStressAmongFailingTransactions(t *testing.T) {
	t.Parallel()
	c := queuetest.StressConfig{Jobs: 6_000}
	if Raced {
		c.Jobs = 1_500
	}
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "queue.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	q, err := db.Queue(t.Context(), "jobs", c.StressPolicy())
	if err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	stop := make(chan struct{})
	failed := 0
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(3 * time.Millisecond):
				if err := db.do(1, func(int64) error { return boom }); !errors.Is(err, boom) {
					t.Errorf("got %v, want the operation's own error", err)
				}
				failed++
			}
		}
	})
	queuetest.Stress(t, &queuetest.Harness{Queue: q, Drift: func() ([]string, error) { return db.Drift(context.Background()) }}, c)
	close(stop)
	wg.Wait()
	t.Logf("%d transactions failed", failed)
	if failed < c.Jobs/60 {
		t.Error("too few transactions failed: the test proves little")
	}
}
