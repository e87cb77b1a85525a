package estimate

import (
	"math"
	"slices"
	"time"

	"github.com/headrace/headrace/scale"
)

// State is the memory between samples: plain data that survives JSON, of bounded size. The zero value knows nothing.
type State struct {
	Epoch string `json:"epoch,omitempty"`

	Arrivals    Counter `json:"arrivals"`
	Completions Counter `json:"completions"`
	ArrivalFast Average `json:"arrival_fast"`
	ArrivalSlow Average `json:"arrival_slow"`
	Completion  Average `json:"completion"`
	// DepartedAt is since when the fast average departs from the slow one, and Rising in which direction; zero: it does not.
	DepartedAt time.Time `json:"departed_at,omitzero"`
	Rising     bool      `json:"rising,omitempty"`
	// Top and TopSlow are the largest part that one sample has in ArrivalFast and in ArrivalSlow: a mean, and the weight
	// it was observed with.
	Top     Average `json:"top"`
	TopSlow Average `json:"top_slow"`

	Attempts    Counter `json:"attempts"`
	BusySeconds Counter `json:"busy_seconds"`
	BusySquares Counter `json:"busy_squares"`
	Service     Sums    `json:"service"`        // remembers ten minutes
	ServiceFast Sums    `json:"service_fast"`   // remembers one
	Learned     float64 `json:"learned"`        // finished runs ever counted
	FrozenS     float64 `json:"frozen_service"` // S when it was frozen; 0: it is not
	// FrozenAt is the last time a sample said that S is to be frozen.
	FrozenAt time.Time `json:"frozen_at,omitzero"`

	Starts   []float64 `json:"starts,omitempty"` // the last 20 cold starts in seconds, oldest first
	Rejected int       `json:"rejected,omitempty"`
}

// Counter is the last reading of a running total.
type Counter struct {
	Value float64   `json:"value"`
	At    time.Time `json:"at,omitzero"`
}

// Average is an exponentially weighted rate. Weight is how much of it was observed, 0 to 1.
type Average struct {
	Mean   float64 `json:"mean"`
	Weight float64 `json:"weight"`
}

// Sums are decaying sums over finished runs: their number, busy seconds and busy seconds squared.
type Sums struct {
	Runs    float64 `json:"runs"`
	Seconds float64 `json:"seconds"`
	Squares float64 `json:"squares"`
}

const (
	maxFast     = 30 * time.Second
	slowPerFast = 10
	fastSpan    = 2.0   // short time constants after which an average is believed without leaning to zero
	serviceSlow = 600.0 // seconds
	serviceFast = 60.0
	priorRuns   = 10.0 // a declared service time counts as many runs, fading until
	learnedRuns = 30.0 // so many were measured
	keptStarts  = 20
	frozenRise  = 1.1
	thawAfter   = 2.0 // short time constants without trouble after which S is measured again
	gateSigmas  = 3.0
	closeSigmas = 1.0
	newLevel    = 2.0 // short time constants after which a departure is a new level
	maxRate     = 1e12
	maxRunning  = 1e9 // seconds
)

// shortTau is the time constant of the fast averages: half the horizon, so that a change is believed within the promise, but
// at least four samples, below which an average is no average; 30 s for horizons of a minute and more.
func (p Prior) shortTau() time.Duration {
	tau := maxFast
	if p.Horizon > 0 {
		tau = p.Horizon / 2
	}
	return min(max(tau, 4*p.cycle(), time.Second), maxFast)
}

func (p Prior) cycle() time.Duration {
	if p.Cycle > 0 {
		return p.Cycle
	}
	return time.Second
}

