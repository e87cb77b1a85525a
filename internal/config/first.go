package config

import (
	"fmt"
	"io"
	"strings"
)

// skeleton is the first file before its comments. A # in front of a key switches it off. Each key is
// explained by its row of the table, once.
const skeleton = `
version: 1

server:
  listen: 127.0.0.1:8480
  data_dir: headrace-data
  #auth: { token: "${env:HEADRACE_TOKEN}" }

#downstreams:
#  provider:
#    limits: { requests: 3000/min }

pools:
  hello:
    objective: { oldest_age: 10s }
    replicas: { min: 0, max: 4, starts_in: 1s, idle_to_zero: 1m }
    #concurrency: 4
    #service_time: 800ms
    #lease: { for: 60s, heartbeat: 20s, max: 1h }
    #retry: { attempts: 10, backoff: 1s..10m }
    #poison: { after_crashes: 2 }
    #scale: { up: +100%/15s, down: -20%/1m, hold: auto }
    #mode: observe
    #downstreams: { provider: { requests: 1/job } }
    actuator:
      command: ["sh", "-c", "sleep 0.2; tr a-z A-Z"]
      #env: { LANG: C.UTF-8 }
      #grace: 30s
`

// Init writes a first configuration file: commented, valid, and good to run as it is.
func Init(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Headrace configuration. Check it with `headrace config check`, see all that holds with `headrace config show`.\n" +
		"# Lines that start with # and a key are examples that are switched off.\n")
	path := []string{}
	for line := range strings.Lines(strings.TrimPrefix(skeleton, "\n")) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			b.WriteString("\n")
			continue
		}
		bare := strings.Replace(line, "#", "", 1)
		name, _, _ := strings.Cut(strings.TrimSpace(bare), ":")
		indent := len(bare) - len(strings.TrimLeft(bare, " "))
		path = append(path[:indent/2], name)
		if k := table().at(path); k != nil && k.name != "" {
			fmt.Fprintf(&b, "%s# %s\n", strings.Repeat(" ", indent), k.help)
		}
		b.WriteString(line + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// at returns the row of the key at path, or nil.
func (k *key) at(path []string) *key {
	for _, name := range path {
		if k == nil {
			return nil
		}
		if next := k.find(name); next != nil {
			k = next
		} else {
			k = k.each
		}
	}
	return k
}
