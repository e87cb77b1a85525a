package config

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v4"
)

// eachKey calls do for every row below k.
func eachKey(k *key, path string, do func(path string, k *key)) {
	for _, c := range k.keys {
		p := join(path, c.name)
		do(p, c)
		eachKey(c, p, do)
	}
	if k.each != nil {
		p := join(path, "*")
		do(p, k.each)
		eachKey(k.each, p, do)
	}
}

func TestTableIsSound(t *testing.T) {
	seen := map[string]bool{}
	eachKey(table(), "", func(path string, k *key) {
		if seen[path] {
			t.Errorf("%s has two rows", path)
		}
		seen[path] = true
		if !strings.HasSuffix(k.help, ".") {
			t.Errorf("%s: help %q is not a sentence", path, k.help)
		}
		if k.kind == nil && k.keys == nil && k.each == nil {
			t.Errorf("%s has no grammar", path)
		}
		if (k.each == nil) != (k.names == nil) {
			t.Errorf("%s: names and each go together", path)
		}
		if planned[k.name] && k.name != "" {
			t.Errorf("%s is in the table and said to be planned", path)
		}
		if k.kind == nil {
			return
		}
		for _, bound := range []string{k.min, k.max} {
			if bound == "" {
				continue
			}
			if _, err := k.kind.parse(bound); err != nil {
				t.Errorf("%s: bound %q: %v", path, bound, err)
			}
		}
		if k.def == "" {
			return
		}
		block := &value{key: &key{keys: []*key{k}}, fields: map[string]*value{}}
		d := block.setDefault(k.name, k.def)
		for _, text := range d.text {
			parse := k.kind.parse
			if d.list {
				parse = k.kind.item
			}
			if _, err := parse(text); err != nil {
				t.Errorf("%s: default %q: %v", path, text, err)
			}
		}
		if k.meant != "" || k.required {
			t.Errorf("%s has a default and something else", path)
		}
	})
}

