package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/worker/protocol"
)

// DialOptions tune [Dial]. The zero value works.
type DialOptions struct {
	// Worker is the unique name of this worker; default: made of the host's name, the process id and chance.
	Worker string
	// Token is the bearer token; TokenFile names a file that holds it and is read anew for each request.
	Token, TokenFile string
	// Timeout bounds every request but claims, which may take their wait longer; default 10 s.
	Timeout time.Duration
	// Client sends the requests; default: one of its own that keeps connections alive.
	Client *http.Client
}

// Remote is a [Conn] that speaks the worker protocol over HTTP.
type Remote struct {
	base, pool string
	opts       DialOptions
	client     *http.Client
}

var _ Conn = (*Remote)(nil)

// Dial returns a connection to the control plane at server, a URL or host:port, for a worker of pool. It connects
// with the first request.
func Dial(server, pool string, opts DialOptions) *Remote {
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	if opts.Worker == "" {
		opts.Worker = Name()
	}
	if opts.Timeout <= 0 {
		opts.Timeout = 10 * time.Second
	}
	c := &Remote{base: strings.TrimRight(server, "/"), pool: pool, opts: opts, client: opts.Client}
	if c.client == nil {
		c.client = &http.Client{Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			MaxIdleConnsPerHost: 8,
			IdleConnTimeout:     90 * time.Second,
		}}
	}
	return c
}

// Name makes a name for a worker that nobody else has.
func Name() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), uuid.NewString()[:8])
}

// Pool names the pool that the worker serves.
func (c *Remote) Pool() string { return c.pool }

// Worker returns the worker's name.
func (c *Remote) Worker() string { return c.opts.Worker }

// Claim asks for jobs. A request that was abandoned may still have leased some: [Remote.Goodbye] releases them.
func (c *Remote) Claim(ctx context.Context, r protocol.ClaimRequest) (protocol.ClaimAnswer, error) {
	r.Worker = c.opts.Worker
	a := protocol.ClaimAnswer{Order: protocol.Run}
	err := c.post(ctx, "claim", fill(protocol.ClaimPath, "pool", c.pool), r, &a, c.opts.Timeout+r.Wait.Duration())
	return a, err
}

// Heartbeat extends leases and reports.
func (c *Remote) Heartbeat(ctx context.Context, r protocol.HeartbeatRequest) (protocol.HeartbeatAnswer, error) {
	r.Worker, r.Pool = c.opts.Worker, c.pool
	var a protocol.HeartbeatAnswer
	err := c.post(ctx, "heartbeat", protocol.HeartbeatPath, r, &a, c.opts.Timeout)
	return a, err
}

// Settle ends leases.
func (c *Remote) Settle(ctx context.Context, items []protocol.Settlement) ([]protocol.Settled, error) {
	var a protocol.SettleAnswer
	r := protocol.SettleRequest{Worker: c.opts.Worker, Pool: c.pool, Items: items}
	err := c.post(ctx, "settle", protocol.SettlePath, r, &a, c.opts.Timeout)
	return a.Items, err
}

// Permit asks for units of a downstream.
func (c *Remote) Permit(ctx context.Context, r protocol.PermitRequest) (protocol.PermitAnswer, error) {
	var a protocol.PermitAnswer
	err := c.post(ctx, "permit", protocol.PermitPath, r, &a, c.opts.Timeout+r.MaxWait.Duration())
	return a, err
}

// Goodbye releases what the worker still holds, and closes idle connections.
func (c *Remote) Goodbye(ctx context.Context) error {
	defer c.client.CloseIdleConnections()
	return c.post(ctx, "goodbye", fill(protocol.GoodbyePath, "worker", c.opts.Worker), struct{}{}, nil, c.opts.Timeout)
}

func fill(pattern, name, value string) string {
	return strings.ReplaceAll(pattern, "{"+name+"}", url.PathEscape(value))
}

// maxAnswer bounds what is read of an answer: a thousand leases of the largest payload.
const maxAnswer = 512 << 20

// post sends in and reads the answer into out (nil: it is ignored), within limit.
func (c *Remote) post(ctx context.Context, doing, path string, in, out any, limit time.Duration) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w: %v", doing, ErrRefused, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if err := c.authorise(req); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	res, err := c.client.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNoContent:
		return nil
	case res.StatusCode >= 200 && res.StatusCode < 300:
		if out == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection is used again
			return nil
		}
		if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out); err != nil {
			return fmt.Errorf("%s: read the answer: %w", doing, err)
		}
		return nil
	}
	return fmt.Errorf("%s: %w", doing, problem(req, res))
}

func (c *Remote) authorise(req *http.Request) error {
	token := c.opts.Token
	if c.opts.TokenFile != "" {
		b, err := os.ReadFile(c.opts.TokenFile)
		if err != nil {
			return fmt.Errorf("read token file: %w", err)
		}
		token = strings.TrimSpace(string(b))
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

// problem makes an error of an answer that is not a success, with the problem's text (RFC 9457) where there is one.
func problem(req *http.Request, res *http.Response) error {
	var p struct{ Title, Detail string }
	b, _ := io.ReadAll(io.LimitReader(res.Body, 16<<10))
	text := strings.TrimSpace(string(b))
	if json.Unmarshal(b, &p) == nil && p.Title+p.Detail != "" {
		text = strings.TrimPrefix(p.Title+": "+p.Detail, ": ")
	}
	err := fmt.Errorf("%s answered %s: %s", req.URL.Host, res.Status, text)
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusBadRequest,
		http.StatusMethodNotAllowed, http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}
