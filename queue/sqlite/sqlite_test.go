package sqlite_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/queuetest"
	"github.com/headrace/headrace/queue/sqlite"
)

func TestMain(m *testing.M) {
	if run := child(); run != nil {
		os.Exit(run())
	}
	goleak.VerifyTestMain(m)
}

// harness opens a queue in a file of its own. Reopen copies the file and its log as they are, as after a loss of power,
// and opens the copy.
func harness(t *testing.T, p queue.Policy) *queuetest.Harness {
	path := filepath.Join(t.TempDir(), "queue.db")
	db, q := openQueue(t, path, p)
	h := &queuetest.Harness{Queue: q}
	h.Drift = func() ([]string, error) { return db.Drift(context.Background()) }
	h.Reopen = func() queue.Queue {
		path = copyFile(t, path, filepath.Join(t.TempDir(), "copy.db"))
		db, q = openQueue(t, path, p)
		return q
	}
	return h
}

func copyFile(t testing.TB, from, to string) string {
	t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		src, err := os.Open(from + suffix)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		dst, err := os.Create(to + suffix)
		if err == nil {
			_, err = io.Copy(dst, src)
		}
		if err != nil {
			t.Fatal(err)
		}
		src.Close()
		dst.Close()
	}
	return to
}

var (
	realTime    = queuetest.Config{Open: harness, Small: sqlite.Raced}
	virtualTime = queuetest.Config{Open: harness, Small: sqlite.Raced, Virtual: true}
)

func TestConformanceInRealTime(t *testing.T)    { queuetest.Run(t, realTime) }
func TestConformanceInVirtualTime(t *testing.T) { queuetest.Run(t, virtualTime) }

func TestStress(t *testing.T) {
	t.Parallel()
	c := queuetest.StressConfig{Jobs: 20_000}
	switch {
	case sqlite.Raced:
		c.Jobs = 2_000
	case testing.Short():
		c.Jobs = 5_000
	}
	queuetest.Stress(t, harness(t, c.StressPolicy()), c)
}
