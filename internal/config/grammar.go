package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/headrace/headrace/scale"
)

// kind is the grammar of a value: how it is read, checked and described. A number never comes without its unit.
type kind struct {
	name string // what a message asks for: "a duration"
	like string // an example or two
	// parse reads a scalar; item reads one entry of a list. One of them may be missing: then only the other form
	// is accepted. The value of a list, and of a scalar where item is set, is []any.
	parse func(text string) (any, error)
	item  func(text string) (any, error)
	// hint says what was probably meant by a text that parse or item refused.
	hint func(text string) string
	// only is set where the value is text for people or programs: YAML numbers and the like must then be quoted.
	only bool
	// verbatim text may hold ${…} of others.
	verbatim bool
	hidden   bool     // never shown
	words    []string // all that is allowed
	pattern  string   // ECMA regular expression, for the schema; whole numbers and words have none
	whole    bool
}

var (
	errNot      = errors.New("not one") // nothing to add to "is not a duration"
	errUnit     = errors.New("the unit is missing")
	errTooLarge = errors.New("too large")
)

func text() *kind {
	return &kind{name: "text", only: true, parse: func(s string) (any, error) {
		if s == "" {
			return nil, errors.New("empty")
		}
		if strings.ContainsFunc(s, unicode.IsControl) {
			return nil, errors.New("it holds a line break or another control character")
		}
		return s, nil
	}}
}

func secret() *kind {
	k := text()
	k.hidden = true
	return k
}

// environment is the value of a variable: any scalar as it was written.
func environment() *kind {
	return &kind{name: "text", hidden: true, parse: func(s string) (any, error) { return s, nil }}
}

func word(words ...string) *kind {
	return &kind{name: oneOf(words), words: words,
		parse: func(s string) (any, error) {
			if !slices.Contains(words, s) {
				return nil, errNot
			}
			return s, nil
		},
		hint: func(s string) string { return didYouMean(s, words) },
	}
}

func oneOf(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	return strings.Join(quoted, " or ")
}

func whole() *kind {
	return &kind{name: "a whole number", like: "4", whole: true, parse: parseWhole}
}

func parseWhole(s string) (any, error) {
	if len(s) > 1 && s[0] == '0' {
		return nil, errors.New("a leading zero")
	}
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return nil, errNot
	}
	return int(n), nil
}

const durationPattern = `([0-9]+(ms|s|m|h|d))+`

func duration() *kind {
	return &kind{name: "a duration", like: "30s, 10m, 1h30m or 7d", pattern: durationPattern,
		parse: func(s string) (any, error) { return anyOf(parseDuration(s)) },
		hint: func(s string) string {
			if strings.Contains(s, ".") {
				return ""
			}
			return hintUnit("s")(s)
		}}
}

// anyOf turns a typed result into the one of a kind.
func anyOf[T any](v T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

// hintUnit offers the unit that is usual for a bare number.
func hintUnit(unit string) func(string) string {
	return func(s string) string {
		if _, err := strconv.ParseFloat(s, 64); err != nil || strings.ContainsAny(s, "eExXnN") {
			return ""
		}
		return fmt.Sprintf("a unit is needed: did you mean %q?", s+unit)
	}
}

var durationUnits = []struct {
	name string
	unit time.Duration
}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}

// parseDuration reads whole numbers with units from ms to d (24 h), each unit at most once, the largest first.
func parseDuration(s string) (time.Duration, error) {
	if s == "" {
		return 0, errors.New("empty")
	}
	var sum time.Duration
	next := 0
	for rest := s; rest != ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		if digits > 0 && strings.HasPrefix(rest[digits:], ".") {
			return 0, errors.New("fractions are written in a smaller unit, such as 1500ms")
		}
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil {
			return 0, errNot
		}
		rest = rest[digits:]
		letters := strings.IndexAny(rest, "0123456789")
		if letters < 0 {
			letters = len(rest)
		}
		name := rest[:letters]
		if name == "" {
			return 0, errUnit
		}
		rest = rest[letters:]
		i := next
		for i < len(durationUnits) && durationUnits[i].name != name {
			i++
		}
		if i == len(durationUnits) {
			return 0, fmt.Errorf("unit %q: the units are d, h, m, s and ms, the largest first", name)
		}
		next = i + 1
		unit := durationUnits[i].unit
		if n > int64(math.MaxInt64/unit) || sum > math.MaxInt64-time.Duration(n)*unit {
			return 0, errTooLarge
		}
		sum += time.Duration(n) * unit
	}
	return sum, nil
}

