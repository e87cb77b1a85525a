package scale

// Reason is why a pool has the size it has: a closed list, each with a sentence and a page in the docs.
type Reason string

// The reasons this version can give.
const (
	DemandMet            Reason = "demand_met"            // the work needs this many
	Recovering           Reason = "recovering"            // more than keeps up, to clear what is late
	DownstreamThroughput Reason = "downstream_throughput" // a downstream's rate limit is used up: more workers would only be refused
	DownstreamUnhealthy  Reason = "downstream_unhealthy"  // a downstream asked everybody to stay away
	TeamQuota            Reason = "team_quota"            // a share of what several pools may have is used up
	PoolMax              Reason = "pool_max"
	PoolMin              Reason = "pool_min"
	StepLimit            Reason = "step_limit" // on the way, at the allowed speed
	HoldDown             Reason = "hold_down"  // need fell, but not for long enough
	DeadBand             Reason = "dead_band"  // the difference is too small to be worth a move
	StaleHold            Reason = "stale_hold" // inputs unknown: keep the present size
	Stuck                Reason = "stuck"      // the oldest job ages and nothing completes: capacity cannot help
	ActuatorRefused      Reason = "actuator_refused"
	WorkersNotReady      Reason = "workers_not_ready" // ordered workers do not come up
	WorkersIdle          Reason = "workers_idle"      // the backlog waits although slots are idle: more workers cannot help
	IdleToZero           Reason = "idle_to_zero"
	RestartHold          Reason = "restart_hold" // just restarted: nothing is taken away before the first hold has passed
)
