package main

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
)

var updateScripts = flag.Bool("update", false, "rewrite what scripts compare with")

// TestMain lets scripts run this test binary as headrace.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"headrace": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *updateScripts,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
		},
	})
}

// exits runs a command and checks its exit code: exits CODE COMMAND…
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || neg {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit := (*exec.ExitError)(nil)
		if !errors.As(err, &exit) {
			ts.Fatalf("%s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("got exit code %d, want %d", got, want)
	}
}

func TestEveryCommandSaysWhatItIsFor(t *testing.T) {
	c := &cli{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: func(string) (string, bool) { return "", false }}
	seen := 0
	each(newRootCmd(c), func(cmd *cobra.Command) {
		seen++
		if cmd.Short == "" && !cmd.Hidden {
			t.Errorf("%s has no short description", cmd.CommandPath())
		}
		if cmd.HasParent() && cmd.RunE == nil {
			t.Errorf("%s does nothing", cmd.CommandPath())
		}
		if cmd.Run != nil {
			t.Errorf("%s cannot fail: use RunE", cmd.CommandPath())
		}
	})
	if seen < 5 {
		t.Errorf("walked %d commands only", seen)
	}
}
