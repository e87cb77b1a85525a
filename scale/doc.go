// Package scale decides how many workers a pool should have, and says why.
//
// It is pure: no clock, context, logger, error or goroutine. Time is [Observation.At], memory is [State],
// and equal inputs give equal outputs, so every decision can be replayed from its record. A cycle is three calls:
//
//	needs[i] := scale.Size(policy, state, observation)         // what the work of one pool needs, per term
//	grants   := scale.Share(needs, capacities)                 // what each pool may have of what pools share
//	decision, state := scale.Decide(policy, state, observation, grants[i])
//
// A bad policy is caught once, by [Policy.Validate]. A bad observation is data, and the answer is to hold.
package scale
