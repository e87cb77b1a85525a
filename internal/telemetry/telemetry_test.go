package telemetry

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/headrace/headrace/downstream"
	"github.com/headrace/headrace/internal/fleet"
	"github.com/headrace/headrace/internal/journal"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/scale"
	"github.com/headrace/headrace/worker/protocol"
)

var update = flag.Bool("update", false, "rewrite generated and golden files")

// recorded is a loop that has decided what it says.
type recorded struct {
	records []journal.Record
	at      time.Time
}

func (l recorded) Latest() []journal.Record { return l.records }

func (l recorded) LastStep() (time.Time, time.Duration) { return l.at, 12 * time.Millisecond }

func (l recorded) Decisions() map[string]map[scale.Reason]int64 {
	return map[string]map[scale.Reason]int64{"enrich": {scale.DownstreamThroughput: 41, scale.DemandMet: 7}}
}

type members map[string]fleet.Pool

func (m members) Pool(pool string) fleet.Pool { return m[pool] }

// states answers for the downstreams it has; others cannot be read.
type states map[string]downstream.State

func (s states) State(_ context.Context, name string) (downstream.State, error) {
	st, ok := s[name]
	if !ok {
		return st, errors.New("store unreachable")
	}
	return st, nil
}

// measured is a queue of which only the measurements are asked.
type measured struct {
	queue.Queue
	stats queue.Stats
	err   error
}

func (q measured) Stats(context.Context) (queue.Stats, error) { return q.stats, q.err }

// sources are three pools: one held by its downstream, one whose queue cannot be read, one that nothing is known of.
func sources(now time.Time) Sources {
	at := now.Add(-400 * time.Millisecond)
	enrich := journal.Record{
		At: at, Pool: "enrich",
		Policy: scale.Policy{Concurrency: 8, Objective: scale.Objective{OldestAge: 10 * time.Minute}},
		Observation: scale.Observation{
			At: at, Backlog: scale.Read(16400, at), InFlight: scale.Read(112, at), Delayed: scale.Read(0, at), OldestAge: scale.Read(702, at),
			Replicas:  scale.Replicas{At: at, Desired: 14, Ready: 13, Starting: []float64{3}, Draining: 1, Busy: scale.Read(104, at)},
			Estimates: scale.Estimates{ServiceTime: 4.7, ColdStart: 25},
		},
		Decision: scale.Decision{
			Desired: 14, Need: scale.Need{Known: true, Replicas: 31}, Drain: scale.Drain{State: "clears", Seconds: 2280},
			Ceilings: []scale.Ceiling{
				{Reason: scale.DownstreamThroughput, Name: "llm-provider", Replicas: 20},
				{Reason: scale.DownstreamThroughput, Name: "llm-provider", Replicas: 14},
				{Reason: scale.PoolMax, Name: "pool", Replicas: 24},
			},
			Binding: &scale.Ceiling{Reason: scale.DownstreamThroughput, Name: "llm-provider", Replicas: 14},
		},
	}
	blind := journal.Record{
		At: at, Pool: "blind", State: scale.State{UnknownSince: now.Add(-42 * time.Second)},
		Observation: scale.Observation{At: at, Unread: "queue: connection refused", Replicas: scale.Replicas{At: at, Desired: 3, Ready: 3}},
		Decision:    scale.Decision{Desired: 3, Drain: scale.Drain{State: "unknown"}},
	}
	return Sources{
		Loop: recorded{[]journal.Record{enrich, blind}, at},
		Fleet: members{"enrich": {
			Workers: make([]fleet.Worker, 13), Totals: protocol.Totals{Runs: 8412, BusySeconds: 39536.4},
		}},
		Store: states{"llm-provider": {
			Limits:    []downstream.LimitState{{Limit: downstream.Limit{Unit: "tokens", PerSecond: 1500}, Used: 0.98, ThrottledShare: 0.002}},
			PausedFor: 1500 * time.Millisecond, OK: 8380, Throttled: 17, Failed: 15, Granted: 8412,
		}},
		Downstreams: []string{"llm-provider", "unreachable"},
		Queues: map[string]queue.Queue{
			"enrich": measured{stats: queue.Stats{
				Dead: queue.Exactly(2, at), Arrivals: queue.Exactly(24926, at),
				Totals: map[string]int64{
					"succeeded": 8395, "dead": 2, "cancelled": 1, "expired": 0,
					"nacked": 15, "released": 17, "crashed": 2, "lost": 1, "redriven": 0,
				},
			}},
			"blind": measured{err: errors.New("connection refused")},
		},
		Version: "v0.1.0",
	}
}

func gather(t *testing.T, s Sources) string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(NewCollector(s))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s differs; run with -update if that is meant (-want +got):\n%s", path, d)
	}
}

