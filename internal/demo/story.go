package demo

import (
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Task is what a job of the demo asks of the provider.
type Task struct {
	// Number tells the jobs of a run apart, so that every result can be matched with what was asked.
	Number int `json:"number"`
	// Tokens is what the call costs, Millis how long the provider thinks about it.
	Tokens int `json:"tokens"`
	Millis int `json:"millis"`
	// Poison kills whoever works on it.
	Poison bool `json:"poison,omitempty"`
}

// Arrival is a job and when it arrives, counted from the start of the story.
type Arrival struct {
	At   time.Duration
	Task Task
}

// Story is what happens in a demo.
type Story struct {
	Title    string
	Arrivals []Arrival // in order
	Duration time.Duration
	// TokensPerMinute is the provider's limit, TokensPerJob what a job costs on average.
	TokensPerMinute int
	TokensPerJob    int
	// ServiceTime is the mean time of a call.
	ServiceTime time.Duration
	// Launch: the story promises a surge past the provider's limit, and a poison job.
	Launch bool
}

// The launch day: a quiet base, a surge of eight times as much that the provider's limit cannot take, and quiet again.
const (
	baseRate   = 1.5 // jobs/s
	surgeTimes = 8
	surgeFrom  = 0.15 // shares of the duration
	surgeTo    = 0.45
	poisonAt   = 0.08
	launchRate = 8.0 // jobs/s that the provider takes
	meanTokens = 60
)

// LaunchDay returns the built-in story, scaled to a duration. Equal seeds give equal stories.
func LaunchDay(duration time.Duration, seed uint64) Story {
	r := rand.New(rand.NewPCG(seed, 0))
	s := Story{
		Title: "launch day", Duration: duration, TokensPerMinute: int(launchRate * meanTokens * 60), TokensPerJob: meanTokens,
		ServiceTime: time.Second, Launch: true,
	}
	total := duration.Seconds()
	for t := 0.0; ; {
		rate := baseRate
		if at := t / total; at >= surgeFrom && at < surgeTo {
			rate *= surgeTimes
		}
		t += r.ExpFloat64() / rate
		if t >= total {
			break
		}
		s.add(t, Task{Tokens: 40 + r.IntN(41), Millis: 600 + r.IntN(801)})
	}
	s.add(poisonAt*total, Task{Poison: true})
	s.sort()
	return s
}

func (s *Story) add(seconds float64, t Task) {
	s.Arrivals = append(s.Arrivals, Arrival{At: time.Duration(seconds * float64(time.Second)), Task: t})
}

func (s *Story) sort() {
	slices.SortStableFunc(s.Arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	for i := range s.Arrivals {
		s.Arrivals[i].Task.Number = i
	}
}

// FromTrace plays the first duration·speed of a trace, speed times as fast. The file is CSV, gzipped or not, with a header:
// arrival_seconds with service_seconds and work_units where known (a row a job), or interval_start_seconds with arrivals (a row an interval).
func FromTrace(path string, speed float64, duration time.Duration, seed uint64) (Story, error) {
	s := Story{Title: fmt.Sprintf("%s at %gx", path, speed), Duration: duration}
	rows, err := readTrace(path)
	if err != nil {
		return s, fmt.Errorf("read trace %s: %w", path, err)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	until := duration.Seconds() * speed
	var tokens, millis float64
	for i, row := range rows {
		if row.at >= until {
			break
		}
		for k := range min(row.count, maxArrivals+1-len(s.Arrivals)) {
			at := row.at
			if row.count > 1 || row.spread {
				// Counts say nothing about the inside of their interval.
				step := 60.0
				if i+1 < len(rows) {
					step = rows[i+1].at - row.at
				}
				at += (float64(k) + r.Float64()) / float64(row.count) * step
			}
			t := Task{Tokens: max(1, int(row.units)), Millis: max(1, int(1000*row.seconds/speed))}
			if at < until {
				s.add(at/speed, t)
				tokens += float64(t.Tokens)
				millis += float64(t.Millis)
			}
		}
	}
	if len(s.Arrivals) > maxArrivals {
		return s, fmt.Errorf("play trace %s: more than %d jobs in %v: play it slower, or for less long", path, maxArrivals, duration)
	}
	if len(s.Arrivals) == 0 {
		return s, fmt.Errorf("read trace %s: nothing arrives in its first %.0f seconds", path, until)
	}
	s.sort()
	n := float64(len(s.Arrivals))
	s.TokensPerJob = max(1, int(tokens/n))
	s.ServiceTime = time.Duration(millis / n * float64(time.Millisecond))
	// A quarter more than the trace's mean: its bursts have to wait, its end does not.
	s.TokensPerMinute = int(1.25 * tokens / duration.Minutes())
	return s, nil
}

// traceRow is some jobs that arrive from a time on.
type traceRow struct {
	at, seconds, units float64
	count              int
	spread             bool // over the time until the next row
}

func readTrace(path string) ([]traceRow, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(f)
		if err != nil {
			return nil, err
		}
		in = z
	}
	return parseTrace(in)
}

// maxArrivals is the most jobs of a story: more is a load test.
const maxArrivals = 100_000

// maxTrace is the most rows that are read.
const maxTrace = 1_000_000

func parseTrace(in io.Reader) ([]traceRow, error) {
	c := csv.NewReader(in)
	c.ReuseRecord = true
	head, err := c.Read()
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for i, name := range head {
		at[strings.TrimSpace(name)] = i
	}
	_, jobs := at["arrival_seconds"]
	_, rates := at["interval_start_seconds"]
	if _, counts := at["arrivals"]; !jobs && !(rates && counts) {
		return nil, fmt.Errorf("its columns are %v; want arrival_seconds, or interval_start_seconds and arrivals", head)
	}
	var rows []traceRow
	for len(rows) < maxTrace {
		rec, err := c.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		number := func(name string, otherwise float64) float64 {
			i, ok := at[name]
			if !ok || rec[i] == "" {
				return otherwise
			}
			v, perr := strconv.ParseFloat(rec[i], 64)
			if perr != nil || !(v >= 0 && v < 1e12) {
				line, _ := c.FieldPos(i)
				err = cmp.Or(err, fmt.Errorf("line %d: %s is %q, want a number that is not negative", line, name, rec[i]))
			}
			return v
		}
		row := traceRow{count: 1, seconds: number("service_seconds", 1), units: number("work_units", meanTokens)}
		if jobs {
			row.at = number("arrival_seconds", 0)
		} else {
			row.at, row.count, row.spread = number("interval_start_seconds", 0), int(min(number("arrivals", 0), 1e6)), true
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	if !slices.IsSortedFunc(rows, func(a, b traceRow) int { return cmp.Compare(a.at, b.at) }) {
		return nil, errors.New("its times are not ascending")
	}
	return rows, nil
}
