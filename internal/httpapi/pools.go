package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/headrace/headrace/downstream"
	"github.com/headrace/headrace/internal/control"
	"github.com/headrace/headrace/internal/fleet"
	"github.com/headrace/headrace/internal/journal"
	"github.com/headrace/headrace/scale"
)

// PoolState is how a pool is doing, the worst first.
type PoolState string

// The states of a pool.
const (
	PoolUnread PoolState = "unread"  // its queue or its workers cannot be read
	PoolStuck  PoolState = "stuck"   // work waits and nothing completes
	PoolAtRisk PoolState = "at_risk" // the oldest job is older than the objective, or something is wrong with the workers
	PoolOK     PoolState = "ok"
	PoolIdle   PoolState = "idle" // nothing waits, runs or is delayed
)

// Pool is a pool at its last decision. An absent number is unknown, never zero.
type Pool struct {
	Name        string       `json:"name"`
	State       PoolState    `json:"state" enum:"unread,stuck,at_risk,ok,idle"`
	At          time.Time    `json:"at" doc:"When it was decided; every number is from then."`
	Backlog     *float64     `json:"backlog" doc:"Jobs due and not leased."`
	InFlight    *float64     `json:"in_flight"`
	Delayed     *float64     `json:"delayed"`
	OldestAge   *float64     `json:"oldest_age" doc:"Seconds."`
	Objective   *float64     `json:"objective" doc:"Seconds the oldest job may wait."`
	Drain       scale.Drain  `json:"drain"`
	Arrivals    *float64     `json:"arrivals" doc:"Jobs per second."`
	Completions float64      `json:"completions" doc:"Jobs per second."`
	ServiceTime *float64     `json:"service_time" doc:"Seconds a job keeps a slot busy."`
	Busy        *float64     `json:"busy" doc:"Slots that run a job."`
	Slots       int          `json:"slots" doc:"Slots of ready replicas."`
	Wanted      int          `json:"wanted" doc:"Replicas by demand, before ceilings and damping."`
	Desired     int          `json:"desired"`
	Ready       int          `json:"ready"`
	Starting    int          `json:"starting"`
	Draining    int          `json:"draining"`
	Reason      scale.Reason `json:"reason"`
	HeldBy      string       `json:"held_by" doc:"What binds: the name of a downstream, or the reason; empty when demand is met."`
	Sentence    string       `json:"sentence"`
	Unread      string       `json:"unread,omitempty" doc:"Why the queue could not be read."`
	Alarms      []string     `json:"alarms,omitempty"`
	Mode        string       `json:"mode" enum:"act,observe"`
	Trouble     string       `json:"trouble,omitempty" doc:"What the actuator could not do, or what is wrong with its workers, such as a command that keeps dying or jobs that are only ever given back."`
}

// PoolList is all pools, by name.
type PoolList struct {
	Items []Pool `json:"items"`
}

// PoolExplanation is why a pool has its size.
type PoolExplanation struct {
	Pool        string            `json:"pool"`
	At          time.Time         `json:"at"`
	Explanation scale.Explanation `json:"explanation"`
	Decision    scale.Decision    `json:"decision"`
}

// DecisionItem is a journaled decision in short.
type DecisionItem struct {
	Seq      int64        `json:"seq"`
	At       time.Time    `json:"at"`
	Pool     string       `json:"pool"`
	From     int          `json:"from"`
	Desired  int          `json:"desired"`
	Wanted   int          `json:"wanted"`
	Reason   scale.Reason `json:"reason"`
	Subject  string       `json:"subject,omitempty"`
	Sentence string       `json:"sentence"`
	Applied  bool         `json:"applied"`
	Error    string       `json:"error,omitempty"`
}

// DecisionList is a page of decisions, newest first.
type DecisionList struct {
	Items         []DecisionItem `json:"items"`
	NextPageToken string         `json:"next_page_token,omitempty"`
}

// SeriesBody is the recent course of a pool.
type SeriesBody struct {
	Items []control.Point `json:"items"`
}

// Downstream is a downstream in use.
type Downstream struct {
	Name      string            `json:"name"`
	PausedFor float64           `json:"paused_for" doc:"Seconds it asked everybody to stay away."`
	Limits    []DownstreamLimit `json:"limits"`
	OK        int64             `json:"ok"`
	Throttled int64             `json:"throttled"`
	Failed    int64             `json:"failed"`
	Granted   int64             `json:"granted" doc:"Permits given."`
}

