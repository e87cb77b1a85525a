package archtest

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

func sources(t *testing.T, files map[string]string) []Source {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	list, err := Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func project(t *testing.T) []Source {
	t.Helper()
	list, err := Read(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 20 {
		t.Fatalf("read only %d files: is this the module's root?", len(list))
	}
	return list
}

func TestTheProjectKeepsItsFloors(t *testing.T) {
	for _, v := range Check(Floors(), project(t)) {
		t.Error(v)
	}
}

func TestTheProjectKeepsItsHouseRules(t *testing.T) {
	for _, v := range CheckHouse(project(t)) {
		t.Error(v)
	}
}

func TestEveryRowIsThereOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Floors() {
		if seen[r.Package] {
			t.Errorf("%s has two rows", r.Package)
		}
		seen[r.Package] = true
	}
	for _, r := range Floors() {
		for _, p := range append(r.Also, r.Apart...) {
			if !seen[p] {
				t.Errorf("the row of %s names %s, which has none", r.Package, p)
			}
		}
	}
}

// The page that draws the floors names every package, and on the floor where it stands.
func TestThePictureIsTrue(t *testing.T) {
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	floors := 0
	for line := range strings.Lines(string(text)) {
		number, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		floor, err := strconv.Atoi(number)
		if err != nil {
			continue
		}
		floors++
		for _, r := range Floors() {
			if strings.Contains(line, "`"+r.Package+"`") && r.Floor != floor {
				t.Errorf("%s is drawn on floor %d and stands on %d", r.Package, floor, r.Floor)
			}
		}
	}
	if floors != 7 {
		t.Errorf("%d floors are drawn, want 7", floors)
	}
	_, files, _ := strings.Cut(string(text), "## File map")
	for _, r := range Floors() {
		if !strings.Contains(files, "`"+r.Package+"`") {
			t.Errorf("%s is missing in the file map", r.Package)
		}
	}
}

// Each case is a source that must be found, or must not.
func TestFloorsAreKept(t *testing.T) {
	own := func(p string) string { return `"` + module + "/" + p + `"` }
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string // part of the one finding; empty: none
	}{
		{"down is fine", map[string]string{"internal/control/a.go": `package control; import ` + own("queue")}, ""},
		{"up", map[string]string{"queue/memory/a.go": `package memory; import ` + own("internal/control")}, "imports go down only"},
		{"contract to engine", map[string]string{"queue/a.go": `package queue; import ` + own("scale")}, "the row of queue does not name it"},
		{"journal may", map[string]string{"internal/journal/a.go": `package journal; import ` + own("scale")}, ""},
		{"adapter to adapter", map[string]string{"queue/sqlite/a.go": `package sqlite; import ` + own("queue/memory")}, "imports go down only"},
		{"worker to control", map[string]string{"worker/a.go": `package worker; import ` + own("internal/control")}, "must not reach"},
		{"worker to control through another", map[string]string{
			"worker/a.go":         `package worker; import ` + own("internal/fleet"),
			"internal/fleet/a.go": `package fleet; import ` + own("internal/control"),
		}, "worker → internal/fleet → internal/control"},
		{"the file of configuration stays above", map[string]string{"internal/control/a.go": `package control; import ` + own("internal/config")}, "imports go down only"},
		{"surfaces do not read it", map[string]string{"internal/httpapi/a.go": `package httpapi; import ` + own("internal/config")}, "imports go down only"},
		{"wiring reads it", map[string]string{"internal/app/a.go": `package app; import ` + own("internal/config")}, ""},
		{"the engine has no clock of its own", map[string]string{"scale/a.go": `package scale; import "context"`}, "is pure"},
		{"estimates may", map[string]string{"internal/estimate/a.go": `package estimate; import ("math"; ` + own("scale") + `)`}, ""},
		{"testing in product code", map[string]string{"queue/a.go": `package queue; import "testing"`}, "product code never does"},
		{"testing in a suite", map[string]string{"queue/queuetest/a.go": `package queuetest; import "testing"`}, ""},
		{"a suite in product code", map[string]string{"queue/memory/a.go": `package memory; import ` + own("queue/queuetest")}, "only tests import a suite"},
		{"a suite in a test", map[string]string{"queue/memory/a_test.go": `package memory; import ` + own("queue/queuetest")}, ""},
		{"a real adapter in a contract's test", map[string]string{"queue/a_test.go": `package queue_test; import ` + own("queue/memory")}, ""},
		{"a surface in a contract's test", map[string]string{"queue/a_test.go": `package queue_test; import ` + own("internal/httpapi")}, "tests import adapters"},
		{"an SDK where it does not belong", map[string]string{"internal/control/a.go": `package control; import "github.com/danielgtaylor/huma/v2"`}, "does not allow it"},
		{"an SDK by a similar name", map[string]string{"internal/httpapi/a.go": `package httpapi; import "github.com/danielgtaylor/huma/v20"`}, "does not allow it"},
		{"an SDK at its place", map[string]string{"internal/httpapi/a.go": `package httpapi; import "github.com/danielgtaylor/huma/v2/adapters/humago"`}, ""},
		{"unknown package", map[string]string{"internal/helpers/a.go": `package helpers`}, "has no row"},
		{"other platforms count", map[string]string{"queue/memory/a_plan9.go": "//go:build plan9\n\npackage memory; import " + own("internal/app")}, "imports go down only"},
		{"testdata does not", map[string]string{"queue/testdata/a.go": `package x; import ` + own("internal/app")}, ""},
		{"another module inside does not", map[string]string{"sdk/go.mod": "module x", "sdk/a.go": `package x`}, ""},
		{"examples", map[string]string{"examples/own/a.go": `package main; import ` + own("worker")}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(Check(Floors(), sources(t, tt.files)), "\n")
			if tt.want == "" && got != "" {
				t.Errorf("got %q, want nothing", got)
			}
			if tt.want != "" && !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestHouseRulesAreKept(t *testing.T) {
	for _, tt := range []struct {
		name, file, text, want string
	}{
		{"init", "queue/a.go", "// Package queue is.\npackage queue\nfunc init() {}", "queue/a.go:3: init functions"},
		{"a method called init", "queue/a.go", "// Package queue is.\npackage queue\nfunc (q Q) init() {}\ntype Q int", ""},
		{"skip", "queue/a_test.go", "package queue\nfunc TestX(t *testing.T) { t.Skip() }", "queue/a_test.go:2: a skipped test"},
		{"skip elsewhere", "queue/a.go", "// Package queue is.\npackage queue\nvar _ = r.Skip", ""},
		{"util", "internal/util/a.go", "// Package util is.\npackage util", "named after what it does"},
		{"an error about itself", "queue/a.go", "// Package queue is.\npackage queue\nvar _ = errors.New(\"Failed to open\")", "queue/a.go:3: an error says"},
		{"no sentence", "queue/a.go", "package queue", "package queue has no sentence"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(CheckHouse(sources(t, map[string]string{tt.file: tt.text})), "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
