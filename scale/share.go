package scale

import (
	"cmp"
	"fmt"
	"slices"
)

// Share says what each pool may have of what several share. Each capacity is divided on its own, max-min fair: nobody gets
// more than it needs, and nobody who is short gets less than another. A pool under several capacities has the least of
// its shares. Replicas that do not divide evenly go to pools in the order of needs. Unknown needs take no part: they hold.
func Share(needs []Need, capacities []Capacity) []Grant {
	grants := make([]Grant, len(needs))
	for i, n := range needs {
		grants[i].Need = n
	}
	for _, c := range capacities {
		var members []int
		for i, n := range needs {
			if n.Known && n.Replicas > 0 && slices.Contains(c.Pools, n.Pool) {
				members = append(members, i)
			}
		}
		slices.SortStableFunc(members, func(a, b int) int { return cmp.Compare(needs[a].Replicas, needs[b].Replicas) })
		// Smallest need first: whoever needs less than an equal part gets it all, and the rest divide what is left.
		left := clamp(c.Replicas, 0, maxReplicas)
		for k, i := range members {
			part := left / (len(members) - k)
			if left%(len(members)-k) > 0 {
				part++
			}
			got := min(part, needs[i].Replicas)
			left -= got
			if got < needs[i].Replicas {
				grants[i].Limits = append(grants[i].Limits, Ceiling{
					Reason: TeamQuota, Name: c.Name, Replicas: got,
					Detail: fmt.Sprintf("%d of the %d replicas of %s are this pool's share.", got, c.Replicas, c.Name),
				})
			}
		}
	}
	return grants
}
