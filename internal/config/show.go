package config

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v4"
)

// Setting is one key of the effective configuration.
type Setting struct {
	Path  string `json:"path"`  // "pools.enrich.replicas.max"
	Value any    `json:"value"` // as it would be written: a string, a number or a list of them; secrets are hidden
	From  string `json:"from"`  // "headrace.yaml:93", "default", or the name of an environment variable
}

// Settings lists every key that has a value, defaults filled in, in the order of the reference.
func (c *Config) Settings() []Setting {
	var list []Setting
	c.root.walk(0, func(v *value, _ int) {
		if v.text == nil {
			return
		}
		list = append(list, Setting{v.path, v.plain(), v.origin()})
	})
	return list
}

// Show writes the effective configuration as YAML: every key with its value, where it comes from as a comment, and
// secrets hidden. What pools inherit from `defaults` stands in the pools.
func Show(w io.Writer, c *Config) error {
	type line struct{ text, from string }
	var lines []line
	width := 0
	c.root.walk(0, func(v *value, depth int) {
		l := line{text: strings.Repeat("  ", depth) + yamlText(v.name) + ":"}
		if v.text != nil {
			l.text += " " + v.yaml()
			l.from = v.origin()
			if n := utf8.RuneCountInString(l.text); n <= 60 {
				width = max(width, n)
			}
		}
		lines = append(lines, l)
	})
	for _, l := range lines {
		if l.from != "" {
			l.text += strings.Repeat(" ", max(0, width-utf8.RuneCountInString(l.text))) + "  # " + l.from
		}
		if _, err := fmt.Fprintln(w, l.text); err != nil {
			return err
		}
	}
	return nil
}

// walk calls do for everything below v that has a value, blocks before what is in them.
func (v *value) walk(depth int, do func(*value, int)) {
	for _, c := range v.children() {
		if c.path == "defaults" || c.text == nil && !c.hasValues() {
			continue
		}
		do(c, depth)
		c.walk(depth+1, do)
	}
}

func (v *value) hasValues() bool {
	if v.text != nil {
		return true
	}
	return slices.ContainsFunc(v.children(), (*value).hasValues)
}

func (v *value) origin() string {
	if v.at.known() {
		return v.at.String()
	}
	return v.from
}

// plain is v as JSON would have it.
func (v *value) plain() any {
	if v.secret {
		return v.shown()
	}
	if items, isList := v.parsed.([]any); isList && v.key.kind.parse != nil && v.key.kind.verbatim {
		return items // a command, in words
	}
	if v.key.kind.whole && !v.list {
		return v.parsed
	}
	if v.list {
		return v.text
	}
	return v.text[0]
}

// yaml is v on one line of YAML.
func (v *value) yaml() string {
	switch p := v.plain().(type) {
	case string:
		return yamlText(p)
	case []string:
		items := make([]string, len(p))
		for i, s := range p {
			items[i] = yamlItem(s, v.key.kind.whole)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case []any:
		items := make([]string, len(p))
		for i, s := range p {
			items[i] = yamlItem(fmt.Sprint(s), false)
		}
		return "[" + strings.Join(items, ", ") + "]"
	default:
		return fmt.Sprint(p)
	}
}

func yamlItem(s string, number bool) string {
	if number {
		return s
	}
	return quoted(s)
}

// yamlText writes s plainly where YAML reads that as the same text, else in double quotes.
func yamlText(s string) string {
	plain := s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_./%+-:‹›", r))
	}) && !strings.HasSuffix(s, ":") && !strings.HasPrefix(s, ":") && !strings.HasPrefix(s, "-") && !strings.HasPrefix(s, "%")
	if plain && (&yaml.Node{Kind: yaml.ScalarNode, Value: s}).ShortTag() == "!!str" {
		return s
	}
	if strings.HasPrefix(s, "-") && strings.HasSuffix(s, "m") && len(s) > 1 && s[1] >= '0' && s[1] <= '9' {
		return s // a speed
	}
	return quoted(s)
}

// quoted writes s as a JSON string, which YAML reads in the same way.
func quoted(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.Encode(s) //nolint:errcheck // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}
