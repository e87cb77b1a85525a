package telemetry

import (
	"fmt"
	"strings"
)

// Kind is what a metric is to Prometheus.
type Kind string

// The kinds in use.
const (
	Gauge   Kind = "gauge"
	Counter Kind = "counter"
)

// Metric is an entry of the catalogue.
type Metric struct {
	Name   string
	Kind   Kind
	Unit   string // of the value: "jobs", "seconds", "1" for a ratio or a flag
	Labels []string
	Help   string
}

//go:generate go test -run TestReferenceIsUpToDate -update .

// id is a metric's place in the catalogue, which is also its place in the reference.
type id int

const (
	queueJobs id = iota
	oldestAge
	objective
	arrivals
	completions
	returned
	leasesExpired
	redriven
	draining
	drainSeconds
	snapshotAge
	desiredForAnyone
	replicasWanted
	replicasDesired
	replicasReady
	replicasStarting
	replicasDraining
	workers
	slotsProvisioned
	slotsBusy
	serviceTime
	coldStart
	handlerRuns
	handlerSeconds
	ceilingReplicas
	ceilingBinding
	decisions
	downstreamLimit
	downstreamUsed
	downstreamThrottled
	downstreamPaused
	downstreamGranted
	downstreamCalls
	cycleSeconds
	cycleAt
	buildInfo
	metrics // how many there are
)

