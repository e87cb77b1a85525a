package config

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Severity says whether a problem stops a file from being used.
type Severity string

// The severities.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Problem is one thing that is wrong, or odd, in a configuration.
type Problem struct {
	File string `json:"file"`
	// Line and Column count from 1, Column in characters; both are 0 when the problem is not in the file's text,
	// such as a file that cannot be read.
	Line     int      `json:"line,omitempty"`
	Column   int      `json:"column,omitempty"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	Path     string   `json:"path,omitempty"` // "pools.enrich.replicas.max"
	Hint     string   `json:"hint,omitempty"` // what to do about it
	Source   string   `json:"source,omitempty"`
	Width    int      `json:"width,omitempty"` // characters that are meant, from Column

	cut int // characters that Source lacks in front: of very long lines, only the part around Column is kept
}

// Problems are all that was found in one run, sorted by file, line and column.
type Problems []Problem

// Errors counts the problems that stop the configuration from being used.
func (ps Problems) Errors() int { return ps.count(Error) }

// Warnings counts the others.
func (ps Problems) Warnings() int { return ps.count(Warning) }

func (ps Problems) count(s Severity) int {
	n := 0
	for _, p := range ps {
		if p.Severity == s {
			n++
		}
	}
	return n
}

// Err returns nil when there are no errors, and else an error that shows every problem as [Problems.Print] does.
func (ps Problems) Err() error {
	if ps.Errors() == 0 {
		return nil
	}
	return ps
}

// Error shows every problem, warnings included.
func (ps Problems) Error() string {
	var b strings.Builder
	ps.Print(&b) //nolint:errcheck // a strings.Builder takes everything
	return strings.TrimSuffix(b.String(), "\n")
}

// Print writes the problems for people: where and what, the line, and a caret with what to do.
func (ps Problems) Print(w io.Writer) error {
	for _, p := range ps {
		if _, err := io.WriteString(w, p.String()); err != nil {
			return err
		}
	}
	return nil
}

// String shows one problem in up to three lines, each ended by a line break.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	fmt.Fprintf(&b, ": %s: %s", p.Severity, p.Message)
	if p.Path != "" {
		fmt.Fprintf(&b, "  (%s)", p.Path)
	}
	b.WriteByte('\n')
	if p.Line == 0 {
		if p.Hint != "" {
			fmt.Fprintf(&b, "      = %s\n", p.Hint)
		}
		return b.String()
	}
	fmt.Fprintf(&b, "%5d | %s\n", p.Line, p.Source)
	fmt.Fprintf(&b, "      | %s%s", strings.Repeat(" ", p.Column-1-p.cut), strings.Repeat("^", max(1, p.Width)))
	if p.Hint != "" {
		b.WriteString(" " + p.Hint)
	}
	b.WriteByte('\n')
	return b.String()
}

// source is one file's text.
type source struct {
	name  string
	lines []string
	// One line in characters is kept: the problems of a file made by a program are often all in one.
	line  int
	runes []rune
}

func newSource(name string, text []byte) *source {
	return &source{name: name, lines: splitLines(string(text))}
}

// characters returns a line, counted from 1.
func (s *source) characters(line int) []rune {
	if s.line != line {
		s.line, s.runes = line, []rune(s.lines[line-1])
	}
	return s.runes
}

// splitLines breaks text where YAML does, so that line numbers agree with the parser's.
func splitLines(text string) []string {
	var lines []string
	start := 0
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == '\r' && strings.HasPrefix(text[i+n:], "\n") {
			n++
		}
		switch r {
		case '\n', '\r', '\u0085', '\u2028', '\u2029':
			lines = append(lines, text[start:i])
			start = i + n
		}
		i += n
	}
	return append(lines, text[start:])
}

// position is a place in a file. The zero position is nowhere.
type position struct {
	src       *source
	line, col int
	text      string // of the scalar that stands there, when it does
}

func (p position) known() bool { return p.src != nil }

// String is what an origin shows: "headrace.yaml:93".
func (p position) String() string {
	if !p.known() {
		return "default"
	}
	return fmt.Sprintf("%s:%d", p.src.name, p.line)
}

// problem makes a Problem at p, moved inside the text when the parser pointed behind its end.
func (p position) problem(sev Severity, path, message, hint string) Problem {
	q := Problem{Severity: sev, Path: path, Message: oneLine(message), Hint: oneLine(hint)}
	if !p.known() {
		return q
	}
	q.File = p.src.name
	q.Line = min(max(1, p.line), len(p.src.lines))
	text := p.src.characters(q.Line)
	q.Column = min(max(1, p.col), len(text)+1)
	q.Width = max(1, min(extent(text[q.Column-1:], p.text), len(text)+1-q.Column))
	const around = 200
	q.cut = max(0, q.Column-1-around)
	q.Width = min(q.Width, 2*around)
	q.Source = printable(text[q.cut:min(len(text), q.Column-1+2*around)])
	return q
}

// extent is how many characters a scalar with the given text takes at the beginning of rest, at most to the line's end.
func extent(rest []rune, text string) int {
	if len(rest) == 0 || text == "" {
		return 1
	}
	switch quote := rest[0]; quote {
	case '"', '\'':
		for i := 1; i < len(rest); i++ {
			if rest[i] == '\\' && quote == '"' {
				i++
			} else if rest[i] == quote {
				return i + 1
			}
		}
		return len(rest)
	case '|', '>', '&', '!':
		return 1
	default:
		return utf8.RuneCountInString(text)
	}
}

// oneLine keeps a message on its line, whatever a file brought into it.
func oneLine(s string) string {
	return printable([]rune(s))
}

// printable keeps one character a column, so that the caret points where it should and a terminal is left alone.
func printable(text []rune) string {
	shown := make([]rune, len(text))
	for i, r := range text {
		switch {
		case r == '\t':
			shown[i] = ' '
		case unicode.IsPrint(r):
			shown[i] = r
		default:
			shown[i] = '?'
		}
	}
	return string(shown)
}

// maxProblems bounds a report: a file with more is not what its name says.
const maxProblems = 1000

// collector gathers problems; what is said twice about one place is kept once.
type collector struct {
	found Problems
	seen  map[Problem]bool
}

func (c *collector) add(p Problem) {
	same := p
	same.Path = "" // an inherited value is met once a pool
	if c.seen[same] || len(c.found) > maxProblems {
		return
	}
	if c.seen == nil {
		c.seen = map[Problem]bool{}
	}
	c.seen[same] = true
	if len(c.found) == maxProblems {
		p.Severity, p.Path, p.Hint = Error, "", ""
		p.Message = fmt.Sprintf("more than %d problems: the rest is not listed", maxProblems)
	}
	c.found = append(c.found, p)
}

func (c *collector) sorted() Problems {
	slices.SortStableFunc(c.found, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Message, b.Message))
	})
	return c.found
}
