package config

import (
	"fmt"
	"slices"
	"strings"
)

// overrides lets environment variables take the place of what the file says.
func (s *shaper) overrides(block *value) {
	for _, k := range block.key.keys {
		child := block.fields[k.name]
		if k.keys != nil && k.kind == nil {
			if child == nil {
				child = implied(block, k, k.name)
			}
			if child.fields != nil {
				s.overrides(child)
			}
			if len(child.fields) > 0 {
				block.fields[k.name] = child
			}
			continue
		}
		if k.env == "" {
			continue
		}
		text, ok := s.look.env(k.env)
		if !ok || text == "" {
			continue
		}
		parsed, err := k.kind.parse(text)
		if err != nil {
			s.probs.add(Problem{File: k.env, Severity: Error, Path: join(block.path, k.name),
				Message: fmt.Sprintf("%q is not %s: %s", text, k.kind.name, err)})
			continue
		}
		block.fields[k.name] = &value{key: k, name: k.name, path: join(block.path, k.name), parent: block, from: k.env, text: []string{text}, parsed: parsed}
	}
}

// implied makes an empty block that the file does not have.
func implied(parent *value, k *key, name string) *value {
	return &value{key: k, name: name, path: join(parent.path, name), parent: parent, from: "default", fields: map[string]*value{}}
}

// complete fills in what `defaults` and the table say, until every key that has a value is in the tree, and reports
// the keys that must be written and are not.
func complete(root *value, probs *collector) {
	if pools, defaults := root.fields["pools"], root.fields["defaults"]; pools != nil && defaults != nil {
		for _, pool := range pools.fields {
			inherit(pool, defaults)
		}
	}
	only := func(section, name, kind string) {
		s := root.fields[section]
		if s == nil {
			s = implied(root, root.key.find(section), section)
			root.fields[section] = s
		}
		if len(s.fields) > 0 || s.bad {
			return
		}
		entry := implied(s, s.key.each, name)
		s.fields[name] = entry
		entry.setDefault("type", kind)
	}
	only("brokers", "main", "sqlite")
	only("actuators", "local", "process")
	fill(root, probs)
}

// inherit gives the block to what it does not say itself and the block from does.
func inherit(to, from *value) {
	if to.bad || to.fields == nil {
		return
	}
	for name, theirs := range from.fields {
		mine := to.fields[name]
		switch {
		case mine == nil:
			to.fields[name] = adopt(theirs, to)
		case mine.fields != nil && theirs.fields != nil:
			inherit(mine, theirs)
		}
	}
}

// adopt copies v to a new parent. Its position stays where it was written.
func adopt(v, parent *value) *value {
	c := *v
	c.parent, c.path = parent, join(parent.path, v.name)
	if v.fields != nil {
		c.fields = map[string]*value{}
		for name, f := range v.fields {
			c.fields[name] = adopt(f, &c)
		}
	}
	return &c
}

// setDefault gives the key called name of block a value that the file left out.
func (v *value) setDefault(name, text string) *value {
	k := v.key.find(name)
	d := &value{key: k, name: name, path: join(v.path, name), parent: v, from: "default", text: []string{text}}
	if k.kind.parse != nil {
		d.parsed, _ = k.kind.parse(text) // a test reads every default of the table
	} else {
		d.list, d.text = true, strings.Split(strings.Trim(text, "[]"), ", ")
		var list []any
		for _, t := range d.text {
			item, _ := k.kind.item(t)
			list = append(list, item)
		}
		d.parsed = list
	}
	v.fields[name] = d
	return d
}

func fill(v *value, probs *collector) {
	if v.bad || v.fields == nil {
		return
	}
	for _, k := range v.key.keys {
		child := v.fields[k.name]
		switch {
		case child != nil:
		case v.misspelt[k.name]: // one problem is enough
		case k.required:
			probs.add(v.where().problem(Error, join(v.path, k.name), fmt.Sprintf("%q is missing", k.name), missing(k)))
		case k.def != "":
			v.setDefault(k.name, k.def)
		case k.kind == nil:
			v.fields[k.name] = implied(v, k, k.name)
		}
	}
	for _, child := range v.fields {
		if child.path != "defaults" {
			fill(child, probs)
		}
	}
}

func missing(k *key) string {
	switch {
	case k.kind == nil:
		return k.help
	case k.min != "" && k.min == k.max:
		return fmt.Sprintf("write %s: %s", k.name, k.min)
	default:
		return "it wants " + wants(k)
	}
}

// children returns the fields of v in the order people expect: the table's, then other names as they were written,
// then by name.
func (v *value) children() []*value {
	var list, others []*value
	for _, k := range v.key.keys {
		if c := v.fields[k.name]; c != nil {
			list = append(list, c)
		}
	}
	for name, c := range v.fields {
		if v.key.find(name) == nil {
			others = append(others, c)
		}
	}
	slices.SortFunc(others, func(a, b *value) int { return strings.Compare(a.name, b.name) })
	return append(list, others...)
}
