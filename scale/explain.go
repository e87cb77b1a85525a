package scale

import (
	"fmt"
	"strings"
	"time"
)

// Explanation is a decision in words: the verdict, the numbers, what to do. The command line, the API and the dashboard
// show the same one.
type Explanation struct {
	Pool     string    `json:"pool"`
	At       time.Time `json:"at"`
	Question string    `json:"question"` // "Why 14 replicas?"
	Verdict  string    `json:"verdict"`  // "Throughput-limited by llm-provider."
	Reason   Reason    `json:"reason"`
	Docs     string    `json:"docs"` // page and anchor, relative to docs/reference
	Lead     []string  `json:"lead"` // sentences with the numbers that matter most
	Rows     []Row     `json:"rows"`
	RuledOut []string  `json:"ruled_out"`
	Helps    []string  `json:"helps"`
	Alarms   []string  `json:"alarms"`
}

// Row is one step of the computation.
type Row struct {
	Step     string `json:"step"` // "downstream llm-provider"
	Limit    string `json:"limit"`
	Result   int    `json:"result"`
	Evidence string `json:"evidence"`
	Binding  bool   `json:"binding"` // it decided
}

// Explain puts a decision in words. It uses nothing but the decision, so what was recorded can be explained later.
func (d Decision) Explain() Explanation {
	e := Explanation{
		Pool: d.Pool, At: d.At, Verdict: d.Sentence, Reason: d.Reason, Docs: d.Reason.Info().Anchor(),
		Question: fmt.Sprintf("Why %d %s?", d.Desired, plural(d.Desired, "replica")),
		Lead:     d.lead(), Rows: make([]Row, 0, len(d.Steps)),
		RuledOut: append([]string{}, d.RuledOut...), Helps: []string{}, Alarms: []string{},
	}
	for _, s := range d.Steps {
		name := s.Name
		if s.Subject != "" {
			name += " " + s.Subject
		}
		e.Rows = append(e.Rows, Row{name, s.Limit, s.To, s.Evidence, s.Binding})
	}
	for _, h := range d.Helps {
		if h.What == "nothing" {
			e.Helps = append(e.Helps, "nothing: "+h.Effect)
		} else {
			e.Helps = append(e.Helps, h.What+" → "+h.Effect)
		}
	}
	for _, r := range d.Alarms {
		e.Alarms = append(e.Alarms, r.sentence("a downstream"))
	}
	return e
}

// lead is what to say right after the verdict.
func (d Decision) lead() []string {
	var out []string
	if !d.Need.Known {
		for _, s := range d.Steps {
			if s.Binding && s.Evidence != "" {
				out = append(out, fmt.Sprintf("%s; holding %d.", capital(s.Evidence), d.Desired))
			}
		}
		return out
	}
	switch {
	case d.Need.Replicas == 0:
		out = append(out, "Nothing waits, runs or is due soon.")
	case d.Need.Replicas != d.Desired:
		out = append(out, fmt.Sprintf("Demand asks for %d.", d.Need.Replicas))
	}
	if d.Binding != nil {
		out = append(out, d.Binding.Detail)
	}
	for _, s := range d.Steps {
		if s.Binding && s.Reason != DownstreamThroughput && s.Reason != PoolMax && s.Name != "demand" && s.Evidence != "" {
			out = append(out, fmt.Sprintf("%s: %s.", capital(s.Limit), s.Evidence))
		}
	}
	if d.Need.Partial != "" {
		out = append(out, "Not everything is known: "+d.Need.Partial+".")
	}
	if d.Need.HeadStuck {
		out = append(out, "The oldest job is passed over while others complete; its age counts for nothing.")
	}
	switch d.Drain.State {
	case "clears":
		out = append(out, "At the present rate the backlog clears in "+d.Drain.Text()+".")
	case "grows", "stalled":
		out = append(out, "Backlog "+d.Drain.Text()+".")
	}
	return out
}

// Text renders the explanation for a terminal, without colour. The marked step is the one that decided.
func (e Explanation) Text() string {
	var out strings.Builder
	out.WriteString(e.Question + "  " + e.Verdict + "\n")
	if len(e.Lead) > 0 {
		out.WriteString(" ")
		for _, s := range e.Lead {
			out.WriteString(" " + s)
		}
		out.WriteString("\n")
	}
	out.WriteString("\n")
	step, limit := len("STEP"), len("LIMIT")
	for _, r := range e.Rows {
		step, limit = max(step, width(r.mark())), max(limit, width(r.Limit))
	}
	out.WriteString(line("  %-*s  %-*s  %6s  %s", step, "STEP", limit, "LIMIT", "RESULT", "EVIDENCE"))
	for _, r := range e.Rows {
		out.WriteString(line("  %-*s  %-*s  %6d  %s", step, r.mark(), limit, r.Limit, r.Result, r.Evidence))
	}
	notes := list("ruled out", e.RuledOut, " · ") + list("helps", e.Helps, "\n              ") + list("look at", e.Alarms, "\n              ")
	if notes != "" {
		out.WriteString("\n" + notes)
	}
	return out.String()
}

// capital makes the first letter of a sentence large.
func capital(s string) string {
	if s != "" && s[0] >= 'a' && s[0] <= 'z' {
		return string(s[0]-'a'+'A') + s[1:]
	}
	return s
}

func (r Row) mark() string {
	if r.Binding {
		return r.Step + " ◀"
	}
	return r.Step
}

func width(s string) int { return len([]rune(s)) }

// line formats and trims trailing spaces.
func line(format string, args ...any) string {
	s := fmt.Sprintf(format, args...)
	for len(s) > 0 && s[len(s)-1] == ' ' {
		s = s[:len(s)-1]
	}
	return s + "\n"
}

func list(name string, items []string, separator string) string {
	if len(items) == 0 {
		return ""
	}
	var out strings.Builder
	out.WriteString(fmt.Sprintf("  %-10s  ", name))
	for i, item := range items {
		if i > 0 {
			out.WriteString(separator)
		}
		out.WriteString(item)
	}
	return out.String() + "\n"
}
