// Package httpapi serves Headrace over HTTP: jobs, pools, decisions, and the worker protocol.
//
// The OpenAPI 3.1 document is generated from the Go types here and committed as docs/reference/openapi.json.
package httpapi

//go:generate go test . -run TestOpenAPIIsCommitted -update

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/headrace/headrace/downstream"
	"github.com/headrace/headrace/internal/control"
	"github.com/headrace/headrace/internal/dispatch"
	"github.com/headrace/headrace/internal/fleet"
	"github.com/headrace/headrace/internal/journal"
	"github.com/headrace/headrace/queue"
)

// Deps is what the API serves.
type Deps struct {
	// Pools are the pools and their queues, by name.
	Pools map[string]queue.Queue
	// Find looks a job up in all queues and says whose it is. It returns [queue.ErrNotFound].
	Find        func(ctx context.Context, id string) (pool string, r queue.Record, err error)
	Dispatcher  *dispatch.Dispatcher
	Loop        *control.Loop
	Journal     journal.Journal
	Fleet       *fleet.Fleet
	Store       downstream.Store
	Downstreams []string
	// Metrics serves /metrics, Pages everything else.
	Metrics, Pages http.Handler
}

// Options of the API. The zero value works.
type Options struct {
	// Token is the bearer token that every call below /api, /worker and /metrics must bring; empty: none is asked for, and only
	// requests addressed to this machine by a loopback name are answered, unless AnyHost is set.
	Token string
	// AnyHost answers requests without a token under every name: whoever reaches the port may do everything, and so may the
	// pages that a browser on this machine visits.
	AnyHost bool
	// Version is shown in the OpenAPI document and the status.
	Version string
}

type server struct {
	Deps
	opts      Options
	startedAt time.Time
	jobs      jobReader
}

// New returns the handler of the whole surface.
func New(d Deps, opts Options) http.Handler {
	s := &server{Deps: d, opts: opts, startedAt: time.Now()}
	mux := http.NewServeMux()
	s.register(newAPI(mux, opts.Version))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /readyz", s.ready)
	if d.Metrics != nil {
		mux.Handle("GET /metrics", d.Metrics)
	}
	if d.Pages != nil {
		mux.Handle("GET /", d.Pages)
	}
	return http.NewCrossOriginProtection().Handler(s.guard(mux))
}

// OpenAPI returns the document that describes the API, as JSON with indentation.
func OpenAPI(version string) ([]byte, error) {
	api := newAPI(http.NewServeMux(), version)
	(&server{}).register(api)
	return indented(api.OpenAPI())
}

func newAPI(mux *http.ServeMux, version string) huma.API {
	config := huma.DefaultConfig("Headrace", version)
	config.Info.Description = "Queue-based autoscaling of workers: enqueue jobs, read why a pool has its size, and speak the worker protocol."
	config.OpenAPIPath = "/openapi"
	config.DocsPath, config.SchemasPath = "", "" // the built-in pages load scripts from elsewhere
	config.CreateHooks = nil
	config.RejectUnknownQueryParameters = true
	config.Transformers = append(config.Transformers, typeProblems)
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "Needed when server.auth.token is configured."},
	}
	config.Security = []map[string][]string{{"token": {}}, {}}
	return humago.New(mux, config)
}

func (s *server) register(api huma.API) {
	s.registerJobs(api)
	s.registerPools(api)
	s.registerWorkers(api)
}

// guard lets a request in when it brings the token, or, without one configured, when it is addressed to this machine.
func (s *server) guard(next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(s.opts.Token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.opts.Token == "":
			// A page on another site can make a browser ask a loopback port under the site's own name.
			if !s.opts.AnyHost && !loopbackHost(r.Host) {
				writeProblem(w, newProblem(http.StatusForbidden, problemForbidden,
					"no token is configured, so only requests to a loopback address are answered; set server.auth.token"))
				return
			}
		case needsToken(r.URL.Path):
			scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			got := sha256.Sum256([]byte(strings.TrimLeft(token, " ")))
			if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
				w.Header().Set("WWW-Authenticate", "Bearer")
				writeProblem(w, newProblem(http.StatusUnauthorized, problemUnauthorized, "a valid bearer token is needed"))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func needsToken(path string) bool {
	return strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/worker/") || path == "/metrics"
}

func loopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// ready answers 204 while the control loop runs, 503 when it has not stepped for a while.
func (s *server) ready(w http.ResponseWriter, _ *http.Request) {
	at, _ := s.Loop.LastStep()
	if at.IsZero() || time.Since(at) > 30*time.Second {
		writeProblem(w, newProblem(http.StatusServiceUnavailable, problemUnavailable, "the control loop has not run yet, or has stopped"))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
