package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/httpapi"
)

// look is how a state is shown: the symbol carries the meaning without colour too.
type look struct {
	symbol string
	tint   colour
	rank   int // the worst first
}

func lookOf(s httpapi.PoolState) look {
	switch s {
	case httpapi.PoolUnread:
		return look{"◌", grey, 0}
	case httpapi.PoolStuck:
		return look{"■", red, 1}
	case httpapi.PoolAtRisk:
		return look{"▲", yellow, 2}
	case httpapi.PoolOK:
		return look{"●", green, 3}
	default:
		return look{"○", grey, 4}
	}
}

func poolColumns() []column[httpapi.Pool] {
	tint := func(p httpapi.Pool) colour { return lookOf(p.State).tint }
	return []column[httpapi.Pool]{
		{name: " ", fields: "state", text: func(p httpapi.Pool) string { return lookOf(p.State).symbol }, colour: tint},
		{name: "POOL", fields: "name", text: func(p httpapi.Pool) string { return p.Name }, colour: func(httpapi.Pool) colour { return bold }},
		{name: "STATE", fields: "state mode", text: func(p httpapi.Pool) string {
			if p.Mode == "observe" {
				return words(string(p.State)) + " (observe)"
			}
			return words(string(p.State))
		}, colour: tint},
		{name: "OLDEST / OBJ", fields: "oldest_age objective", text: func(p httpapi.Pool) string {
			if p.Objective == nil {
				return spanOf(p.OldestAge)
			}
			return spanOf(p.OldestAge) + " / " + spanOf(p.Objective)
		}, colour: func(p httpapi.Pool) colour {
			if p.OldestAge != nil && p.Objective != nil && *p.OldestAge > *p.Objective {
				return red
			}
			return plain
		}},
		{name: "BACKLOG", fields: "backlog", right: true, text: func(p httpapi.Pool) string { return amountOf(p.Backlog) }},
		{name: "DRAIN", fields: "drain", text: func(p httpapi.Pool) string { return p.Drain.Text() }},
		{name: "IN / OUT", fields: "arrivals completions", text: func(p httpapi.Pool) string {
			return rateOf(p.Arrivals) + " / " + rate(p.Completions)
		}},
		{name: "REPLICAS", fields: "desired wanted ready", text: replicas},
		{name: "HELD BY", fields: "held_by", text: func(p httpapi.Pool) string { return cmp.Or(words(p.HeldBy), "-") }},
	}
}

// replicas says what is asked for, what demand would have, and what is not there yet: 14 ▸ 31, 13 ready.
func replicas(p httpapi.Pool) string {
	s := fmt.Sprint(p.Desired)
	if p.Wanted > p.Desired {
		s += fmt.Sprintf(" ▸ %d", p.Wanted)
	}
	if p.Ready != p.Desired {
		s += fmt.Sprintf(" (%d ready)", p.Ready)
	}
	return s
}

func newPoolsCmd(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pools",
		Short: "Show how every pool is doing, the worst first",
		Long: `Show how every pool is doing, the worst first.

States: ◌ unread (its queue or workers cannot be read), ■ stuck (work waits, nothing completes), ▲ at risk (the oldest
job is over the objective, or workers are in trouble: they keep dying, or only ever give their jobs back), ● ok, ○ idle.
(observe): decided and explained, and nothing is changed. A number that is not known is –, never 0. REPLICAS is what was
decided; after ▸ stands what demand asks for when that is more, and HELD BY what holds it back.`,
		Example: "  headrace pools\n  headrace pools -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl, err := c.client()
			if err != nil {
				return err
			}
			a, err := cl.get(cmd.Context(), "/api/v1/pools", nil)
			if err != nil {
				return fmt.Errorf("list pools: %w", err)
			}
			err = list(c, a, poolColumns(), func(pools []httpapi.Pool) {
				slices.SortStableFunc(pools, func(a, b httpapi.Pool) int { return cmp.Compare(lookOf(a.State).rank, lookOf(b.State).rank) })
			})
			if err == nil && c.output == "table" {
				c.closing(a)
			}
			return err
		},
	}
	return describe(withServer(c, cmd), poolColumns())
}

// closing says below a table of pools what to look at next.
func (c *cli) closing(a answer) {
	var body httpapi.PoolList
	if json.Unmarshal(a.body, &body) != nil {
		return
	}
	if len(body.Items) == 0 {
		fmt.Fprintln(c.stderr, "No pool has been decided yet.")
		return
	}
	newest := slices.MaxFunc(body.Items, func(a, b httpapi.Pool) int { return a.At.Compare(b.At) }).At
	if age := a.age(newest); age > 10*time.Second {
		fmt.Fprintf(c.stderr, "Unread for %s: the control loop has not run since. Sizes stay as they are.\n", span(age))
	}
	for _, p := range body.Items {
		if p.Unread != "" {
			fmt.Fprintf(c.stderr, "%s is unread: %s; holding %d\n", p.Name, printable(p.Unread), p.Desired)
		}
		if p.Trouble != "" {
			fmt.Fprintf(c.stderr, "%s: %s\n", p.Name, printable(p.Trouble))
		}
	}
	for _, state := range []httpapi.PoolState{httpapi.PoolUnread, httpapi.PoolStuck, httpapi.PoolAtRisk} {
		var names []string
		for _, p := range body.Items {
			if p.State == state {
				names = append(names, p.Name)
			}
		}
		if len(names) > 0 {
			fmt.Fprintf(c.stderr, "%s %s. Why: headrace explain %s\n", plural(int64(len(names)), "pool"), words(string(state)), names[0])
		}
	}
}
