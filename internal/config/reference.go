package config

import (
	"fmt"
	"io"
	"strings"
)

// Reference writes the reference page of the configuration, in Markdown.
func Reference(w io.Writer) error {
	var b strings.Builder
	b.WriteString(referenceHead)
	b.WriteString("| value | written like |\n|---|---|\n")
	for _, k := range []*kind{duration(), durations(), rate(), share(), perJob(), speeds("+"), speeds("-"), whole(), argv(), hostPort()} {
		fmt.Fprintf(&b, "| %s | %s |\n", k.name, code(k.like))
	}
	b.WriteString("\n## Keys\n\n| key | value | default | |\n|---|---|---|---|\n")
	referenceRows(&b, table(), "")
	b.WriteString(referenceTail)
	_, err := io.WriteString(w, b.String())
	return err
}

const referenceHead = `# Configuration

<!-- Made from the table of keys by internal/config; do not edit. Rewrite with: go test ./internal/config -update -->

One YAML file, or a directory whose ` + "`*.yaml`" + ` files are read as one. A key that is not listed here is an error, and so
is a key that is written twice. ` + "`headrace config check`" + ` reports every problem at once, ` + "`headrace config show`" + ` prints what
holds with the origin of every value, ` + "`headrace config schema`" + ` prints a JSON Schema for editors.

A value given as a flag wins over the environment variable named below, that over the file, and the file over the default.

Inside any text, ` + "`${env:NAME}`, `${env:NAME:-otherwise}` and `${file:PATH}`" + ` are filled in after the file was parsed, so that what they
bring is never read as YAML; it is shown as ‹secret›. One line break at the end of a file is dropped. ` + "`$${`" + ` stands for a literal ` + "`${`" + `.
A key left out of a pool has the value of ` + "`defaults`" + `, and else the default below.

## Values

`

const referenceTail = `
` + "`NAME` stands for a name that you choose: pools, brokers, actuators and downstreams use " + "`" + namePattern + "`." + `
`

func referenceRows(b *strings.Builder, k *key, path string) {
	for _, c := range k.keys {
		referenceRow(b, c, join(path, c.name))
	}
	if k.each != nil {
		referenceRow(b, k.each, join(path, strings.ToUpper(strings.ReplaceAll(k.names.what, " ", "_"))))
	}
}

func referenceRow(b *strings.Builder, k *key, path string) {
	if path == "defaults" {
		fmt.Fprintf(b, "| `defaults` | block | | %s Keys, as in a pool: %s. |\n", k.help, keyNames(k))
		return
	}
	if k.kind != nil || k.name != "" {
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", path, valueCell(k), defaultCell(k, path), strings.ReplaceAll(k.help, "|", `\|`)+note(k))
	}
	referenceRows(b, k, path)
}

func valueCell(k *key) string {
	if k.kind == nil {
		return "block"
	}
	if k.keys != nil {
		return k.kind.name + ", or block"
	}
	return k.kind.name
}

func defaultCell(k *key, path string) string {
	switch {
	case k.required && inDefaults(path):
		return "required, here or in `defaults`"
	case k.required:
		return "required"
	case k.def != "":
		return "`" + k.def + "`"
	}
	return k.meant
}

// inDefaults reports whether the key of a pool may stand in defaults instead.
func inDefaults(path string) bool {
	rest, ofPool := strings.CutPrefix(path, "pools.POOL.")
	return ofPool && table().at(append([]string{"defaults"}, strings.Split(rest, ".")...)) != nil
}

func note(k *key) string {
	var notes []string
	switch {
	case k.min != "" && k.min == k.max:
	case k.min != "" && k.max != "":
		notes = append(notes, fmt.Sprintf("from %s to %s", k.min, k.max))
	case k.max != "":
		notes = append(notes, "at most "+k.max)
	}
	if k.env != "" {
		notes = append(notes, "`"+k.env+"`")
	}
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, "; ") + ")"
}

func code(like string) string {
	return strings.ReplaceAll(like, "|", `\|`)
}

func keyNames(k *key) string {
	list := make([]string, len(k.keys))
	for i, c := range k.keys {
		list[i] = "`" + c.name + "`"
	}
	return strings.Join(list, ", ")
}
