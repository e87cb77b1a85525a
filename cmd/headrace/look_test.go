package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/httpapi"
	"github.com/headrace/headrace/queue"
)

var quietLog = log.New(io.Discard, "", 0)

// commandLines is how each command that shows a table is run, and what its JSON is made of.
func commandLines(id string) map[string]struct {
	args   []string
	schema string
} {
	return map[string]struct {
		args   []string
		schema string
	}{
		"headrace pools":       {[]string{"pools"}, "Pool"},
		"headrace explain":     {[]string{"explain", "emails"}, "PoolExplanation"},
		"headrace decisions":   {[]string{"decisions"}, "DecisionItem"},
		"headrace status":      {[]string{"status"}, "Status"},
		"headrace downstreams": {[]string{"downstreams"}, "Downstream"},
		"headrace workers":     {[]string{"workers"}, "Worker"},
		"headrace jobs get":    {[]string{"jobs", "get", id}, "Job"},
		"headrace jobs list":   {[]string{"jobs", "list", "--state", "ready", "--pool", "reports"}, "Job"},
		"headrace jobs cancel": {[]string{"jobs", "cancel", id}, "Job"},
	}
}

// Every column of a table is made of fields that the JSON has, so that nothing is seen only by people; -o json is the
// body of the API byte for byte; and -o ndjson is the same, a value a line.
func TestTablesShowWhatTheJSONHas(t *testing.T) {
	s := newTestServer(t)
	s.must(`{"payload":1}`, "jobs", "enqueue", "--pool", "reports", "--payload-only")
	s.post("/worker/v1/heartbeats", `{"worker":"w1","pool":"emails","slots":2,"busy":0,"leases":[],"incarnation":"i","totals":{
		"acked":0,"nacked":0,"released":0,"dead":0,"crashed":0,"busy_seconds":0,"busy_squares":0,"runs":0}}`)
	s.until("a recorded decision", func() bool { return strings.Count(s.must("", "decisions"), "\n") > 2 })

	var api struct {
		Components struct{ Schemas map[string]schema }
	}
	raw, err := httpapi.OpenAPI("test")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &api); err != nil {
		t.Fatal(err)
	}
	c := &cli{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, env: func(string) (string, bool) { return "", false }}
	walked := 0
	each(newRootCmd(c), func(cmd *cobra.Command) {
		columns, ok := cmd.Annotations["columns"]
		if !ok {
			return
		}
		walked++
		id := decode[httpapi.Enqueued](t, s.must(`{"payload":{"a":1},"key":"k`+cmd.Name()+`"}`, "jobs", "enqueue", "--pool", "reports", "-o", "ndjson")).ID
		how, ok := commandLines(id)[cmd.CommandPath()]
		if !ok {
			t.Errorf("%s shows a table that no test knows", cmd.CommandPath())
			return
		}
		table := s.must("", how.args...)
		for column := range strings.SplitSeq(columns, ";") {
			name, fields, _ := strings.Cut(column, "=")
			for field := range strings.FieldsSeq(fields) {
				if !has(api.Components.Schemas, api.Components.Schemas[how.schema], field) {
					t.Errorf("%s: column %q shows field %q, which the JSON (%s) does not have", cmd.CommandPath(), name, field, how.schema)
				}
			}
			if cmd.CommandPath() != "headrace jobs get" && cmd.CommandPath() != "headrace jobs cancel" && // fields without a value are left out
				!strings.Contains(strings.ToLower(table), strings.ToLower(name)) {
				t.Errorf("%s: no column %q in:\n%s", cmd.CommandPath(), name, table)
			}
		}
		if cmd.Name() == "cancel" {
			return // it can be done once
		}
		body := s.must("", append(how.args, "-o", "json")...)
		if body != s.lastBody() {
			t.Errorf("%s -o json: got\n%s\nwant the body of the API\n%s", cmd.CommandPath(), body, s.lastBody())
		}
		lines := s.must("", append(how.args, "-o", "ndjson")...)
		if !strings.HasSuffix(lines, "}\n") {
			t.Errorf("%s -o ndjson: got %q", cmd.CommandPath(), lines)
		}
		for line := range strings.Lines(lines) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s -o ndjson: line is not JSON: %s", cmd.CommandPath(), line)
			}
		}
	})
	if want := len(commandLines("")); walked != want {
		t.Errorf("walked %d commands with a table, want %d", walked, want)
	}
}

// schema is as much of JSON Schema as the API's document uses.
type schema struct {
	Ref        string `json:"$ref"`
	Properties map[string]schema
	Items      *schema
}

// has reports whether a value of type s has the field: a dot reaches into an object, [] into an array.
func has(all map[string]schema, s schema, field string) bool {
	for s.Ref != "" {
		s = all[s.Ref[strings.LastIndex(s.Ref, "/")+1:]]
	}
	name, rest, deeper := strings.Cut(field, ".")
	name, array := strings.CutSuffix(name, "[]")
	next, ok := s.Properties[name]
	if !ok {
		return false
	}
	if array {
		for next.Ref != "" {
			next = all[next.Ref[strings.LastIndex(next.Ref, "/")+1:]]
		}
		if next.Items == nil {
			return false
		}
		next = *next.Items
	}
	return !deeper || has(all, next, rest)
}

