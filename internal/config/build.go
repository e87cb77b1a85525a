package config

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/scale"
)

// builder is the second pass: it makes the Config and checks references and ranges between keys.
type builder struct {
	probs *collector
	root  *value
	dir   string // where relative paths start
	cfg   *Config
}

func build(root *value, dir string, probs *collector) *Config {
	b := &builder{probs: probs, root: root, dir: dir, cfg: &Config{root: root}}
	b.server()
	b.brokers()
	b.actuators()
	b.downstreams()
	b.pools()
	return b.cfg
}

func (b *builder) fail(v *value, hint, format string, args ...any) {
	b.probs.add(v.where().problem(Error, v.path, fmt.Sprintf(format, args...), hint))
}

func (b *builder) resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(b.dir, path)
}

// ok reports whether v is there and without a problem.
func ok(v *value) bool { return v != nil && !v.bad }

func (b *builder) server() {
	s := b.root.field("server")
	dataDir := b.resolve(get[string](s, "data_dir"))
	if v := s.field("data_dir"); ok(v) && v.from == v.key.env { // from the environment: where the command was typed
		dataDir, _ = filepath.Abs(v.text[0])
	}
	b.cfg.Server = Server{
		Listen:  get[string](s, "listen"),
		DataDir: dataDir,
		History: get[time.Duration](s, "history"),
		Cycle:   get[time.Duration](s, "cycle"),
		Token:   Secret(get[string](s, "auth", "token")),
	}
}

func (b *builder) brokers() {
	b.cfg.Brokers = map[string]Broker{}
	section := b.root.field("brokers")
	if !ok(section) {
		return
	}
	files := map[string]string{}
	for _, v := range section.children() {
		if !ok(v) {
			continue
		}
		if v.field("path") == nil {
			if len(section.fields) > 1 {
				b.fail(v, `the only broker has "queue.db" in data_dir`, "several brokers: %q must name its path", v.name)
				continue
			}
			dataDir := b.root.field("server", "data_dir")
			v.setDefault("path", filepath.Join(get[string](dataDir), "queue.db")).secret = ok(dataDir) && dataDir.secret
		}
		path := b.resolve(get[string](v, "path"))
		if v.field("path").from == "default" {
			path = filepath.Join(b.cfg.Server.DataDir, "queue.db")
		}
		if other, taken := files[path]; taken && ok(v.field("path")) {
			b.fail(v.field("path"), "", "broker %q has the same file", other)
		}
		files[path] = v.name
		b.cfg.Brokers[v.name] = Broker{Name: v.name, Type: get[string](v, "type"), Path: path}
	}
}

func (b *builder) actuators() {
	b.cfg.Actuators = map[string]Actuator{}
	section := b.root.field("actuators")
	if !ok(section) {
		return
	}
	for _, v := range section.children() {
		b.cfg.Actuators[v.name] = Actuator{Name: v.name, Type: get[string](v, "type"), MaxTotal: get[int](v, "max_total")}
	}
}

func (b *builder) downstreams() {
	b.cfg.Downstreams = map[string]Downstream{}
	section := b.root.field("downstreams")
	if !ok(section) {
		return
	}
	for _, v := range section.children() {
		d := Downstream{Name: v.name}
		if limits := v.field("limits"); ok(limits) && limits.fields != nil {
			if len(limits.fields) == 0 {
				b.fail(limits, "such as { requests: 3000/min }", "%q limits nothing", v.name)
			}
			for _, l := range limits.children() {
				r := get[perSecond](l)
				d.Limits = append(d.Limits, DownstreamLimit{Unit: l.name, PerSecond: r.rate, Text: r.text})
			}
		}
		for _, status := range get[[]any](v, "throttle_on", "status") {
			d.ThrottleStatus = append(d.ThrottleStatus, status.(int))
		}
		b.cfg.Downstreams[v.name] = d
	}
}

func (b *builder) pools() {
	section := b.root.field("pools")
	if !ok(section) {
		return
	}
	serves := map[[2]string]string{}
	for _, v := range section.children() {
		if !ok(v) || v.fields == nil {
			continue
		}
		p := b.pool(v)
		queue := [2]string{p.Broker, p.Queue}
		if other, taken := serves[queue]; taken && p.Broker != "" {
			at := v.field("queue")
			if at.from == "default" {
				at = v
			}
			b.fail(at, "one queue has one pool: two would scale against each other", "pool %q serves queue %q too", other, p.Queue)
		}
		serves[queue] = p.Name
		b.cfg.Pools = append(b.cfg.Pools, p)
	}
}

