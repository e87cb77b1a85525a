// Package actuatortest is the conformance suite of [actuator.Actuator].
package actuatortest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/actuator"
)

// Target is an actuator under test, fresh and with no replicas. Its workers do nothing, and end soon after they are
// told to.
type Target struct {
	Actuator actuator.Actuator
	// Inert: Scale changes nothing, as in a dry run.
	Inert bool
	// Settle is the longest time in which a request is fulfilled; default 10 s.
	Settle time.Duration
}

// Run tests the actuators that open returns; open registers what closes them with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Target) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Target)
	}{
		{"StartsNothingUntilAsked", startsNothing},
		{"BecomesWhatWasAsked", becomesWhatWasAsked},
		{"SameRequestTwiceChangesNothing", idempotent},
		{"LastRequestStands", lastRequestStands},
		{"PreferredGoFirst", preferredGoFirst},
		{"UnknownPreferencesAreIgnored", unknownPreferences},
		{"IDsAreNeverReused", idsAreNeverReused},
		{"NegativeIsRefused", negativeIsRefused},
		{"EndedContextIsAnError", endedContext},
		{"ConcurrentUse", concurrentUse},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := open(t)
			if target.Settle == 0 {
				target.Settle = 10 * time.Second
			}
			c.test(t, target)
		})
	}
}

func startsNothing(t *testing.T, a Target) {
	c := a.count(t)
	if c.Desired+c.Ready+c.Starting+c.Draining+len(c.Workers) != 0 {
		t.Errorf("got %+v, want nothing", c)
	}
	if c.At.IsZero() {
		t.Error("got a zero time, want the time of the count")
	}
}

func becomesWhatWasAsked(t *testing.T, a Target) {
	for _, n := range []int{3, 1, 2, 0} {
		a.scale(t, n)
		a.becomes(t, n)
	}
}

func idempotent(t *testing.T, a Target) {
	a.scale(t, 3)
	before := a.becomes(t, 3)
	for range 3 {
		a.scale(t, 3)
	}
	time.Sleep(20 * time.Millisecond) // for what must not happen
	after := a.becomes(t, 3)
	if d := cmp.Diff(ids(before), ids(after)); d != "" {
		t.Errorf("the workers changed (-before +after):\n%s", d)
	}
}

func lastRequestStands(t *testing.T, a Target) {
	for _, n := range []int{4, 1, 3, 2} {
		a.scale(t, n) // none is waited for
	}
	a.becomes(t, 2)
}

func preferredGoFirst(t *testing.T, a Target) {
	a.scale(t, 4)
	before := ids(a.becomes(t, 4))
	if a.Inert || len(before) == 0 {
		return // it cannot name its workers
	}
	// The oldest first, which no actuator would choose by itself, then one more than must go.
	a.scale(t, 2, before[0], before[2], before[1])
	after := ids(a.becomes(t, 2))
	if d := cmp.Diff([]string{before[1], before[3]}, after); d != "" {
		t.Errorf("who stays (-want +got):\n%s", d)
	}
}

func unknownPreferences(t *testing.T, a Target) {
	a.scale(t, 2)
	a.becomes(t, 2)
	a.scale(t, 1, "nobody", "", "nobody")
	a.becomes(t, 1)
}

func idsAreNeverReused(t *testing.T, a Target) {
	seen := map[string]bool{}
	for range 3 {
		a.scale(t, 2)
		for _, id := range ids(a.becomes(t, 2)) {
			if seen[id] {
				t.Errorf("worker %s was there before", id)
			}
			seen[id] = true
		}
		a.scale(t, 0)
		a.becomes(t, 0)
	}
}

func negativeIsRefused(t *testing.T, a Target) {
	a.scale(t, 1)
	a.becomes(t, 1)
	if err := a.Actuator.Scale(t.Context(), -1, nil); err == nil {
		t.Error("scale to -1: got nil, want an error")
	}
	a.becomes(t, 1)
}

func endedContext(t *testing.T, a Target) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Actuator.Scale(ctx, 1, nil); err == nil {
		t.Error("scale: got nil, want an error")
	}
	if _, err := a.Actuator.Count(ctx); err == nil {
		t.Error("count: got nil, want an error")
	}
}

func concurrentUse(t *testing.T, a Target) {
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 10 {
				if err := a.Actuator.Scale(t.Context(), (i+j)%3, nil); err != nil {
					t.Errorf("scale: %v", err)
				}
				if _, err := a.Actuator.Count(t.Context()); err != nil {
					t.Errorf("count: %v", err)
				}
			}
		})
	}
	wg.Wait()
	a.scale(t, 2)
	a.becomes(t, 2)
}

func (a Target) scale(t *testing.T, n int, prefer ...string) {
	t.Helper()
	if err := a.Actuator.Scale(t.Context(), n, prefer); err != nil {
		t.Fatalf("scale to %d: %v", n, err)
	}
}

func (a Target) count(t *testing.T) actuator.Count {
	t.Helper()
	c, err := a.Actuator.Count(t.Context())
	if err != nil {
		t.Fatalf("count: %v", err)
	}
	return c
}

// becomes waits until n replicas are ready and no other is there, and checks that the count adds up all the while.
func (a Target) becomes(t *testing.T, n int) actuator.Count {
	t.Helper()
	if a.Inert {
		n = 0
	}
	for deadline := time.Now().Add(a.Settle); ; time.Sleep(5 * time.Millisecond) {
		c := a.count(t)
		if c.Workers != nil && len(c.Workers) != c.Ready+c.Starting+c.Draining {
			t.Fatalf("%d workers are named, %d+%d+%d counted", len(c.Workers), c.Ready, c.Starting, c.Draining)
		}
		if c.Ready == n && c.Starting == 0 && c.Draining == 0 {
			if c.Desired != n {
				t.Errorf("desired: got %d, want %d", c.Desired, n)
			}
			return c
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %+v after %v, want %d ready and nothing else", c, a.Settle, n)
		}
	}
}

// ids lists the workers, the longest there first.
func ids(c actuator.Count) []string {
	ws := slices.Clone(c.Workers)
	slices.SortStableFunc(ws, func(x, y actuator.Worker) int { return x.OrderedAt.Compare(y.OrderedAt) })
	list := make([]string, len(ws))
	for i, w := range ws {
		list[i] = w.ID
	}
	return list
}
