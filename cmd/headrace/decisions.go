package main

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/httpapi"
)

func decisionColumns() []column[httpapi.DecisionItem] {
	type item = httpapi.DecisionItem
	return []column[item]{
		{name: "TIME", fields: "at", text: func(d item) string { return moment(d.At) }},
		{name: "POOL", fields: "pool", text: func(d item) string { return d.Pool }, colour: func(item) colour { return bold }},
		{name: "REPLICAS", fields: "from desired", text: func(d item) string {
			if d.From == d.Desired {
				return fmt.Sprint(d.Desired)
			}
			return fmt.Sprintf("%d ▸ %d", d.From, d.Desired)
		}, colour: func(d item) colour {
			switch {
			case d.Desired > d.From:
				return green
			case d.Desired < d.From:
				return yellow
			}
			return plain
		}},
		{name: "WANTED", fields: "wanted", right: true, text: func(d item) string { return fmt.Sprint(d.Wanted) }},
		{name: "REASON", fields: "reason", text: func(d item) string { return string(d.Reason) }},
		{name: "VERDICT", fields: "sentence applied", text: func(d item) string {
			if d.Error != "" {
				return d.Sentence + " Not done: " + d.Error
			}
			return d.Sentence
		}, colour: func(d item) colour {
			if d.Error != "" {
				return red
			}
			return plain
		}},
	}
}

func newDecisionsCmd(c *cli) *cobra.Command {
	var limit int
	var changes bool
	cmd := &cobra.Command{
		Use:   "decisions [POOL]",
		Short: "List recorded decisions, newest first",
		Long: `List recorded decisions of all pools or of one, newest first.

A decision is recorded when it says something new, and once a minute otherwise.`,
		Example: "  headrace decisions\n  headrace decisions emails --changes --limit 50",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > 1000 {
				return usage("--limit %d: it must be between 1 and 1000", limit)
			}
			cl, err := c.client()
			if err != nil {
				return err
			}
			path := "/api/v1/decisions"
			if len(args) == 1 {
				path = "/api/v1/pools/" + url.PathEscape(args[0]) + "/decisions"
			}
			params := map[string]string{"page_size": strconv.Itoa(limit)}
			if changes {
				params["changes"] = "true"
			}
			a, err := cl.get(cmd.Context(), path, params)
			if err != nil {
				return fmt.Errorf("list decisions: %w", err)
			}
			return list(c, a, decisionColumns(), nil)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "at most this many, 1 to 1000")
	cmd.Flags().BoolVar(&changes, "changes", false, "only decisions that changed the size")
	return describe(withServer(c, cmd), decisionColumns())
}