// catalogue is every metric there is. What cannot be measured now has no sample: absent is unknown, never zero.
var catalogue = [metrics]Metric{
	queueJobs: {"headrace_queue_jobs", Gauge, "jobs", []string{"pool", "state"},
		"Jobs in the queue by state: ready (the backlog), delayed, leased (in flight), dead (dead letters)."},
	oldestAge: {"headrace_queue_oldest_age_seconds", Gauge, "seconds", []string{"pool"},
		"How long the oldest ready job has been ready; 0 when none is."},
	objective: {"headrace_pool_objective_oldest_age_seconds", Gauge, "seconds", []string{"pool"},
		"How old the oldest ready job may become by the pool's objective; absent without one."},
	arrivals: {"headrace_queue_arrivals_total", Counter, "jobs", []string{"pool"},
		"Jobs that became due for their first time."},
	completions: {"headrace_queue_completions_total", Counter, "jobs", []string{"pool", "outcome"},
		"Jobs that ended, by outcome: succeeded, dead, cancelled, expired."},
	returned: {"headrace_deliveries_returned_total", Counter, "deliveries", []string{"pool", "outcome"},
		"Deliveries after which the job was not done: nacked (failed), released (given back), crashed (their worker died)."},
	leasesExpired: {"headrace_leases_expired_total", Counter, "leases", []string{"pool"},
		"Leases that ran out because nobody extended or settled them."},
	redriven: {"headrace_dead_letters_redriven_total", Counter, "jobs", []string{"pool"},
		"Dead letters that were given another life."},
	draining: {"headrace_queue_draining", Gauge, "1", []string{"pool"},
		"1: the backlog is empty or shrinks. 0: it grows, or nothing completes."},
	drainSeconds: {"headrace_queue_drain_seconds", Gauge, "seconds", []string{"pool"},
		"Estimated time until the backlog is gone at the present net rate; 0 when it is, absent while it does not shrink."},
	snapshotAge: {"headrace_snapshot_age_seconds", Gauge, "seconds", []string{"pool"},
		"Age of the newest usable reading of the pool's queue and workers. It grows while they cannot be read."},
	desiredForAnyone: {"headrace_pool_desired_replicas", Gauge, "replicas", []string{"pool"},
		"The size that was decided, for any autoscaler to follow."},
	replicasWanted: {"headrace_replicas_wanted", Gauge, "replicas", []string{"pool"},
		"Replicas by demand alone, before ceilings and damping; absent while demand is unknown."},
	replicasDesired: {"headrace_replicas_desired", Gauge, "replicas", []string{"pool"},
		"The size that was decided."},
	replicasReady: {"headrace_replicas_ready", Gauge, "replicas", []string{"pool"},
		"Replicas that work."},
	replicasStarting: {"headrace_replicas_starting", Gauge, "replicas", []string{"pool"},
		"Replicas that were ordered and do not work yet."},
	replicasDraining: {"headrace_replicas_draining", Gauge, "replicas", []string{"pool"},
		"Replicas that were told to go and finish what they run."},
	workers: {"headrace_workers", Gauge, "workers", []string{"pool"},
		"Workers that report."},
	slotsProvisioned: {"headrace_slots_provisioned", Gauge, "slots", []string{"pool"},
		"Slots of ready replicas."},
	slotsBusy: {"headrace_slots_busy", Gauge, "slots", []string{"pool"},
		"Slots that run a job; absent where workers do not report."},
	serviceTime: {"headrace_service_time_seconds", Gauge, "seconds", []string{"pool"},
		"Estimated time a job keeps a slot busy; absent until it is known."},
	coldStart: {"headrace_cold_start_seconds", Gauge, "seconds", []string{"pool"},
		"Estimated time from ordering a replica to its first job, 90th percentile."},
	handlerRuns: {"headrace_handler_runs_total", Counter, "runs", []string{"pool"},
		"Runs of a job's handler that ended, as workers reported them."},
	handlerSeconds: {"headrace_handler_busy_seconds_total", Counter, "seconds", []string{"pool"},
		"Time handlers were busy over those runs. Waiting for permits is not busy."},
	ceilingReplicas: {"headrace_ceiling_replicas", Gauge, "replicas", []string{"pool", "constraint", "subject"},
		"Replicas past which more do not help or are not allowed, by constraint (a reason) and what it is about."},
	ceilingBinding: {"headrace_constraint_binding", Gauge, "1", []string{"pool", "constraint", "subject"},
		"1: demand is above this ceiling and no other is lower. 0: it is not."},
	decisions: {"headrace_decisions_total", Counter, "decisions", []string{"pool", "reason"},
		"Decisions since this process started, one a cycle, by reason (see reasons.md)."},
	downstreamLimit: {"headrace_downstream_limit_per_second", Gauge, "units per second", []string{"downstream", "unit"},
		"Declared rate limit."},
	downstreamUsed: {"headrace_downstream_used_ratio", Gauge, "1", []string{"downstream", "unit"},
		"Share of the limit taken over the last half minute: 0 unused, 1 fully used."},
	downstreamThrottled: {"headrace_downstream_throttled_ratio", Gauge, "1", []string{"downstream", "unit"},
		"Share of calls the downstream refused over the last half minute."},
	downstreamPaused: {"headrace_downstream_paused_seconds", Gauge, "seconds", []string{"downstream"},
		"How much longer everybody stays away because the downstream asked for it; 0: not."},
	downstreamGranted: {"headrace_downstream_permits_granted_total", Counter, "permits", []string{"downstream"},
		"Permits given, since this process started."},
	downstreamCalls: {"headrace_downstream_calls_total", Counter, "calls", []string{"downstream", "outcome"},
		"Uses that workers reported, by outcome: ok, throttled, failed."},
	cycleSeconds: {"headrace_cycle_seconds", Gauge, "seconds", nil,
		"How long the last cycle of the control loop took."},
	cycleAt: {"headrace_last_cycle_timestamp_seconds", Gauge, "seconds since 1970", nil,
		"When the control loop last ran; absent before its first cycle."},
	buildInfo: {"headrace_build_info", Gauge, "1", []string{"version", "goversion"},
		"Always 1; the labels say what is running."},
}

// Catalogue lists every metric, in the order of the reference.
func Catalogue() []Metric { return catalogue[:] }

// Reference renders the catalogue as docs/reference/metrics.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Metrics

<!-- Generated from internal/telemetry. Run: go test ./internal/telemetry -update -->

` + "`GET /metrics`" + ` answers in the Prometheus text format. Needed when configured: the bearer token of ` + "`server.auth.token`" + `.

A number that is not known now is absent; it is never zero. ` + "`headrace_snapshot_age_seconds`" + ` says how old the numbers of a
pool are. Any autoscaler can follow ` + "`headrace_pool_desired_replicas`" + `. The Go runtime and process metrics
(` + "`go_*`, `process_*`" + `) are served beside these.

| name | kind | unit | labels | meaning |
|---|---|---|---|---|
`)
	for _, m := range catalogue {
		labels := "-"
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "` `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.Name, m.Kind, m.Unit, labels, m.Help)
	}
	return b.String()
}
