package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v4"
)

const noDuration = time.Duration(0)

// value is one key of the effective configuration: what the file says, or what is meant when it says nothing.
type value struct {
	key    *key
	name   string // of the key in the file
	path   string // pools.enrich.replicas.max
	parent *value
	at     position // of the value; unknown when it was not written
	keyAt  position
	from   string // where it comes from, when that is not at: "default", "HEADRACE_LISTEN"

	bad    bool     // a problem was reported: nothing below may be relied on
	secret bool     // not to be shown
	filled bool     // part of it came from elsewhere: ${…}
	text   []string // as written with everything filled in: one entry, or one an item
	list   bool     // written as a list
	parsed any      // by the key's kind

	fields   map[string]*value
	misspelt map[string]bool // keys that are not in fields and were probably meant by an unknown key
}

// field returns the value at a path of names below v, or nil.
func (v *value) field(path ...string) *value {
	for _, name := range path {
		if v == nil || v.bad {
			return nil
		}
		v = v.fields[name]
	}
	return v
}

// get returns the parsed value at a path below v; the zero value when it is absent or wrong.
func get[T any](v *value, path ...string) T {
	var zero T
	v = v.field(path...)
	if v == nil || v.bad {
		return zero
	}
	t, _ := v.parsed.(T)
	return t
}

// where is the place to point at for v: its own, or that of the nearest block around it that was written.
func (v *value) where() position {
	for ; v != nil; v = v.parent {
		if v.at.known() {
			if v.fields != nil && v.parsed == nil && v.keyAt.known() {
				return v.keyAt
			}
			return v.at
		}
	}
	return position{}
}

// shaper is the first pass: it turns YAML into values by the table.
type shaper struct {
	probs *collector
	look  lookups
}

