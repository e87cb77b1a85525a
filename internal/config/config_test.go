package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headrace/headrace/scale"
)

func parse(t *testing.T, text string) *Config {
	t.Helper()
	cfg, problems := Parse("headrace.yaml", []byte(text), env)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestTenLinesAreEnough(t *testing.T) {
	cfg := parse(t, `version: 1
pools:
  enrich:
    objective: { oldest_age: 10m }
    replicas: { max: 24 }
    actuator: { command: python3 'my worker.py' }
`)
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Server:      Server{Listen: "127.0.0.1:8480", DataDir: dir + "/headrace-data", History: 14 * 24 * time.Hour, Cycle: time.Second},
		Brokers:     map[string]Broker{"main": {Name: "main", Type: "sqlite", Path: dir + "/headrace-data/queue.db"}},
		Actuators:   map[string]Actuator{"local": {Name: "local", Type: "process"}},
		Downstreams: map[string]Downstream{},
		Pools: []Pool{{
			Name: "enrich", Broker: "main", Queue: "enrich",
			Scale: scale.Policy{
				Pool: "enrich", Objective: scale.Objective{OldestAge: 10 * time.Minute, Miss: 0.05}, Max: 24, MaxFrom: "headrace.yaml:5", Concurrency: 1, StartsIn: time.Second,
				IdleToZero: 5 * time.Minute, Grace: 30 * time.Second, Cycle: time.Second, Stale: 10 * time.Minute,
				Damping: scale.Damping{Up: []scale.Rate{{Percent: 100, Per: 15 * time.Second}}, Down: []scale.Rate{{Percent: 20, Per: time.Minute}}},
			},
			Lease:  Lease{For: time.Minute, Heartbeat: 20 * time.Second, Max: time.Hour},
			Retry:  Retry{Attempts: 10, BackoffMin: time.Second, BackoffMax: 10 * time.Minute},
			Poison: Poison{AfterCrashes: 2},
			Starts: Starts{Actuator: "local", Command: []string{"python3", "my worker.py"}, Env: map[string]Secret{}, Dir: dir, Grace: 30 * time.Second},
		}},
	}
	if diff := cmp.Diff(want, cfg, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPoolsInheritKeyByKey(t *testing.T) {
	cfg, problems := parseFile(t, "testdata/valid/all.yaml")
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	enrich, plain := cfg.Pools[0], cfg.Pools[1]
	if want := (Lease{For: 90 * time.Second, Heartbeat: 30 * time.Second, Max: time.Hour}); plain.Lease != want {
		t.Errorf("plain: got lease %v, want %v: for of defaults, heartbeat a third of it", plain.Lease, want)
	}
	if plain.Scale.Max != 8 || plain.Scale.Min != 1 || !plain.Scale.Observe || plain.Scale.Concurrency != 2 || plain.Scale.MaxFrom != "all.yaml:26" {
		t.Errorf("plain: got %+v, want what defaults say", plain.Scale)
	}
	if plain.Scale.Damping.HoldSteady != 0 || plain.Scale.Damping.HoldDrain != 0 || plain.Scale.Utilisation != 0 {
		t.Errorf("plain: got %+v, want auto to win over defaults", plain.Scale.Damping)
	}
	if enrich.Scale.Max != 24 || enrich.Scale.Observe || enrich.Scale.StaleFloor != 4 || enrich.Scale.Stale != 5*time.Minute {
		t.Errorf("enrich: got %+v, want its own values", enrich.Scale)
	}
	if enrich.Scale.Damping.HoldSteady != 90*time.Second || len(enrich.Scale.Damping.Up) != 2 {
		t.Errorf("enrich: got %+v, want the declared hold and both speeds", enrich.Scale.Damping)
	}
	want := []Use{
		{"llm-provider", "requests", 1, true}, // a limit on requests counts each job once
		{"llm-provider", "tokens", 62, true},
		{"search", "queries", 0.5, false},
	}
	if diff := cmp.Diff(want, enrich.Uses); diff != "" {
		t.Errorf("enrich uses (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"python3", "enrich worker.py", "--price", `$5 "each"`}, enrich.Starts.Worker); diff != "" {
		t.Errorf("enrich worker (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]Secret{"LANG": "C.UTF-8", "LEVEL": "3", "EMPTY": ""}, enrich.Starts.Env); diff != "" {
		t.Errorf("enrich env (-want +got):\n%s", diff)
	}
	d := cfg.Downstreams["llm-provider"]
	if diff := cmp.Diff(Downstream{"llm-provider", []DownstreamLimit{{"requests", 50, "3000/min"}, {"tokens", 1500, "90k/min"}}, []int{429, 529}}, d); diff != "" {
		t.Errorf("downstream (-want +got):\n%s", diff)
	}
}

// What Show prints is a configuration with the same meaning, as far as no secrets are in it.
func TestShowIsTheConfiguration(t *testing.T) {
	var first bytes.Buffer
	if err := Init(&first); err != nil {
		t.Fatal(err)
	}
	texts := [][]byte{first.Bytes()}
	for _, file := range inputs(t, "testdata/valid/*.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, regexp.MustCompile(`(?m)^ +env: .*\n`).ReplaceAll(text, nil))
	}
	for _, text := range texts {
		before := parse(t, string(text))
		var shown bytes.Buffer
		if err := Show(&shown, before); err != nil {
			t.Fatal(err)
		}
		after := parse(t, shown.String())
		places := cmpopts.IgnoreFields(scale.Policy{}, "MaxFrom")
		if diff := cmp.Diff(before, after, cmpopts.IgnoreUnexported(Config{}), places); diff != "" {
			t.Errorf("(-before +after):\n%s\n%s", diff, shown.String())
		}
	}
}

func TestSecretsAreNeverShown(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte(sesame+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := `version: 1
server: { data_dir: "/srv/${env:SECRET}", auth: { token: "${file:token}" } }
pools:
  a:
    queue: "q-${env:SECRET}"
    objective: { oldest_age: 1m }
    replicas: { max: 1 }
    actuator:
      command: "run --token ${env:SECRET}"
      env: { PLAIN: ` + sesame + `, FILLED: "${env:SECRET}" }
`
	cfg, problems := Parse(filepath.Join(dir, "headrace.yaml"), []byte(text), env)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if cfg.Server.Token != sesame || cfg.Pools[0].Starts.Env["FILLED"] != sesame || cfg.Pools[0].Starts.Command[2] != sesame {
		t.Fatalf("the secrets did not arrive: %q", []string{string(cfg.Server.Token), string(cfg.Pools[0].Starts.Env["FILLED"])})
	}
	var out bytes.Buffer
	if err := Show(&out, cfg); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(&out).Encode(cfg.Settings()); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(&out).Encode(cfg.Pools[0].Starts.Env); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&out, "%v %+v %#v %s %q\n", cfg.Server.Token, struct{ T Secret }{cfg.Server.Token}, cfg.Server.Token, cfg.Pools[0].Starts.Env, cfg.Server.Token)
	slog.New(slog.NewTextHandler(&out, nil)).Info("loaded", "token", cfg.Server.Token)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("loaded", "server", cfg.Server.Token)
	if strings.Contains(out.String(), sesame) {
		t.Errorf("a secret is shown:\n%s", out.String())
	}
	if strings.Count(out.String(), hidden) < 10 {
		t.Errorf("secrets are left out instead of hidden:\n%s", out.String())
	}
}

// A value from outside is text for its key, whatever it looks like in YAML.
func TestWhatIsFilledInIsNotYAML(t *testing.T) {
	text := "version: 1\npools:\n  a: { objective: { oldest_age: 1m }, replicas: { max: \"${env:N}\" }, actuator: { worker: a, env: { X: \"${env:EVIL}\" } } }\n"
	cfg, problems := Parse("a.yaml", []byte(text), func(name string) (string, bool) {
		return map[string]string{"N": "12", "EVIL": "x } }\nb: {"}[name], true
	})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	if got := cfg.Pools[0].Starts.Env["X"]; len(cfg.Pools) != 1 || got != "x } }\nb: {" || cfg.Pools[0].Scale.Max != 12 {
		t.Errorf("got %d pools, %q, max %d", len(cfg.Pools), string(got), cfg.Pools[0].Scale.Max)
	}
}

func TestEnvironmentWinsOverFile(t *testing.T) {
	text := []byte("version: 1\nserver: { listen: 127.0.0.1:1, data_dir: data }\npools: {}\n")
	vars := map[string]string{"HEADRACE_LISTEN": "127.0.0.1:2", "HEADRACE_DATA_DIR": "/var/lib/other"}
	lookup := func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
	cfg, problems := Parse("a.yaml", text, lookup)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	if cfg.Server.Listen != "127.0.0.1:2" || cfg.Server.DataDir != "/var/lib/other" || cfg.Brokers["main"].Path != "/var/lib/other/queue.db" {
		t.Errorf("got %+v %+v", cfg.Server, cfg.Brokers)
	}
	if got := cfg.Settings()[1]; got != (Setting{"server.listen", "127.0.0.1:2", "HEADRACE_LISTEN"}) {
		t.Errorf("got %+v, want the variable as origin", got)
	}
	vars["HEADRACE_LISTEN"] = "nowhere"
	_, problems = Parse("a.yaml", text, lookup)
	if got, want := problems.Error(), "HEADRACE_LISTEN: error: \"nowhere\" is not host:port: host or port is missing  (server.listen)"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDirectoryIsReadAsOneFile(t *testing.T) {
	dir := t.TempDir()
	pool := "{ objective: { oldest_age: 1m }, actuator: { worker: a } }\n"
	write(t, dir, map[string]string{
		"10-server.yaml":  "version: 1\nserver: { data_dir: data }\ndefaults: { replicas: { max: 3 } }\n",
		"20-one.yaml":     "version: 1\npools:\n  one: " + pool,
		"30-two.yaml":     "pools:\n  two: " + pool,
		"ignored.yaml.md": "not: [yaml",
	})
	cfg, problems := Load(dir, env)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	if len(cfg.Pools) != 2 || cfg.Pools[1].Name != "two" || cfg.Pools[1].Scale.MaxFrom != filepath.Join(dir, "10-server.yaml")+":3" || cfg.Pools[1].Scale.Max != 3 || cfg.Server.DataDir != filepath.Join(dir, "data") {
		t.Errorf("got %+v", cfg)
	}
	write(t, dir, map[string]string{"40-again.yaml": "pools:\n  one: " + pool + "server: { cycle: 2s }\nversion: 2\n"})
	_, problems = Load(dir, env)
	var got []string
	for _, p := range problems {
		got = append(got, fmt.Sprintf("%s:%d %s; %s", filepath.Base(p.File), p.Line, p.Message, strings.ReplaceAll(p.Hint, dir+"/", "")))
	}
	want := []string{
		`40-again.yaml:2 duplicate key "one"; first at 20-one.yaml:3`,
		`40-again.yaml:3 duplicate key "server"; first at 10-server.yaml:2`,
		`40-again.yaml:4 duplicate key "version"; first at 10-server.yaml:1`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFilesWithAnotherNameAreNotReadAndSaidSo(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.yaml": "version: 1\npools: {}\n", "b.yml": "nope: 1\n"})
	cfg, problems := Load(dir, env)
	if cfg == nil || !strings.Contains(problems.Error(), "b.yml: warning: this file is not read") {
		t.Errorf("got %v, %v", cfg, problems)
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	if _, problems := Load(filepath.Join(dir, "none.yaml"), env); problems.Errors() != 1 || problems[0].Hint == "" {
		t.Errorf("got %v, want one error that says what to do", problems)
	}
	if _, problems := Load(dir, env); problems.Errors() != 1 {
		t.Errorf("got %v, want an error for a directory without files", problems)
	}
	for name, text := range map[string]string{
		"not UTF-8":     "version: 1\npools: {a\xff: 1}\n",
		"UTF-16":        "\xff\xfev\x00",
		"too large":     "# " + strings.Repeat("x", maxFile),
		"too many":      "a: [" + strings.Repeat("1,", maxNodes) + "1]",
		"bomb":          "a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n",
		"cycle":         "version: 1\nserver: &a { auth: *a }\n",
		"one long line": "{version: 1, " + strings.Repeat("nope: 1, ", 50_000) + "}",
		"many pools":    "version: 1\ndefaults: { replicas: { max: 0 } }\npools:\n" + many(5000),
	} {
		if cfg, problems := Parse("a.yaml", []byte(text), env); cfg != nil || problems.Errors() == 0 {
			t.Errorf("%s: got %v, want an error", name, problems)
		}
	}
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  p%d: { mode: 1 }\n", i)
	}
	return b.String()
}

func TestIncludedFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"crlf": "value\r\n", "long": strings.Repeat("x", maxIncluded+1)})
	look := fromSystem(dir, nil)
	if got, _, _, err := look.expand("${file:crlf}"); got != "value" || err != nil {
		t.Errorf("got %q, %v; want the text without its line break", got, err)
	}
	for _, path := range []string{"long", "none", ".", "/dev/zero"} {
		if _, _, _, err := look.expand("${file:" + path + "}"); err == nil {
			t.Errorf("%s: want an error", path)
		}
	}
}

// checkProblems fails when a problem points outside its file.
func checkProblems(t *testing.T, text []byte, problems Problems) {
	t.Helper()
	lines := newSource("", text).lines
	for i, p := range problems {
		if p.Line < 1 || p.Line > len(lines) {
			t.Fatalf("line %d of %d: %v", p.Line, len(lines), p)
		}
		if n := utf8.RuneCountInString(lines[p.Line-1]); p.Column < 1 || p.Column > n+1 || p.Width < 1 || p.Column+p.Width > n+2 {
			t.Fatalf("column %d, width %d of %d: %v", p.Column, p.Width, n, p)
		}
		if i > 0 && (problems[i-1].Line > p.Line || problems[i-1].Line == p.Line && problems[i-1].Column > p.Column) {
			t.Fatalf("not sorted: %v before %v", problems[i-1], p)
		}
		if strings.Count(p.String(), "\n") != 3 || strings.ContainsAny(p.String(), "\x1b\r") {
			t.Fatalf("not three clean lines: %q", p.String())
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/problems/*.yaml", "testdata/valid/*.yaml"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	look := lookups{env: env, file: func(string) (string, error) { return "", io.EOF }}
	f.Fuzz(func(t *testing.T, text []byte) {
		cfg, problems := read([]input{{"a.yaml", text}}, "/srv", look)
		checkProblems(t, text, problems)
		if (cfg == nil) != (problems.Errors() > 0) {
			t.Fatalf("config %v with %d errors", cfg, problems.Errors())
		}
		if cfg == nil {
			return
		}
		for _, p := range cfg.Pools {
			if err := p.Scale.Validate(); err != nil {
				t.Fatalf("the engine refuses what the file was accepted for: %v", err)
			}
		}
		var shown bytes.Buffer
		if err := Show(&shown, cfg); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(shown.String(), hidden) {
			return
		}
		again, problems := read([]input{{"a.yaml", shown.Bytes()}}, "/srv", look)
		if again == nil {
			t.Fatalf("what is shown is not valid: %v\n%s", problems, shown.String())
		}
		places := cmpopts.IgnoreFields(scale.Policy{}, "MaxFrom")
		if diff := cmp.Diff(cfg, again, cmpopts.IgnoreUnexported(Config{}), places, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("what is shown differs (-file +shown):\n%s\n%s", diff, shown.String())
		}
	})
}

// A program that is not there is told before a pool of workers fails to start, unless nobody can tell.
func TestAProgramThatIsNotFoundIsAWarning(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"bin/known": 0o755, "bin/plain": 0o644, "beside": 0o755} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	path := func(name string) (string, bool) { return filepath.Join(dir, "bin"), name == "PATH" }
	for _, tc := range []struct {
		actuator string
		env      func(string) (string, bool)
		missing  string
	}{
		{`command: known x`, path, ""},
		{`worker: known`, path, ""},
		{`command: nosuchprogram x`, path, "nosuchprogram"},
		{`worker: ["nosuchprogram"]`, path, "nosuchprogram"},
		{`command: plain`, path, "plain"}, // it cannot be executed
		{`command: bin`, path, "bin"},
		{`command: beside`, path, "beside"},
		{`command: ./beside`, path, ""},
		{`command: ./known, dir: bin`, path, ""},
		{`command: ./beside, dir: bin`, path, "./beside"},
		{`command: ` + filepath.Join(dir, "beside"), path, ""},
		{`command: known, env: { PATH: /nowhere }`, path, "known"},
		{`command: nosuchprogram`, nil, ""},
	} {
		text := "version: 1\npools:\n  p:\n    objective: { oldest_age: 10s }\n    replicas: { max: 2 }\n    actuator: { " + tc.actuator + " }\n"
		cfg, problems := Parse(filepath.Join(dir, "headrace.yaml"), []byte(text), tc.env)
		if cfg == nil {
			t.Errorf("%s: %v", tc.actuator, problems)
			continue
		}
		var got []string
		for _, p := range problems {
			got = append(got, p.Message)
		}
		var want []string
		if tc.missing != "" {
			want = []string{strconv.Quote(tc.missing) + " is not found here: workers could not start"}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: (-want +got)\n%s", tc.actuator, d)
		}
	}
}
