package config

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// sense is the third pass: warnings about a file that is valid and may still not do what its author wants.
// It speaks only of what the file says; what is measured later is explained later.
func sense(root *value, cfg *Config, env func(string) (string, bool), probs *collector) {
	s := senser{probs, root, cfg, env}
	s.server()
	s.unused()
	pools := root.field("pools")
	if pools == nil || len(cfg.Pools) == 0 {
		at := root
		if pools != nil {
			at = pools
		}
		s.warn(at, "declare one under pools", "there are no pools: nothing will be scaled")
		return
	}
	if n := len(cfg.Pools); n >= 10 {
		s.warn(pools, "jobs that share code and objective can share a queue", "%d pools: each needs workers of its own, so that many small pools keep many idle", n)
	}
	for _, p := range cfg.Pools {
		s.pool(pools.field(p.Name), p)
	}
	s.quotas()
}

type senser struct {
	probs *collector
	root  *value
	cfg   *Config
	env   func(string) (string, bool)
}

func (s senser) warn(v *value, hint, format string, args ...any) {
	s.probs.add(v.where().problem(Warning, v.path, fmt.Sprintf(format, args...), hint))
}

func (s senser) server() {
	listen := s.root.field("server", "listen")
	if s.cfg.Server.Token == "" && !s.cfg.Server.Loopback() {
		s.warn(listen, "set server.auth.token, or listen on 127.0.0.1", "other machines can reach %s, and there is no auth: it will be refused without --insecure", listen.shown())
	}
	if token := s.root.field("server", "auth", "token"); token != nil && token.at.known() && !token.filled {
		s.warn(token, `such as "${env:HEADRACE_TOKEN}" or "${file:/run/secrets/headrace}"`, "the token stands in the file itself")
	}
}

// unused names what is declared and leaned on by nobody: often a pool has lost its reference.
func (s senser) unused() {
	used := map[string]bool{}
	for _, p := range s.cfg.Pools {
		used["brokers."+p.Broker] = true
		used["actuators."+p.Starts.Actuator] = true
		for _, u := range p.Uses {
			used["downstreams."+u.Downstream] = true
		}
	}
	for _, section := range []string{"brokers", "actuators", "downstreams"} {
		for _, v := range s.root.field(section).children() {
			if v.at.known() && len(s.cfg.Pools) > 0 && !used[v.path] {
				s.warn(v, "", "no pool uses %s", v.name)
			}
		}
	}
}

func (s senser) pool(v *value, p Pool) {
	age, drain, starts := p.Scale.Objective.OldestAge, p.Scale.Objective.Drain, p.Scale.StartsIn
	if age > 0 && age < starts && p.Scale.Min < p.Scale.Max {
		hint := "keep enough workers ready with replicas.min, or promise less"
		s.warn(v.field("objective", "oldest_age"), hint, "oldest_age %s is shorter than a worker takes to start (starts_in %s): a new worker comes too late", formatDuration(age), formatDuration(starts))
	}
	if drain > 0 && drain < starts && p.Scale.Min < p.Scale.Max {
		s.warn(v.field("objective", "drain"), "", "drain %s is shorter than a worker takes to start (starts_in %s)", formatDuration(drain), formatDuration(starts))
	}
	if idle := v.field("replicas", "idle_to_zero"); idle.at.known() && p.Scale.Min > 0 {
		s.warn(idle, "it counts with replicas.min 0", "idle_to_zero has no effect: replicas.min is %d", p.Scale.Min)
	}
	if target := v.field("objective", "target"); target.at.known() && age == 0 {
		s.warn(target, "it says how many jobs must meet oldest_age", "target has no effect without oldest_age")
	}
	if cycle := s.cfg.Server.Cycle; age > 0 && age < 2*cycle {
		s.warn(v.field("objective", "oldest_age"), "shorten server.cycle", "oldest_age %s is less than two evaluations (server.cycle %s)", formatDuration(age), formatDuration(cycle))
	}
	s.program(v, p)
	if p.Scale.ServiceTime > 0 {
		s.serviceTime(v, p)
	}
}

