package scale

import "fmt"

//go:generate go test -run TestReasonsPage -update .

// Reason is why a pool has the size it has: a closed list, each with a sentence and a page in the docs.
type Reason string

// The reasons this version can give. [Reasons] describes them.
const (
	DemandMet            Reason = "demand_met"
	Recovering           Reason = "recovering"
	DownstreamThroughput Reason = "downstream_throughput"
	DownstreamUnhealthy  Reason = "downstream_unhealthy"
	TeamQuota            Reason = "team_quota"
	PoolMax              Reason = "pool_max"
	PoolMin              Reason = "pool_min"
	StepLimit            Reason = "step_limit"
	HoldDown             Reason = "hold_down"
	DeadBand             Reason = "dead_band"
	StaleHold            Reason = "stale_hold"
	Stuck                Reason = "stuck"
	ActuatorRefused      Reason = "actuator_refused"
	WorkersNotReady      Reason = "workers_not_ready"
	WorkersIdle          Reason = "workers_idle"
	IdleToZero           Reason = "idle_to_zero"
	RestartHold          Reason = "restart_hold"
)

// ReasonInfo describes one reason.
type ReasonInfo struct {
	Reason Reason
	// Sentence is the verdict. Subject names what its %s stands for; empty: it has none.
	Sentence string
	Subject  string
	// Meaning says what happened and what follows, Evidence which numbers a decision with this reason carries.
	Meaning  string
	Evidence string
	// Do is what a person can do about it.
	Do string
}

// Anchor is the place in docs/reference/reasons.md.
func (r ReasonInfo) Anchor() string { return "reasons.md#" + string(r.Reason) }

// Reasons lists every reason, in the order of the docs.
func Reasons() []ReasonInfo { return reasons[:] }

// Info describes a reason; an unknown one has only its name.
func (r Reason) Info() ReasonInfo {
	for _, i := range reasons {
		if i.Reason == r {
			return i
		}
	}
	return ReasonInfo{Reason: r, Sentence: string(r) + "."}
}

func (r Reason) sentence(subject string) string {
	i := r.Info()
	if i.Subject == "" {
		return i.Sentence
	}
	return fmt.Sprintf(i.Sentence, subject)
}

var reasons = [...]ReasonInfo{
	{DemandMet, "Enough to keep up.", "",
		"The pool has what its work needs, and nothing limits it.",
		"arrival rate, service time, slots busy, headroom",
		"Nothing."},
	{Recovering, "More than keeps up, to clear what is late.", "",
		"A backlog has to be cleared within the objective, so the pool is larger than the arrival rate alone needs. It shrinks again when the backlog is gone.",
		"backlog, the time it is cleared in, rate of one replica",
		"Nothing, unless it happens every day at the same hour: then raise the minimum, or relax the objective."},
	{DownstreamThroughput, "Throughput-limited by %s.", "downstream",
		"The work asks for more replicas than the rate limit of a downstream can feed. More workers would only be refused.",
		"the limit, units a job, jobs/s it lets through, share used, share throttled, the demand",
		"Raise the limit at the provider and in the configuration, make a job use less of it, or accept the time the backlog takes."},
	{DownstreamUnhealthy, "Not growing: %s asked everybody to stay away.", "downstream",
		"A downstream answered \"too many\" with a time to wait. Until it has passed no worker is added: it would find nothing to do.",
		"the seconds left to wait, the demand",
		"Look at the downstream. Nothing has to be done here."},
	{TeamQuota, "Limited by the share of %s.", "capacity",
		"Several pools share a capacity, and together they need more than it has. Each has its fair part.",
		"the capacity, this pool's part, the demand",
		"Raise the capacity, or lower what the other pools need."},
	{PoolMax, "At the pool's maximum.", "",
		"The work asks for more replicas than `replicas.max` allows.",
		"the maximum, the demand, the drain time with and without it",
		"Raise `replicas.max`, or accept the drain time that is shown."},
	{PoolMin, "At the pool's minimum.", "",
		"The work needs fewer replicas than `replicas.min` keeps.",
		"the minimum, what the work needs",
		"Lower `replicas.min` if the warm workers are not wanted."},
	{StepLimit, "On the way, at the allowed speed.", "",
		"The pool moves towards the wanted size by as much as `scale.up` or `scale.down` allow at a time.",
		"the rate, the wanted size, when the next step is possible",
		"Nothing, or a faster rate."},
	{HoldDown, "Holding: the need fell only just now.", "",
		"The work needs fewer replicas than before, but not for long enough. Removing workers now would probably mean starting them again. Workers that run jobs which a scale-in would interrupt are kept for the same reason.",
		"the need that is held, how long ago it was seen, when it ends",
		"Nothing, or a shorter `scale.hold`."},
	{DeadBand, "Holding: the difference is too small to be worth a move.", "",
		"The wanted size is within 5 % above (with nothing waiting) or 10 % below the present one. An excess is removed after 15 minutes at the latest.",
		"the wanted and the present size",
		"Nothing."},
	{StaleHold, "Holding: inputs are unknown.", "",
		"A number this decision needs could not be read, or is too old. Unknown is not zero: nothing is removed.",
		"which input, and for how long it has been unread",
		"Repair the source: the broker, its credentials, the network, or the actuator."},
	{Stuck, "Stuck: work waits and nothing completes.", "",
		"Workers are ready and jobs are there, but none has ended for longer than any should take. More workers would get stuck as well.",
		"how long nothing has completed, workers ready, oldest age",
		"Look at what the workers are doing; a job that never ends, a lock, or a downstream that never answers."},
	{ActuatorRefused, "The actuator refuses the wanted size.", "",
		"What starts and stops the workers answered with an error. The size is asked for again each cycle.",
		"the error, the wanted and the present size",
		"Repair what the error names."},
	{WorkersNotReady, "Not growing: ordered workers do not come up.", "",
		"Workers were ordered long ago and do not work yet, or die at their start. More of them would do the same.",
		"how many are overdue, how many die at their start, the usual start time",
		"Look at the log of a worker that was started last."},
	{WorkersIdle, "Not growing: work waits beside idle workers.", "",
		"The backlog does not shrink although at least half of the slots are free. Something else keeps the workers from taking jobs, and more of them cannot help.",
		"slots free, backlog, for how long",
		"Look at why workers do not take jobs: the broker's limits, ordering by key, a paused queue."},
	{IdleToZero, "Empty for long enough to stop every worker.", "",
		"A pool with a minimum of zero had nothing to do for its `idle_to_zero` time.",
		"how long the pool has been empty",
		"Nothing. The next job starts a worker."},
	{RestartHold, "Holding: Headrace started only just now.", "",
		"After a restart nothing is removed before the first hold has passed, because needs seen before it may be forgotten.",
		"when the hold ends",
		"Nothing."},
}
