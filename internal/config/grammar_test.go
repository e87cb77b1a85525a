package config

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headrace/headrace/scale"
)

func TestGrammars(t *testing.T) {
	const bad = "refused"
	for _, tt := range []struct {
		kind *kind
		text string
		want any
	}{
		{duration(), "30s", 30 * time.Second},
		{duration(), "1h30m", 90 * time.Minute},
		{duration(), "7d", 168 * time.Hour},
		{duration(), "1d2h3m4s5ms", 26*time.Hour + 3*time.Minute + 4*time.Second + 5*time.Millisecond},
		{duration(), "0s", time.Duration(0)},
		{duration(), "", bad},
		{duration(), "5", bad},
		{duration(), "-5s", bad},
		{duration(), "+5s", bad},
		{duration(), "1.5h", bad},
		{duration(), "30m1h", bad},
		{duration(), "1m1m", bad},
		{duration(), "5 s", bad},
		{duration(), "5S", bad},
		{duration(), "5us", bad},
		{duration(), "106752d", bad},
		{duration(), "106751d24h", bad},
		{duration(), "99999999999999999999s", bad},
		{durations(), "1s..10m", span{time.Second, 10 * time.Minute}},
		{durations(), "0s..1s", span{0, time.Second}},
		{durations(), "10m..1s", bad},
		{durations(), "0s..0s", bad},
		{durations(), "1s-10m", bad},
		{durations(), "1s..", bad},
		{rate(), "90k/min", perSecond{1500, "90k/min"}},
		{rate(), "15/s", perSecond{15, "15/s"}},
		{rate(), "1.5M/h", perSecond{1.5e6 / 3600, "1.5M/h"}},
		{rate(), "86400/d", perSecond{1, "86400/d"}},
		{rate(), "0/s", bad},
		{rate(), "90k", bad},
		{rate(), "90K/min", bad},
		{rate(), "90k/m", bad},
		{rate(), "1e3/s", bad},
		{rate(), "inf/s", bad},
		{rate(), "1.2.3/s", bad},
		{rate(), "./s", bad},
		{rate(), "9999999999M/s", bad},
		{share(), "85%", 0.85},
		{share(), "100%", 1.0},
		{share(), "99.9%", 0.9990000000000001},
		{share(), "0%", bad},
		{share(), "101%", bad},
		{share(), "1k%", bad},
		{share(), "0.85", bad},
		{perJob(), "62/job", 62.0},
		{perJob(), "0.5/job", 0.5},
		{perJob(), "1k/job", 1000.0},
		{perJob(), "0/job", bad},
		{perJob(), "62", bad},
		{whole(), "0", 0},
		{whole(), "12", 12},
		{whole(), "012", bad},
		{whole(), "-1", bad},
		{whole(), "1.0", bad},
		{whole(), "4294967296", bad},
		{speeds("+"), "+100%/15s", []any{scale.Rate{Percent: 100, Per: 15 * time.Second}}},
		{speeds("+"), "+4/1m", []any{scale.Rate{Replicas: 4, Per: time.Minute}}},
		{speeds("-"), "-20%/1m", []any{scale.Rate{Percent: 20, Per: time.Minute}}},
		{speeds("-"), "-101%/1m", bad},
		{speeds("+"), "+0/1m", bad},
		{speeds("+"), "+0%/1m", bad},
		{speeds("+"), "+1k%/1m", bad},
		{speeds("+"), "+4", bad},
		{speeds("+"), "-4/1m", bad},
		{speeds("+"), "+4/0s", bad},
		{speeds("+"), "+4/1", bad},
		{orAuto(duration(), noDuration), "auto", time.Duration(0)},
		{orAuto(share(), 0.0), "auto", 0.0},
		{orAuto(speeds("+"), nil), "auto", []any(nil)},
		{orAuto(speeds("+"), nil), "+4/15s", []any{scale.Rate{Replicas: 4, Per: 15 * time.Second}}},
		{orAuto(share(), 0.0), "automatic", bad},
		{hostPort(), "127.0.0.1:8480", "127.0.0.1:8480"},
		{hostPort(), "[::1]:0", "[::1]:0"},
		{hostPort(), ":80", ":80"},
		{hostPort(), "localhost", bad},
		{hostPort(), "localhost:99999", bad},
		{hostPort(), "localhost:http", bad},
		{httpURL(), "https://example.org/x", "https://example.org/x"},
		{httpURL(), "http://", bad},
		{httpURL(), "ftp://example.org", bad},
		{argv(), `a 'b c' "d \"e\" \$f" g\ h ""`, []any{"a", "b c", `d "e" $f`, "g h", ""}},
		{argv(), "  spaced\tout\n", []any{"spaced", "out"}},
		{argv(), "a'b'\"c\"d", []any{"abcd"}},
		{argv(), `echo $HOME *`, []any{"echo", "$HOME", "*"}},
		{argv(), "", bad},
		{argv(), "''", bad},
		{argv(), "a 'b", bad},
		{argv(), `a "b`, bad},
		{argv(), `a \`, bad},
		{argv(), "a > b", bad},
		{argv(), "a; b", bad},
		{argv(), "a && b", bad},
	} {
		got, err := tt.kind.parse(tt.text)
		if err != nil {
			got = bad
		}
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(span{}, perSecond{})); diff != "" {
			t.Errorf("%s %q (-want +got):\n%s", tt.kind.name, tt.text, diff)
		}
	}
}

func TestDurationsSurviveFormatting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := time.Duration(rapid.Int64Range(0, math.MaxInt64/int64(time.Millisecond)).Draw(t, "ms")) * time.Millisecond
		got, err := parseDuration(formatDuration(want))
		if err != nil || got != want {
			t.Fatalf("got %v, %v; want %v from %q", got, err, want, formatDuration(want))
		}
	})
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"max", "max", 0}, {"mx", "max", 1}, {"mxa", "max", 1},
		{"kitten", "sitting", 3}, {"replcias", "replicas", 1}, {"ca", "abc", 3},
	} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q): got %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestExpand(t *testing.T) {
	look := lookups{
		env: func(name string) (string, bool) {
			v, ok := map[string]string{"A": "one", "EMPTY": "", "NEST": "${env:A}", "YAML": "x\ny: [z"}[name]
			return v, ok
		},
		file: func(path string) (string, error) { return "<" + path + ">", nil },
	}
	for _, tt := range []struct {
		in, want       string
		filled, secret bool
		err            string
	}{
		{in: "plain", want: "plain"},
		{in: "${env:A}", want: "one", filled: true, secret: true},
		{in: "a${env:A}b${env:A}", want: "aonebone", filled: true, secret: true},
		{in: "${env:B:-two}", want: "two", filled: true},
		{in: "${env:B:-}", want: "", filled: true},
		{in: "${env:EMPTY:-two}", want: "two", filled: true},
		{in: "${env:EMPTY}", want: "", filled: true, secret: true},
		{in: "${env:NEST}", want: "${env:A}", filled: true, secret: true},
		{in: "${env:YAML}", want: "x\ny: [z", filled: true, secret: true},
		{in: "${file:/x:y}", want: "</x:y>", filled: true, secret: true},
		{in: "$${env:A}", want: "${env:A}"},
		{in: "$$${env:A}", want: "$${env:A}"},
		{in: "${HOME} $HOME $", want: "${HOME} $HOME $"},
		{in: "${env:B}", err: "environment variable B is not set"},
		{in: "${env:}", err: "${env:} names nothing"},
		{in: "${file:}", err: "${file:} names nothing"},
		{in: "${env:A", err: "${env: is never closed"},
	} {
		got, filled, secret, err := look.expand(tt.in)
		if err != nil {
			if err.Error() != tt.err {
				t.Errorf("%q: got error %q, want %q", tt.in, err, tt.err)
			}
			continue
		}
		if tt.err != "" || got != tt.want || filled != tt.filled || secret != tt.secret {
			t.Errorf("%q: got %q %v %v, want %q %v %v %s", tt.in, got, filled, secret, tt.want, tt.filled, tt.secret, tt.err)
		}
	}
}
