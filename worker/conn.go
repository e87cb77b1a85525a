package worker

import (
	"context"
	"errors"

	"github.com/headrace/headrace/worker/protocol"
)

// ErrRefused marks an answer that repeating will not change: a bad token, an unknown pool, a malformed request.
var ErrRefused = errors.New("refused")

// Conn is a worker's way to its queue: [Dial] speaks the worker protocol over HTTP, [Local] uses a queue in the
// same process. It belongs to one worker: it knows the worker's name and pool and fills them into requests.
//
// Every method makes one bounded attempt; the [Worker] repeats what failed, while it is worth repeating. All methods
// are safe for concurrent use.
type Conn interface {
	// Pool names the pool that the worker serves.
	Pool() string

	// Claim asks for up to r.Max jobs and waits up to r.Wait for the first. When ctx ends it returns soon; leases that
	// it was given by then are returned with a nil error where that can be known.
	Claim(ctx context.Context, r protocol.ClaimRequest) (protocol.ClaimAnswer, error)

	// Heartbeat extends the leases of r and reports. A lease that is answered ok without a time is as it was. A report
	// that the worker drains ends its claims in flight.
	Heartbeat(ctx context.Context, r protocol.HeartbeatRequest) (protocol.HeartbeatAnswer, error)

	// Settle ends leases, one answer an item, in order. An error means that no item's outcome is known.
	Settle(ctx context.Context, items []protocol.Settlement) ([]protocol.Settled, error)

	// Permit asks for units of a downstream.
	Permit(ctx context.Context, r protocol.PermitRequest) (protocol.PermitAnswer, error)

	// Goodbye says that the worker is gone and runs nothing; what it still holds is released.
	Goodbye(ctx context.Context) error
}
