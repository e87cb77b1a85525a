package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What can never work ends a worker at its start, with one plain answer and no log around it.
func TestAWorkerThatWouldBeRefusedSaysWhy(t *testing.T) {
	s := newTestServer(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name        string
		token, pool string
		more        []string
		code        int
		want        string
	}{
		{"no token", "", "reports", nil, exitDenied,
			"headrace: a valid bearer token is needed\n  Name the token: HEADRACE_TOKEN, --token-file or HEADRACE_TOKEN_FILE.\n"},
		{"unknown pool", "hunter2", "nope", nil, exitFailed, "headrace: no pool \"nope\"; there are: emails, reports\n"},
		{"the file wins over the variable", "wrong", "nope", []string{"--token-file", file}, exitFailed,
			"headrace: no pool \"nope\"; there are: emails, reports\n"},
		{"no token file", "hunter2", "reports", []string{"--token-file", file + "s"}, exitUsage,
			"headrace: read --token-file: open " + file + "s: no such file or directory\nRun 'headrace work --help' for what it takes.\n"},
	} {
		env := map[string]string{"HEADRACE_SERVER": s.url, "HEADRACE_TOKEN": tc.token}
		args := append([]string{"work", "--pool", tc.pool}, tc.more...)
		code, _, stderr := runWith(t.Context(), env, strings.NewReader(""), append(args, "--", "cat")...)
		if code != tc.code || stderr != tc.want {
			t.Errorf("%s: exit code %d, want %d; said\n%swant\n%s", tc.name, code, tc.code, stderr, tc.want)
		}
	}
}

// A worker by hand takes the token as the other commands do.
func TestAWorkerTakesTheTokenOfItsEnvironment(t *testing.T) {
	s := newTestServer(t)
	s.must("\"abc\"\n", "jobs", "enqueue", "--pool", "reports", "--payload-only", "--key-prefix", "k")
	ctx, drain := context.WithTimeout(t.Context(), 20*time.Second)
	defer drain()
	ended := make(chan string, 1)
	go func() {
		code, _, stderr := s.runIn(ctx, strings.NewReader(""), "work", "--pool", "reports", "--start-delay", "1ms", "--", "cat")
		if code != exitDone {
			t.Errorf("exit code %d: %s", code, stderr)
		}
		ended <- stderr
	}()
	s.until("the job's end", func() bool { return s.jobs("reports", "succeeded") == 1 })
	drain()
	<-ended
}
