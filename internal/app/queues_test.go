package app

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/internal/config"
	"github.com/headrace/headrace/queue"
)

// What a pool's file says of leases, retries and poison is what its queue does.
func TestAQueueFollowsItsPool(t *testing.T) {
	cfg, problems := config.Parse("headrace.yaml", []byte(`
version: 1
pools:
  p:
    objective: { oldest_age: 10s }
    replicas: { max: 4 }
    lease: { for: 9s, heartbeat: 3s, max: 8m }
    retry: { attempts: 7, backoff: 6s..5m }
    poison: { after_crashes: 4 }
    actuator: { command: [cat] }
`), nil)
	if cfg == nil {
		t.Fatal(problems)
	}
	want := queue.Policy{
		Lease: 9 * time.Second, MaxLease: 8 * time.Minute, Attempts: 7, BackoffMin: 6 * time.Second, BackoffMax: 5 * time.Minute, AfterCrashes: 4,
	}
	if d := cmp.Diff(want, policyOf(cfg.Pools[0])); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
