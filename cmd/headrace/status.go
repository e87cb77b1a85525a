package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/fleet"
	"github.com/headrace/headrace/internal/httpapi"
	"github.com/headrace/headrace/worker/protocol"
)

// loopSilence is how long after its last cycle a control loop counts as stopped.
const loopSilence = 30 * time.Second

func statusColumns(now answer) []column[httpapi.Status] {
	type status = httpapi.Status
	return []column[status]{
		{name: "VERSION", fields: "version", text: func(s status) string { return cmp.Or(s.Version, "(devel)") }},
		{name: "UP", fields: "started_at", text: func(s status) string {
			return span(now.age(s.StartedAt)) + ", since " + moment(s.StartedAt)
		}},
		{name: "CYCLE", fields: "last_cycle_at cycle_seconds", text: func(s status) string {
			if s.LastCycleAt == nil {
				return "has not run yet"
			}
			took := time.Duration(s.CycleSeconds * float64(time.Second)).Round(100 * time.Microsecond)
			return fmt.Sprintf("%s ago, took %v", span(now.age(*s.LastCycleAt)), took)
		}, colour: func(s status) colour {
			if stopped(s, now) {
				return red
			}
			return plain
		}},
		{name: "POOLS", fields: "pools states", text: func(s status) string {
			var parts []string
			for _, state := range slices.SortedFunc(maps.Keys(s.States), func(a, b httpapi.PoolState) int {
				return cmp.Compare(lookOf(a).rank, lookOf(b).rank)
			}) {
				parts = append(parts, fmt.Sprintf("%s %d %s", lookOf(state).symbol, s.States[state], words(string(state))))
			}
			if len(parts) == 0 {
				return fmt.Sprint(s.Pools)
			}
			return fmt.Sprintf("%d: %s", s.Pools, strings.Join(parts, ", "))
		}},
		{name: "WORKERS", fields: "workers", text: func(s status) string { return fmt.Sprint(s.Workers) }},
	}
}

func stopped(s httpapi.Status, now answer) bool {
	return s.LastCycleAt == nil || now.age(*s.LastCycleAt) > loopSilence
}

func newStatusCmd(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say whether the server works, and how its pools are",
		Long: `Say whether the server works, and how its pools are.

Exits with 3 when the control loop does not run, or when a pool is unread or stuck.`,
		Example: "  headrace status\n  headrace status -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl, err := c.client()
			if err != nil {
				return err
			}
			a, err := cl.get(cmd.Context(), "/api/v1/status", nil)
			if err != nil {
				return fmt.Errorf("read status: %w", err)
			}
			if err := single(c, a, statusColumns(a)); err != nil {
				return err
			}
			var s httpapi.Status
			if err := json.Unmarshal(a.body, &s); err != nil {
				return fmt.Errorf("read the answer: %w", err)
			}
			switch {
			case stopped(s, a):
				return exitError{exitBad, errors.New("the control loop does not run: nothing is scaled")}
			case s.States[httpapi.PoolUnread]+s.States[httpapi.PoolStuck] > 0:
				return exitError{exitBad, errors.New("pools are unread or stuck; see `headrace pools`")}
			}
			return nil
		},
	}
	return describe(withServer(c, cmd), statusColumns(answer{}))
}

// limitOf is one limit of a downstream, a row of the table.
type limitOf struct {
	httpapi.Downstream
	limit *httpapi.DownstreamLimit // nil: it has none
}

