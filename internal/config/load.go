package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	yaml "go.yaml.in/yaml/v4"
)

// Load reads the file at path, or all *.yaml files of the directory at path as if they were one, each name in
// them being declared once. env answers for environment variables, as [os.LookupEnv] does.
//
// All problems of a run are returned, sorted. The Config is nil when one of them is an error.
func Load(path string, env func(string) (string, bool)) (*Config, Problems) {
	unreadable := func(err error) (*Config, Problems) {
		return nil, Problems{{File: path, Severity: Error, Message: err.Error()}}
	}
	info, err := os.Stat(path)
	if err != nil {
		if os.IsNotExist(err) {
			return nil, Problems{{File: path, Severity: Error, Message: "there is no such file", Hint: "headrace init writes a first one"}}
		}
		return unreadable(err)
	}
	files, dir := []string{path}, filepath.Dir(path)
	if info.IsDir() {
		dir = path
		if files, err = filepath.Glob(filepath.Join(path, "*.yaml")); err != nil {
			return unreadable(err)
		}
		if len(files) == 0 {
			return unreadable(fmt.Errorf("there is no *.yaml file in this directory"))
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return unreadable(err)
	}
	var odd Problems
	if info.IsDir() {
		strays, _ := filepath.Glob(filepath.Join(path, "*.yml")) // the pattern is the one that was good above
		for _, f := range strays {
			odd = append(odd, Problem{File: f, Severity: Warning, Message: "this file is not read: the names of configuration files end in .yaml"})
		}
	}
	var inputs []input
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return unreadable(err)
		}
		inputs = append(inputs, input{f, text})
	}
	cfg, problems := read(inputs, dir, fromSystem(dir, env))
	return cfg, (&collector{found: append(problems, odd...)}).sorted()
}

// Parse reads one file's text. Relative paths in it start at the directory of name.
func Parse(name string, text []byte, env func(string) (string, bool)) (*Config, Problems) {
	dir := filepath.Dir(name)
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return read([]input{{name, text}}, dir, fromSystem(dir, env))
}

type input struct {
	name string
	text []byte
}

// read runs the three passes: shape; references and ranges; sense. The third has nothing to say about a file
// that the others refuse.
func read(inputs []input, dir string, look lookups) (*Config, Problems) {
	probs := &collector{}
	var files []*raw
	for _, in := range inputs {
		src := newSource(in.name, in.text)
		r := parseYAML(src, in.text, probs)
		if r == nil {
			continue
		}
		if r.kind != yaml.MappingNode {
			probs.add(r.at.problem(Error, "", "the file is not a block of keys", "it starts with version: 1"))
			continue
		}
		files = append(files, r)
	}
	if len(files) < len(inputs) {
		return nil, probs.sorted() // what is missing would only cause more errors
	}
	keys := table()
	root := &value{key: keys}
	s := &shaper{probs: probs, look: look}
	merged := merge(keys, files)
	root.at = merged.at
	s.block(root, merged)
	s.overrides(root)
	complete(root, probs)
	cfg := build(root, dir, probs)
	if probs.found.Errors() > 0 {
		return nil, probs.sorted()
	}
	sense(root, cfg, look.env, probs)
	return cfg, probs.sorted()
}

// merge lays files on top of each other. Sections of names grow; any other key that two files have is left
// twice, to be reported like one that a single file has twice.
func merge(keys *key, files []*raw) *raw {
	all := &raw{kind: yaml.MappingNode, at: files[0].at, pairs: slices.Clone(files[0].pairs)}
	for _, f := range files[1:] {
		earlier := len(all.pairs)
		for _, p := range f.pairs {
			i := slices.IndexFunc(all.pairs[:earlier], func(q pair) bool { return q.key.text == p.key.text })
			switch k := keys.find(p.key.text); {
			case i < 0 || k == nil:
				all.pairs = append(all.pairs, p)
			case k.each != nil && p.value.kind == yaml.MappingNode && all.pairs[i].value.kind == yaml.MappingNode:
				section := *all.pairs[i].value
				section.pairs = slices.Concat(section.pairs, p.value.pairs)
				all.pairs[i].value = &section
			case k.name == "version" && p.value.text == all.pairs[i].value.text:
			default:
				all.pairs = append(all.pairs, p)
			}
		}
	}
	return all
}
