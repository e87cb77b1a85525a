package app

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/actuator"
	"github.com/headrace/headrace/internal/fleet"
	"github.com/headrace/headrace/worker/protocol"
)

// shop runs workers that are replaced at once.
type shop struct {
	workers  []string
	replaced []string
}

func (s *shop) Count(context.Context) (actuator.Count, error) {
	c := actuator.Count{}
	for _, w := range s.workers {
		c.Workers = append(c.Workers, actuator.Worker{ID: w, State: actuator.Running})
	}
	return c, nil
}

func (s *shop) Replace(id string) bool {
	s.replaced = append(s.replaced, id)
	s.workers = slices.DeleteFunc(s.workers, func(w string) bool { return w == id })
	return true
}

// A worker that fell silent is replaced, within two minutes; one that works, one that is still starting, and those who
// could not be heard because this process itself was stopped for an hour, are not.
func TestSilentWorkersAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fleet.New(90 * time.Second)
		s := &shop{workers: []string{"works", "stops", "starts"}}
		const lookEvery = 10 * time.Second
		w := &watch{fleet: f, runners: map[string]runner{"p": s}, log: slog.New(slog.DiscardHandler)}
		beat := func(name string) {
			f.Heartbeat(protocol.HeartbeatRequest{Pool: "p", Worker: name, Incarnation: name, Slots: 1})
		}
		turn := func(n int) {
			for range n {
				time.Sleep(lookEvery)
				beat("works")
				w.look(t.Context())
			}
		}
		beat("stops")
		turn(3)

		time.Sleep(time.Hour)
		w.look(t.Context()) // before anybody had a chance to report
		beat("stops")
		turn(3)
		if len(s.replaced) != 0 {
			t.Fatalf("%v were replaced, want nobody", s.replaced)
		}

		turn(12)
		if !slices.Equal(s.replaced, []string{"stops"}) {
			t.Errorf("%v were replaced, want only the one that stopped", s.replaced)
		}
		turn(30)
		if len(s.replaced) != 1 {
			t.Errorf("%v were replaced in the end, want only the one that stopped", s.replaced)
		}
	})
}
