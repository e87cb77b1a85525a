// Package archtest keeps the floors of the project: it reads the sources and reports every import that goes up.
//
// The sources are parsed in this process. Asking the go command instead would let the test cache answer for sources
// that have changed since.
package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Row says where a package stands and what it may import. Package paths are relative to the module.
type Row struct {
	Package string
	Floor   int
	// Also are packages of the same floor that it may import too; on floors 0 and 1, they are the only ones of the module.
	Also []string
	// Apart are packages that it must not reach, through whatever else it imports.
	Apart []string
	// Std is all it may import of the standard library; nil means anything but testing.
	Std []string
	// Uses are the third-party modules it may import; its tests may import others.
	Uses []string
	// Suite: a conformance suite. Only tests import it, and it may import testing.
	Suite bool
}

// Source is one Go file.
type Source struct {
	Package string // directory, relative to the module
	Name    string
	Imports []string
	file    *ast.File
	fset    *token.FileSet
}

// Test reports whether the file is part of a test only.
func (s Source) Test() bool { return strings.HasSuffix(s.Name, "_test.go") }

func (s Source) String() string { return path.Join(s.Package, s.Name) }

// Read parses every Go file of the module rooted at fsys, whatever its build constraints. Other modules inside,
// testdata and directories that the go command ignores are left out.
func Read(fsys fs.FS) ([]Source, error) {
	var sources []Source
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if d.IsDir() {
			if name == "." {
				return nil
			}
			if base == "testdata" || base == "vendor" || base == "node_modules" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
				return fs.SkipDir
			}
			if _, err := fs.Stat(fsys, path.Join(name, "go.mod")); err == nil {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s := Source{Package: path.Dir(name), Name: base, file: file, fset: fset}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			s.Imports = append(s.Imports, imported)
		}
		sources = append(sources, s)
		return nil
	})
	return sources, err
}

// Check returns what the sources do against the rows, one sentence each, sorted.
func Check(rows []Row, sources []Source) []string {
	c := checker{rows: map[string]Row{}, imports: map[string][]string{}}
	for _, r := range rows {
		c.rows[r.Package] = r
	}
	for _, s := range sources {
		c.source(s)
	}
	for _, r := range rows {
		for _, far := range r.Apart {
			if way := c.way(r.Package, far, map[string]bool{}); way != nil {
				c.say("%s must not reach %s: %s", r.Package, far, strings.Join(way, " → "))
			}
		}
	}
	slices.Sort(c.found)
	return slices.Compact(c.found)
}

type checker struct {
	rows    map[string]Row
	imports map[string][]string // of product code, inside the module
	found   []string
}

func (c *checker) say(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

func (c *checker) source(s Source) {
	from, known := c.rows[s.Package]
	if !known && strings.HasPrefix(s.Package, "examples/") {
		from, known = Row{Package: s.Package, Floor: 6}, true
	}
	if !known {
		c.say("package %s has no row: say in floors.go on which floor it stands", s.Package)
		return
	}
	for _, imported := range s.Imports {
		inside, isInside := strings.CutPrefix(imported, module+"/")
		first, _, _ := strings.Cut(imported, "/")
		switch {
		case isInside && inside == s.Package: // an external test package
		case isInside && s.Test():
			c.testImport(s, from, inside)
		case isInside:
			c.imports[s.Package] = append(c.imports[s.Package], inside)
			c.productImport(s, from, inside)
		case s.Test():
		case strings.Contains(first, "."):
			c.thirdParty(s, from, imported)
		default:
			c.standard(s, from, imported)
		}
	}
}

func (c *checker) productImport(s Source, from Row, inside string) {
	to, known := c.rows[inside]
	switch {
	case !known: // reported where it is declared
	case to.Suite:
		c.say("%s imports %s: only tests import a suite", s, inside)
	case slices.Contains(from.Also, inside):
	case from.Floor <= 1:
		c.say("%s imports %s: the row of %s does not name it", s, inside, from.Package)
	case to.Floor >= from.Floor:
		c.say("%s (floor %d) imports %s (floor %d): imports go down only", s, from.Floor, inside, to.Floor)
	}
}

// testImport lets tests use suites and real adapters of any floor up to 2, and otherwise their own floor and those below.
func (c *checker) testImport(s Source, from Row, inside string) {
	to, known := c.rows[inside]
	if known && to.Floor > max(from.Floor, 2) {
		c.say("%s (floor %d) imports %s (floor %d): tests import adapters, and what stands no higher than they", s, from.Floor, inside, to.Floor)
	}
}

func (c *checker) thirdParty(s Source, from Row, imported string) {
	if from.Floor == 6 && strings.HasPrefix(from.Package, "examples/") {
		return
	}
	if !slices.ContainsFunc(from.Uses, func(m string) bool { return imported == m || strings.HasPrefix(imported, m+"/") }) {
		c.say("%s imports %s: the row of %s does not allow it", s, imported, from.Package)
	}
}

func (c *checker) standard(s Source, from Row, imported string) {
	first, _, _ := strings.Cut(imported, "/")
	if first == "testing" && !from.Suite {
		c.say("%s imports %s: product code never does", s, imported)
	}
	if from.Std != nil && !slices.Contains(from.Std, imported) {
		c.say("%s imports %s: %s is pure and uses only %s", s, imported, from.Package, strings.Join(from.Std, " "))
	}
}

// way returns the chain of imports from one package to another, or nil.
func (c *checker) way(from, to string, seen map[string]bool) []string {
	if from == to {
		return []string{to}
	}
	if seen[from] {
		return nil
	}
	seen[from] = true
	next := slices.Clone(c.imports[from])
	slices.Sort(next)
	for _, n := range slices.Compact(next) {
		if way := c.way(n, to, seen); way != nil {
			return append([]string{from}, way...)
		}
	}
	return nil
}

// CheckHouse returns what the sources do against the rules of docs/style.md that a parser can see: no init functions, no
// skipped tests, no packages that are named after nothing, a sentence about each package, and errors that say what was
// being done instead of that it went wrong.
func CheckHouse(sources []Source) []string {
	var found []string
	say := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	documented := map[string]bool{}
	for _, s := range sources {
		documented[s.Package] = documented[s.Package] || s.file.Doc != nil && !s.Test()
		if slices.Contains([]string{"util", "utils", "common", "base", "helper", "helpers", "types", "model", "models", "misc", "shared"}, path.Base(s.Package)) {
			say("%s: a package is named after what it does", s.Package)
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil && n.Name.Name == "init" {
					say("%s: init functions run in an order that nobody reads", s.at(n))
				}
			case *ast.SelectorExpr:
				if name := n.Sel.Name; s.Test() && (name == "Skip" || name == "Skipf" || name == "SkipNow") {
					say("%s: a skipped test proves nothing", s.at(n))
				}
			case *ast.BasicLit:
				if n.Kind == token.STRING && !s.Test() && strings.Contains(strings.ToLower(n.Value), "failed"+" to ") {
					say("%s: an error says what was being done, then why", s.at(n))
				}
			}
			return true
		})
	}
	for _, p := range slices.SortedFunc(maps.Keys(documented), cmp.Compare[string]) {
		if !documented[p] && slices.ContainsFunc(sources, func(s Source) bool { return s.Package == p && !s.Test() }) {
			say("package %s has no sentence that says what it is for", p)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func (s Source) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", s, s.fset.Position(n.Pos()).Line)
}
