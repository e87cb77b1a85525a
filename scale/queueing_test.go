package scale

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s = %v, want %v ± %v", what, got, want, tolerance)
	}
}

// TestWorkedNumbers are the figures that the documentation of sizing quotes.
func TestWorkedNumbers(t *testing.T) {
	slots, workers := Slots(Plan{Arrival: 200, ServiceTime: 0.7, Backlog: 300_000, Drain: 600, Utilisation: 1, Concurrency: 20})
	if slots != 490 || workers != 25 {
		t.Errorf("Slots(200/s, 0.7 s, 300k in 10 min) = %d slots, %d workers, want 490, 25", slots, workers)
	}
	slots, workers = Slots(Plan{Arrival: 12, ServiceTime: 0.8, Backlog: 9000, Drain: 300, Utilisation: 0.7, Concurrency: 4})
	if slots != 48 || workers != 12 {
		t.Errorf("Slots(12/s, 0.8 s, 9k in 5 min, 70%%) = %d slots, %d workers, want 48, 12", slots, workers)
	}

	near(t, "M/M/1 wait of 20/s × 40 ms", WaitMean(1, 0.8, 0.040, 1, 1), 0.160, 1e-12)
	near(t, "Erlang C of 4 servers at 3.2", ErlangC(4, 3.2), 0.5964, 5e-5)
	near(t, "M/M/4 wait of 80/s × 40 ms", WaitMean(4, 3.2, 0.040, 1, 1), 0.0298, 5e-5)
	near(t, "M/M/4 queue", QueueLength(4, 3.2), 2.4, 0.05)

	// Five jobs waiting a worker of 25/s are 200 ms of wait.
	near(t, "jobs waiting a worker", 25*0.200, 5, 1e-12)
	// 80 → 200 jobs/s on four workers of 25/s for the 227 s until new ones start: 22,700 waiting. Eight hold them level, twelve
	// clear them in as long again.
	in := inputs{lambda: 200, s: 1.0 / 25, c: 1, q: (200 - 4*25) * 227}
	near(t, "waiting after the cold start", in.q, 22_700, 1e-9)
	near(t, "8 workers clear in (0: never)", in.clears(8), 0, 0)
	near(t, "12 workers clear in", in.clears(12), 227, 1e-9)

	// 20 M tokens/min at 800 a job are 25,000 jobs/min, whatever the pool: jobs/s times seconds over slots.
	near(t, "ceiling in workers of 1 slot and 6 s", RateCeiling(20e6/60, 800, 6, 1), 2500, 1e-6)
	near(t, "and of 10 slots", RateCeiling(20e6/60, 800, 6, 10), 250, 1e-6)
}

// published are values from the sources of the larger table, for when that is not at hand.
const published = `model,metric,lambda,mu,c,offered_load,ca2,cs2,t,alpha,published,computed,tol,status
M/M/c,p_wait,0.0555555555556,0.00555555555556,14,10,,,,,0.1741319335950498,,1e-12,match
M/M/c,lq,0.016393442623,0.00166666666667,10,9.83606557377,,,,,56.454792,,1e-6,match
M/M/c,wq,0.00133333333333,0.00166666666667,1,0.8,,,,,2400,,1e-5,match
M/M/c/c,p_block,,,10,1,,,,,1.013777e-07,,6.1e-14,match
M/G/1,wq,0.8,1,1,0.8,1,0.27,,,2.54,,1e-9,match
M/M/c,min_servers_p_wait_le_alpha,,,,1,,,,0.5,2,,0,match
Halfin-Whitt,p_wait_limit,,,,,,,,1,,0.223361274798,,derived
`

// TestQueueingVectors compares the formulas with published values: a table beside the checkout (or where HEADRACE_TRACES
// points), else the few above. Every row that is not marked as wrong in its source must be one that the formulas compute.
func TestQueueingVectors(t *testing.T) {
	path := filepath.Join("..", "..", "shared", "traces", "queueing_vectors.csv")
	if dir := os.Getenv("HEADRACE_TRACES"); dir != "" {
		path = filepath.Join(dir, "queueing_vectors.csv")
	}
	rows, source := readVectors(t, path)
	at := map[string]int{}
	for i, name := range rows[0] {
		at[name] = i
	}
	checked, rejected := 0, 0
	for _, row := range rows[1:] {
		v := vector{row: row, at: at}
		if v.text("status") == "rejected" {
			rejected++
			continue
		}
		want, tolerance := v.num("published"), v.num("tol")
		if math.IsNaN(want) { // derived: a figure computed elsewhere, with twelve digits
			want, tolerance = v.num("computed"), 2e-12
		}
		if v.text("model") == "M/D/c exact" { // Allen-Cunneen is an approximation here, known to be within 6 %
			tolerance = 0.06 * want
		}
		got, ok := v.compute()
		if !ok {
			t.Errorf("row %q: no formula for %s %s", row[0], v.text("model"), v.text("metric"))
			continue
		}
		near(t, "row "+row[0]+", "+v.text("model")+" "+v.text("metric"), got, want, tolerance+1e-11*math.Abs(want))
		checked++
	}
	if checked+rejected != len(rows)-1 || checked == 0 {
		t.Errorf("checked %d and rejected %d of %d rows of %s", checked, rejected, len(rows)-1, source)
	}
	t.Logf("%d rows of %s agree, %d are marked wrong in their source", checked, source, rejected)
}

