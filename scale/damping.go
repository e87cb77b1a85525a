package scale

import (
	"math"
	"slices"
	"time"
)

// holds are the times that the steady and the drain term keep a pool up after they fall.
func (in inputs) holds(p Policy) (steady, drain time.Duration) {
	steady = p.Damping.HoldSteady
	if steady <= 0 {
		steady = clamp(time.Duration(min(in.d, 1e6)*float64(time.Second)), minHoldSteady, maxHoldSteady)
	}
	drain = p.Damping.HoldDrain
	if drain <= 0 {
		drain = min(defaultHoldDrain, steady)
	}
	return steady, drain
}

// maxPeaks bounds a window's memory. Past it neighbours are merged into the larger and later of them, which only holds longer.
const maxPeaks = 64

// push adds a need to a window of recent needs, of which only those matter that no later one exceeds.
func push(peaks []Peak, now time.Time, replicas int, window time.Duration) []Peak {
	out := make([]Peak, 0, len(peaks)+1)
	for _, p := range peaks {
		if p.At.After(now) { // the clock was set back
			p.At = now
		}
		if p.Replicas > replicas && now.Sub(p.At) < window {
			out = append(out, p)
		}
	}
	for len(out) >= maxPeaks {
		merged := out[:0]
		for i := 0; i < len(out); i += 2 {
			p := out[i]
			if i+1 < len(out) {
				p.At = out[i+1].At
			}
			merged = append(merged, p)
		}
		out = merged
	}
	if replicas > 0 {
		out = append(out, Peak{now, replicas})
	}
	return out
}

// highest is the largest need of a window, the first; zero when it is empty.
func highest(peaks []Peak) Peak {
	if len(peaks) == 0 {
		return Peak{}
	}
	return peaks[0]
}

// below returns when the window stops asking for n or more replicas, at the earliest.
func below(peaks []Peak, n int, window time.Duration) time.Time {
	var at time.Time
	for _, p := range peaks {
		if p.Replicas >= n {
			at = p.At.Add(window)
		}
	}
	return at
}

// sizeAt is the size the pool had at a time, undoing the moves made since.
func sizeAt(moves []Move, current int, at time.Time) int {
	for i := len(moves) - 1; i >= 0 && moves[i].At.After(at); i-- {
		current = moves[i].From
	}
	return current
}

// highestSince is the largest size since a time, the present one included.
func highestSince(moves []Move, current int, at time.Time) int {
	top := current
	for i := len(moves) - 1; i >= 0 && moves[i].At.After(at); i-- {
		top = max(top, moves[i].From, moves[i].To)
	}
	return top
}

// defaultDown is a fifth of the replicas within twice the time it takes to correct a mistake, at most a minute: where workers
// start in seconds there is no point in paying for a slow descent.
func (in inputs) defaultDown() Rate {
	per := clamp(2*in.d1, 10, 60)
	return Rate{Percent: 20, Per: time.Duration(math.Round(per)) * time.Second}
}

// lowest is the smallest size the down rates allow now. One replica may always go within a rate's time.
func (in inputs) lowest(p Policy, s State, now time.Time, current int) (int, Rate) {
	rates := p.Damping.Down
	if len(rates) == 0 {
		rates = []Rate{in.defaultDown()}
	}
	limit, by := 0, Rate{}
	for _, r := range rates {
		top := highestSince(s.Moves, current, now.Add(-r.Per))
		step := r.Replicas
		if r.Percent > 0 {
			step = floor(float64(top) * r.Percent / 100)
		}
		if at := max(top-max(step, 1), 0); at > limit {
			limit, by = at, r
		}
	}
	return min(limit, current), by
}

// maxMoves bounds the memory of moves; there are that many cycles in a window that is rate limited in practice.
const maxMoves = 256

// highestAllowed is the largest size the up rates allow now, and the rate that does.
func highestAllowed(p Policy, s State, now time.Time, current int, late bool) (int, string) {
	if len(p.Damping.Up) == 0 {
		if late {
			return maxReplicas, ""
		}
		return min(4*current+20, maxReplicas), "×4 + 20 a cycle"
	}
	limit, by := 0, ""
	for _, r := range p.Damping.Up {
		start := min(sizeAt(s.Moves, current, now.Add(-r.Per)), current)
		to := start + clamp(r.Replicas, 0, maxReplicas)
		if r.Percent > 0 {
			if start == 0 {
				return maxReplicas, "" // a percentage of nothing bounds nothing
			}
			to = max(to, start+max(1, ceil(float64(start)*min(r.Percent, 1e9)/100)))
		}
		if to > limit {
			limit, by = to, r.text("+")
		}
	}
	return clamp(limit, current, maxReplicas), by
}

// text prints a rate as it is declared: -20%/1m, +4/15s.
func (r Rate) text(sign string) string {
	amount := count(float64(r.Replicas))
	if r.Percent > 0 {
		amount = num(r.Percent) + "%"
	}
	return sign + amount + "/" + span(r.Per.Seconds())
}

// remember keeps a move for as long as a rate can ask for it.
func remember(p Policy, moves []Move, m Move) []Move {
	keep := time.Minute
	for _, rs := range [][]Rate{p.Damping.Up, p.Damping.Down} {
		for _, r := range rs {
			keep = max(keep, r.Per)
		}
	}
	out := moves
	if n := len(out); n > 0 && out[n-1].At.After(m.At) { // the clock was set back
		out = slices.Clone(out)
		for i := range out {
			if out[i].At.After(m.At) {
				out[i].At = m.At
			}
		}
	}
	for len(out) > 0 && m.At.Sub(out[0].At) > keep {
		out = out[1:]
	}
	if m.From != m.To {
		out = append(slices.Clip(out), m) // the state before keeps its own
	}
	if len(out) > maxMoves {
		// The oldest moves of one direction become one: what matters is where the pool came from.
		out = append([]Move{{At: out[len(out)-maxMoves].At, From: out[0].From, To: out[len(out)-maxMoves].To}}, out[len(out)-maxMoves+1:]...)
	}
	return out
}

// deadBandUp reports whether a larger size is too near to be worth a move: at most 5 %, of five replicas or more, with nothing waiting.
func deadBandUp(in inputs, n Need, current, to int) bool {
	return current >= 5 && to > current && float64(to) <= 1.05*float64(current)+1e-9 && in.q == 0 && !n.Late
}

// deadBandDown reports whether a smaller size is too near to be worth a move: at most 10 %.
func deadBandDown(current, to int) bool {
	return to < current && float64(to) >= 0.9*float64(current)-1e-9
}

// trimAfter is how long an excess inside the dead band is tolerated.
const trimAfter = 15 * time.Minute

// longRunning is the fewest replicas that keep jobs which would be interrupted: those that hold one, else enough slots for them.
func (in inputs) longRunning(o Observation) int {
	share := in.outlive()
	if share == 0 {
		return 0
	}
	n := in.b / in.c
	if in.known(o.At, o.Replicas.Occupied) {
		n = max(n, sane(o.Replicas.Occupied.Value))
	}
	return ceil(math.Min(n, maxReplicas) * share)
}
