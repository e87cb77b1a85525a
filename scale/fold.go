package scale

import "fmt"

// fold builds the steps. n is the number so far.
type fold struct {
	n     int
	steps []Step
	bound int // index of the step that decides
}

// step goes to a number; a step that changes it decides, until a later one does.
func (f *fold) step(name, subject, limit string, to int, evidence string, r Reason) {
	changes := to != f.n || len(f.steps) == 0
	f.add(name, subject, limit, to, evidence, r)
	if changes {
		f.bound = len(f.steps) - 1
	}
}

// binds is a step that decides even when it changes nothing.
func (f *fold) binds(name, subject, limit string, to int, evidence string, r Reason) {
	f.add(name, subject, limit, to, evidence, r)
	f.bound = len(f.steps) - 1
}

func (f *fold) add(name, subject, limit string, to int, evidence string, r Reason) {
	if f.steps == nil {
		f.steps = make([]Step, 0, 6)
	}
	f.steps = append(f.steps, Step{Name: name, Subject: subject, Limit: limit, From: f.n, To: to, Evidence: evidence, Reason: r})
	f.n = to
}

// ceiling goes down to a ceiling, when it is above. It is always one step.
func (f *fold) ceiling(p Policy, o Observation, c Ceiling) {
	name, limit, evidence := "share", count(float64(c.Replicas)), ""
	switch c.Reason {
	case PoolMax:
		name, evidence = "pool max", p.MaxFrom
	case DownstreamThroughput:
		name = "downstream"
		for _, u := range p.Downstreams {
			if l := limitOf(o, u); u.Downstream == c.Name && u.Unit == c.Unit && l.readable() {
				limit, evidence = pace(l.PerSecond, l.Unit)+" at "+num(unitsPerJob(u, *l))+" a job", useEvidence(l)
				break
			}
		}
	}
	f.step(name, c.subject(), limit, min(f.n, c.Replicas), joined(evidence, conflict(p, c)), c.Reason)
}

func conflict(p Policy, c Ceiling) string {
	if c.Replicas >= p.Min {
		return ""
	}
	return fmt.Sprintf("below the minimum of %d", p.Min)
}

func joined(a, b string) string {
	if a != "" && b != "" {
		return a + ", " + b
	}
	return a + b
}

func (f *fold) finish() []Step {
	f.steps[f.bound].Binding = true
	return f.steps
}
