package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// progress tells people how long work is coming along: a bar on a terminal, a line every 10 s elsewhere, or NDJSON.
type progress struct {
	w     io.Writer
	mode  string // bar, lines, json or none
	total int64  // of the units that update counts; 0: not known
	begun time.Time
	shown time.Time
	drawn bool
}

// progressModes are the values of --progress.
const progressModes = "auto, json or none"

func (c *cli) progress(mode string, total int64) (*progress, error) {
	p := &progress{w: c.stderr, total: total, begun: time.Now()}
	switch mode {
	case "json", "none":
		p.mode = mode
	case "auto":
		p.mode = "lines"
		if terminal(c.stderr) {
			p.mode = "bar"
		}
	default:
		return nil, usage("--progress %s: it must be %s", mode, progressModes)
	}
	p.shown = p.begun
	return p, nil
}

// every is how often something is shown.
func (p *progress) every() time.Duration {
	switch p.mode {
	case "bar":
		return 100 * time.Millisecond
	case "json":
		return time.Second
	}
	return 10 * time.Second
}

// update shows done of the total units and the jobs that were dealt with, when it is time.
func (p *progress) update(done, jobs int64) {
	now := time.Now()
	if p.mode == "none" || now.Sub(p.shown) < p.every() {
		return
	}
	p.shown = now
	elapsed := now.Sub(p.begun).Seconds()
	perSecond := float64(jobs) / elapsed
	share := 0.0
	left := time.Duration(-1)
	if p.total > 0 && done > 0 {
		share = min(1, float64(done)/float64(p.total))
		left = time.Duration(elapsed * (1 - share) / share * float64(time.Second))
	}
	switch p.mode {
	case "json":
		line := map[string]any{"jobs": jobs, "jobs_per_second": perSecond}
		if left >= 0 {
			line["share"], line["seconds_left"] = share, left.Seconds()
		}
		json.NewEncoder(p.w).Encode(line) //nolint:errcheck // nobody listens
	case "bar":
		p.clear()
		p.drawn = true
		if left >= 0 {
			const width = 24
			full := int(share * width)
			fmt.Fprintf(p.w, "[%s%s] %3.0f%%  %s  %s/s  about %s left", strings.Repeat("█", full), strings.Repeat("·", width-full),
				share*100, plural(jobs, "job"), rate(perSecond), span(left))
		} else {
			fmt.Fprintf(p.w, "%s  %s/s", plural(jobs, "job"), rate(perSecond))
		}
	default:
		line := fmt.Sprintf("%s, %s/s", plural(jobs, "job"), rate(perSecond))
		if left >= 0 {
			line += fmt.Sprintf(", %.0f%%, about %s left", share*100, span(left))
		}
		fmt.Fprintln(p.w, line)
	}
}

// clear makes room for another line.
func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}
