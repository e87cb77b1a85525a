// Package journal is the contract for remembering decisions and the state between them.
package journal

import (
	"context"
	"encoding/json"
	"time"

	"github.com/headrace/headrace/scale"
)

// Record is one cycle of one pool: everything it was decided from, what was decided and what came of it.
// Size, Share and Decide on its inputs give its Decision again.
type Record struct {
	Seq         int64             `json:"seq"`
	At          time.Time         `json:"at"`
	Pool        string            `json:"pool"`
	Policy      scale.Policy      `json:"policy"`
	State       scale.State       `json:"state"` // before
	Observation scale.Observation `json:"observation"`
	Grant       scale.Grant       `json:"grant"`
	Decision    scale.Decision    `json:"decision"`
	Outcome     Outcome           `json:"outcome"`
	// Trouble is what an operator should look at: workers that keep dying or wait for room, jobs that are only ever given
	// back. It decides nothing.
	Trouble string `json:"trouble,omitempty"`
}

// Outcome is what the actuator made of a decision.
type Outcome struct {
	Applied bool   `json:"applied"`
	Error   string `json:"error,omitempty"`
}

// Filter selects records, newest first.
type Filter struct {
	Pool   string    // empty: all
	Before int64     // records with a smaller Seq; 0: from the newest
	At     time.Time // when set, only records not later than it
	Limit  int       // 1 to 1000
	// Changes leaves only records whose decision changed the size.
	Changes bool
}

// Journal keeps records and pool state. All methods are safe for concurrent use.
type Journal interface {
	// Append stores records, durable when it returns, and sets their Seq.
	Append(ctx context.Context, rs []Record) error
	// SetOutcome adds to the record seq what came of its decision.
	SetOutcome(ctx context.Context, seq int64, o Outcome) error
	// List returns the records that match, newest first.
	List(ctx context.Context, f Filter) ([]Record, error)
	// SaveStates replaces the saved memory of pools; LoadStates returns it all. Values are opaque JSON.
	SaveStates(ctx context.Context, states map[string]json.RawMessage) error
	LoadStates(ctx context.Context) (map[string]json.RawMessage, error)
	// Prune forgets records older than before.
	Prune(ctx context.Context, before time.Time) error
}
