package config

import "slices"

// key is one row of the table of all keys. Reading a file, the JSON Schema, the first file of `headrace init`,
// `headrace config show` and the reference page are all made from it.
type key struct {
	name string
	help string // one sentence
	kind *kind  // of a scalar or a list; nil: the value is a block
	keys []*key // of a block
	// each is what any other key of the block holds; names is the rule for such keys.
	each  *key
	names *names

	def      string // the default, as it would be written
	meant    string // the default in words, where it depends on other keys
	required bool
	inherits bool   // a block that takes what it leaves out from `defaults`, where that has the key
	min, max string // bounds, as they would be written
	env      string // environment variable that overrides the file
}

func (k *key) find(name string) *key {
	for _, c := range k.keys {
		if c.name == name {
			return c
		}
	}
	return nil
}

// planned are keys that the design knows and this version does not: saying so saves a search for a typo.
var planned = map[string]bool{
	"teams": true, "team": true, "cost": true, "schedules": true, "floors": true, "only_during": true, "saturation": true,
	"tenants": true, "breaker": true, "budget": true, "class": true, "window": true, "done_by": true, "on_demand_min": true,
	"dsn": true, "region": true, "namespace": true, "deployment": true, "memory": true, "tokens_file": true,
	"honour": true, "health": true, "shares": true, "prometheus": true, "priority": true, "forecast": true,
	"schedule": true, "floor": true, "cron": true, "tz": true, "classes": true, "keda": true, "max_backlog": true,
	"max_drain": true, "max_replicas": true, "roles": true,
}

// plannedLimits are limits of downstreams that are no rates.
var plannedLimits = map[string]bool{"concurrency": true, "connections": true, "reserved": true}

// plannedWords are the same for values.
var plannedWords = map[string]bool{
	"postgres": true, "kafka": true, "sqs": true, "rabbitmq": true, "redis": true, "nats": true, "kubernetes": true, "autoscaling": true,
}

// table is every key of this version.
func table() *key {
	return &key{keys: []*key{
		{name: "version", kind: whole(), required: true, min: "1", max: "1", help: "Version of this format."},
		{name: "server", help: "The process that decides, and serves the API and the dashboard.", keys: []*key{
			{name: "listen", kind: hostPort(), def: "127.0.0.1:8480", env: "HEADRACE_LISTEN", help: "Address of dashboard, API and /metrics. Beyond this machine it needs auth."},
			{name: "data_dir", kind: text(), def: "headrace-data", env: "HEADRACE_DATA_DIR", help: "Directory of queues, journal and worker logs; a relative path starts at this file."},
			{name: "history", kind: duration(), def: "14d", min: "1h", max: "3650d", help: "How long decisions are kept."},
			{name: "cycle", kind: duration(), def: "1s", min: "100ms", max: "1m", help: "Time between two evaluations of a pool."},
			{name: "auth", help: "Who may call the API.", keys: []*key{
				{name: "token", kind: secret(), meant: "none: loopback only", help: "Bearer token that every call must bring; best written as ${env:NAME} or ${file:PATH}."},
			}},
		}},
		{name: "brokers", help: "Where queues live. Without this section there is one, `main`, of type sqlite.", names: named("broker"),
			each: &key{help: "A broker.", keys: []*key{
				{name: "type", kind: word("sqlite"), required: true, help: "What kind of broker."},
				{name: "path", kind: text(), meant: "queue.db in data_dir", help: "sqlite: the database file; a relative path starts at this file. Brokers other than the only one must name theirs."},
			}}},
		{name: "actuators", help: "What starts and stops workers. Without this section there is one, `local`, of type process.", names: named("actuator"),
			each: &key{help: "An actuator.", keys: []*key{
				{name: "type", kind: word("process"), required: true, help: "process: child processes of `headrace up`."},
				{name: "max_total", kind: whole(), meant: "no limit", min: "1", max: "10000", help: "Most workers of all its pools together."},
			}}},
		{name: "downstreams", help: "What workers lean on, such as an API with a rate limit. No job starts without a permit.", names: named("downstream"),
			each: &key{help: "A downstream.", keys: []*key{
				{name: "limits", required: true, help: "What it allows, each a unit with a rate.", names: units(),
					each: &key{kind: rate(), help: "The most it takes of this unit."}},
				{name: "throttle_on", help: "How it says \"too many\".", keys: []*key{
					{name: "status", kind: statuses(), def: "[429]", help: "HTTP statuses that mean it."},
				}},
			}}},
		{name: "defaults", help: "What holds for every pool that does not say otherwise.", keys: defaultable()},
		{name: "pools", help: "The workers that serve one queue under one policy.", names: named("pool"),
			each: &key{help: "A pool.", inherits: true, keys: slices.Concat([]*key{
				{name: "broker", kind: text(), meant: "the only broker", help: "Where its queue lives."},
				{name: "queue", kind: text(), meant: "the pool's name", help: "The queue it serves; no other pool may serve it."},
			}, defaultable(), []*key{
				{name: "service_time", kind: duration(), meant: "none: the first completions decide", min: "1ms", max: "7d", help: "What is believed of the time one job keeps a slot busy, until it was measured."},
				{name: "downstreams", help: "What one job takes of each downstream. A limit on `requests` counts 1/job where nothing is said.", names: named("downstream"),
					each: &key{help: "A downstream that the jobs use.", names: units(),
						each: &key{kind: perJob(), help: "Units that one job takes, the prior for what is measured."},
						keys: []*key{
							{name: "measure", kind: word("reported"), meant: "as declared", help: "reported: workers report the true cost of each job."},
						}}},
				{name: "actuator", required: true, help: "What each worker runs: one of command, worker and http.", keys: []*key{
					{name: "use", kind: text(), meant: "the only actuator", help: "The actuator that starts the workers."},
					{name: "command", kind: argv(), meant: "one of the three", help: "Program run once a job: payload on stdin, result on stdout; exit 0 done, 65 dead, 69 given back, else failed. A text is split as a shell would; no shell runs it."},
					{name: "worker", kind: argv(), help: "Long-lived program that speaks the worker protocol."},
					{name: "http", kind: httpURL(), help: "Address that each job is posted to."},
					{name: "env", help: "Variables added to the environment.", names: variables(), each: &key{kind: environment(), help: "Value of the variable."}},
					{name: "dir", kind: text(), meant: "the directory of this file", help: "Working directory; a relative path starts at this file."},
					{name: "grace", kind: duration(), def: "30s", min: "0s", max: "1d", help: "Time to finish from SIGTERM to SIGKILL."},
				}},
			})}},
	}}
}

