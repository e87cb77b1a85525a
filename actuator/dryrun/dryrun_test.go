package dryrun_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/actuator"
	"github.com/headrace/headrace/actuator/actuatortest"
	"github.com/headrace/headrace/actuator/dryrun"
)

// fixed is a target of some size that must not be touched.
type fixed struct {
	t *testing.T
	n int
}

func (f fixed) Count(ctx context.Context) (actuator.Count, error) {
	return actuator.Count{At: time.Now(), Desired: f.n, Ready: f.n}, ctx.Err()
}

func (f fixed) Scale(context.Context, int, []string) error {
	f.t.Error("the target was scaled")
	return nil
}

func TestConformance(t *testing.T) {
	actuatortest.Run(t, func(t *testing.T) actuatortest.Target {
		return actuatortest.Target{Actuator: dryrun.New(fixed{t, 0}), Inert: true}
	})
}

func TestScaleIsRemembered(t *testing.T) {
	a := dryrun.New(fixed{t, 4})
	if got := a.Last(); !got.At.IsZero() {
		t.Errorf("got %+v, want nothing", got)
	}
	prefer := []string{"a", "b"}
	if err := a.Scale(t.Context(), 2, prefer); err != nil {
		t.Fatal(err)
	}
	prefer[0] = "changed by its owner"
	got := a.Last()
	if got.At.IsZero() {
		t.Error("got no time")
	}
	got.At = time.Time{}
	if d := cmp.Diff(dryrun.Request{N: 2, Prefer: []string{"a", "b"}}, got); d != "" {
		t.Errorf("request (-want +got):\n%s", d)
	}
	if c, err := a.Count(t.Context()); err != nil || c.Ready != 4 {
		t.Errorf("count: got %+v, %v, want the target's 4", c, err)
	}
}