// The key that a word of a later version names must be refused, and said to be of a later version.
func TestKeysOfLaterVersionsAreRefused(t *testing.T) {
	for name := range planned {
		_, problems := Parse("a.yaml", []byte("version: 1\n"+name+": {}\n"), nil)
		if got := problems.Error(); !strings.Contains(got, "not in this version") {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestInitIsValidAndRunsAsItIs(t *testing.T) {
	var b bytes.Buffer
	if err := Init(&b); err != nil {
		t.Fatal(err)
	}
	cfg, problems := Parse("headrace.yaml", b.Bytes(), nil)
	if len(problems) > 0 {
		t.Fatalf("problems:\n%v", problems)
	}
	if len(cfg.Pools) != 1 || len(cfg.Pools[0].Starts.Command) == 0 || !cfg.Server.Loopback() {
		t.Errorf("got %+v, want one pool with a command, on loopback", cfg)
	}
	if strings.Count(b.String(), "\n") < 40 {
		t.Errorf("the file is hardly commented:\n%s", b.String())
	}
}

// Every key that is switched off in the first file can be switched on.
func TestInitIsValidWithEverythingSwitchedOn(t *testing.T) {
	var b bytes.Buffer
	if err := Init(&b); err != nil {
		t.Fatal(err)
	}
	on := regexp.MustCompile(`(?m)^( *)#((?:  +)?[a-z_]+:)`).ReplaceAll(b.Bytes(), []byte("$1$2"))
	if bytes.Equal(on, b.Bytes()) {
		t.Fatal("nothing is switched off")
	}
	_, problems := Parse("headrace.yaml", on, func(name string) (string, bool) { return "token", name == "HEADRACE_TOKEN" })
	if problems.Errors() > 0 {
		t.Errorf("problems:\n%v\nin\n%s", problems, on)
	}
}

// Whatever the program accepts, the schema accepts; and it refuses what has a wrong shape.
func TestSchemaAgreesWithTheProgram(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	var first bytes.Buffer
	if err := Init(&first); err != nil {
		t.Fatal(err)
	}
	accepted := [][]byte{first.Bytes()}
	for _, file := range inputs(t, "testdata/valid/*.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		accepted = append(accepted, text)
	}
	for _, text := range accepted {
		var doc any
		if err := yaml.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		if err := conforms(schema, doc); err != "" {
			t.Errorf("the schema refuses a valid file: %s\n%s", err, text)
		}
	}
	for _, text := range []string{
		"{}", "version: 2", "version: 1\nnope: 1", "version: 1\nserver: {cycle: 5}", "version: 1\nserver: {cycle: 5 s}", "version: 1\nserver: []",
		"version: 1\nbrokers: {a: {}}", "version: 1\nbrokers: {A: {type: sqlite}}", "version: 1\nbrokers: {a: {type: kafka}}",
		"version: 1\npools: {a: {replicas: {min: '1'}}}", "version: 1\npools: {a: {actuator: {worker: {}}}}", "version: 1\npools: {a: {}}",
		"version: 1\ndownstreams: {a: {limits: {requests: 5}}}", "version: 1\ndownstreams: {a: {limits: {r: 1/s}, throttle_on: {status: []}}}",
		"version: 1\ndefaults: {scale: {up: [4/15s]}}", "version: 1\ndefaults: {on_stale: {do: {max: 1}}}",
	} {
		var doc any
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		if conforms(schema, doc) == "" {
			t.Errorf("the schema accepts %q", text)
		}
		if _, problems := Parse("a.yaml", []byte(text), nil); problems.Errors() == 0 {
			t.Errorf("the program accepts %q", text)
		}
	}
}

// conforms checks doc by the keywords that Schema uses; it returns what is wrong. A keyword it does not know fails.
func conforms(schema map[string]any, doc any) string {
	for keyword, arg := range schema {
		switch keyword {
		case "$schema", "title", "description", "default", "additionalProperties", "propertyNames":
		case "type":
			types, _ := arg.([]any)
			if one, ok := arg.(string); ok {
				types = []any{one}
			}
			ok := false
			for _, typ := range types {
				switch doc.(type) {
				case map[string]any:
					ok = ok || typ == "object"
				case []any:
					ok = ok || typ == "array"
				case string:
					ok = ok || typ == "string"
				case int:
					ok = ok || typ == "integer" || typ == "number"
				case float64:
					ok = ok || typ == "number"
				case bool:
					ok = ok || typ == "boolean"
				}
			}
			if !ok {
				return "type"
			}
		case "anyOf":
			ok := false
			for _, s := range arg.([]any) {
				ok = ok || conforms(s.(map[string]any), doc) == ""
			}
			if !ok {
				return "anyOf"
			}
		case "enum":
			ok := false
			for _, v := range arg.([]any) {
				ok = ok || v == doc
			}
			if !ok {
				return "enum"
			}
		case "pattern":
			if s, isString := doc.(string); isString && !regexp.MustCompile(arg.(string)).MatchString(s) {
				return "pattern"
			}
		case "minLength":
			if s, isString := doc.(string); isString && float64(len(s)) < arg.(float64) {
				return "minLength"
			}
		case "minimum":
			if n, isInt := doc.(int); isInt && float64(n) < arg.(float64) {
				return "minimum"
			}
		case "maximum":
			if n, isInt := doc.(int); isInt && float64(n) > arg.(float64) {
				return "maximum"
			}
		case "minItems":
			if l, isList := doc.([]any); isList && float64(len(l)) < arg.(float64) {
				return "minItems"
			}
		case "items":
			if l, isList := doc.([]any); isList {
				for _, item := range l {
					if err := conforms(arg.(map[string]any), item); err != "" {
						return "items: " + err
					}
				}
			}
		case "required":
			for _, name := range arg.([]any) {
				if m, isMap := doc.(map[string]any); isMap {
					if _, there := m[name.(string)]; !there {
						return "required " + name.(string)
					}
				}
			}
		case "properties":
		default:
			return "unknown keyword " + keyword
		}
	}
	m, isMap := doc.(map[string]any)
	if !isMap {
		return ""
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, v := range m {
		if p, known := properties[name]; known {
			if err := conforms(p.(map[string]any), v); err != "" {
				return name + ": " + err
			}
			continue
		}
		if rule, ok := schema["propertyNames"].(map[string]any); ok {
			if err := conforms(rule, name); err != "" {
				return "name " + name
			}
		}
		switch rest := schema["additionalProperties"].(type) {
		case bool:
			if !rest {
				return "unknown " + name
			}
		case map[string]any:
			if err := conforms(rest, v); err != "" {
				return name + ": " + err
			}
		}
	}
	return ""
}