// serviceTime compares what one job is said to take with what the pool allows it.
func (s senser) serviceTime(v *value, p Pool) {
	service := p.Scale.ServiceTime
	if p.Lease.Max < service {
		s.warn(v.field("lease", "max"), "raise lease.max above the longest job", "a job takes %s and is given up after lease.max %s", formatDuration(service), formatDuration(p.Lease.Max))
	}
	if p.Starts.Grace < service {
		s.warn(v.field("actuator", "grace"), "", "a job takes %s and a worker that must go has %s (grace): its jobs will often start again elsewhere", formatDuration(service), formatDuration(p.Starts.Grace))
	}
	if age := p.Scale.Objective.OldestAge; age > 0 && age < service {
		s.warn(v.field("objective", "oldest_age"), "", "oldest_age %s is shorter than one job (service_time %s): a job that meets only busy workers is late already", formatDuration(age), formatDuration(service))
	}
	for _, u := range p.Uses {
		limit := s.limit(u)
		// x = R·S/(k·c): replicas whose slots, all busy, use the whole rate R at k units a job of S seconds.
		enough := int(math.Ceil(limit.PerSecond * service.Seconds() / (u.UnitsPerJob * float64(p.Scale.Concurrency))))
		if enough = max(1, enough); enough < p.Scale.Max {
			s.warn(v.field("replicas", "max"), fmt.Sprintf("%s allows %s %s", u.Downstream, limit.Text, u.Unit),
				"%s is fully used by about %s: max %d will not be reached", u.Downstream, plural(enough, "busy replica"), p.Scale.Max)
		}
	}
}

// program warns of one that workers would not find either: the file may be written on one machine and meant for another.
func (s senser) program(v *value, p Pool) {
	for _, run := range []struct {
		v    *value
		argv []string
	}{{v.field("actuator", "command"), p.Starts.Command}, {v.field("actuator", "worker"), p.Starts.Worker}} {
		if len(run.argv) == 0 || s.found(run.argv[0], p) {
			continue
		}
		shown := strconv.Quote(run.argv[0])
		if run.v.secret {
			shown = hidden
		}
		s.warn(run.v, "", "%s is not found here: workers could not start", shown)
	}
}

// found reports whether a pool's workers find a program: by its path from their directory, or in their PATH.
func (s senser) found(program string, p Pool) bool {
	if strings.ContainsRune(program, '/') || filepath.IsAbs(program) {
		if !filepath.IsAbs(program) {
			program = filepath.Join(p.Starts.Dir, program)
		}
		_, err := exec.LookPath(program)
		return err == nil
	}
	path, known := string(p.Starts.Env["PATH"]), true
	if path == "" {
		path, known = s.env("PATH")
	}
	if !known {
		return true // nobody can tell
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // what stands there depends on where one stands: it is not run
		}
		if _, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return true
		}
	}
	return false
}

func (s senser) limit(u Use) DownstreamLimit {
	for _, l := range s.cfg.Downstreams[u.Downstream].Limits {
		if l.Unit == u.Unit {
			return l
		}
	}
	return DownstreamLimit{}
}

// quotas compares what actuators may start with what pools are promised.
func (s senser) quotas() {
	for name, a := range s.cfg.Actuators {
		if a.MaxTotal == 0 {
			continue
		}
		floors, names := 0, []string{}
		for _, p := range s.cfg.Pools {
			if p.Starts.Actuator == name && p.Scale.Min > 0 {
				floors += p.Scale.Min
				names = append(names, p.Name)
			}
		}
		if floors > a.MaxTotal {
			s.warn(s.root.field("actuators", name, "max_total"), "lower replicas.min of "+strings.Join(names, ", "), "max_total %d is less than the sum of replicas.min, %d", a.MaxTotal, floors)
		}
	}
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// shown is v as it may be printed.
func (v *value) shown() string {
	if v.secret {
		return hidden
	}
	return strings.Join(v.text, ", ")
}
