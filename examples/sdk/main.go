// Command sdk is a worker written with the Go SDK: it passes each job to a provider that has a rate limit.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/headrace/headrace/worker"
)

func main() {
	env, err := worker.ReadEnvironment(os.Getenv) // server, pool, name and token, as `headrace up` set them
	if err != nil {
		log.Fatal(err)
	}
	w := worker.New(env.Dial(), ask(os.Getenv("PROVIDER_URL")), worker.Options{Slots: env.Slots, Grace: env.Grace})
	if err := w.RunUntilSignal(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// ask returns a handler that posts the payload to url and returns the answer.
func ask(url string) worker.Handler {
	return func(ctx context.Context, job *worker.Job) ([]byte, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(job.Payload))
		if err != nil {
			return nil, worker.Permanent(err)
		}
		req.Header.Set("Idempotency-Key", job.ID) // the same at every delivery of the job
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err // an attempt; tried again later
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		switch code := resp.StatusCode; {
		case err != nil:
			return nil, err
		case code == http.StatusTooManyRequests: // no attempt; all workers of the pool leave the provider alone for a while
			after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
			return nil, &worker.Throttled{Downstream: "provider", RetryAfter: time.Duration(max(1, after)) * time.Second}
		case code >= 400 && code < 500: // no repetition will help
			return nil, worker.Permanent(fmt.Errorf("provider: %s: %s", resp.Status, body))
		case code >= 300:
			return nil, fmt.Errorf("provider: %s", resp.Status)
		}
		if tokens, err := strconv.ParseFloat(resp.Header.Get("Tokens-Used"), 64); err == nil {
			job.Used("provider", "tokens", tokens) // what the job really cost; the next reservations follow it
		}
		return body, nil
	}
}
