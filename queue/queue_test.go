package queue_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/queue"
)

func TestBackoffIsFullJitterWithinItsBounds(t *testing.T) {
	p := queue.Policy{}.WithDefaults()
	r := rand.New(rand.NewPCG(1, 2))
	for attempt := 1; attempt < 40; attempt++ {
		top := min(p.BackoffMax, p.BackoffMin<<min(attempt-1, 20))
		var lowest, highest time.Duration = p.BackoffMax, 0
		for range 2000 {
			d := p.Backoff(attempt, r)
			if d < p.BackoffMin/2 || d > top {
				t.Fatalf("attempt %d: %v is not within %v and %v", attempt, d, p.BackoffMin/2, top)
			}
			lowest, highest = min(lowest, d), max(highest, d)
		}
		if highest < top*9/10 || lowest > max(p.BackoffMin/2, top/10) {
			t.Errorf("attempt %d: %v to %v does not use the room up to %v", attempt, lowest, highest, top)
		}
	}
}

func TestAfterFailure(t *testing.T) {
	p := queue.Policy{Attempts: 4, AfterCrashes: 2}.WithDefaults()
	r := rand.New(rand.NewPCG(1, 2))
	second := time.Second
	for _, c := range []struct {
		name              string
		attempts, crashes int
		crashed           bool
		delay             *time.Duration
		reason            string
		least, most       time.Duration
	}{
		{name: "first nack", attempts: 1, least: p.BackoffMin / 2, most: p.BackoffMin},
		{name: "nack with its own delay", attempts: 3, delay: &second, least: second, most: second},
		{name: "last nack", attempts: 4, delay: &second, reason: queue.ReasonAttempts},
		{name: "first crash comes back at once", attempts: 1, crashes: 1, crashed: true},
		{name: "nack of a suspect", attempts: 2, crashes: 1, least: p.BackoffMin / 2, most: 2 * p.BackoffMin},
		{name: "second crash", attempts: 2, crashes: 2, crashed: true, reason: queue.ReasonPoison},
		{name: "poison goes before attempts", attempts: 4, crashes: 2, crashed: true, reason: queue.ReasonPoison},
		{name: "first crash of the last attempt", attempts: 4, crashes: 1, crashed: true, reason: queue.ReasonAttempts},
	} {
		o := p.AfterFailure(c.attempts, c.crashes, c.crashed, c.delay, r)
		if o.Reason != c.reason || o.Dead != (c.reason != "") || o.Delay < c.least || o.Delay > c.most {
			t.Errorf("%s: got %+v, want reason %q, delay %v to %v", c.name, o, c.reason, c.least, c.most)
		}
	}
}

func TestValidateNamesEverythingThatIsWrong(t *testing.T) {
	err := queue.Job{
		ID: "x", Key: strings.Repeat("k", 513), Tenant: strings.Repeat("t", 129), Priority: 10, Payload: make([]byte, queue.MaxPayload+1),
		Headers: map[string]string{"": strings.Repeat("v", 20<<10)}, Delay: -1, ExpiresIn: queue.MaxWait + 1,
	}.Validate()
	if !errors.Is(err, queue.ErrInvalid) {
		t.Fatalf("error is %v", err)
	}
	for _, want := range []string{"id", "key has 513", "tenant has 129", "priority is 10", "payload has 262145", "no name", "headers have 20480", "delay is negative", "expires_in is"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error is %q, want %q in it", err, want)
		}
	}
	if err := (queue.Job{Payload: make([]byte, queue.MaxPayload), Key: strings.Repeat("k", 512), Delay: queue.MaxWait}).Validate(); err != nil {
		t.Errorf("a job at the limits: %v", err)
	}
}

func FuzzParseCursor(f *testing.F) {
	f.Add("")
	f.Add(queue.Cursor{At: 1, Seq: 2}.String())
	f.Add(queue.Cursor{At: -1 << 63, Seq: 1<<63 - 1}.String())
	f.Add("gICAgICAgICAgAE")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := queue.ParseCursor(s)
		if err != nil {
			if !errors.Is(err, queue.ErrInvalid) {
				t.Fatalf("error is %v", err)
			}
			return
		}
		if again, err := queue.ParseCursor(c.String()); err != nil || again != c {
			t.Fatalf("%v became %v, %v", c, again, err)
		}
	})
}