func downstreamColumns() []column[limitOf] {
	ofLimit := func(text func(httpapi.DownstreamLimit) string) func(limitOf) string {
		return func(l limitOf) string {
			if l.limit == nil {
				return unknown
			}
			return text(*l.limit)
		}
	}
	return []column[limitOf]{
		{name: "DOWNSTREAM", fields: "name", text: func(l limitOf) string { return l.Name }, colour: func(limitOf) colour { return bold }},
		{name: "LIMIT", fields: "limits[].per_minute limits[].unit", right: true, text: ofLimit(func(l httpapi.DownstreamLimit) string {
			return quantity(l.PerMinute) + " " + l.Unit + "/min"
		})},
		{name: "USED", fields: "limits[].used", right: true, text: ofLimit(func(l httpapi.DownstreamLimit) string { return share(l.Used) })},
		{name: "UNITS / USE", fields: "limits[].units_per_use", right: true, text: ofLimit(func(l httpapi.DownstreamLimit) string {
			if l.UnitsPerUse == 0 {
				return unknown
			}
			return quantity(l.UnitsPerUse)
		})},
		{name: "THROTTLED", fields: "limits[].throttled_share throttled", right: true, text: ofLimit(func(l httpapi.DownstreamLimit) string {
			return share(l.ThrottledShare)
		}), colour: func(l limitOf) colour {
			if l.limit != nil && l.limit.ThrottledShare > 0.01 {
				return red
			}
			return plain
		}},
		{name: "GRANTED", fields: "granted", right: true, text: func(l limitOf) string { return amount(l.Granted) }},
		{name: "STATE", fields: "paused_for", text: func(l limitOf) string {
			if l.PausedFor > 0 {
				return "paused for " + spanOf(&l.PausedFor)
			}
			return "open"
		}, colour: func(l limitOf) colour {
			if l.PausedFor > 0 {
				return yellow
			}
			return plain
		}},
	}
}

func newDownstreamsCmd(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "downstreams",
		Short:   "Show how much of each downstream's limits is used",
		Example: "  headrace downstreams\n  headrace downstreams -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl, err := c.client()
			if err != nil {
				return err
			}
			a, err := cl.get(cmd.Context(), "/api/v1/downstreams", nil)
			if err != nil {
				return fmt.Errorf("list downstreams: %w", err)
			}
			if c.output != "table" {
				return list[httpapi.Downstream](c, a, nil, nil)
			}
			var body httpapi.DownstreamList
			if err := json.Unmarshal(a.body, &body); err != nil {
				return fmt.Errorf("read the answer: %w", err)
			}
			var rows []limitOf
			for _, d := range body.Items {
				for i := range d.Limits {
					rows = append(rows, limitOf{d, &d.Limits[i]})
				}
				if len(d.Limits) == 0 {
					rows = append(rows, limitOf{d, nil})
				}
			}
			return c.table(tableOf(downstreamColumns(), rows, c.coloured(c.stdout)))
		},
	}
	return describe(withServer(c, cmd), downstreamColumns())
}

func workerColumns(now answer) []column[fleet.Worker] {
	type worker = fleet.Worker
	return []column[worker]{
		{name: "WORKER", fields: "name", text: func(w worker) string { return w.Name }, colour: func(worker) colour { return bold }},
		{name: "POOL", fields: "pool", text: func(w worker) string { return w.Pool }},
		{name: "ORDER", fields: "order", text: func(w worker) string { return string(w.Order) }, colour: func(w worker) colour {
			if w.Order != protocol.Run {
				return yellow
			}
			return plain
		}},
		{name: "BUSY / SLOTS", fields: "busy slots", right: true, text: func(w worker) string { return fmt.Sprintf("%d / %d", w.Busy, w.Slots) }},
		{name: "FIRST SEEN", fields: "first_seen_at", right: true, text: func(w worker) string { return span(now.age(w.FirstAt)) + " ago" }},
		{name: "LAST REPORT", fields: "seen_at", right: true, text: func(w worker) string { return span(now.age(w.SeenAt)) + " ago" }},
	}
}

func newWorkersCmd(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "workers",
		Short:   "List the workers that report, with what they hold",
		Example: "  headrace workers\n  headrace workers -o ndjson",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl, err := c.client()
			if err != nil {
				return err
			}
			a, err := cl.get(cmd.Context(), "/api/v1/workers", nil)
			if err != nil {
				return fmt.Errorf("list workers: %w", err)
			}
			return list(c, a, workerColumns(a), nil)
		},
	}
	return describe(withServer(c, cmd), workerColumns(answer{}))
}
