// Package memory keeps the state of downstreams in one process: the control plane that all workers of one machine ask.
package memory

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/headrace/headrace/downstream"
)

var _ downstream.Store = (*Store)(nil)

// Store is a [downstream.Store] in memory. What it knows is gone with the process: limits then start empty, so that
// a restart cannot overrun a provider.
type Store struct {
	mu   sync.Mutex
	byID map[string]*shared
}

// shared is the state of one downstream.
type shared struct {
	limits                         []*limit
	pausedUntil                    time.Time
	ok, throttled, failed, granted int64
	calls, refused                 downstream.Window
}

// limit is one limit in use.
type limit struct {
	bucket  downstream.Bucket
	taken   downstream.Window
	perUse  float64
	reports int64
}

// reportMemory is the number of uses that the mean cost of a use remembers.
const reportMemory = 200

// New returns a store that enforces the declared limits, by downstream name.
func New(declared map[string][]downstream.Limit) *Store {
	now := time.Now()
	s := &Store{byID: make(map[string]*shared, len(declared))}
	for name, limits := range declared {
		d := &shared{}
		for _, l := range limits {
			d.limits = append(d.limits, &limit{bucket: downstream.NewBucket(l, now)})
		}
		s.byID[name] = d
	}
	return s
}

// Take implements [downstream.Store].
func (s *Store) Take(_ context.Context, asks []downstream.Ask) (downstream.Permit, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	n := math.MaxInt
	var wait time.Duration
	for _, a := range asks {
		if a.Max < 1 {
			return downstream.Permit{}, fmt.Errorf("take permits of %q: %d uses asked, want at least 1", a.Downstream, a.Max)
		}
		n = min(n, a.Max)
		d := s.byID[a.Downstream]
		if d == nil {
			continue
		}
		if left := d.pausedUntil.Sub(now); left > 0 {
			n, wait = 0, max(wait, left)
			continue
		}
		for _, l := range d.limits {
			units := unitsOf(a.Units, l.bucket.Limit.Unit)
			fits := l.bucket.Fits(units, a.Max, now)
			if fits == 0 {
				wait = max(wait, l.bucket.RetryIn(units, now))
			}
			n = min(n, fits)
		}
	}
	if len(asks) == 0 || n == 0 {
		return downstream.Permit{RetryIn: wait}, nil
	}
	s.move(asks, n, now)
	return downstream.Permit{Granted: n}, nil
}

// Return implements [downstream.Store].
func (s *Store) Return(_ context.Context, asks []downstream.Ask, uses int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.move(asks, -uses, time.Now())
	return nil
}

// move takes uses out of every limit, or puts them back when uses is negative.
func (s *Store) move(asks []downstream.Ask, uses int, now time.Time) {
	for _, a := range asks {
		d := s.byID[a.Downstream]
		if d == nil {
			continue
		}
		d.granted += int64(uses)
		for _, l := range d.limits {
			units := float64(uses) * unitsOf(a.Units, l.bucket.Limit.Unit)
			l.bucket.Take(units, now)
			l.taken.Add(units, now)
		}
	}
}

// Report implements [downstream.Store].
func (s *Store) Report(_ context.Context, reports []downstream.Report) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, r := range reports {
		if d := s.byID[r.Downstream]; d != nil {
			d.settle(r, now)
		}
	}
	return nil
}

func (d *shared) settle(r downstream.Report, now time.Time) {
	for _, l := range d.limits {
		unit := l.bucket.Limit.Unit
		used, known := r.Used[unit]
		if !known || used < 0 || math.IsNaN(used) || math.IsInf(used, 0) {
			continue
		}
		l.bucket.Take(used-unitsOf(r.Reserved, unit), now)
		l.taken.Add(used-unitsOf(r.Reserved, unit), now)
		if r.Outcome == downstream.OK {
			l.reports++
			l.perUse += (used - l.perUse) / float64(min(l.reports, reportMemory))
		}
	}
	switch r.Outcome {
	case downstream.OK:
		d.ok++
	case downstream.Failed:
		d.failed++
	case downstream.Throttled:
		d.throttled++
		d.refused.Add(1, now)
		if until := now.Add(r.RetryAfter); r.RetryAfter > 0 && until.After(d.pausedUntil) {
			d.pausedUntil = until
		}
	default:
		return
	}
	d.calls.Add(1, now)
}

// State implements [downstream.Store].
func (s *Store) State(_ context.Context, name string) (downstream.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	st := downstream.State{Downstream: name}
	d := s.byID[name]
	if d == nil {
		return st, nil
	}
	st.PausedFor = max(0, d.pausedUntil.Sub(now))
	st.OK, st.Throttled, st.Failed, st.Granted = d.ok, d.throttled, d.failed, d.granted
	for _, l := range d.limits {
		ls := downstream.LimitState{
			Limit:       l.bucket.Limit,
			Available:   l.bucket.Available(now),
			UnitsPerUse: l.perUse,
			Reports:     l.reports,
		}
		if taken, seconds := l.taken.Sum(now); seconds > 0 {
			ls.Used = max(0, taken/(seconds*l.bucket.Limit.PerSecond))
		}
		if calls, _ := d.calls.Sum(now); calls > 0 {
			refused, _ := d.refused.Sum(now)
			ls.ThrottledShare = refused / calls
		}
		st.Limits = append(st.Limits, ls)
	}
	return st, nil
}

// unitsOf returns what one use takes of a limit: what was named, or 1 for a limit that counts requests.
func unitsOf(units map[string]float64, unit string) float64 {
	if v, ok := units[unit]; ok {
		return v
	}
	if unit == "requests" {
		return 1
	}
	return 0
}