func (s *shaper) fail(at position, path, message, hint string) {
	s.probs.add(at.problem(Error, path, message, hint))
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// value reads r as k. v.parent, v.name, v.path and v.keyAt are set by the caller.
func (s *shaper) value(v *value, r *raw) *value {
	k := v.key
	v.at = r.at
	switch {
	case r.kind == yaml.ScalarNode && r.tag == "!!null":
		v.bad = true
		s.fail(v.keyAt, v.path, fmt.Sprintf("%q has no value", v.name), "give one, or leave the key out")
	case r.kind == yaml.MappingNode && (k.keys != nil || k.each != nil):
		s.block(v, r)
	case r.kind == yaml.ScalarNode && k.kind != nil && k.kind.parse != nil:
		s.scalar(v, r)
	case r.kind == yaml.SequenceNode && k.kind != nil && k.kind.item != nil:
		s.items(v, r)
	default:
		v.bad = true
		s.fail(r.at, v.path, fmt.Sprintf("%q wants %s, not %s", v.name, wants(k), describe(r)), "")
	}
	return v
}

func wants(k *key) string {
	if k.kind == nil {
		return "a block of keys"
	}
	w := k.kind.name
	if k.kind.like != "" {
		w += ", such as " + k.kind.like
	}
	if k.keys != nil {
		w += ", or a block of keys"
	}
	return w
}

func describe(r *raw) string {
	switch {
	case r.kind == yaml.MappingNode:
		return "a block of keys"
	case r.kind == yaml.SequenceNode:
		return "a list"
	case r.tag == "!!int" || r.tag == "!!float":
		return "a number"
	case r.tag == "!!bool":
		return "true or false"
	default:
		return "text"
	}
}

// block reads the pairs of r into v.fields and reports keys that are unknown or come twice.
func (s *shaper) block(v *value, r *raw) {
	if v.fields == nil {
		v.fields = map[string]*value{}
	}
	for _, p := range r.pairs {
		name := p.key.text
		if p.key.kind != yaml.ScalarNode {
			s.fail(p.key.at, v.path, "a key must be a name", "")
			continue
		}
		path := join(v.path, name)
		if first, twice := v.fields[name]; twice {
			s.fail(p.key.at, path, fmt.Sprintf("duplicate key %q", name), "first at "+first.keyAt.String())
			continue
		}
		k := v.key.find(name)
		if k == nil && v.key.each != nil {
			k = v.key.each
			if !v.key.names.re.MatchString(name) {
				s.fail(p.key.at, path, fmt.Sprintf("%q cannot name a %s", name, v.key.names.what), v.key.names.rule)
				if name == "<<" || p.value.kind != yaml.MappingNode {
					continue
				} // else what is wrong inside is said as well
			}
		}
		if k == nil {
			s.unknown(v, p.key.at, path, name)
			continue
		}
		child := &value{key: k, name: name, path: path, parent: v, keyAt: p.key.at}
		v.fields[name] = child
		s.value(child, p.value)
	}
}

func (s *shaper) unknown(in *value, at position, path, name string) {
	var known []string
	for _, k := range in.key.keys {
		known = append(known, k.name)
	}
	near := nearest(name, known)
	switch {
	case name == "<<":
		in.bad = true // what it would bring cannot be told from what is missing
		s.fail(at, path, "merge keys are not read", "what pools share belongs in defaults")
	case planned[name]:
		s.fail(at, path, fmt.Sprintf("unknown key %q", name), "not in this version")
	case near != "":
		s.fail(at, path, fmt.Sprintf("unknown key %q", name), fmt.Sprintf("did you mean %q?", near))
		if in.misspelt == nil {
			in.misspelt = map[string]bool{}
		}
		in.misspelt[near] = true
	default:
		s.fail(at, path, fmt.Sprintf("unknown key %q", name), "known here: "+strings.Join(known, ", "))
	}
}

func (s *shaper) scalar(v *value, r *raw) {
	text, ok := s.text(v, r)
	if !ok {
		return
	}
	v.text = []string{text}
	parsed, err := v.key.kind.parse(text)
	if err != nil {
		s.refuse(v, r, text, err)
		return
	}
	v.parsed = parsed
	s.bounds(v)
}

func (s *shaper) items(v *value, r *raw) {
	v.list = true
	var list []any
	for _, item := range r.items {
		if item.kind != yaml.ScalarNode || item.tag == "!!null" {
			v.bad = true
			s.fail(item.at, v.path, fmt.Sprintf("the items of %q are single values", v.name), "")
			continue
		}
		text, ok := s.text(v, item)
		if !ok {
			continue
		}
		parsed, err := v.key.kind.item(text)
		if err != nil {
			s.refuse(v, item, text, err)
			continue
		}
		v.text = append(v.text, text)
		list = append(list, parsed)
	}
	if len(r.items) == 0 {
		v.bad = true
		s.fail(r.at, v.path, fmt.Sprintf("%q is an empty list", v.name), "")
	}
	v.parsed = list
}

// text fills in what r refers to and checks that YAML read it as the kind wants it.
func (s *shaper) text(v *value, r *raw) (string, bool) {
	k := v.key.kind
	refuse := func(message, hint string) (string, bool) {
		v.bad = true
		s.fail(r.at, v.path, message, hint)
		return "", false
	}
	v.secret = v.secret || k.hidden
	if r.tag != "!!str" {
		if k.only {
			return refuse(fmt.Sprintf("%q wants %s, not %s", v.name, k.name, describe(r)), fmt.Sprintf("write it in quotes: %q", r.text))
		}
		return r.text, true
	}
	text, filled, secret, err := s.look.expand(r.text)
	if err != nil {
		return refuse(err.Error(), "")
	}
	if strings.ContainsRune(text, 0) { // no path, argument or variable can
		return refuse(fmt.Sprintf("%q holds a NUL", v.name), "")
	}
	v.filled = v.filled || filled
	v.secret = v.secret || secret
	if _, name, ok := strings.Cut(r.text, "${"); ok && !filled && !k.verbatim && !strings.Contains(r.text, "$${") {
		name, _, _ = strings.Cut(name, "}")
		return refuse(fmt.Sprintf("${%s} is not filled in", name), fmt.Sprintf("did you mean \"${env:%s}\"? $${ stands for ${", name))
	}
	if k.whole && !filled {
		return refuse(fmt.Sprintf("%q wants %s, not text", v.name, k.name), "write it without quotes")
	}
	return text, true
}

// refuse reports a text that does not follow the grammar, without showing a secret.
func (s *shaper) refuse(v *value, r *raw, text string, err error) {
	v.bad = true
	k := v.key.kind
	shown := fmt.Sprintf("%q", text)
	if v.secret {
		shown = hidden
	}
	hint := ""
	switch {
	case plannedWords[text] && k.words != nil:
		hint = "not in this version"
	case plannedLimits[v.name] && v.parent != nil && v.parent.name == "limits":
		hint = "not in this version: limits are rates, such as 3000/min"
	case k.hint != nil && !v.secret:
		hint = k.hint(text)
	}
	if hint == "" && k.like != "" {
		hint = "such as " + k.like
	}
	message := fmt.Sprintf("%s is not %s: %s", shown, k.name, err)
	if errors.Is(err, errNot) {
		message = fmt.Sprintf("%s is not %s", shown, k.name)
	}
	if name, whole := variable(r.text); whole && text == "" {
		message = fmt.Sprintf("environment variable %s is empty", name)
		hint = "set it, or give what holds otherwise: ${env:" + name + ":-…}"
	}
	s.fail(r.at, v.path, message, hint)
}

// bounds checks what the table says of the least and the most.
func (s *shaper) bounds(v *value) {
	k := v.key
	beyond := func(bound string, sign int) bool {
		if bound == "" {
			return false
		}
		b, err := k.kind.parse(bound)
		return err == nil && compare(v.parsed, b)*sign > 0
	}
	if len(v.text) == 1 && len(k.kind.words) > 0 && v.text[0] == k.kind.words[0] {
		return // auto has no size
	}
	low, high := beyond(k.min, -1), beyond(k.max, 1)
	if !low && !high {
		return
	}
	v.bad = true
	var hint string
	switch {
	case k.min == k.max:
		hint = "this version reads " + k.min
	case k.min != "" && k.max != "":
		hint = fmt.Sprintf("from %s to %s", k.min, k.max)
	case low:
		hint = "at least " + k.min
	default:
		hint = "at most " + k.max
	}
	shown := v.text[0]
	if v.secret {
		shown = hidden
	}
	s.fail(v.at, v.path, fmt.Sprintf("%s is out of range", shown), hint)
}

// compare orders two values of one kind that has an order.
func compare(a, b any) int {
	number := func(v any) float64 {
		switch v := v.(type) {
		case int:
			return float64(v)
		case time.Duration:
			return float64(v)
		case float64:
			return v
		}
		return 0
	}
	switch x, y := number(a), number(b); {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}