func TestExposition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := gather(t, sources(time.Now()))
		var lines []string
		for line := range strings.Lines(got) {
			if !strings.HasPrefix(line, "headrace_build_info") { // names the Go release
				lines = append(lines, line)
			}
		}
		golden(t, "testdata/exposition.txt", strings.Join(lines, ""))
	})
}

// What is unknown must have no sample: a zero would page nobody and scale somebody down.
// What an alert on a backlog asks first is a sign; the time is there only where it means something.
func TestDrainHasASignBeforeATime(t *testing.T) {
	now := time.Now()
	for state, want := range map[string]struct{ draining, seconds string }{
		"empty": {"1", "0"}, "clears": {"1", "90"}, "grows": {"0", ""}, "stalled": {"0", ""}, "unknown": {"", ""},
	} {
		r := journal.Record{At: now, Pool: "p", Decision: scale.Decision{Drain: scale.Drain{State: state, Seconds: 90}}}
		text := gather(t, Sources{Loop: recorded{[]journal.Record{r}, now}})
		value := func(name string) string {
			_, after, _ := strings.Cut(text, "\n"+name+`{pool="p"} `)
			v, _, _ := strings.Cut(after, "\n")
			return v
		}
		if d, sec := value("headrace_queue_draining"), value("headrace_queue_drain_seconds"); d != want.draining || sec != want.seconds {
			t.Errorf("%s: draining %q, seconds %q; want %q and %q", state, d, sec, want.draining, want.seconds)
		}
	}
}

func TestUnknownIsAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := gather(t, sources(time.Now()))
		for _, sample := range []string{
			`headrace_queue_jobs{pool="blind"`, `headrace_queue_oldest_age_seconds{pool="blind"`, `headrace_replicas_wanted{pool="blind"`,
			`headrace_queue_draining{pool="blind"`, `headrace_slots_busy{pool="blind"`, `headrace_queue_arrivals_total{pool="blind"`,
			`headrace_service_time_seconds{pool="blind"`, `{downstream="unreachable"`,
		} {
			if strings.Contains(got, sample) {
				t.Errorf("%s: has a sample, want none", sample)
			}
		}
		if want := "headrace_snapshot_age_seconds{pool=\"blind\"} 42\n"; !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	})
}

func TestBeforeTheFirstCycle(t *testing.T) {
	got := gather(t, Sources{Loop: recorded{}, Version: "v0.1.0"})
	if strings.Contains(got, "headrace_last_cycle_timestamp_seconds ") {
		t.Errorf("a cycle that never was has a time:\n%s", got)
	}
}

func TestNamesFollowTheConventions(t *testing.T) {
	problems, err := testutil.CollectAndLint(NewCollector(sources(time.Now())))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	// The linter of the exposition sees only what has samples.
	var reserved = []string{"namespace", "pod", "job", "instance", "service"}
	for _, m := range Catalogue() {
		if !strings.HasPrefix(m.Name, "headrace_") || m.Help == "" || m.Unit == "" {
			t.Errorf("%+v: want the prefix headrace_, a unit and a help text", m)
		}
		if (m.Kind == Counter) != strings.HasSuffix(m.Name, "_total") {
			t.Errorf("%s is a %s: counters and only they end in _total", m.Name, m.Kind)
		}
		for _, l := range m.Labels {
			if slices.Contains(reserved, l) {
				t.Errorf("%s: label %q is renamed by scraping", m.Name, l)
			}
		}
	}
}

// Every entry of the catalogue has a sample when everything is known, so none is only on paper.
func TestEveryMetricOfTheCatalogueIsMade(t *testing.T) {
	got := gather(t, sources(time.Now()))
	seen := map[string]bool{}
	for _, m := range Catalogue() {
		if seen[m.Name] {
			t.Errorf("%s is listed twice", m.Name)
		}
		seen[m.Name] = true
		if !strings.Contains(got, "\n# TYPE "+m.Name+" "+string(m.Kind)+"\n") {
			t.Errorf("%s (%s) is in the catalogue and has no sample", m.Name, m.Kind)
		}
	}
}

func TestReferenceIsUpToDate(t *testing.T) {
	golden(t, "../../docs/reference/metrics.md", Reference())
}

func TestHandlerServesAlsoTheRuntime(t *testing.T) {
	w := httptest.NewRecorder()
	Handler(sources(time.Now())).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, name := range []string{"headrace_pool_desired_replicas{pool=\"enrich\"} 14", "go_goroutines ", "process_start_time_seconds "} {
		if !strings.Contains(w.Body.String(), name) {
			t.Errorf("status %d without %q", w.Code, name)
		}
	}
}