func TestEveryCommandHasAnExample(t *testing.T) {
	c := &cli{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, env: func(string) (string, bool) { return "", false }}
	each(newRootCmd(c), func(cmd *cobra.Command) {
		if cmd.HasParent() && !cmd.HasSubCommands() && !cmd.Hidden && cmd.Name() != "version" && !strings.Contains(cmd.Example, "headrace ") {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
	})
}

func TestPoolsSaysWhatToLookAtNext(t *testing.T) {
	late, objective, backlog := 702.0, 600.0, 16400.0
	arrivals := 16.4
	at := time.Now()
	body, err := json.Marshal(httpapi.PoolList{Items: []httpapi.Pool{
		{Name: "otp", State: httpapi.PoolOK, At: at, Desired: 9, Ready: 9},
		{Name: "enrich", State: httpapi.PoolAtRisk, At: at, OldestAge: &late, Objective: &objective, Backlog: &backlog,
			Arrivals: &arrivals, Completions: 23.6, Wanted: 31, Desired: 14, Ready: 13, HeldBy: "llm-provider"},
		{Name: "blind", State: httpapi.PoolUnread, At: at, Desired: 3, Ready: 3, HeldBy: "stale_hold", Unread: "queue: connection refused"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var out, talk bytes.Buffer
	c := &cli{stdout: &out, stderr: &talk, output: "table", env: func(string) (string, bool) { return "", false }}
	a := answer{body: body, at: at}
	pools := decode[httpapi.PoolList](t, string(body)).Items
	got := tableOf(poolColumns(), pools, false)
	want := `   POOL    STATE    OLDEST / OBJ  BACKLOG  DRAIN  IN / OUT     REPLICAS            HELD BY
●  otp     ok       –                   –         – / 0.0      9                   -
▲  enrich  at risk  11m42s / 10m   16 400         16.4 / 23.6  14 ▸ 31 (13 ready)  llm-provider
◌  blind   unread   –                   –         – / 0.0      3                   stale hold
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	c.closing(a)
	if want := "blind is unread: queue: connection refused; holding 3\n1 pool unread. Why: headrace explain blind\n1 pool at risk. Why: headrace explain enrich\n"; talk.String() != want {
		t.Errorf("got %q, want %q", talk.String(), want)
	}
	talk.Reset()
	c.closing(answer{body: body, at: at.Add(42 * time.Second)})
	if want := "Unread for 42s: "; !strings.HasPrefix(talk.String(), want) {
		t.Errorf("an old snapshot: got %q, want %q first", talk.String(), want)
	}
}

func TestUnreachableServerSaysWhatToDo(t *testing.T) {
	env := map[string]string{"HEADRACE_SERVER": "http://127.0.0.1:1"}
	for _, args := range [][]string{{"pools"}, {"explain", "p"}, {"jobs", "get", "x"}, {"jobs", "enqueue", "--pool", "p", "--payload-only", "--retry-for", "1ms"}} {
		code, stdout, stderr := runWith(t.Context(), env, strings.NewReader("1\n"), args...)
		if code != exitUnreachable || !strings.Contains(stderr, "Is `headrace up` running?") {
			t.Errorf("%v: exit code %d, want %d; said\n%s%s", args, code, exitUnreachable, stdout, stderr)
		}
	}
}

func TestTheTokenIsAskedFor(t *testing.T) {
	s := newTestServer(t)
	env := map[string]string{"HEADRACE_SERVER": s.url}
	code, _, stderr := runWith(t.Context(), env, strings.NewReader(""), "pools")
	if code != exitDenied || !strings.Contains(stderr, "HEADRACE_TOKEN") {
		t.Errorf("without a token: exit code %d, want %d; said %s", code, exitDenied, stderr)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runWith(t.Context(), env, strings.NewReader(""), "pools", "--token-file", file); code != exitDone {
		t.Errorf("with --token-file: exit code %d: %s", code, stderr)
	}
}

func TestJobsGetWaits(t *testing.T) {
	s := newTestServer(t)
	id := decode[httpapi.Enqueued](t, s.must(`{"payload":"x"}`, "jobs", "enqueue", "--pool", "reports", "-o", "ndjson")).ID
	began := time.Now()
	code, stdout, stderr := s.run("", "jobs", "get", id, "--wait", "300ms")
	if code != exitWait || !strings.Contains(stdout, "ready") {
		t.Errorf("job that nobody runs: exit code %d, want %d\n%s%s", code, exitWait, stdout, stderr)
	}
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("waited %v, want 300ms", took)
	}
	s.must("", "jobs", "cancel", id)
	if code, stdout, _ := s.run("", "jobs", "get", id, "--wait", "10s"); code != exitBad || !strings.Contains(stdout, string(queue.Cancelled)) {
		t.Errorf("cancelled job: exit code %d, want %d\n%s", code, exitBad, stdout)
	}
	if code, _, stderr := s.run("", "jobs", "cancel", id); code != exitConflict {
		t.Errorf("cancelled twice: exit code %d, want %d: %s", code, exitConflict, stderr)
	}
	if code, _, _ := s.run("", "jobs", "get", "01990b1c-7d0e-7a3b-9a53-0c7b2f6f1f10"); code != exitFailed {
		t.Errorf("job that never was: exit code %d, want %d", code, exitFailed)
	}
}

func TestJobsListReadsEveryPage(t *testing.T) {
	s := newTestServer(t)
	s.must(strings.Repeat("1\n", 25), "jobs", "enqueue", "--pool", "reports", "--payload-only")
	s.must(strings.Repeat("1\n", 5), "jobs", "enqueue", "--pool", "emails", "--payload-only")
	for _, tc := range []struct {
		args []string
		want int
	}{
		{[]string{"--limit", "10"}, 10},
		{[]string{"--limit", "10", "--all"}, 30},
		{[]string{"--limit", "7", "--all", "--pool", "reports"}, 25},
		{[]string{"--all"}, 30},
	} {
		args := append([]string{"jobs", "list", "--state", "ready"}, tc.args...)
		if got := strings.Count(s.must("", append(args, "-o", "ndjson")...), "\n"); got != tc.want {
			t.Errorf("%v -o ndjson: got %d jobs, want %d", tc.args, got, tc.want)
		}
		if got := len(decode[httpapi.JobList](t, s.must("", append(args, "-o", "json")...)).Items); got != tc.want {
			t.Errorf("%v -o json: got %d jobs, want %d", tc.args, got, tc.want)
		}
		if got := strings.Count(s.must("", args...), "\n") - 1; got != tc.want {
			t.Errorf("%v: got %d rows, want %d", tc.args, got, tc.want)
		}
	}
	if got := s.must("", "jobs", "list", "--state", "dead", "-o", "json"); got != s.lastBody() || !strings.Contains(got, `"items":[]`) {
		t.Errorf("no dead jobs: got %q, want an empty list", got)
	}
	if code, _, stderr := s.run("", "jobs", "list", "--state", "done"); code != exitUsage || !strings.Contains(stderr, "succeeded") {
		t.Errorf("unknown state: exit code %d: %s", code, stderr)
	}
}

func TestExplainOfThePast(t *testing.T) {
	s := newTestServer(t)
	s.until("a recorded decision", func() bool { return strings.Contains(s.must("", "decisions", "emails"), "emails") })
	code, stdout, stderr := s.run("", "explain", "emails", "--at", "0s")
	if code != exitDone || !strings.HasPrefix(stdout, "Why 0 replicas?") || !strings.HasPrefix(stderr, "As decided at ") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if code, _, stderr := s.run("", "explain", "emails", "--at", "1h"); code != exitFailed || !strings.Contains(stderr, "recorded that early") {
		t.Errorf("before the first decision: exit code %d: %s", code, stderr)
	}
	if code, _, _ := s.run("", "explain", "emails", "--at", "soon"); code != exitUsage {
		t.Errorf("--at soon: exit code %d, want %d", code, exitUsage)
	}
}

func TestParseMoment(t *testing.T) {
	zone := time.FixedZone("east", 3600)
	now := time.Date(2026, 3, 10, 14, 0, 0, 0, zone)
	for _, tc := range []struct{ text, want string }{
		{"", ""},
		{"03:12", "2026-03-10T02:12:00Z"},
		{"14:30", "2026-03-09T13:30:00Z"}, // not yet today
		{"13:59:30", "2026-03-10T12:59:30Z"},
		{"20m", "2026-03-10T12:40:00Z"},
		{"2026-01-31T03:12:00+01:00", "2026-01-31T02:12:00Z"},
	} {
		if got, err := parseMoment(tc.text, now); err != nil || got != tc.want {
			t.Errorf("parseMoment(%q): got %q %v, want %q", tc.text, got, err, tc.want)
		}
	}
	for _, text := range []string{"yesterday", "-5m", "25:00"} {
		if got, err := parseMoment(text, now); err == nil {
			t.Errorf("parseMoment(%q): got %q, want an error", text, got)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{span(0), "0s"}, {span(400 * time.Millisecond), "0.4s"}, {span(25 * time.Second), "25s"},
		{span(702 * time.Second), "11m42s"}, {span(10 * time.Minute), "10m"}, {span(64 * time.Minute), "1h04m"},
		{span(59*time.Minute + 59*time.Second + 700*time.Millisecond), "1h"}, {span(26 * time.Hour), "1d2h"}, {span(48 * time.Hour), "2d"},
		{amount(0), "0"}, {amount(999), "999"}, {amount(16400), "16 400"}, {amount(1234567), "1 234 567"}, {amount(-1500), "-1 500"},
		{rate(0.44), "0.4"}, {rate(16.4), "16.4"}, {rate(2120), "2 120"},
		{share(0.98), "98%"}, {share(0.002), "0.2%"}, {share(0), "0%"},
		{quantity(90000), "90k"}, {quantity(3000), "3000"}, {quantity(1.5e6), "1.5M"},
		{printable("a\nb\x1b[31mc"), "a b·[31mc"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
}
