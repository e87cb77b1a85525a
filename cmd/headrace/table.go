package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// column is a column of a table: text shows one item, and is made of the fields of its JSON that are named.
type column[T any] struct {
	name   string
	fields string // separated by spaces; a dot reaches into an object, [] into each element of an array
	right  bool   // aligned to the right
	text   func(T) string
	colour func(T) colour // nil: none
}

// colour is an SGR parameter; empty is the terminal's own.
type colour string

const (
	plain  colour = ""
	bold   colour = "1"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	grey   colour = "90"
)

// coloured reports whether what goes to w may have colour.
func (c *cli) coloured(w io.Writer) bool {
	return c.getenv("NO_COLOR", "") == "" && c.getenv("TERM", "") != "dumb" && terminal(w)
}

// terminal reports whether w is a terminal.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// describe records a command's columns on it, so that a test can hold each against the JSON.
func describe[T any](cmd *cobra.Command, columns []column[T]) *cobra.Command {
	var all []string
	for _, col := range columns {
		all = append(all, col.name+"="+col.fields)
	}
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations["columns"] = strings.Join(all, ";")
	return cmd
}

// list shows the answer to a request for a list: {"items": […]}. The table's order is the list's, or what arrange makes of it.
func list[T any](c *cli, a answer, columns []column[T], arrange func([]T)) error {
	switch c.output {
	case "json":
		return c.raw(a.body)
	case "ndjson":
		var page struct{ Items []json.RawMessage }
		if err := json.Unmarshal(a.body, &page); err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		for _, item := range page.Items {
			if err := c.line(item); err != nil {
				return err
			}
		}
		return nil
	}
	var page struct{ Items []T }
	if err := json.Unmarshal(a.body, &page); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if arrange != nil {
		arrange(page.Items)
	}
	return c.table(tableOf(columns, page.Items, c.coloured(c.stdout)))
}

// single shows one object: a line for each column that has a text.
func single[T any](c *cli, a answer, columns []column[T]) error {
	switch c.output {
	case "json":
		return c.raw(a.body)
	case "ndjson":
		return c.line(a.body)
	}
	var item T
	if err := json.Unmarshal(a.body, &item); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	width := 0
	for _, col := range columns {
		width = max(width, utf8.RuneCountInString(col.name))
	}
	paint := c.coloured(c.stdout)
	var out strings.Builder
	for _, col := range columns {
		text := printable(col.text(item))
		if text == "" {
			continue
		}
		if paint && col.colour != nil {
			text = col.colour(item).paint(text)
		}
		fmt.Fprintf(&out, "%-*s  %s\n", width, strings.ToLower(col.name), text)
	}
	return c.table(out.String())
}

// raw writes the body of an answer as it came.
func (c *cli) raw(body []byte) error {
	_, err := c.stdout.Write(body)
	return err
}

// line writes a JSON value on one line.
func (c *cli) line(value []byte) error {
	var out bytes.Buffer
	if err := json.Compact(&out, value); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	out.WriteByte('\n')
	return c.raw(out.Bytes())
}

func (c *cli) table(text string) error {
	_, err := io.WriteString(c.stdout, text)
	return err
}

// tableOf aligns items below the columns' names.
func tableOf[T any](columns []column[T], items []T, paint bool) string {
	widths := make([]int, len(columns))
	for k, col := range columns {
		widths[k] = utf8.RuneCountInString(col.name)
	}
	cells := make([][]string, len(items))
	for i, item := range items {
		cells[i] = make([]string, len(columns))
		for k, col := range columns {
			cells[i][k] = printable(col.text(item))
			widths[k] = max(widths[k], utf8.RuneCountInString(cells[i][k]))
		}
	}
	var out strings.Builder
	row := func(text func(k int) (string, colour)) {
		var line strings.Builder
		for k, col := range columns {
			s, tint := text(k)
			pad := strings.Repeat(" ", widths[k]-utf8.RuneCountInString(s))
			if paint {
				s = tint.paint(s)
			}
			if k > 0 {
				line.WriteString("  ")
			}
			if col.right {
				line.WriteString(pad + s)
			} else {
				line.WriteString(s + pad)
			}
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	row(func(k int) (string, colour) { return columns[k].name, grey })
	for i, item := range items {
		row(func(k int) (string, colour) {
			if columns[k].colour == nil {
				return cells[i][k], plain
			}
			return cells[i][k], columns[k].colour(item)
		})
	}
	return out.String()
}

func (t colour) paint(s string) string {
	if t == plain || s == "" {
		return s
	}
	return "\x1b[" + string(t) + "m" + s + "\x1b[0m"
}

// printable replaces what could move the cursor or break the table: job errors come from strangers.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return '·'
		}
		return r
	}, s)
}