type vector struct {
	row []string
	at  map[string]int
}

func (v vector) text(column string) string {
	if i, ok := v.at[column]; ok {
		return v.row[i]
	}
	return ""
}

func (v vector) num(column string) float64 {
	x, err := strconv.ParseFloat(v.text(column), 64)
	if err != nil {
		return math.NaN()
	}
	return x
}

// or is the value of a column, or what it means when it is empty.
func (v vector) or(column string, otherwise float64) float64 {
	if x := v.num(column); !math.IsNaN(x) {
		return x
	}
	return otherwise
}

func (v vector) compute() (float64, bool) {
	lambda, mu, a := v.num("lambda"), v.or("mu", 1), v.num("offered_load")
	if a == a && !math.IsNaN(lambda) {
		a = lambda / mu // the column is rounded to twelve digits
	}
	m, s := int(v.or("c", 0)), 1/mu
	ca2, cs2 := v.or("ca2", 1), v.or("cs2", 1)
	unit := 1.0
	if strings.HasPrefix(v.text("note"), "minutes") {
		unit = 60 // rates are per hour
	}
	least := func(ok func(m int) bool) float64 {
		for m := 1; ; m++ {
			if ok(m) {
				return float64(m)
			}
		}
	}
	switch v.text("metric") {
	case "p_wait":
		return ErlangC(m, a), true
	case "p_block":
		return ErlangB(m, a), true
	case "p_wait_limit":
		return HalfinWhitt(v.num("alpha")), true
	case "service_level_within_t":
		return 1 - WaitTail(m, a, s, 1, 1, v.num("t")), true
	case "p_delayed_call_waits_over_one_service_time":
		return WaitTail(m, a, 1, 1, 1, 1) / ErlangC(m, a), true
	case "p_delayed_waits_over_0.6_service":
		return WaitTail(m, a, 1, 1, 1, 0.6) / ErlangC(m, a), true
	case "mean_wait_of_delayed_over_service":
		return WaitMean(m, a, 1, 1, 1) / ErlangC(m, a), true
	case "occupancy":
		return a / float64(m), true
	case "wq", "wq_mean_seconds":
		return WaitMean(m, a, s, ca2, cs2) * unit, true
	case "wq_over_service":
		return WaitMean(m, a, 1, 1, 1), true
	case "w":
		return (WaitMean(m, a, s, ca2, cs2) + s) * unit, true
	case "w_minutes":
		return (WaitMean(m, a, s, 1, 1) + s) * 60, true
	case "lq":
		if ca2 == 1 && cs2 == 1 {
			return QueueLength(m, a), true
		}
		return WaitMean(m, a, s, ca2, cs2) * lambda, true // Little's law
	case "l":
		return WaitMean(m, a, s, ca2, cs2)*lambda + a, true
	case "p0":
		return Empty(m, a), true
	case "p_at_least_6_in_system":
		return math.Pow(a, 6), true
	case "min_servers_for_service_level_0.8_t20_maxocc_0.85":
		return math.Max(float64(SlotsForWait(a, s, 1, 1, 20, 0.2)), math.Ceil(a/0.85)), true
	case "min_servers_p_wait_le_alpha":
		return float64(SlotsForWait(a, 1, 1, 1, 0, v.num("alpha"))), true
	case "min_servers_block_le_2pct":
		return least(func(m int) bool { return ErlangB(m, a) <= v.num("alpha") }), true
	case "u/(1-u)": // mean number waiting per mean number in service, M/M/1
		return QueueLength(1, a) / a, true
	case "queue reduction 95%->85%":
		return 1 - QueueLength(1, 0.85)/0.85/(QueueLength(1, 0.95)/0.95), true
	}
	if strings.HasPrefix(v.text("metric"), "ceil(R+k") {
		// The square-root rule for P(wait) ≤ α: k with HalfinWhitt(k) = α.
		lo, hi := 0.0, 10.0
		for range 200 {
			if mid := (lo + hi) / 2; HalfinWhitt(mid) > v.num("alpha") {
				lo = mid
			} else {
				hi = mid
			}
		}
		return math.Ceil(a + hi*math.Sqrt(a)), true
	}
	return 0, false
}

func readVectors(t *testing.T, path string) ([][]string, string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		rows, err := csv.NewReader(strings.NewReader(published)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		return rows, "the built-in table"
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
	return rows, "the published table"
}