// Update takes one sample in. It never fails: what is impossible (negative, not a number, a total that went
// back) is dropped and counted in [scale.Estimates.Rejected], and the estimates keep what they had.
func Update(s State, p Prior, x Sample) (State, scale.Estimates) {
	if x.Epoch != s.Epoch { // counters of another life: measure from here
		s.Epoch = x.Epoch
		s.Arrivals, s.Completions = Counter{}, Counter{}
		s.Attempts, s.BusySeconds, s.BusySquares = Counter{}, Counter{}, Counter{}
	}
	fast := p.shortTau().Seconds()
	slow := slowPerFast * fast

	if n, dt, ok := s.delta(&s.Arrivals, x.Arrivals); ok {
		s.ArrivalFast.add(n/dt, dt, fast)
		s.Top.largest(n/dt, dt, fast)
		s.ArrivalSlow.add(n/dt, dt, slow)
		s.TopSlow.largest(n/dt, dt, slow)
	}
	if n, dt, ok := s.delta(&s.Completions, x.Completions); ok {
		s.Completion.add(n/dt, dt, fast)
	}
	s.service(p, x)
	for _, d := range x.Starts {
		if !(d >= 0) || math.IsInf(d, 0) {
			s.Rejected++
			continue
		}
		s.Starts = append(slices.Clone(s.Starts), d)
		s.Starts = s.Starts[max(0, len(s.Starts)-keptStarts):]
	}

	var e scale.Estimates
	e.ArrivalFast = s.ArrivalFast.rate(fastSpan)
	// What was seen of a young pool stands for what was not, but for what its largest sample has over the others: one dump is
	// no flow of dumps.
	e.ArrivalSlow = s.ArrivalSlow.without(s.TopSlow).rate(fastSpan / slowPerFast)
	e.ArrivalSlow += max(0, s.TopSlow.Mean-e.ArrivalSlow*s.TopSlow.Weight)
	e.Dispersion = 1
	// An average with time constant τ over arrivals of rate λ and dispersion I has the variance I·λ/(2τ). A rise must be
	// seen even without the largest sample: jobs that came all at once are a backlog, which the drain term sees, and no flow.
	sigma := math.Sqrt(e.ArrivalSlow / (2 * fast))
	rise := s.ArrivalFast.without(s.Top).rate(fastSpan) - e.ArrivalSlow
	fall := e.ArrivalSlow - e.ArrivalFast
	up, down := gateSigmas, gateSigmas
	if !s.DepartedAt.IsZero() { // once open it closes when the two have met, or the rate would jump back halfway
		if s.Rising {
			up = closeSigmas
		} else {
			down = closeSigmas
		}
	}
	rising, falling := rise > up*sigma, fall > down*sigma
	e.GateOpen = rising || falling
	e.Arrival = e.ArrivalSlow
	if e.GateOpen {
		e.Arrival = e.ArrivalFast
	}
	switch at := s.Arrivals.At; {
	case !e.GateOpen:
		s.DepartedAt = time.Time{}
	case s.DepartedAt.IsZero() || s.Rising != rising || at.Before(s.DepartedAt):
		s.DepartedAt, s.Rising = at, rising
	case at.Sub(s.DepartedAt).Seconds() >= newLevel*fast:
		// It lasts: this is another level, of which the slow average need not be persuaded for the rest of its memory.
		s.ArrivalSlow, s.TopSlow = s.ArrivalFast, s.Top
		s.DepartedAt = time.Time{}
	}
	e.ArrivalError = math.Sqrt(e.ArrivalSlow / (2 * slow))
	if s.ArrivalSlow.Weight > 0 {
		e.ArrivalAt = s.Arrivals.At
	}
	e.Completion = s.Completion.rate(1)
	e.ServiceTime, e.ServiceCV2 = s.serviceTime(p)
	if s.Learned < priorRuns && s.FrozenS == 0 && x.Running.Known() {
		e.ServiceRunning = min(x.Running.Value, maxRunning) / max(s.Service.Runs+s.priorWeight(p), 1)
		e.ServiceTime += e.ServiceRunning
	}
	e.ServiceCount = s.Service.Runs
	e.ColdStart, e.ColdStarts = s.coldStart(p)
	e.Rejected = s.Rejected
	return s, e
}

// delta advances a counter and returns how much it grew in how many seconds; not ok: there is nothing to learn.
func (s *State) delta(c *Counter, r scale.Reading) (n, seconds float64, ok bool) {
	switch {
	case r.At.IsZero():
		return 0, 0, false
	case !r.Known():
		s.Rejected++
		return 0, 0, false
	case r.At.Equal(c.At):
		return 0, 0, false // the same reading again
	}
	before := *c
	*c = Counter{r.Value, r.At}
	if before.At.IsZero() {
		return 0, 0, false
	}
	n, seconds = r.Value-before.Value, r.At.Sub(before.At).Seconds()
	if n < 0 || seconds <= 0 || n/seconds > maxRate {
		s.Rejected++ // a reset, or a clock that was set back: measure from here, keep the rate
		return 0, 0, false
	}
	return n, seconds, true
}

// add takes in a rate that held for dt seconds.
func (a *Average) add(rate, dt, tau float64) {
	alpha := -math.Expm1(-dt / tau)
	a.Mean += alpha * (rate - a.Mean)
	a.Weight += alpha * (1 - a.Weight)
}

