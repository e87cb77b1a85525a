package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/httpapi"
)

func newExplainCmd(c *cli) *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use:   "explain POOL",
		Short: "Say why a pool has its size, in words and numbers",
		Long: `Say why a pool has its size: the verdict, the steps of the computation with the one that decided marked ◀, what was
ruled out, and what would help.

--at looks at a moment in the past: 03:12 (the last time it was), 20m (ago), or 2026-01-31T03:12:00Z.`,
		Example: "  headrace explain emails\n  headrace explain emails --at 03:12\n  headrace explain emails -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			when, err := parseMoment(at, time.Now())
			if err != nil {
				return usage("--at %s: %v", at, err)
			}
			cl, err := c.client()
			if err != nil {
				return err
			}
			a, err := cl.get(cmd.Context(), "/api/v1/pools/"+url.PathEscape(args[0])+"/explanation", map[string]string{"at": when})
			if err != nil {
				return fmt.Errorf("explain pool %s: %w", args[0], err)
			}
			switch c.output {
			case "json":
				return c.raw(a.body)
			case "ndjson":
				return c.line(a.body)
			}
			var body httpapi.PoolExplanation
			if err := json.Unmarshal(a.body, &body); err != nil {
				return fmt.Errorf("read the answer: %w", err)
			}
			if age := a.age(body.At); when == "" && age > 10*time.Second {
				fmt.Fprintf(c.stderr, "Unread for %s: the control loop has not run since.\n", span(age))
			} else if when != "" {
				fmt.Fprintf(c.stderr, "As decided at %s.\n", moment(body.At))
			}
			return c.table(body.Decision.Explain().Text())
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "explain the decision of then: a time of day, an age or an RFC 3339 time")
	withServer(c, cmd)
	cmd.Annotations = map[string]string{
		"columns": "STEP=explanation.rows[].step;LIMIT=explanation.rows[].limit;RESULT=explanation.rows[].result;EVIDENCE=explanation.rows[].evidence",
	}
	return cmd
}

// parseMoment turns what a person says of a past moment into RFC 3339. Empty stays empty.
func parseMoment(text string, now time.Time) (string, error) {
	if text == "" {
		return "", nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.UTC().Format(time.RFC3339Nano), nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d).UTC().Format(time.RFC3339Nano), nil
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		clock, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		y, m, d := now.Date()
		t := time.Date(y, m, d, clock.Hour(), clock.Minute(), clock.Second(), 0, now.Location())
		if t.After(now) {
			t = time.Date(y, m, d-1, clock.Hour(), clock.Minute(), clock.Second(), 0, now.Location())
		}
		return t.UTC().Format(time.RFC3339Nano), nil
	}
	return "", errors.New("it must be a time of day such as 03:12, an age such as 20m, or an RFC 3339 time such as 2026-01-31T03:12:00Z")
}
