package config

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//go:generate go test . -run TestGenerated -update

var update = flag.Bool("update", false, "rewrite golden files and generated pages")

// golden compares got with the file, or rewrites the file.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs, go test -update rewrites it (-want +got):\n%s", file, diff)
	}
}

const sesame = "open-sesame-4711"

// env answers as an environment with one secret, and a variable without a value, in it.
func env(name string) (string, bool) {
	switch name {
	case "SECRET":
		return sesame, true
	case "EMPTY":
		return "", true
	}
	return "", false
}

func inputs(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no file matches %s: %v", pattern, err)
	}
	return files
}

func parseFile(t *testing.T, file string) (*Config, Problems) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return Parse(filepath.Base(file), text, env)
}

func TestProblems(t *testing.T) {
	for _, file := range inputs(t, "testdata/problems/*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			cfg, problems := parseFile(t, file)
			if len(problems) == 0 {
				t.Error("no problem was found")
			}
			if (cfg == nil) != (problems.Errors() > 0) {
				t.Errorf("a Config is returned exactly when there are no errors; got %v with %d errors", cfg, problems.Errors())
			}
			var b bytes.Buffer
			if err := problems.Print(&b); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(b.String(), sesame) {
				t.Errorf("a secret is shown:\n%s", b.String())
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", b.Bytes())
		})
	}
}

func TestShow(t *testing.T) {
	for _, file := range inputs(t, "testdata/valid/*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			cfg, problems := parseFile(t, file)
			if err := problems.Err(); err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := Show(&b, cfg); err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".show.txt", b.Bytes())
		})
	}
}

func TestGeneratedReference(t *testing.T) {
	var b bytes.Buffer
	if err := Reference(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "../../docs/reference/config.md", b.Bytes())
}

func TestGeneratedSchema(t *testing.T) {
	golden(t, "../../docs/reference/config.schema.json", Schema())
}
