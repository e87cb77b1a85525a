package demo

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLaunchDayIsTheSameForTheSameSeed(t *testing.T) {
	a, b := LaunchDay(time.Minute, 7), LaunchDay(time.Minute, 7)
	if d := cmp.Diff(a, b); d != "" {
		t.Errorf("equal seeds differ:\n%s", d)
	}
	if cmp.Equal(a, LaunchDay(time.Minute, 8)) {
		t.Error("other seeds give the same story")
	}
}

// The story is what it is told to be, at every length: an eightfold surge past what the provider takes, and one poison job.
func TestLaunchDayTellsItsStory(t *testing.T) {
	for _, d := range []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 10 * time.Minute} {
		s := LaunchDay(d, 1)
		surge, quiet, poison := 0, 0, 0
		for i, a := range s.Arrivals {
			if a.Task.Number != i || a.At < 0 || a.At >= d || i > 0 && a.At < s.Arrivals[i-1].At {
				t.Fatalf("%v: arrival %d is %+v, not in order", d, i, a)
			}
			at := a.At.Seconds() / d.Seconds()
			switch {
			case a.Task.Poison:
				poison++
			case at >= surgeFrom && at < surgeTo:
				surge++
			default:
				quiet++
			}
		}
		surgeRate := float64(surge) / ((surgeTo - surgeFrom) * d.Seconds())
		quietRate := float64(quiet) / ((1 - surgeTo + surgeFrom) * d.Seconds())
		if poison != 1 || surgeRate < launchRate || quietRate > launchRate/2 {
			t.Errorf("%v: %d poison jobs, %.1f/s in the surge, %.1f/s else", d, poison, surgeRate, quietRate)
		}
	}
}

func TestFromTraceReadsBothKinds(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "t.csv")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s, err := FromTrace(write("arrival_seconds,service_seconds,work_units\n0,2,100\n10,4,300\n1000,1,1\n"), 10, 20*time.Second, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := []Arrival{{0, Task{Number: 0, Tokens: 100, Millis: 200}}, {time.Second, Task{Number: 1, Tokens: 300, Millis: 400}}}
	if d := cmp.Diff(want, s.Arrivals); d != "" {
		t.Errorf("jobs (-want +got):\n%s", d)
	}
	if s.TokensPerJob != 200 || s.TokensPerMinute != 1500 || s.ServiceTime != 300*time.Millisecond {
		t.Errorf("%d tokens a job, %d a minute, %v: want 200, 1500, 300ms", s.TokensPerJob, s.TokensPerMinute, s.ServiceTime)
	}
	s, err = FromTrace(write("interval_start_seconds,arrivals\n0,3\n60,0\n120,5\n"), 60, 10*time.Second, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Arrivals) != 8 || s.Arrivals[2].At >= time.Second || s.Arrivals[3].At < 2*time.Second {
		t.Errorf("rates gave %+v, want 3 in the first second and 5 in the third", s.Arrivals)
	}
	for name, text := range map[string]string{
		"no header":    "",
		"other header": "a,b\n1,2\n",
		"not a number": "arrival_seconds\nsoon\n",
		"negative":     "arrival_seconds\n-1\n",
		"not in order": "arrival_seconds\n5\n1\n",
		"ragged":       "arrival_seconds,work_units\n1\n",
		"nothing":      "arrival_seconds\n",
		"far too much": "interval_start_seconds,arrivals\n0,1e6\n60,0\n",
	} {
		if _, err := FromTrace(write(text), 1, time.Minute, 1); err == nil {
			t.Errorf("%s: read without an error", name)
		}
	}
	if _, err := FromTrace(filepath.Join(t.TempDir(), "none.csv"), 1, time.Minute, 1); err == nil || strings.Count(err.Error(), "none.csv") != 1 {
		t.Errorf("a missing file: %v, want an error that names it once", err)
	}
}

func FuzzTrace(f *testing.F) {
	f.Add([]byte("arrival_seconds,service_seconds,work_units\n0,2,100\n"))
	f.Add([]byte("interval_start_seconds,arrivals\n0,3\n60,1e9\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		rows, err := parseTrace(bytes.NewReader(text))
		for _, r := range rows {
			if err == nil && (r.at < 0 || r.count < 0 || r.units < 0 || r.seconds < 0) {
				t.Fatalf("row %+v", r)
			}
		}
	})
}

// The provider waits, keeps its limit by refusing, and counts only answers that were given.
func TestProviderKeepsItsOwnAccount(t *testing.T) {
	p := NewProvider(600) // 10 a second, 20 at once
	ask := func(number, tokens int) *httptest.ResponseRecorder {
		raw, err := json.Marshal(Task{Number: number, Tokens: tokens, Millis: 1})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(raw)))
		return w
	}
	synctest.Test(t, func(t *testing.T) {
		p = NewProvider(600)
		for i := range 2 {
			if w := ask(i, 10); w.Code != http.StatusOK {
				t.Fatalf("call %d: %d, want 200", i, w.Code)
			}
		}
		if w := ask(2, 10); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
			t.Errorf("above the limit: %d, want 429 with Retry-After", w.Code)
		}
		time.Sleep(time.Second)
		if w := ask(2, 10); w.Code != http.StatusOK {
			t.Errorf("a second later: %d, want 200", w.Code)
		}
		body, err := io.ReadAll(ask(3, 1).Body)
		if err != nil {
			t.Fatal(err)
		}
		a := p.Account()
		if a.Calls != 5 || a.Refused != 2 || len(a.Answered) != 3 {
			t.Errorf("account %+v after %s, want 5 calls, 2 refused, 3 answered", a, body)
		}
	})
}
