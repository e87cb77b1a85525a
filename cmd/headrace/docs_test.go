package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/config"
)

// root is where the repository begins, seen from this package.
const root = "../.."

// page is a Markdown file.
type page struct {
	name string // relative to the repository
	text string
}

// docPages reads every Markdown file of the repository.
func docPages(t *testing.T) []page {
	t.Helper()
	var out []page
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(root, path)
		switch {
		case err != nil || relErr != nil:
			return fmt.Errorf("%w %w", err, relErr)
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		out = append(out, page{filepath.ToSlash(name), string(text)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// block is a fenced piece of a page.
type block struct {
	info  string // what stands behind the opening fence
	lines []string
	line  int // of the opening fence
}

var fence = regexp.MustCompile("^\\s*```")

// split separates what is fenced from what is not. Lines keep their places.
func (p page) split() (blocks []block, prose []string) {
	var b *block
	for i, line := range strings.Split(p.text, "\n") {
		switch {
		case fence.MatchString(line) && b == nil:
			b = &block{info: strings.TrimLeft(strings.TrimSpace(line), "`"), line: i + 1}
		case fence.MatchString(line):
			blocks = append(blocks, *b)
			b = nil
		case b != nil:
			b.lines = append(b.lines, line)
			prose = append(prose, "")
			continue
		default:
			prose = append(prose, line)
			continue
		}
		prose = append(prose, "")
	}
	return blocks, prose
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code    = regexp.MustCompile("`([^`]+)`")
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	named   = regexp.MustCompile(`<a (?:id|name)="([^"]+)">`)
	notSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the places of a page that a link can name, as the common renderers make them.
func (p page) anchors() map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(p.text, -1) {
		out[strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	for _, m := range named.FindAllStringSubmatch(p.text, -1) {
		out[m[1]] = true
	}
	return out
}

func TestLinksOfTheDocsLeadSomewhere(t *testing.T) {
	all := map[string]page{}
	for _, p := range docPages(t) {
		all[p.name] = p
	}
	checked := 0
	for _, p := range all {
		_, prose := p.split()
		for i, line := range prose {
			for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
				to, anchor, _ := strings.Cut(m[1], "#")
				if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
					continue
				}
				checked++
				target := p.name
				if to != "" {
					target = filepath.ToSlash(filepath.Join(filepath.Dir(p.name), to))
				}
				if _, err := os.Stat(filepath.Join(root, target)); err != nil {
					t.Errorf("%s:%d: %s does not exist", p.name, i+1, m[1])
				} else if anchor != "" && !all[target].anchors()[anchor] {
					t.Errorf("%s:%d: %s has no place #%s", p.name, i+1, target, anchor)
				}
			}
		}
	}
	if checked < 50 {
		t.Errorf("%d links were found: the search is broken", checked)
	}
}

// invocation is a command line that a page shows.
type invocation struct {
	at    string
	line  string
	whole bool // stands in a block, to be copied; else a mention, whose arguments may be left out
}

// shellWords splits a command line as a shell would, as far as the docs need it. It stops where the command ends.
func shellWords(line string) []string {
	var out []string
	word, in, quote := "", false, rune(0)
	end := func() {
		if in {
			out = append(out, word)
		}
		word, in = "", false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word += string(r)
		case r == '\'' || r == '"':
			quote, in = r, true
		case r == ' ':
			end()
		case strings.ContainsRune("|&;<>#", r):
			end()
			return out
		default:
			word, in = word+string(r), true
		}
	}
	end()
	return out
}

var command = regexp.MustCompile(`(?:^|[|;&(] *|[A-Z_]+=\S+ +)((?:\S*/)?headrace +.*)$`)

func invocations(p page) []invocation {
	var out []invocation
	add := func(line string, n int, whole bool) {
		for m := command.FindStringSubmatch(line); m != nil; m = command.FindStringSubmatch(line) {
			_, line, _ = strings.Cut(m[1], " ")
			out = append(out, invocation{fmt.Sprintf("%s:%d", p.name, n), line, whole})
		}
	}
	blocks, prose := p.split()
	for _, b := range blocks {
		if b.info == "yaml" || strings.HasPrefix(b.info, "yaml ") || b.info == "go" || b.info == "ini" {
			continue
		}
		prompts := strings.Contains("\n"+strings.Join(b.lines, "\n"), "\n$ ")
		for i, line := range b.lines {
			rest, shown := strings.CutPrefix(line, "$ ")
			if shown || !prompts {
				add(strings.TrimSpace(rest), b.line+1+i, true)
			}
		}
	}
	for i, line := range prose {
		for _, m := range code.FindAllStringSubmatch(line, -1) {
			add(m[1], i+1, false)
		}
	}
	return out
}

func testRoot() *cobra.Command {
	c := &cli{stdin: strings.NewReader(""), stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}, env: func(string) (string, bool) { return "", false }}
	return newRootCmd(c)
}

func TestCommandsOfTheDocsParse(t *testing.T) {
	checked := 0
	for _, p := range docPages(t) {
		if strings.HasPrefix(p.name, "docs/reference/cli.md") {
			continue // made from the commands themselves
		}
		for _, in := range invocations(p) {
			checked++
			cmd, rest, err := testRoot().Find(shellWords(in.line))
			if err != nil {
				t.Errorf("%s: headrace %s: %v", in.at, in.line, err)
				continue
			}
			if err := cmd.ParseFlags(rest); err != nil {
				t.Errorf("%s: headrace %s: %v", in.at, in.line, err)
				continue
			}
			args := cmd.Flags().Args()
			if cmd.HasSubCommands() && len(args) > 0 {
				t.Errorf("%s: headrace %s: %s has no command %q", in.at, in.line, cmd.Name(), args[0])
			}
			if in.whole && cmd.ValidateArgs(args) != nil {
				t.Errorf("%s: headrace %s: %v", in.at, in.line, cmd.ValidateArgs(args))
			}
		}
	}
	if checked < 50 {
		t.Errorf("%d command lines were found: the search is broken", checked)
	}
}

func TestConfigurationsOfTheDocsAreGood(t *testing.T) {
	check := func(t *testing.T, name, text string) {
		cfg, problems := config.Parse(filepath.Join(t.TempDir(), "headrace.yaml"), []byte(text), func(string) (string, bool) { return "", false })
		problems = slices.DeleteFunc(problems, func(p config.Problem) bool { // the reader's programs are not here
			return p.Severity == config.Warning && strings.HasSuffix(p.Message, " is not found here: workers could not start")
		})
		if cfg == nil || len(problems) > 0 {
			var told bytes.Buffer
			_ = problems.Print(&told)
			t.Errorf("%s:\n%s", name, told.String())
		}
	}
	checked := 0
	for _, p := range docPages(t) {
		blocks, _ := p.split()
		for _, b := range blocks {
			if b.info == "yaml config" {
				checked++
				check(t, fmt.Sprintf("%s:%d", p.name, b.line), strings.Join(b.lines, "\n")+"\n")
			}
		}
	}
	if checked < 5 {
		t.Errorf("%d configurations were found: the search is broken", checked)
	}
	examples, err := filepath.Glob(filepath.Join(root, "examples/*/*.yaml"))
	if err != nil || len(examples) < 2 {
		t.Errorf("%d configurations of examples, %v", len(examples), err)
	}
	for _, path := range examples {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		check(t, path, string(text))
	}
}

var (
	goTest   = regexp.MustCompile(`go test ((?:\./\S+ ?)+).*?(?:-run|-bench) '?([^'\s` + "`" + `]+)`)
	makeRule = regexp.MustCompile("(?:^|[`$] ?)make ([a-z-]+)")
	isTest   = regexp.MustCompile(`^(?:Test|Benchmark|Fuzz)\w+$`)
	isPath   = regexp.MustCompile(`^(?:actuator|cmd|docs|downstream|examples|internal|queue|scale|worker)/[\w./-]*$`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz|Example)\w*)\(`)
)

// What the docs name as proof must exist.
func TestChecksThatTheDocsNameExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	everywhere := testsIn(t, []string{"./..."})
	for _, p := range docPages(t) {
		for i, line := range strings.Split(p.text, "\n") {
			at := fmt.Sprintf("%s:%d", p.name, i+1)
			for _, m := range code.FindAllStringSubmatch(line, -1) {
				if isTest.MatchString(m[1]) && p.name != "docs/style.md" && !strings.Contains(everywhere, m[1]+"\n") {
					t.Errorf("%s: there is no %s", at, m[1])
				}
				if path, _, _ := strings.Cut(m[1], " "); isPath.MatchString(path) {
					if _, err := os.Stat(filepath.Join(root, path)); err != nil {
						t.Errorf("%s: %s does not exist", at, path)
					}
				}
			}
			for _, m := range makeRule.FindAllStringSubmatch(line, -1) {
				if !bytes.Contains(makefile, []byte("\n"+m[1]+":")) {
					t.Errorf("%s: make %s: there is no such target", at, m[1])
				}
			}
			for _, m := range goTest.FindAllStringSubmatch(strings.ReplaceAll(line, "-run '^$' ", ""), -1) {
				want, err := regexp.Compile(strings.ReplaceAll(m[2], `\|`, "|"))
				if err != nil {
					t.Errorf("%s: %v", at, err)
					continue
				}
				if found := testsIn(t, strings.Fields(m[1])); !strings.HasSuffix(p.name, "CONTRIBUTING.md") && !want.MatchString(found) {
					t.Errorf("%s: no test of %s matches %s", at, m[1], m[2])
				}
			}
		}
	}
}

// testsIn lists the tests of packages, a line each.
func testsIn(t *testing.T, packages []string) string {
	t.Helper()
	var names strings.Builder
	for _, pkg := range packages {
		dir, below := strings.CutSuffix(pkg, "/...")
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && !below && path != filepath.Join(root, dir) {
				return fs.SkipDir
			}
			if !strings.HasSuffix(path, "_test.go") {
				return nil
			}
			text, err := os.ReadFile(path)
			for _, m := range testFunc.FindAllSubmatch(text, -1) {
				names.Write(append(m[1], '\n'))
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", pkg, err)
		}
	}
	return names.String()
}

//go:generate go test -run TestCommandReference -update .

const cliPage = root + "/docs/reference/cli.md"

// TestCommandReference holds docs/reference/cli.md to the commands. -update rewrites it.
func TestCommandReference(t *testing.T) {
	got := commandReference(testRoot())
	if *updateScripts {
		if err := os.WriteFile(cliPage, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(cliPage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is out of date; run go test ./cmd/headrace -run CommandReference -update (-page +commands):\n%s", cliPage, diff)
	}
}

func commandReference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Commands\n\n<!-- Made from the commands: go test ./cmd/headrace -run CommandReference -update -->\n\n" +
		"Data goes to standard output, talk to standard error. `-o json` prints what the API answers.\n\n" +
		"| exit status | means |\n|---|---|\n")
	for _, e := range []struct {
		code int
		text string
	}{
		{exitDone, "done"}, {exitFailed, "failed"}, {exitUsage, "the command line makes no sense"}, {exitBad, "it ran, and the answer is bad"},
		{exitDenied, "not allowed"}, {exitUnreachable, "no server answers"}, {exitConflict, "refused as things stand"},
		{exitWait, "the wait ran out"}, {exitInterrupted, "interrupted"},
	} {
		fmt.Fprintf(&b, "| %d | %s |\n", e.code, e.text)
	}
	fmt.Fprintf(&b, "\nFlags of every command:\n\n```\n%s```\n", root.PersistentFlags().FlagUsages())
	each(root, func(cmd *cobra.Command) {
		if cmd.Hidden || cmd == root || cmd.HasSubCommands() {
			return
		}
		text := cmd.Long
		if text == "" {
			text = cmd.Short + "."
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n```\n%s\n", cmd.CommandPath(), escape(text), strings.TrimSuffix(cmd.UseLine(), " [flags]"))
		if cmd.LocalNonPersistentFlags().HasAvailableFlags() {
			fmt.Fprintf(&b, "\n%s", cmd.LocalNonPersistentFlags().FlagUsages())
		}
		b.WriteString("```\n")
		if cmd.Example != "" {
			fmt.Fprintf(&b, "\nExamples:\n\n```\n%s\n```\n", strings.Trim(unindent(cmd.Example), "\n"))
		}
	})
	return b.String()
}

func unindent(s string) string {
	return strings.ReplaceAll(strings.TrimPrefix(s, "  "), "\n  ", "\n")
}

// escape keeps Markdown from eating placeholders, and shows indented lines as they are.
func escape(s string) string {
	s = strings.NewReplacer("<", "&lt;", "*", `\*`).Replace(s)
	var out []string
	for line := range strings.SplitSeq(s, "\n") {
		if strings.HasPrefix(line, "  ") {
			line = "  " + line // four blanks make a block
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}