// defaultable are the keys of a pool that `defaults` may set for all.
func defaultable() []*key {
	return []*key{
		{name: "mode", kind: word("act", "observe"), def: "act", help: "observe: decide and explain, change nothing."},
		{name: "objective", help: "What the users of a pool were promised: oldest_age, drain or both.", meant: "required, here or in `defaults`", keys: []*key{
			{name: "oldest_age", kind: duration(), meant: "no promise", min: "100ms", max: "30d", help: "No job waits longer."},
			{name: "drain", kind: duration(), meant: "oldest_age", min: "1s", max: "30d", help: "A backlog is gone after it."},
			{name: "target", kind: share(), def: "95%", max: "99.999%", help: "Share of jobs that must meet oldest_age in steady state."},
		}},
		{name: "replicas", help: "How many workers there may be.", keys: []*key{
			{name: "min", kind: whole(), def: "0", max: "10000", help: "Never fewer."},
			{name: "max", kind: whole(), required: true, min: "1", max: "10000", help: "Never more."},
			{name: "starts_in", kind: duration(), def: "1s", min: "1ms", max: "1h", help: "Time from ordering a worker to its first job, the prior for what is measured."},
			{name: "idle_to_zero", kind: duration(), def: "5m", min: "1s", max: "7d", help: "How long a pool with min 0 must be empty before its last worker goes."},
		}},
		{name: "concurrency", kind: whole(), def: "1", min: "1", max: "1000", help: "Jobs that one worker runs at the same time."},
		{name: "lease", help: "The right of a worker to a job, kept alive by heartbeats.", keys: []*key{
			{name: "for", kind: duration(), def: "60s", min: "1s", max: "1d", help: "Length; a worker that died gives its jobs back after it at the latest."},
			{name: "heartbeat", kind: duration(), meant: "a third of for", min: "100ms", max: "8h", help: "Time between extensions, at most a third of for."},
			{name: "max", kind: duration(), def: "1h", min: "1s", max: "30d", help: "Longest hold over all extensions; a job that is held longer failed."},
		}},
		{name: "retry", help: "What follows a failure.", keys: []*key{
			{name: "attempts", kind: whole(), def: "10", min: "1", max: "1000", help: "Deliveries that may fail before the job goes to the dead letters."},
			{name: "backoff", kind: durations(), def: "1s..10m", help: "First and longest delay; it doubles each time."},
			{name: "jitter", kind: word("full"), def: "full", help: "full: each delay is drawn evenly up to the backoff."},
		}},
		{name: "poison", help: "What follows the death of a worker.", keys: []*key{
			{name: "after_crashes", kind: whole(), def: "2", min: "1", max: "100", help: "Workers that a job may kill before it is set aside."},
			{name: "do", kind: word("quarantine"), def: "quarantine", help: "quarantine: to the dead letters, from where it returns only when forced."},
		}},
		{name: "scale", help: "How fast the size may change.", keys: []*key{
			{name: "up", kind: orAuto(speeds("+"), nil), def: "+100%/15s", help: "Upwards; of several speeds the fastest counts, and from zero a percentage bounds nothing. auto: ×4 + 20 a cycle, without a bound while the backlog is late."},
			{name: "down", kind: orAuto(speeds("-"), nil), def: "-20%/1m", help: "Downwards; of several speeds the slowest counts. auto: 20% within two cold starts, from 10s to 1m."},
			{name: "hold", kind: orAuto(duration(), noDuration), def: "auto", max: "1h", help: "How long a smaller need must last before workers go; auto: the cold start, from 60s to 30m."},
			{name: "utilisation", kind: orAuto(share(), 0.0), def: "auto", help: "How busy slots may be in steady state; auto: 95%, less when the objective is short against the cold start."},
		}},
		{name: "on_stale", help: "What to do when measurements are missing. The size is held at once.", keys: []*key{
			{name: "after", kind: duration(), def: "10m", min: "10s", max: "7d", help: "How long the present size is held at least."},
			{name: "do", kind: word("hold"), def: "hold", help: "hold: keep holding. Or { min: N }: at least N workers; it never lowers.", keys: []*key{
				{name: "min", kind: whole(), required: true, min: "1", max: "10000", help: "Least workers after that time."},
			}},
		}},
	}
}
