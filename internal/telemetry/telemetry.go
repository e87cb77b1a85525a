// Package telemetry serves what Headrace knows as Prometheus metrics.
//
// One catalogue makes the collector and the reference in docs/reference/metrics.md. Nothing is counted here: a scrape
// reads what the control loop, the queues, the fleet and the downstream store know at that moment.
package telemetry

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/headrace/headrace/downstream"
	"github.com/headrace/headrace/internal/fleet"
	"github.com/headrace/headrace/internal/journal"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/scale"
)

// loop is the control loop.
type loop interface {
	Latest() []journal.Record
	Decisions() map[string]map[scale.Reason]int64
	LastStep() (at time.Time, took time.Duration)
}

// registry is the fleet.
type registry interface {
	Pool(pool string) fleet.Pool
}

// store is the downstream store.
type store interface {
	State(ctx context.Context, name string) (downstream.State, error)
}

// Sources is what a scrape reads. A nil source has no metrics.
type Sources struct {
	Loop        loop
	Fleet       registry
	Store       store
	Downstreams []string
	// Queues are read for their running totals, by pool, where they are a [queue.StatsReader].
	Queues  map[string]queue.Queue
	Version string
}

// within bounds the reading of queues and downstreams in one scrape. What does not answer in time is absent.
const within = 2 * time.Second

// Handler serves the metrics of s, of the Go runtime and of this process, from a registry of its own.
func Handler(s Sources) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(NewCollector(s), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// One bad sample must not hide all others from whoever is paged.
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: true})
}

// Collector reads [Sources] at each scrape. It is safe for concurrent use.
type Collector struct {
	sources Sources
	descs   [metrics]*prometheus.Desc
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector returns a collector of the whole catalogue.
func NewCollector(s Sources) *Collector {
	c := &Collector{sources: s}
	for i, m := range catalogue {
		c.descs[i] = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
	}
	return c
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	out := sink{c, ch}
	out.put(buildInfo, 1, c.sources.Version, runtime.Version())
	if c.sources.Loop != nil {
		out.loop(c.sources.Loop, time.Now())
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var wg sync.WaitGroup
	for pool, q := range c.sources.Queues {
		if reader, ok := q.(queue.StatsReader); ok {
			wg.Go(func() { out.queue(ctx, pool, reader) })
		}
	}
	if c.sources.Fleet != nil {
		for pool := range c.sources.Queues {
			out.fleet(pool, c.sources.Fleet.Pool(pool))
		}
	}
	if c.sources.Store != nil {
		for _, name := range c.sources.Downstreams {
			wg.Go(func() { out.downstream(ctx, name, c.sources.Store) })
		}
	}
	wg.Wait()
}

// sink takes the samples of one scrape.
type sink struct {
	c  *Collector
	ch chan<- prometheus.Metric
}

func (s sink) put(m id, v float64, labels ...string) {
	kind := prometheus.GaugeValue
	if catalogue[m].Kind == Counter {
		kind = prometheus.CounterValue
	}
	s.ch <- prometheus.MustNewConstMetric(s.c.descs[m], kind, v, labels...)
}

func (s sink) reading(m id, r scale.Reading, labels ...string) {
	if r.Known() {
		s.put(m, r.Value, labels...)
	}
}

func (s sink) number(m id, n queue.Number, labels ...string) {
	if n.Known() {
		s.put(m, n.Value, labels...)
	}
}