func (b *builder) pool(v *value) Pool {
	p := Pool{Name: v.name}
	p.Broker = b.reference(v, "broker", "brokers")
	if v.field("queue") == nil {
		v.setDefault("queue", v.name)
	}
	p.Queue = get[string](v, "queue")
	p.Lease = b.lease(v.field("lease"))
	backoff := get[span](v, "retry", "backoff")
	p.Retry = Retry{Attempts: get[int](v, "retry", "attempts"), BackoffMin: backoff.from, BackoffMax: backoff.to}
	p.Poison = Poison{AfterCrashes: get[int](v, "poison", "after_crashes")}
	p.Uses = b.uses(v.field("downstreams"))
	if starts := v.field("actuator"); ok(starts) && starts.fields != nil {
		p.Starts = b.starts(starts)
	}
	p.Scale = b.policy(v, p.Uses)
	return p
}

// reference reads the name at key, which must be declared in section; left out, it is the only name there.
func (b *builder) reference(v *value, key, section string) string {
	declared := b.root.field(section)
	if !ok(declared) {
		return ""
	}
	names := slices.Sorted(maps.Keys(declared.fields))
	ref := v.field(key)
	if ref == nil {
		if len(names) != 1 {
			b.fail(v, "one of "+strings.Join(names, ", "), "%q is missing: there are several %s", key, section)
			return ""
		}
		ref = v.setDefault(key, names[0])
	}
	name := get[string](ref)
	if !ok(ref) || slices.Contains(names, name) {
		return name
	}
	hint := didYouMean(name, names)
	if hint == "" {
		hint = "declared: " + strings.Join(names, ", ")
	}
	b.fail(ref, hint, "%s has no %q", section, ref.shown())
	return ""
}

func (b *builder) lease(v *value) Lease {
	if !ok(v) || v.fields == nil {
		return Lease{}
	}
	length := get[time.Duration](v, "for")
	if v.field("heartbeat") == nil {
		v.setDefault("heartbeat", formatDuration(length/3))
	}
	l := Lease{For: length, Heartbeat: get[time.Duration](v, "heartbeat"), Max: get[time.Duration](v, "max")}
	if beat := v.field("heartbeat"); ok(beat) && length > 0 && l.Heartbeat > length/3 {
		b.fail(beat, fmt.Sprintf("at most %s, so that two may be lost", formatDuration(length/3)),
			"heartbeat %s is more than a third of the lease of %s", formatDuration(l.Heartbeat), formatDuration(length))
	}
	if most := v.field("max"); ok(most) && length > l.Max {
		at := most
		if !most.at.known() {
			at = v.field("for")
		}
		b.fail(at, "", "lease.for %s is longer than lease.max %s", formatDuration(length), formatDuration(l.Max))
	}
	return l
}

func (b *builder) uses(section *value) []Use {
	if !ok(section) || section.fields == nil {
		return nil
	}
	var uses []Use
	for _, v := range section.children() {
		d, declared := b.cfg.Downstreams[v.name]
		if !declared {
			hint := didYouMean(v.name, slices.Sorted(maps.Keys(b.cfg.Downstreams)))
			if hint == "" {
				hint = "declare it in downstreams, with its limits"
			}
			b.fail(v, hint, "downstreams has no %q", v.name)
			continue
		}
		if !ok(v) || v.fields == nil {
			continue
		}
		measure := get[string](v, "measure") == "reported"
		var limited []string
		for _, l := range d.Limits {
			limited = append(limited, l.Unit)
			switch amount := v.field(l.Unit); {
			case amount != nil:
				uses = append(uses, Use{Downstream: d.Name, Unit: l.Unit, UnitsPerJob: get[float64](amount), Measure: measure})
			case l.Unit == "requests":
				uses = append(uses, Use{Downstream: d.Name, Unit: l.Unit, UnitsPerJob: 1, Measure: measure})
			default:
				b.fail(v, fmt.Sprintf("such as %s: 10/job", l.Unit), "%s limits %q, and it is not said what a job takes of it", d.Name, l.Unit)
			}
		}
		for _, u := range v.children() {
			if u.key == v.key.each && len(limited) > 0 && !slices.Contains(limited, u.name) {
				hint := didYouMean(u.name, limited)
				if hint == "" {
					hint = "it limits " + strings.Join(limited, ", ")
				}
				b.probs.add(u.keyAt.problem(Error, u.path, fmt.Sprintf("%s does not limit %q", d.Name, u.name), hint))
			}
		}
	}
	return uses
}