// DownstreamLimit is one limit of a downstream.
type DownstreamLimit struct {
	Unit           string  `json:"unit"`
	PerMinute      float64 `json:"per_minute"`
	Used           float64 `json:"used" doc:"Share of the limit taken over the last half minute."`
	ThrottledShare float64 `json:"throttled_share" doc:"Share of calls that were refused over the last half minute."`
	UnitsPerUse    float64 `json:"units_per_use,omitempty" doc:"Mean measured cost."`
}

// DownstreamList is all declared downstreams, by name.
type DownstreamList struct {
	Items []Downstream `json:"items"`
}

// WorkerList is all workers that report, by pool and name.
type WorkerList struct {
	Items []fleet.Worker `json:"items"`
}

// Status is the process.
type Status struct {
	Version      string            `json:"version"`
	StartedAt    time.Time         `json:"started_at"`
	LastCycleAt  *time.Time        `json:"last_cycle_at" doc:"When all pools were last decided; absent: not yet."`
	CycleSeconds float64           `json:"cycle_seconds" doc:"How long that took."`
	Pools        int               `json:"pools"`
	States       map[PoolState]int `json:"states"`
	Workers      int               `json:"workers"`
}

func (s *server) registerPools(api huma.API) {
	get := func(id, path, summary string) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: []string{"pools"}, Errors: []int{401, 404, 422},
		}
	}
	huma.Register(api, get("list-pools", "/api/v1/pools", "All pools at their last decision"), s.listPools)
	huma.Register(api, get("get-pool", "/api/v1/pools/{pool}", "One pool at its last decision"), s.getPool)
	huma.Register(api, get("explain-pool", "/api/v1/pools/{pool}/explanation", "Why a pool has its size, now or at a time"), s.explain)
	huma.Register(api, get("pool-series", "/api/v1/pools/{pool}/series", "The last minutes of a pool, a point a cycle"), s.getSeries)
	huma.Register(api, get("pool-decisions", "/api/v1/pools/{pool}/decisions", "Journaled decisions of a pool, newest first"), s.poolDecisions)
	huma.Register(api, get("list-decisions", "/api/v1/decisions", "Journaled decisions of all pools, newest first"), s.listDecisions)
	huma.Register(api, get("get-decision", "/api/v1/decisions/{seq}", "One decision with everything it was made from"), s.getDecision)
	huma.Register(api, get("list-downstreams", "/api/v1/downstreams", "Declared downstreams and how much of their limits is used"), s.listDownstreams)
	huma.Register(api, get("list-workers", "/api/v1/workers", "Workers that report, with what they hold"), s.listWorkers)
	huma.Register(api, get("get-status", "/api/v1/status", "The process: version, cycle, pools by state"), s.getStatus)
}

type none struct{}

type poolPath struct {
	Pool string `path:"pool"`
}

func (s *server) latest(pool string) (journal.Record, error) {
	for _, r := range s.Loop.Latest() {
		if r.Pool == pool {
			return r, nil
		}
	}
	if _, ok := s.Pools[pool]; ok {
		return journal.Record{}, newProblem(http.StatusServiceUnavailable, problemUnavailable, "pool "+pool+" has not been decided yet; try again in a second")
	}
	return journal.Record{}, newProblem(http.StatusNotFound, problemNotFound, s.noPool(pool))
}

func (s *server) listPools(context.Context, *none) (*struct{ Body PoolList }, error) {
	out := PoolList{Items: []Pool{}}
	for _, r := range s.Loop.Latest() {
		out.Items = append(out.Items, poolOf(r))
	}
	return &struct{ Body PoolList }{out}, nil
}

func (s *server) getPool(_ context.Context, in *poolPath) (*struct{ Body Pool }, error) {
	r, err := s.latest(in.Pool)
	if err != nil {
		return nil, err
	}
	return &struct{ Body Pool }{poolOf(r)}, nil
}

