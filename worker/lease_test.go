package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/memory"
	"github.com/headrace/headrace/worker/protocol"
)

// TestW10_ErrLooksAtTheClock: a process that wakes after its lease has ended may run a handler before any of its
// timers. The handler's own check must tell it all the same.
func TestW10_ErrLooksAtTheClock(t *testing.T) {
	q := memory.New(queue.Policy{}, memory.Options{})
	defer q.Close(context.Background())
	w := New(Local(q, LocalOptions{}), nil, Options{})
	lease := protocol.Lease{ID: "j", Token: 1, ExpiresIn: 10}
	for _, c := range []struct {
		name string
		age  time.Duration
		want error
	}{
		{"fresh", 5 * time.Second, nil},
		{"ended while no timer ran", 10 * time.Second, ErrLeaseLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHeld(lease, "p", w.conn, time.Now().Add(-c.age))
			inner, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			h.cancel = cancel
			ctx := leaseContext{inner, w, h}
			if got := ctx.Err(); (got != nil) != (c.want != nil) {
				t.Errorf("err: got %v, want it set: %v", got, c.want != nil)
			}
			if got := context.Cause(ctx); !errors.Is(got, c.want) {
				t.Errorf("cause: got %v, want %v", got, c.want)
			}
			if h.timer != nil {
				h.timer.Stop()
			}
		})
	}
}

// A long failure's text is cut between two characters: half of one would arrive as another character.
func TestALongReasonIsCutBetweenCharacters(t *testing.T) {
	long := "x" + strings.Repeat("ü", queue.MaxReason)
	got := clip(long)
	if !utf8.ValidString(got) || !strings.HasPrefix(long, got) || len(got) < queue.MaxReason-3 || len(got) > queue.MaxReason {
		t.Errorf("%d bytes that end with %q, want at most %d bytes of the text's beginning, whole characters", len(got), got[len(got)-4:], queue.MaxReason)
	}
	if got := clip("short"); got != "short" {
		t.Errorf("got %q, want the text as it is", got)
	}
}
