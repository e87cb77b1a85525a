package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/headrace/headrace/worker"
)

// The names in the demo's configuration.
const (
	poolName     = "summaries"
	providerName = "llm-provider"
	unit         = "tokens"
)

// Handler returns the handler of the demo's workers: it asks the provider at url. A poison job kills the process.
func Handler(url string) worker.Handler {
	client := &http.Client{Timeout: 2 * time.Minute}
	return func(ctx context.Context, job *worker.Job) ([]byte, error) {
		var t Task
		if err := json.Unmarshal(job.Payload, &t); err != nil {
			return nil, worker.Permanent(fmt.Errorf("read task: %w", err))
		}
		if t.Poison {
			os.Exit(137) // as if the kernel had found it using too much memory
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(job.Payload))
		if err != nil {
			return nil, worker.Permanent(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return nil, fmt.Errorf("ask provider: %w", err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
		if err != nil {
			return nil, fmt.Errorf("read the provider's answer: %w", err)
		}
		switch resp.StatusCode {
		case http.StatusOK:
			job.Used(providerName, unit, float64(t.Tokens))
			return body, nil
		case http.StatusTooManyRequests:
			after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
			return nil, &worker.Throttled{Downstream: providerName, RetryAfter: time.Duration(max(1, after)) * time.Second}
		default:
			return nil, fmt.Errorf("ask provider: %s: %s", resp.Status, body)
		}
	}
}
