package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxIncluded is the most bytes ${file:} reads: secrets are short.
const maxIncluded = 64 << 10

// lookups answer ${env:NAME} and ${file:PATH}.
type lookups struct {
	env  func(name string) (string, bool)
	file func(path string) (string, error)
}

// fromSystem reads files relative to dir. One line break at a file's end is not part of the value.
func fromSystem(dir string, env func(string) (string, bool)) lookups {
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	return lookups{env: env, file: func(path string) (string, error) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		if !info.Mode().IsRegular() { // a pipe would block, a device may never end
			return "", fmt.Errorf("read %s: not a regular file", path)
		}
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxIncluded+1))
		if err != nil {
			return "", err
		}
		if len(text) > maxIncluded {
			return "", fmt.Errorf("read %s: more than %d bytes", path, maxIncluded)
		}
		return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
	}}
}

// variable returns the name in a text that is ${env:NAME} and nothing else.
func variable(text string) (name string, whole bool) {
	name, begins := strings.CutPrefix(text, "${env:")
	name, ends := strings.CutSuffix(name, "}")
	return name, begins && ends && !strings.ContainsAny(name, ":}$")
}

// expand fills in ${env:NAME}, ${env:NAME:-otherwise} and ${file:PATH}. $${ stands for ${. What is filled in is
// never read as YAML nor expanded again. filled says that something was put in place; secret, that it came
// from the environment or a file and must not be shown.
func (l lookups) expand(text string) (out string, filled, secret bool, err error) {
	var b strings.Builder
	for {
		i := strings.Index(text, "${")
		if i < 0 {
			b.WriteString(text)
			return b.String(), filled, secret, nil
		}
		if i > 0 && text[i-1] == '$' {
			b.WriteString(text[:i-1] + "${")
			text = text[i+2:]
			continue
		}
		b.WriteString(text[:i])
		what, rest, closed := strings.Cut(text[i+2:], "}")
		kind, name, _ := strings.Cut(what, ":")
		if kind != "env" && kind != "file" {
			b.WriteString("${") // not ours: a shell's, perhaps
			text = text[i+2:]
			continue
		}
		if !closed {
			return "", false, false, fmt.Errorf("${%s: is never closed", kind)
		}
		if name == "" {
			return "", false, false, fmt.Errorf("${%s:} names nothing", kind)
		}
		text, filled = rest, true
		if kind == "file" {
			v, err := l.file(name)
			if err != nil {
				return "", false, false, err
			}
			b.WriteString(v)
			secret = true
			continue
		}
		name, otherwise, hasOtherwise := strings.Cut(name, ":-")
		v, ok := l.env(name)
		switch {
		case ok && (v != "" || !hasOtherwise):
			b.WriteString(v)
			secret = true
		case hasOtherwise:
			b.WriteString(otherwise)
		default:
			return "", false, false, fmt.Errorf("environment variable %s is not set", name)
		}
	}
}