// formatDuration is the inverse of parseDuration, to the millisecond.
func formatDuration(d time.Duration) string {
	if d < time.Millisecond {
		return "0s"
	}
	var b strings.Builder
	for _, u := range durationUnits {
		if n := d / u.unit; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d %= u.unit
		}
	}
	return b.String()
}

// span is a range of durations.
type span struct{ from, to time.Duration }

func durations() *kind {
	return &kind{name: "a range of durations", like: "1s..10m", pattern: durationPattern + `\.\.` + durationPattern,
		parse: func(s string) (any, error) {
			from, to, ok := strings.Cut(s, "..")
			if !ok {
				return nil, errors.New("the two dots are missing")
			}
			a, err := parseDuration(from)
			if err != nil {
				return nil, err
			}
			b, err := parseDuration(to)
			if err != nil {
				return nil, err
			}
			if a > b || b == 0 {
				return nil, errors.New("the second must not be less than the first, nor zero")
			}
			return span{a, b}, nil
		}}
}

// number reads digits with an optional fraction and an optional k or M for thousands and millions.
func number(s string) (float64, error) {
	factor := 1.0
	switch {
	case strings.HasSuffix(s, "k"):
		factor, s = 1e3, strings.TrimSuffix(s, "k")
	case strings.HasSuffix(s, "M"):
		factor, s = 1e6, strings.TrimSuffix(s, "M")
	}
	if strings.Trim(s, "0123456789.") != "" {
		return 0, errNot
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, errNot
	}
	if n *= factor; n > 1e15 {
		return 0, errTooLarge
	}
	return n, nil
}

const numberPattern = `[0-9]+(\.[0-9]+)?[kM]?`

// perSecond is a rate with the text it was written as.
type perSecond struct {
	rate float64
	text string
}

func rate() *kind {
	return &kind{name: "a rate", like: "90k/min, 3000/min or 15/s", pattern: numberPattern + `/(s|min|h|d)`, hint: hintUnit("/min"),
		parse: func(s string) (any, error) {
			amount, per, ok := strings.Cut(s, "/")
			if !ok {
				return nil, errUnit
			}
			n, err := number(amount)
			if err != nil {
				return nil, err
			}
			var seconds float64
			switch per {
			case "s":
				seconds = 1
			case "min":
				seconds = 60
			case "h":
				seconds = 3600
			case "d":
				seconds = 86400
			default:
				return nil, fmt.Errorf("per %q: it must be s, min, h or d", per)
			}
			if n == 0 {
				return nil, errors.New("zero would stop everything")
			}
			return perSecond{n / seconds, s}, nil
		}}
}

func share() *kind {
	return &kind{name: "a share", like: "85%", pattern: `[0-9]+(\.[0-9]+)?%`, parse: func(s string) (any, error) { return anyOf(parseShare(s)) }, hint: hintUnit("%")}
}

// parseShare reads a percentage in (0, 100] as a number in (0, 1].
func parseShare(s string) (float64, error) {
	digits, ok := strings.CutSuffix(s, "%")
	if !ok {
		return 0, errUnit
	}
	if strings.HasSuffix(digits, "k") || strings.HasSuffix(digits, "M") {
		return 0, errNot
	}
	n, err := number(digits)
	if err != nil {
		return 0, err
	}
	if n <= 0 || n > 100 {
		return 0, errors.New("it must be more than 0% and at most 100%")
	}
	return n / 100, nil
}

func perJob() *kind {
	return &kind{name: "an amount a job", like: "62/job", pattern: numberPattern + `/job`, hint: hintUnit("/job"),
		parse: func(s string) (any, error) {
			amount, ok := strings.CutSuffix(s, "/job")
			if !ok {
				return nil, errUnit
			}
			n, err := number(amount)
			if err != nil {
				return nil, err
			}
			if n == 0 {
				return nil, errors.New("zero means that the downstream is not used: leave it out")
			}
			return n, nil
		}}
}

