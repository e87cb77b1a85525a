package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/headrace/headrace/internal/httpapi"
)

// client asks the API as any program would.
type client struct{ base string }

func (c *client) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, raw)
	}
	return json.Unmarshal(raw, out)
}

// enqueue sends tasks as one batch and returns the jobs' ids.
func (c *client) enqueue(ctx context.Context, tasks []Task) ([]string, error) {
	jobs := make([]httpapi.JobInput, len(tasks))
	for i, t := range tasks {
		raw, err := json.Marshal(t)
		if err != nil {
			return nil, err
		}
		jobs[i] = httpapi.JobInput{Pool: poolName, Payload: raw}
	}
	var out httpapi.EnqueuedList
	if err := c.do(ctx, http.MethodPost, "/api/v1/jobs", jobs, &out); err != nil {
		return nil, err
	}
	ids := make([]string, len(out.Items))
	for i, it := range out.Items {
		if it.Problem != nil {
			return nil, fmt.Errorf("enqueue job %d: %w", i, it.Problem)
		}
		ids[i] = it.ID
	}
	return ids, nil
}

func (c *client) pool(ctx context.Context) (p httpapi.Pool, err error) {
	err = c.do(ctx, http.MethodGet, "/api/v1/pools/"+poolName, nil, &p)
	return p, err
}

func (c *client) job(ctx context.Context, id string) (j httpapi.Job, err error) {
	err = c.do(ctx, http.MethodGet, "/api/v1/jobs/"+id, nil, &j)
	return j, err
}

// decisions returns the last thousand journaled decisions, newest first.
func (c *client) decisions(ctx context.Context) ([]httpapi.DecisionItem, error) {
	var page httpapi.DecisionList
	err := c.do(ctx, http.MethodGet, "/api/v1/decisions?page_size=1000", nil, &page)
	return page.Items, err
}
