package main

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// unknown stands for a number that is not known. It is never a zero.
const unknown = "–"

// span writes a duration as people say it: 0.4s, 25s, 11m42s, 38m, 1h04m, 3d2h.
func span(d time.Duration) string {
	s := d.Seconds()
	switch n := int64(math.Round(s)); {
	case s < 0.05:
		return "0s"
	case s < 9.95:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", s), ".0") + "s"
	case n < 60:
		return fmt.Sprintf("%ds", n)
	case n < 3600 && n%60 == 0:
		return fmt.Sprintf("%dm", n/60)
	case n < 3600:
		return fmt.Sprintf("%dm%02ds", n/60, n%60)
	case n < 86400 && n%3600 < 60:
		return fmt.Sprintf("%dh", n/3600)
	case n < 86400:
		return fmt.Sprintf("%dh%02dm", n/3600, n%3600/60)
	case n%86400 < 3600:
		return fmt.Sprintf("%dd", n/86400)
	default:
		return fmt.Sprintf("%dd%dh", n/86400, n%86400/3600)
	}
}

// spanOf writes seconds; nil is unknown.
func spanOf(seconds *float64) string {
	if seconds == nil {
		return unknown
	}
	return span(time.Duration(*seconds * float64(time.Second)))
}

// amount writes a number of things: 412, 16 400.
func amount(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

// amountOf writes a number of things; nil is unknown.
func amountOf(n *float64) string {
	if n == nil {
		return unknown
	}
	return amount(int64(math.Round(*n)))
}

// rate writes jobs per second: 0.4, 16.4, 212.
func rate(perSecond float64) string {
	if perSecond >= 99.95 {
		return amount(int64(math.Round(perSecond)))
	}
	return fmt.Sprintf("%.1f", perSecond)
}

func rateOf(perSecond *float64) string {
	if perSecond == nil {
		return unknown
	}
	return rate(*perSecond)
}

// share writes a fraction: 98%, 0.2%, 0%.
func share(x float64) string {
	if x > 0 && x < 0.0995 {
		return fmt.Sprintf("%.1f%%", x*100)
	}
	return fmt.Sprintf("%.0f%%", x*100)
}

// quantity writes a limit as providers publish them: 60, 3k, 90k, 1.5M.
func quantity(x float64) string {
	unit := ""
	switch {
	case x >= 999.5e3:
		x, unit = x/1e6, "M"
	case x >= 9995:
		x, unit = x/1e3, "k"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0") + unit
}

// moment writes an instant in local time, with its date when it is not today.
func moment(t time.Time) string {
	t = t.Local()
	if y, m, d := time.Now().Date(); t.Year() == y && t.Month() == m && t.Day() == d {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04:05")
}

func momentOf(t *time.Time) string {
	if t == nil {
		return ""
	}
	return moment(*t)
}

// words writes an identifier of the API for people: at_risk is at risk.
func words(s string) string { return strings.ReplaceAll(s, "_", " ") }

func plural(n int64, word string) string {
	if n == 1 {
		return amount(n) + " " + word
	}
	return amount(n) + " " + word + "s"
}