// poolOf shows a record as a pool.
func poolOf(r journal.Record) Pool {
	o, d, pol := r.Observation, r.Decision, r.Policy
	p := Pool{
		Name: r.Pool, At: r.At, Backlog: number(o.Backlog), InFlight: number(o.InFlight), Delayed: number(o.Delayed),
		OldestAge: number(o.OldestAge), Drain: d.Drain, Completions: o.Estimates.Completion, Busy: number(o.Replicas.Busy),
		Slots: o.Replicas.Ready * max(1, pol.Concurrency), Wanted: d.Need.Replicas, Desired: d.Desired, Ready: o.Replicas.Ready,
		Starting: len(o.Replicas.Starting), Draining: o.Replicas.Draining, Reason: d.Reason, Sentence: d.Sentence,
		Unread: o.Unread, Mode: "act", Trouble: r.Outcome.Error,
	}
	p.Trouble = cmp.Or(p.Trouble, o.Replicas.Refused, r.Trouble)
	if pol.Observe {
		p.Mode = "observe"
	}
	if w := pol.Objective.OldestAge.Seconds(); w > 0 {
		p.Objective = &w
	}
	if !o.Estimates.ArrivalAt.IsZero() {
		p.Arrivals = &o.Estimates.Arrival
	}
	if o.Estimates.ServiceTime > 0 {
		p.ServiceTime = &o.Estimates.ServiceTime
	}
	if d.Reason != scale.DemandMet {
		p.HeldBy = string(d.Reason)
		if d.Subject != "" {
			p.HeldBy = d.Subject
		}
	}
	for _, a := range d.Alarms {
		p.Alarms = append(p.Alarms, string(a))
	}
	p.State = stateOf(r)
	return p
}

func stateOf(r journal.Record) PoolState {
	o, d := r.Observation, r.Decision
	w := r.Policy.Objective.OldestAge.Seconds()
	late := w > 0 && o.OldestAge.Known() && o.OldestAge.Value > w
	switch {
	case o.Unread != "" || o.Replicas.At.IsZero():
		return PoolUnread
	case d.Reason == scale.Stuck || d.Drain.State == "stalled" && late:
		return PoolStuck
	case late, r.Trouble != "":
		return PoolAtRisk
	case o.Backlog.Value == 0 && o.InFlight.Value == 0 && o.Delayed.Value == 0:
		return PoolIdle
	default:
		return PoolOK
	}
}

func number(r scale.Reading) *float64 {
	if !r.Known() {
		return nil
	}
	return &r.Value
}

type explainInput struct {
	Pool string    `path:"pool"`
	At   time.Time `query:"at" doc:"As it was then (RFC 3339); default: now."`
}

func (s *server) explain(ctx context.Context, in *explainInput) (*struct{ Body PoolExplanation }, error) {
	r, err := s.latest(in.Pool)
	if err != nil {
		return nil, err
	}
	if !in.At.IsZero() {
		past, err := s.Journal.List(ctx, journal.Filter{Pool: in.Pool, At: in.At, Limit: 1})
		if err != nil {
			return nil, problemOf(err)
		}
		if len(past) == 0 {
			return nil, newProblem(http.StatusNotFound, problemNotFound, "no decision about "+in.Pool+" is recorded that early")
		}
		r = past[0]
	}
	return &struct{ Body PoolExplanation }{PoolExplanation{Pool: r.Pool, At: r.At, Explanation: r.Decision.Explain(), Decision: r.Decision}}, nil
}

type seriesInput struct {
	Pool  string    `path:"pool"`
	Since time.Time `query:"since" doc:"Leave out older points (RFC 3339)."`
}

func (s *server) getSeries(_ context.Context, in *seriesInput) (*struct{ Body SeriesBody }, error) {
	if _, ok := s.Pools[in.Pool]; !ok {
		return nil, newProblem(http.StatusNotFound, problemNotFound, s.noPool(in.Pool))
	}
	points := s.Loop.Series(in.Pool, in.Since)
	if points == nil {
		points = []control.Point{}
	}
	return &struct{ Body SeriesBody }{SeriesBody{points}}, nil
}

type decisionsInput struct {
	Size    int    `query:"page_size" default:"100" minimum:"1" maximum:"1000"`
	Token   string `query:"page_token" doc:"next_page_token of the page before."`
	Changes bool   `query:"changes" doc:"Only decisions that changed the size."`
}

// poolDecisionsInput repeats the fields: the framework does not see those of embedded types that are not exported.
type poolDecisionsInput struct {
	Pool    string `path:"pool"`
	Size    int    `query:"page_size" default:"100" minimum:"1" maximum:"1000"`
	Token   string `query:"page_token" doc:"next_page_token of the page before."`
	Changes bool   `query:"changes" doc:"Only decisions that changed the size."`
}

func (s *server) listDecisions(ctx context.Context, in *decisionsInput) (*struct{ Body DecisionList }, error) {
	return s.decisions(ctx, "", *in)
}

