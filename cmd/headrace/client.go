package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// client talks to the API of a server. It never repeats a request by itself.
type client struct {
	base  string // without a slash at the end
	token string
	// timeout is the longest time for one request.
	timeout time.Duration
	http    *http.Client
}

// answer is a successful answer.
type answer struct {
	body []byte
	// at is the server's time in whole seconds, to tell ages by its clock; zero when it did not say.
	at time.Time
}

// age is how long ago at was for the server.
func (a answer) age(at time.Time) time.Duration {
	if a.at.IsZero() {
		return time.Since(at)
	}
	return max(0, a.at.Sub(at))
}

// withServer gives a command that talks to a server the flags it needs.
func withServer(c *cli, cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&c.tokenFile, "token-file", c.getenv("HEADRACE_TOKEN_FILE", ""), "file that holds the bearer token; HEADRACE_TOKEN is the token itself")
	return cmd
}

// client returns a client for the server that the flags name.
func (c *cli) client() (*client, error) {
	u, err := url.Parse(c.server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usage("--server %s: it must be an address such as http://127.0.0.1:8480", c.server)
	}
	token := c.getenv("HEADRACE_TOKEN", "")
	if c.tokenFile != "" {
		raw, err := os.ReadFile(c.tokenFile)
		if err != nil {
			return nil, exitError{exitUsage, fmt.Errorf("read --token-file: %w", err)}
		}
		token = strings.TrimSpace(string(raw))
	}
	return &client{base: strings.TrimRight(c.server, "/"), token: token, timeout: c.timeout, http: &http.Client{}}, nil
}

// get reads path with the parameters that are not empty.
func (cl *client) get(ctx context.Context, path string, params map[string]string) (answer, error) {
	q := url.Values{}
	for k, v := range params {
		if v != "" {
			q.Set(k, v)
		}
	}
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return cl.do(ctx, http.MethodGet, path, nil, nil)
}

// do sends one request. An error is an [unreachable], a [problem], or ctx's.
func (cl *client) do(ctx context.Context, method, path string, header map[string]string, body []byte) (answer, error) {
	within, cancel := context.WithTimeout(ctx, cl.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(within, method, cl.base+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Accept", "application/json")
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	if cl.token != "" {
		req.Header.Set("Authorization", "Bearer "+cl.token)
	}
	resp, err := cl.http.Do(req)
	if err != nil {
		return answer{}, cl.lost(ctx, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, cl.lost(ctx, err)
	}
	if resp.StatusCode >= 300 {
		return answer{}, problemOf(resp, raw)
	}
	at, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		at = time.Time{}
	}
	return answer{body: raw, at: at}, nil
}

// lost says that no answer came, unless the caller gave up.
func (cl *client) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	why := err
	if e := (*url.Error)(nil); errors.As(err, &e) {
		why = e.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		why = fmt.Errorf("no answer within %v", cl.timeout)
	}
	var op *net.OpError
	return unreachable{server: cl.base, why: why, refused: errors.As(err, &op) && op.Op == "dial"}
}

// unreachable: no answer came. The request may have had its effect all the same, unless it was refused.
type unreachable struct {
	server  string
	why     error
	refused bool // there was no connection
}

func (u unreachable) Error() string {
	if !u.refused {
		return fmt.Sprintf("%s does not answer: %v", u.server, u.why)
	}
	return fmt.Sprintf("cannot reach %s: %v\n  Is `headrace up` running? --server or HEADRACE_SERVER names another address.", u.server, u.why)
}

func (u unreachable) Unwrap() error { return exitError{exitUnreachable, u.why} }

// problem is an answer that says no (RFC 9457).
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Errors []struct {
		Message  string `json:"message"`
		Location string `json:"location"`
	} `json:"errors"`
	retryAfter time.Duration // 0: the server did not say
}

// problemOf reads what a server, or something in front of it, refuses with.
func problemOf(resp *http.Response, raw []byte) problem {
	p := problem{}
	if json.Unmarshal(raw, &p) != nil || p.Title == "" && p.Detail == "" {
		p = problem{Detail: resp.Status}
		if text := strings.TrimSpace(string(raw[:min(len(raw), 200)])); text != "" && !strings.HasPrefix(text, "<") {
			p.Detail += ": " + text
		}
	}
	p.Status = resp.StatusCode
	if s := resp.Header.Get("Retry-After"); s != "" {
		if d, err := time.ParseDuration(s + "s"); err == nil && d > 0 {
			p.retryAfter = d
		}
	}
	return p
}

func (p problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	for i, e := range p.Errors {
		if i == 5 {
			text += fmt.Sprintf("\n  and %d more", len(p.Errors)-i)
			break
		}
		text += "\n  "
		if e.Location != "" {
			text += e.Location + ": "
		}
		text += e.Message
	}
	switch p.Status {
	case http.StatusUnauthorized:
		text += "\n  Name the token: HEADRACE_TOKEN, --token-file or HEADRACE_TOKEN_FILE."
	case http.StatusForbidden:
		text += "\n  Ask the server by a loopback address, or configure a token."
	}
	return text
}

func (p problem) Unwrap() error {
	code := exitFailed
	switch p.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		code = exitDenied
	case http.StatusConflict:
		code = exitConflict
	case http.StatusBadGateway, http.StatusGatewayTimeout, http.StatusServiceUnavailable:
		code = exitUnreachable
	}
	return exitError{code, errors.New(p.Detail)}
}

// passing reports whether the same request may succeed later, and how long to wait at least.
func passing(err error) (wait time.Duration, ok bool) {
	if p := (problem{}); errors.As(err, &p) {
		switch p.Status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return p.retryAfter, true
		}
		return 0, false
	}
	u := unreachable{}
	return 0, errors.As(err, &u)
}
