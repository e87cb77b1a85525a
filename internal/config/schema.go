package config

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// schemaObject is a JSON Schema, or a part of one.
type schemaObject map[string]any

// Schema returns the JSON Schema (2020-12) of a configuration file, for editors and other tools. It describes shape;
// what keys say about each other, only Load and Parse know.
func Schema() []byte {
	s := table().schema(false)
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "Headrace configuration"
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("config: the schema is made of maps and strings: " + err.Error())
	}
	return append(text, '\n')
}

// schema describes k. With loose, keys that must be set may be missing, because `defaults` may have them.
func (k *key) schema(loose bool) schemaObject {
	var forms []schemaObject
	if k.kind != nil {
		forms = k.kind.schemas(k)
	}
	if k.keys != nil || k.each != nil {
		forms = append(forms, k.blockSchema(loose))
	}
	s := schemaObject{}
	if len(forms) == 1 {
		s = forms[0]
	} else {
		s["anyOf"] = forms
	}
	if k.help != "" {
		s["description"] = k.help
	}
	if k.def != "" {
		s["default"] = defaultJSON(k)
	}
	return s
}

func (k *key) blockSchema(loose bool) schemaObject {
	properties := schemaObject{}
	var required []string
	for _, c := range k.keys {
		inherited := k.inherits && slices.ContainsFunc(defaultable(), func(d *key) bool { return d.name == c.name })
		properties[c.name] = c.schema(loose || inherited || c.name == "defaults")
		if c.required && !loose {
			required = append(required, c.name)
		}
	}
	s := schemaObject{"type": "object", "additionalProperties": false}
	if len(properties) > 0 {
		s["properties"] = properties
	}
	if len(required) > 0 {
		s["required"] = required
	}
	if k.each != nil {
		s["additionalProperties"] = k.each.schema(loose)
		s["propertyNames"] = schemaObject{"pattern": k.names.re.String()}
	}
	return s
}

// filledIn is the pattern of a text that Headrace fills in before it reads it.
const filledIn = `\$\{(env|file):`

func (k *kind) schemas(in *key) []schemaObject {
	var forms []schemaObject
	if k.parse != nil {
		forms = k.scalarSchemas(in)
	}
	if k.item != nil {
		item := schemaObject{"anyOf": k.scalarSchemas(&key{})}
		forms = append(forms, schemaObject{"type": "array", "minItems": 1, "items": item})
	}
	return forms
}

func (k *kind) scalarSchemas(in *key) []schemaObject {
	reference := schemaObject{"type": "string", "pattern": filledIn}
	var forms []schemaObject
	if len(k.words) > 0 {
		forms = append(forms, schemaObject{"enum": k.words})
	}
	switch {
	case k.whole:
		number := schemaObject{"type": "integer", "minimum": 0}
		if n, err := strconv.Atoi(in.min); err == nil {
			number["minimum"] = n
		}
		if n, err := strconv.Atoi(in.max); err == nil {
			number["maximum"] = n
		}
		forms = append(forms, number, reference)
	case k.pattern != "":
		forms = append(forms, schemaObject{"type": "string", "pattern": "^(" + k.pattern + ")$"}, reference)
	case len(k.words) > 0:
		forms = append(forms, reference)
	case k.only:
		forms = append(forms, schemaObject{"type": "string", "minLength": 1})
	default:
		forms = append(forms, schemaObject{"type": []string{"string", "number", "boolean"}})
	}
	return forms
}

func defaultJSON(k *key) any {
	if items, isList := strings.CutPrefix(k.def, "["); isList {
		var list []any
		for item := range strings.SplitSeq(strings.TrimSuffix(items, "]"), ", ") {
			list = append(list, defaultJSON(&key{kind: k.kind, def: item}))
		}
		return list
	}
	if k.kind.whole {
		n, _ := strconv.Atoi(k.def) // a test reads every default of the table
		return n
	}
	return k.def
}