// largest keeps the largest part that a single sample has in an average with the same time constant. All parts fade alike, so the
// largest stays so until a larger one comes.
func (a *Average) largest(rate, dt, tau float64) {
	alpha := -math.Expm1(-dt / tau)
	a.Mean *= 1 - alpha
	a.Weight *= 1 - alpha
	if alpha*rate >= a.Mean {
		a.Mean, a.Weight = alpha*rate, alpha
	}
}

// without is the average over the other samples.
func (a Average) without(part Average) Average {
	return Average{Mean: max(0, a.Mean-part.Mean), Weight: max(0, a.Weight-part.Weight)}
}

// rate is the average without the bias of having started at zero, once times time constants have been observed.
// Until then it leans to zero: two jobs in a first second are no flow.
func (a Average) rate(times float64) float64 {
	return a.Mean / max(a.Weight, -math.Expm1(-times))
}

// service takes in finished runs.
func (s *State) service(p Prior, x Sample) {
	// Whether a pool is in trouble flickers from sample to sample. Thawing at each flicker would measure the inflated times
	// after all, freeze them at more, and move everything that is computed from S to and fro.
	switch calm := x.At.Sub(s.FrozenAt).Seconds(); {
	case x.Frozen:
		if s.FrozenS == 0 {
			s.FrozenS, _ = s.serviceTime(p)
		}
		s.FrozenAt = x.At
	case calm < 0 || calm >= thawAfter*p.shortTau().Seconds(): // below 0 the clock was set back
		s.FrozenS = 0
	}
	runs, dt, ok1 := s.delta(&s.Attempts, x.Attempts)
	seconds, _, ok2 := s.delta(&s.BusySeconds, x.BusySeconds)
	squares, _, ok3 := s.delta(&s.BusySquares, x.BusySquares)
	if !ok1 || !ok2 || !ok3 || runs == 0 || s.FrozenS > 0 {
		return
	}
	s.Service.add(runs, seconds, squares, math.Exp(-dt/serviceSlow))
	s.ServiceFast.add(runs, seconds, squares, math.Exp(-dt/serviceFast))
	s.Learned = min(s.Learned+runs, maxRate)
	// A change that noise does not explain is a new kind of job or a new version: the old runs say nothing about it.
	if n := s.ServiceFast.Runs; n >= priorRuns && s.Service.Runs > n {
		mean := s.Service.mean()
		if math.Abs(s.ServiceFast.mean()-mean) > 4*math.Sqrt(s.Service.cv2())*mean/math.Sqrt(n) {
			s.Service = s.ServiceFast
		}
	}
}

func (m *Sums) add(runs, seconds, squares, keep float64) {
	m.Runs = m.Runs*keep + runs
	m.Seconds = m.Seconds*keep + seconds
	m.Squares = m.Squares*keep + squares
}

func (m Sums) mean() float64 {
	if m.Runs <= 0 {
		return 0
	}
	return m.Seconds / m.Runs
}

// cv2 is the squared coefficient of variation, E[S²]/E[S]² − 1, in [0, 25].
func (m Sums) cv2() float64 {
	mean := m.mean()
	if mean <= 0 {
		return 1
	}
	return min(max(m.Squares/m.Runs/(mean*mean)-1, 0), 25)
}

// serviceTime is the mean busy time of a run and its c². A declared one counts as ten runs at first and for nothing after
// thirty.
func (s *State) serviceTime(p Prior) (mean, cv2 float64) {
	mean, cv2 = s.Service.mean(), 1
	if w := s.priorWeight(p); w > 0 {
		mean = (s.Service.Seconds + w*p.ServiceTime.Seconds()) / (s.Service.Runs + w)
	}
	if s.Learned >= learnedRuns {
		cv2 = s.Service.cv2()
	}
	if s.FrozenS > 0 {
		mean = frozenRise * s.FrozenS
	}
	return mean, cv2
}

// priorWeight is how many runs the declared service time counts as.
func (s *State) priorWeight(p Prior) float64 {
	if p.ServiceTime <= 0 {
		return 0
	}
	return priorRuns * max(0, 1-s.Learned/learnedRuns)
}

// coldStart is the 90th percentile of the last starts, never the mean: capacity that is late is what hurts. Fewer than three
// starts may raise the prior but not lower it.
func (s *State) coldStart(p Prior) (seconds float64, starts int) {
	prior := p.ColdStart.Seconds()
	if prior <= 0 {
		prior = 1
	}
	n := len(s.Starts)
	if n == 0 {
		return prior, 0
	}
	sorted := slices.Sorted(slices.Values(s.Starts))
	p90 := sorted[(9*n+9)/10-1]
	if n < 3 {
		return max(prior, p90), n
	}
	return p90, n
}
