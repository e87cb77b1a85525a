// Package config reads a Headrace configuration: one strict YAML file in which every problem is reported at once.
package config

import (
	"net"
	"time"

	"github.com/headrace/headrace/scale"
)

// Config is a valid configuration with every default filled in.
type Config struct {
	Server      Server
	Brokers     map[string]Broker
	Actuators   map[string]Actuator
	Downstreams map[string]Downstream
	Pools       []Pool // sorted by name

	root *value // every key with its origin, for Show
}

// Server is the process that decides, and serves the API and the dashboard.
type Server struct {
	Listen  string        // host:port; default 127.0.0.1:8480
	DataDir string        // default ./headrace-data beside the file; relative paths are relative to the file
	History time.Duration // how long decisions are kept; default 14 d
	Cycle   time.Duration // time between evaluations; default 1 s
	Token   Secret        // server.auth.token: the bearer token every API call must bring; empty: none, loopback only
}

// Loopback reports whether only this machine can reach Listen.
func (s Server) Loopback() bool {
	host, _, err := net.SplitHostPort(s.Listen)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// Secret is a string that never prints. Convert it to string to use it.
type Secret string

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the secret from JSON and logs.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// hidden stands where a secret would.
const hidden = "‹secret›"

// Broker is where queues live.
type Broker struct {
	Name string
	Type string // "sqlite"
	Path string // sqlite: the database file; default DataDir/queue.db
}

// Actuator starts and stops workers.
type Actuator struct {
	Name     string
	Type     string // "process"
	MaxTotal int    // most processes of all pools together; 0: no limit
}

// Downstream is something workers lean on.
type Downstream struct {
	Name   string
	Limits []DownstreamLimit // sorted by unit
	// ThrottleStatus are the HTTP statuses that mean "too many"; default 429.
	ThrottleStatus []int
}

// DownstreamLimit is a declared rate.
type DownstreamLimit struct {
	Unit      string
	PerSecond float64
	Text      string // as written: "90k/min"
}

// Pool is the workers that serve one queue under one policy.
type Pool struct {
	Name   string
	Broker string
	Queue  string // default: the pool's name
	Scale  scale.Policy
	Lease  Lease
	Retry  Retry
	Poison Poison
	Uses   []Use // sorted by downstream, then unit; a limit on requests that the file does not mention counts 1
	Starts Starts
}

// Lease is how long a worker may hold a job.
type Lease struct{ For, Heartbeat, Max time.Duration }

// Retry is what follows a failure.
type Retry struct {
	Attempts               int
	BackoffMin, BackoffMax time.Duration
}

// Poison is what follows the death of a worker.
type Poison struct{ AfterCrashes int }

// Use is what one job takes of a downstream.
type Use struct {
	Downstream  string
	Unit        string
	UnitsPerJob float64
	Measure     bool // `measure: reported`: workers report the true cost
}

// Starts is what the actuator runs for each worker of a pool. Exactly one of Command, Worker and HTTP is set.
type Starts struct {
	Actuator string
	Command  []string          // run once a job by `headrace work`
	Worker   []string          // a long-lived program that speaks the worker protocol
	HTTP     string            // each job is posted to this URL by `headrace work`
	Env      map[string]Secret // added to the environment
	Dir      string            // working directory; default: the file's
	Grace    time.Duration     // from SIGTERM to SIGKILL; default 30 s
}