// orAuto also accepts the word auto, whose value is the zero of k's type.
func orAuto(k *kind, zero any) *kind {
	parse := k.parse
	with := *k
	with.name, with.words = k.name+` or "auto"`, []string{"auto"}
	with.parse = func(s string) (any, error) {
		if s == "auto" {
			return zero, nil
		}
		return parse(s)
	}
	if k.item != nil {
		with.parse = func(s string) (any, error) {
			if s == "auto" {
				return []any(nil), nil
			}
			return parse(s)
		}
	}
	return &with
}

// speeds reads one scaling speed or several; sign is "+" or "-".
func speeds(sign string) *kind {
	one := func(s string) (any, error) {
		amount, per, ok := strings.Cut(s, "/")
		if !ok {
			return nil, errors.New("the time is missing")
		}
		rest, ok := strings.CutPrefix(amount, sign)
		if !ok {
			return nil, fmt.Errorf("it must begin with %s", sign)
		}
		d, err := parseDuration(per)
		if err != nil {
			return nil, err
		}
		if d < time.Second {
			return nil, errors.New("at least 1s")
		}
		if percent, ok := strings.CutSuffix(rest, "%"); ok {
			n, err := number(percent)
			if err != nil || n <= 0 || n > 100_000 || strings.Trim(percent, "0123456789.") != "" {
				return nil, errors.New("not a percentage")
			}
			if sign == "-" && n > 100 {
				return nil, errors.New("at most 100%")
			}
			return scale.Rate{Percent: n, Per: d}, nil
		}
		n, err := parseWhole(rest)
		if err != nil || n == 0 {
			return nil, errors.New("not a number of replicas")
		}
		return scale.Rate{Replicas: n.(int), Per: d}, nil
	}
	like := map[string]string{"+": "+100%/15s or +4/15s", "-": "-20%/1m or -2/1m"}[sign]
	return &kind{name: "a speed", like: like, item: one,
		pattern: regexp.QuoteMeta(sign) + `[0-9]+(\.[0-9]+)?%?/` + durationPattern,
		parse: func(s string) (any, error) {
			r, err := one(s)
			return []any{r}, err
		}}
}

func statuses() *kind {
	return &kind{name: "HTTP statuses", like: "[429, 529]", whole: true, item: func(s string) (any, error) {
		n, err := parseWhole(s)
		if err != nil || n.(int) < 400 || n.(int) > 599 {
			return nil, errors.New("it must be from 400 to 599")
		}
		return n, nil
	}}
}

// argv is a program with its arguments: a list, or one text that is split as a shell splits it.
func argv() *kind {
	return &kind{name: "a program with its arguments", like: `["python3", "worker.py"] or "python3 worker.py"`, verbatim: true,
		parse: func(s string) (any, error) {
			words, err := splitWords(s)
			if err != nil {
				return nil, err
			}
			var list []any
			for _, w := range words {
				list = append(list, w)
			}
			return list, nil
		},
		item: func(s string) (any, error) { return s, nil }}
}

func httpURL() *kind {
	return &kind{name: "an address", like: "http://127.0.0.1:9000/job", only: true, pattern: `https?://.+`, parse: func(s string) (any, error) {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, errors.New("it must be http:// or https:// with a host")
		}
		return s, nil
	}}
}

func hostPort() *kind {
	return &kind{name: "host:port", like: "127.0.0.1:8480", only: true, pattern: `.*:[0-9]+`, parse: func(s string) (any, error) {
		_, port, err := net.SplitHostPort(s)
		if err != nil {
			return nil, errors.New("host or port is missing")
		}
		if n, err := parseWhole(port); err != nil || n.(int) > 65535 {
			return nil, errors.New("the port must be a number up to 65535")
		}
		return s, nil
	}}
}

// names is a rule for the keys that users choose.
type names struct {
	what string // "pool"
	re   *regexp.Regexp
	rule string
}

const namePattern = `[a-z0-9][a-z0-9-]{0,62}`

func named(what string) *names {
	return &names{what, regexp.MustCompile(`^` + namePattern + `$`), "up to 63 of a-z, 0-9 and -, not starting with -"}
}

func units() *names {
	return &names{"unit", regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`), "a-z, 0-9 and _, starting with a letter"}
}

func variables() *names {
	return &names{"variable", regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`), "letters, digits and _, not starting with a digit"}
}