func (s *server) poolDecisions(ctx context.Context, in *poolDecisionsInput) (*struct{ Body DecisionList }, error) {
	if _, ok := s.Pools[in.Pool]; !ok {
		return nil, newProblem(http.StatusNotFound, problemNotFound, s.noPool(in.Pool))
	}
	return s.decisions(ctx, in.Pool, decisionsInput{Size: in.Size, Token: in.Token, Changes: in.Changes})
}

func (s *server) decisions(ctx context.Context, pool string, in decisionsInput) (*struct{ Body DecisionList }, error) {
	before, err := parseSeq(in.Token)
	if err != nil {
		return nil, newProblem(http.StatusUnprocessableEntity, problemInvalid, err.Error())
	}
	rs, err := s.Journal.List(ctx, journal.Filter{Pool: pool, Before: before, Limit: in.Size, Changes: in.Changes})
	if err != nil {
		return nil, problemOf(err)
	}
	out := DecisionList{Items: []DecisionItem{}}
	for _, r := range rs {
		d := r.Decision
		out.Items = append(out.Items, DecisionItem{
			Seq: r.Seq, At: r.At, Pool: r.Pool, From: d.Current, Desired: d.Desired, Wanted: d.Need.Replicas,
			Reason: d.Reason, Subject: d.Subject, Sentence: d.Sentence, Applied: r.Outcome.Applied, Error: r.Outcome.Error,
		})
	}
	if len(rs) == in.Size {
		out.NextPageToken = strconv.FormatInt(rs[len(rs)-1].Seq, 10)
	}
	return &struct{ Body DecisionList }{out}, nil
}

// parseSeq reads the page token of a list of decisions: the number of the last one on the page before. Empty is 0.
func parseSeq(token string) (int64, error) {
	if token == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(token, 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("page_token %q: not a token of this list", token)
	}
	return n, nil
}

type decisionInput struct {
	Seq int64 `path:"seq" minimum:"1"`
}

func (s *server) getDecision(ctx context.Context, in *decisionInput) (*struct{ Body journal.Record }, error) {
	rs, err := s.Journal.List(ctx, journal.Filter{Before: in.Seq + 1, Limit: 1})
	if err != nil {
		return nil, problemOf(err)
	}
	if len(rs) == 0 || rs[0].Seq != in.Seq {
		return nil, newProblem(http.StatusNotFound, problemNotFound, "no such decision, or it is older than server.history")
	}
	return &struct{ Body journal.Record }{rs[0]}, nil
}

func (s *server) listDownstreams(ctx context.Context, _ *none) (*struct{ Body DownstreamList }, error) {
	out := DownstreamList{Items: []Downstream{}}
	for _, name := range s.Downstreams {
		st, err := s.Store.State(ctx, name)
		if err != nil {
			return nil, problemOf(err)
		}
		out.Items = append(out.Items, downstreamOf(st))
	}
	return &struct{ Body DownstreamList }{out}, nil
}

func downstreamOf(st downstream.State) Downstream {
	d := Downstream{
		Name: st.Downstream, PausedFor: st.PausedFor.Seconds(), Limits: []DownstreamLimit{},
		OK: st.OK, Throttled: st.Throttled, Failed: st.Failed, Granted: st.Granted,
	}
	for _, l := range st.Limits {
		d.Limits = append(d.Limits, DownstreamLimit{
			Unit: l.Unit, PerMinute: l.PerSecond * 60, Used: l.Used, ThrottledShare: l.ThrottledShare, UnitsPerUse: l.UnitsPerUse,
		})
	}
	return d
}

func (s *server) listWorkers(context.Context, *none) (*struct{ Body WorkerList }, error) {
	out := WorkerList{Items: []fleet.Worker{}}
	for _, r := range s.Loop.Latest() {
		out.Items = append(out.Items, s.Fleet.Pool(r.Pool).Workers...)
	}
	return &struct{ Body WorkerList }{out}, nil
}

func (s *server) getStatus(context.Context, *none) (*struct{ Body Status }, error) {
	at, took := s.Loop.LastStep()
	st := Status{
		Version: s.opts.Version, StartedAt: s.startedAt.UTC(), LastCycleAt: timeOf(at), CycleSeconds: took.Seconds(),
		Pools: len(s.Pools), States: map[PoolState]int{},
	}
	for _, r := range s.Loop.Latest() {
		st.States[stateOf(r)]++
		st.Workers += len(s.Fleet.Pool(r.Pool).Workers)
	}
	return &struct{ Body Status }{st}, nil
}
