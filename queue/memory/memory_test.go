package memory_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/memory"
	"github.com/headrace/headrace/queue/queuetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, p queue.Policy) *queuetest.Harness {
	q := memory.New(p, memory.Options{})
	t.Cleanup(func() { q.Close(context.Background()) })
	return &queuetest.Harness{Queue: q, Drift: func() ([]string, error) { return q.Drift(context.Background()) }}
}

var (
	realTime    = queuetest.Config{Open: open}
	virtualTime = queuetest.Config{Open: open, Virtual: true}
)

func TestConformanceInRealTime(t *testing.T)    { queuetest.Run(t, realTime) }
func TestConformanceInVirtualTime(t *testing.T) { queuetest.Run(t, virtualTime) }

func TestStress(t *testing.T) {
	c := queuetest.StressConfig{Jobs: 20_000}
	if testing.Short() {
		c.Jobs = 5_000
	}
	queuetest.Stress(t, open(t, c.StressPolicy()), c)
}
