package worker

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/queue"
)

func postTo(t *testing.T, f http.HandlerFunc) ([]byte, error) {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	client := s.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return HTTP(s.URL, HTTPOptions{Client: client})(t.Context(), &Job{ID: "j", Attempt: 2, Pool: "p", Payload: []byte("{}")})
}

func TestHTTPStatusesAreVerdicts(t *testing.T) {
	for _, c := range []struct {
		name       string
		status     int
		retryAfter string
		body       int
		action     string
		wait       time.Duration
	}{
		{name: "200", status: 200, action: "ack"},
		{name: "204", status: 204, action: "ack"},
		{name: "a result as long as allowed", status: 200, body: queue.MaxPayload, action: "ack"},
		{name: "a longer one", status: 200, body: queue.MaxPayload + 1, action: "dead"},
		{name: "400", status: 400, body: 5, action: "dead"},
		{name: "404", status: 404, action: "dead"},
		{name: "429 in seconds", status: 429, retryAfter: "90", action: "release", wait: 90 * time.Second},
		{name: "429 at a date", status: 429, retryAfter: time.Now().Add(time.Minute).UTC().Format(http.TimeFormat), action: "release", wait: time.Minute},
		{name: "429 without", status: 429, action: "release", wait: time.Second},
		{name: "429 at once", status: 429, retryAfter: "0", action: "release", wait: time.Second},
		{name: "429 since a minute", status: 429, retryAfter: time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat), action: "release", wait: time.Second},
		{name: "429 for 68 years", status: 429, retryAfter: "2147483647", action: "release", wait: time.Hour},
		{name: "429 for longer than a number holds", status: 429, retryAfter: "99999999999999999999", action: "release", wait: time.Hour},
		{name: "503 with nonsense", status: 503, retryAfter: "-5", action: "release", wait: time.Second},
		{name: "500", status: 500, body: 5, action: "nack"},
		{name: "302 is not followed", status: 302, action: "nack"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := postTo(t, func(w http.ResponseWriter, _ *http.Request) {
				if c.retryAfter != "" {
					w.Header().Set("Retry-After", c.retryAfter)
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, strings.Repeat("x", c.body))
			})
			got := verdict(&held{}, out, err)
			if got.Action != c.action {
				t.Errorf("got %s (%v), want %s", got.Action, err, c.action)
			}
			if c.action == "ack" && len(out) != c.body {
				t.Errorf("result: got %d bytes, want %d", len(out), c.body)
			}
			if c.body == 5 && !strings.HasSuffix(got.Error, ": xxxxx") {
				t.Errorf("reason: got %q, want the body in it", got.Error)
			}
			if c.wait == 0 {
				return
			}
			if wait := got.RetryIn.Duration(); wait > c.wait || wait < c.wait-2*time.Second || wait <= 0 {
				t.Errorf("retry in: got %v, want %v", wait, c.wait)
			}
		})
	}
}

func TestHTTPRequest(t *testing.T) {
	var got http.Header
	var body []byte
	if _, err := postTo(t, func(_ http.ResponseWriter, r *http.Request) {
		got = r.Header
		body, _ = io.ReadAll(r.Body)
	}); err != nil {
		t.Fatal(err)
	}
	for k, want := range map[string]string{
		"Headrace-Job-Id": "j", "Headrace-Attempt": "2", "Headrace-Pool": "p", "Idempotency-Key": "j",
		"Content-Type": "application/json",
	} {
		if got.Get(k) != want {
			t.Errorf("%s: got %q, want %q", k, got.Get(k), want)
		}
	}
	if string(body) != "{}" {
		t.Errorf("body: got %q, want the payload", body)
	}
}

func TestHTTPNetworkFaults(t *testing.T) {
	t.Run("nobody listens: the job is innocent", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		url := "http://" + l.Addr().String()
		l.Close()
		_, err = HTTP(url, HTTPOptions{})(t.Context(), &Job{})
		if got := verdict(&held{}, nil, err); got.Action != "release" || got.RetryIn.Duration() != time.Second {
			t.Errorf("got %+v, want a release for a second", got)
		}
	})
	t.Run("cut in the middle: it may have begun", func(t *testing.T) {
		_, err := postTo(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		if got := verdict(&held{}, nil, err); got.Action != "nack" {
			t.Errorf("got %+v, want nack", got)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // or the server does not see the client go
			cancel()
			<-r.Context().Done()
		}))
		defer s.Close()
		_, err := HTTP(s.URL, HTTPOptions{Client: s.Client()})(ctx, &Job{})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		if got := verdict(&held{cause: ErrStopping}, nil, err); got.Action != "release" {
			t.Errorf("got %+v, want release", got)
		}
	})
}

// A status that stands for a downstream keeps the whole fleet away from it, as Retry-After says.
func TestHTTPThrottleNamesItsDownstream(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(529)
	}))
	defer srv.Close()
	_, err := HTTP(srv.URL, HTTPOptions{Throttles: map[int]string{529: "llm"}})(t.Context(), &Job{ID: "j"})
	var throttled *Throttled
	if !errors.As(err, &throttled) || throttled.Downstream != "llm" || throttled.RetryAfter != 7*time.Second {
		t.Errorf("got %v, want it throttled by llm for 7s", err)
	}
}
