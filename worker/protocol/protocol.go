// Package protocol is the worker protocol on the wire: plain JSON over HTTP, for programs in any language.
//
// All paths are below /worker/v1. Durations are numbers of seconds, never clock times: the two ends need not agree
// on the time. Every call may be repeated: settlements are idempotent and a lost claim answer costs one lease.
package protocol

// Paths of the protocol, as patterns of [net/http.ServeMux].
const (
	ClaimPath     = "/worker/v1/pools/{pool}/claims"
	HeartbeatPath = "/worker/v1/heartbeats"
	SettlePath    = "/worker/v1/settlements"
	PermitPath    = "/worker/v1/permits"
	GoodbyePath   = "/worker/v1/workers/{worker}/goodbye"
)

// Order is what the control plane wants a worker to do.
type Order string

// The orders.
const (
	Run   Order = "run"
	Drain Order = "drain" // claim nothing more, finish what runs however long it takes, then exit 0
	Stop  Order = "stop"  // release what runs and exit
)

// Seconds is a duration on the wire.
type Seconds float64

// ClaimRequest asks for jobs: POST ClaimPath.
type ClaimRequest struct {
	Worker string  `json:"worker"`          // unique name of the worker
	Max    int     `json:"max"`             // free slots
	Wait   Seconds `json:"wait,omitempty"`  // how long to wait for the first job, at most 30
	Slots  int     `json:"slots,omitempty"` // all slots of the worker, so that it counts as ready before its first heartbeat
}

// ClaimAnswer holds the leases (200). 204 without a body means none, and Order run.
type ClaimAnswer struct {
	Leases []Lease `json:"leases"`
	Order  Order   `json:"order,omitempty"`
}

// Lease is a job to run.
type Lease struct {
	ID             string            `json:"id"` // the lease: the job's id is enough, the token tells deliveries apart
	Token          int64             `json:"token"`
	Job            string            `json:"job"`
	Attempt        int               `json:"attempt"`
	Crashes        int               `json:"crashes,omitempty"`
	Tenant         string            `json:"tenant,omitempty"`
	Priority       int               `json:"priority,omitempty"`
	Headers        map[string]string `json:"headers,omitempty"`
	Payload        []byte            `json:"payload"` // base64
	ExpiresIn      Seconds           `json:"expires_in"`
	MaxIn          Seconds           `json:"max_in,omitempty"`
	HeartbeatEvery Seconds           `json:"heartbeat_every"`
	// Permits are the units reserved for this job, by downstream and unit.
	Permits map[string]map[string]float64 `json:"permits,omitempty"`
}

// HeartbeatRequest keeps leases and reports: POST HeartbeatPath.
type HeartbeatRequest struct {
	Worker string `json:"worker"`
	Pool   string `json:"pool"`
	Slots  int    `json:"slots"`
	// Busy are the slots whose handler has not returned. More than Leases: some go on although their job was taken away,
	// and their slots are not free.
	Busy int `json:"busy"`
	// Draining: the worker claims nothing more. A claim of it that is still open shall be answered now, with the jobs
	// that it was given or without any.
	Draining bool       `json:"draining,omitempty"`
	Leases   []LeaseRef `json:"leases"`
	// Totals are the worker's running totals since it started; Incarnation tells its lives apart.
	Incarnation string `json:"incarnation"`
	Totals      Totals `json:"totals"`
}

// LeaseRef names a lease.
type LeaseRef struct {
	ID    string `json:"id"`
	Token int64  `json:"token"`
}

// Totals are what a worker has done since it started.
type Totals struct {
	Acked       int64   `json:"acked"`
	Nacked      int64   `json:"nacked"`
	Released    int64   `json:"released"`
	Dead        int64   `json:"dead"`
	Crashed     int64   `json:"crashed"`
	BusySeconds float64 `json:"busy_seconds"` // handlers of ended runs, without waiting for permits; released runs not counted
	BusySquares float64 `json:"busy_squares"` // Σ busy²
	Runs        int64   `json:"runs"`         // runs behind BusySeconds
}

// HeartbeatAnswer says how each lease stands, in the order asked, and what the worker shall do.
type HeartbeatAnswer struct {
	Leases []LeaseState `json:"leases"`
	Order  Order        `json:"order"`
}

// LeaseState is one lease's answer.
type LeaseState struct {
	ID        string  `json:"id"`
	State     string  `json:"state"` // ok, lost, cancel
	ExpiresIn Seconds `json:"expires_in,omitempty"`
}

// States of a lease in a heartbeat's answer.
const (
	LeaseOK     = "ok"
	LeaseLost   = "lost"
	LeaseCancel = "cancel"
)

// SettleRequest ends leases: POST SettlePath.
type SettleRequest struct {
	Worker string       `json:"worker,omitempty"`
	Pool   string       `json:"pool"`
	Items  []Settlement `json:"items"`
}

// Settlement ends one lease.
type Settlement struct {
	Lease   string   `json:"lease"`
	Token   int64    `json:"token"`
	Action  string   `json:"action"`           // one of the actions below
	Result  []byte   `json:"result,omitempty"` // base64; at most 256 KiB
	Error   string   `json:"error,omitempty"`
	RetryIn *Seconds `json:"retry_in,omitempty"`
	// Usage are the units that were really used, by downstream and unit; absent: as reserved.
	Usage map[string]map[string]float64 `json:"usage,omitempty"`
	// Outcomes are what the downstreams answered: ok, throttled, failed. Throttled with RetryIn is a Retry-After that the whole fleet obeys.
	Outcomes map[string]string `json:"outcomes,omitempty"`
	// Permits are the units that were reserved with the lease, handed back as they came, plus those the worker
	// took for the job while it ran.
	Permits map[string]map[string]float64 `json:"permits,omitempty"`
}

// The actions that end a lease.
const (
	Ack     = "ack"     // done
	Nack    = "nack"    // failed: an attempt
	Release = "release" // given back: not an attempt
	Dead    = "dead"    // can never succeed
	Crash   = "crash"   // what ran it died: an attempt and a crash
)

// Unbegun reports whether the job was given back before anything was asked of a downstream: its permits are unused.
func (s Settlement) Unbegun() bool {
	return s.Action == Release && s.Usage != nil && len(s.Outcomes) == 0
}

// SettleAnswer has one entry an item, in order.
type SettleAnswer struct {
	Items []Settled `json:"items"`
}

// Settled is one item's answer.
type Settled struct {
	Lease string `json:"lease"`
	State string `json:"state"` // settled, lost, error
	Error string `json:"error,omitempty"`
}

// States of a settlement's answer.
const (
	SettledOK   = "settled"
	SettledLost = "lost"
	SettledErr  = "error"
)

// PermitRequest asks for units of a downstream: POST PermitPath.
type PermitRequest struct {
	Downstream string             `json:"downstream"`
	Units      map[string]float64 `json:"units"`
	MaxWait    Seconds            `json:"max_wait,omitempty"` // at most 30
}

// PermitAnswer says whether they were granted, or when to come back.
type PermitAnswer struct {
	Granted bool    `json:"granted"`
	RetryIn Seconds `json:"retry_in,omitempty"`
}
