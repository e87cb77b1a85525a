package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/headrace/headrace/queue"
)

// CheckRequest returns what is wrong with r, or nil.
func CheckRequest(r queue.Request) error {
	if r.Worker == "" {
		return fmt.Errorf("receive: %w: the request names no worker", queue.ErrInvalid)
	}
	if r.Max < 1 {
		return fmt.Errorf("receive: %w: max is %d, it must be at least 1", queue.ErrInvalid, r.Max)
	}
	return nil
}

// Await waits until c is answered. When wait has passed or ctx is done, it calls withdraw, after which c must be
// answered in any case: with what it had been given by then.
func Await(ctx context.Context, c *Claim, wait time.Duration, withdraw func()) {
	if !c.Park {
		<-c.Done
		return
	}
	var late <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-c.Done:
		return
	case <-late:
	case <-ctx.Done():
	}
	withdraw()
	<-c.Done
}
