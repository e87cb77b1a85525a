package scale

import (
	"fmt"
	"math"
)

// num prints a quantity with about three digits: 0.49, 16.4, 412, 90k, 1.25M.
func num(x float64) string {
	switch abs := math.Abs(x); {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return "unknown"
	case abs == 0:
		return "0"
	case abs < 0.001:
		return "under 0.001"
	case abs < 9995:
		return digits(x)
	case abs < 999.5e3:
		return digits(x/1e3) + "k"
	case abs < 999.5e6:
		return digits(x/1e6) + "M"
	case abs < 999.5e9:
		return digits(x/1e9) + "G"
	}
	return fmt.Sprintf("%.3g", x)
}

// digits prints three significant digits without an exponent and without trailing zeros, for 0.001 ≤ |x| < 9995.
func digits(x float64) string {
	abs, places := math.Abs(x), 0
	switch {
	case abs < 0.0995:
		places = 3
	case abs < 9.995:
		places = 2
	case abs < 99.95:
		places = 1
	}
	sign := ""
	if x < 0 {
		sign = "-"
	}
	scaled := int(math.Round(abs * pow10[places]))
	if places == 0 {
		return sign + whole10(scaled)
	}
	unit := int(pow10[places])
	left, right := whole10(scaled/unit), scaled%unit
	if right == 0 {
		return sign + left
	}
	tail := whole10(unit + right)[1:] // with its leading zeros
	for tail[len(tail)-1] == '0' {
		tail = tail[:len(tail)-1]
	}
	return sign + left + "." + tail
}

var pow10 = [...]float64{1, 10, 100, 1000}

// whole10 prints n ≥ 0. Formatting is most of the cost of a decision, so the common cases do without package fmt.
func whole10(n int) string {
	var buf [20]byte
	i := len(buf)
	for {
		i--
		buf[i] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return string(buf[i:])
		}
	}
}

// count prints a number of things, exactly while that is short: 412, 16 400, 2.1M.
func count(x float64) string {
	switch {
	case !usable(x) || x >= 1e6:
		return num(x)
	case x >= 1000:
		return fmt.Sprintf("%d %03d", int(x)/1000, int(x)%1000)
	}
	return whole10(int(x))
}

// span prints seconds as people say them: 40ms, 0.4s, 25s, 11m42s, 38m, 1h04m, 3d2h.
func span(seconds float64) string {
	switch {
	case !usable(seconds) || seconds > 1e9:
		return "for ever"
	case seconds == 0:
		return "0s"
	case seconds < 0.0995:
		return digits(max(seconds*1e3, 0.001)) + "ms"
	case seconds < 9.95:
		return digits(math.Round(seconds*10)/10) + "s"
	}
	n := int(math.Round(seconds))
	switch {
	case n < 60:
		return whole10(n) + "s"
	case n < 20*60 && n%60 != 0:
		return whole10(n/60) + "m" + whole10(100 + n%60)[1:] + "s"
	case n < 3600:
		return whole10(int(math.Round(seconds/60))) + "m"
	case n < 86400:
		if n%3600/60 == 0 {
			return fmt.Sprintf("%dh", n/3600)
		}
		return fmt.Sprintf("%dh%02dm", n/3600, n%3600/60)
	case n%86400/3600 == 0:
		return fmt.Sprintf("%dd", n/86400)
	}
	return fmt.Sprintf("%dd%dh", n/86400, n%86400/3600)
}

// pace prints a rate limit by the minute, as providers publish them: 90k tokens/min.
func pace(perSecond float64, unit string) string { return num(perSecond*60) + " " + unit + "/min" }

// share prints a fraction: 98%, 0.2%, 0%.
func share(x float64) string {
	if x > 0 && x < 0.0995 {
		return digits(max(x*100, 0.001)) + "%"
	}
	return num(math.Round(x*100)) + "%"
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