func (b *builder) starts(v *value) Starts {
	s := Starts{
		Actuator: b.reference(v, "use", "actuators"),
		Command:  strs(get[[]any](v, "command")),
		Worker:   strs(get[[]any](v, "worker")),
		HTTP:     get[string](v, "http"),
		Grace:    get[time.Duration](v, "grace"),
		Dir:      b.resolve(get[string](v, "dir")),
		Env:      map[string]Secret{},
	}
	if env := v.field("env"); ok(env) {
		for name, e := range env.fields {
			if strings.HasPrefix(name, "HEADRACE_") {
				b.fail(e, "Headrace tells workers where to connect by them", "variables that start with HEADRACE_ are taken")
			}
			s.Env[name] = Secret(get[string](e))
		}
	}
	var written []*value
	for _, name := range []string{"command", "worker", "http"} {
		if f := v.field(name); f != nil {
			written = append(written, f)
		}
	}
	switch {
	case len(written) == 0 && (v.misspelt["command"] || v.misspelt["worker"] || v.misspelt["http"]):
		// said where it stands
	case len(written) == 0:
		b.fail(v, "command, worker or http", "it is not said what a worker runs")
	case len(written) > 1:
		b.fail(written[1], "keep one of them", "%q and %q exclude each other", written[0].name, written[1].name)
	}
	for _, list := range [][]string{s.Command, s.Worker} {
		if len(list) > 0 && list[0] == "" {
			b.fail(written[0], "", "there is no program to run")
		}
	}
	return s
}

func strs(list []any) []string {
	var out []string
	for _, v := range list {
		out = append(out, v.(string))
	}
	return out
}

func (b *builder) policy(v *value, uses []Use) scale.Policy {
	p := scale.Policy{
		Pool: v.name,
		Objective: scale.Objective{
			OldestAge: get[time.Duration](v, "objective", "oldest_age"),
			Drain:     get[time.Duration](v, "objective", "drain"),
			Miss:      miss(get[float64](v, "objective", "target")),
		},
		Min:         get[int](v, "replicas", "min"),
		Max:         get[int](v, "replicas", "max"),
		Concurrency: get[int](v, "concurrency"),
		StartsIn:    get[time.Duration](v, "replicas", "starts_in"),
		ServiceTime: get[time.Duration](v, "service_time"),
		Utilisation: get[float64](v, "scale", "utilisation"),
		IdleToZero:  get[time.Duration](v, "replicas", "idle_to_zero"),
		Cycle:       b.cfg.Server.Cycle,
		Damping: scale.Damping{
			HoldSteady: get[time.Duration](v, "scale", "hold"),
			Up:         rates(get[[]any](v, "scale", "up")),
			Down:       rates(get[[]any](v, "scale", "down")),
		},
		Stale:      get[time.Duration](v, "on_stale", "after"),
		StaleFloor: get[int](v, "on_stale", "do", "min"),
		Observe:    get[string](v, "mode") == "observe",
	}
	if most := v.field("replicas", "max"); ok(most) {
		p.MaxFrom = most.origin()
	}
	if starts := v.field("actuator"); ok(starts) {
		p.Grace = get[time.Duration](starts, "grace")
	}
	for _, u := range uses {
		p.Downstreams = append(p.Downstreams, scale.Use{Downstream: u.Downstream, Unit: u.Unit, UnitsPerJob: u.UnitsPerJob, Permits: true})
	}
	b.ranges(v, p)
	return p
}

// miss is what target leaves, without the dust of binary fractions: 95% leaves 0.05.
func miss(target float64) float64 { return math.Round((1-target)*1e9) / 1e9 }

// ranges checks what keys of a pool say about each other.
func (b *builder) ranges(v *value, p scale.Policy) {
	least, most := v.field("replicas", "min"), v.field("replicas", "max")
	if ok(least) && ok(most) && p.Min > p.Max {
		at := least
		if !at.at.known() {
			at = most
		}
		b.fail(at, "", "replicas.min %d is more than replicas.max %d", p.Min, p.Max)
	}
	if o := v.field("objective"); ok(o) && o.fields != nil && o.field("oldest_age") == nil && o.field("drain") == nil {
		at := o
		if !o.at.known() {
			at = v
		}
		b.fail(at, "such as objective: { oldest_age: 30s }", "the pool has no objective")
	}
	if floor := v.field("on_stale", "do", "min"); ok(floor) && ok(most) && p.StaleFloor > p.Max {
		b.fail(floor, "", "on_stale.do.min %d is more than replicas.max %d", p.StaleFloor, p.Max)
	}
}

func rates(list []any) []scale.Rate {
	var out []scale.Rate
	for _, r := range list {
		if r, isRate := r.(scale.Rate); isRate {
			out = append(out, r)
		}
	}
	return out
}
