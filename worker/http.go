package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/queue"
)

// HTTPOptions tune [HTTP]. The zero value works.
type HTTPOptions struct {
	// Client sends the requests; default: one that keeps connections alive and follows no redirects.
	Client *http.Client
	// Header is added to each request.
	Header http.Header
	// Throttles names, by status, the downstream on whose behalf an answer says "too many": the whole fleet then leaves
	// it alone for as long as Retry-After says, not just this job.
	Throttles map[int]string
}

// HTTP returns a handler that posts each job to url. The payload is the body; Headrace-Job-Id, Headrace-Attempt and
// Headrace-Pool, an Idempotency-Key equal to the job's id, and the job's own headers are the header.
//
//	2xx                 done; the body, at most [queue.MaxPayload] bytes, is the result (a larger one: dead)
//	of Throttles        released, and nobody uses the downstream for as long as Retry-After says (default 1 s)
//	429, 503            released, for as long as Retry-After says (default and least 1 s, at most 1 h)
//	other 4xx           dead
//	5xx, 3xx            a failed attempt
//	no connection       released for 1 s: the program is not up, and never saw the job
//	connection broken   a failed attempt: the program may have begun
func HTTP(url string, opts HTTPOptions) Handler {
	if opts.Client == nil {
		opts.Client = &http.Client{
			Transport: &http.Transport{
				DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
				MaxIdleConnsPerHost: 64,
				IdleConnTimeout:     90 * time.Second,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return func(ctx context.Context, job *Job) ([]byte, error) { return post(ctx, url, opts, job) }
}

func post(ctx context.Context, url string, opts HTTPOptions, job *Job) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(job.Payload))
	if err != nil {
		return nil, &release{after: 5 * time.Second, why: err} // the worker's fault, not the job's
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	if json.Valid(job.Payload) {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range job.Headers {
		req.Header.Set(k, v)
	}
	for k, v := range opts.Header {
		req.Header[http.CanonicalHeaderKey(k)] = v
	}
	req.Header.Set("Headrace-Job-Id", job.ID)
	req.Header.Set("Headrace-Attempt", strconv.Itoa(job.Attempt))
	req.Header.Set("Headrace-Pool", job.Pool)
	req.Header.Set("Idempotency-Key", job.ID)

	res, err := opts.Client.Do(req)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" && ctx.Err() == nil {
			return nil, &release{after: time.Second, why: err}
		}
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, queue.MaxPayload+1))
	switch code := res.StatusCode; {
	case err != nil:
		return nil, fmt.Errorf("read the answer of %s: %w", url, err)
	case code >= 200 && code < 300 && len(body) > queue.MaxPayload:
		return nil, Permanent(fmt.Errorf("%s answered more than the %d bytes a result may have", url, queue.MaxPayload))
	case code >= 200 && code < 300:
		return body, nil
	case opts.Throttles[code] != "":
		return nil, &Throttled{Downstream: opts.Throttles[code], RetryAfter: retryAfter(res.Header.Get("Retry-After"))}
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		return nil, &release{after: retryAfter(res.Header.Get("Retry-After")), why: answered(url, res, body)}
	case code >= 400 && code < 500:
		return nil, Permanent(answered(url, res, body))
	default:
		return nil, answered(url, res, body)
	}
}

func answered(url string, res *http.Response, body []byte) error {
	text := strings.TrimSpace(strings.ToValidUTF8(string(body[:min(len(body), 1024)]), "?"))
	return errors.New(strings.TrimSuffix(fmt.Sprintf("%s answered %s: %s", url, res.Status, text), ": "))
}

// retryAfter reads the header's two forms, seconds and a date (RFC 9110, 10.2.3). Without a usable one it is a second.
func retryAfter(v string) time.Duration {
	if s, err := strconv.ParseFloat(strings.TrimSpace(v), 64); err == nil && s >= 0 {
		return notAtOnce(time.Duration(min(s, maxAway.Seconds()) * float64(time.Second)))
	}
	if at, err := http.ParseTime(v); err == nil {
		return notAtOnce(time.Until(at))
	}
	return minAway
}
