// Package journaltest holds journals to their contract, and has one in memory for the tests of others.
package journaltest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/headrace/headrace/internal/journal"
)

var _ journal.Journal = (*Memory)(nil)

// Memory is a journal that forgets everything with the process. The zero value is empty.
type Memory struct {
	mu      sync.Mutex
	last    int64
	records []journal.Record
	states  map[string]json.RawMessage
}

// Records returns all records, oldest first.
func (m *Memory) Records() []journal.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.records)
}

// Append implements [journal.Journal].
func (m *Memory) Append(_ context.Context, rs []journal.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range rs {
		m.last++
		rs[i].Seq = m.last
		m.records = append(m.records, rs[i])
	}
	return nil
}

// SetOutcome implements [journal.Journal].
func (m *Memory) SetOutcome(_ context.Context, seq int64, o journal.Outcome) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.records, func(r journal.Record) bool { return r.Seq == seq })
	if i < 0 {
		return fmt.Errorf("record outcome of decision %d: there is none", seq)
	}
	m.records[i].Outcome = o
	return nil
}

// List implements [journal.Journal].
func (m *Memory) List(_ context.Context, f journal.Filter) ([]journal.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []journal.Record
	for _, r := range slices.Backward(m.records) {
		switch {
		case f.Pool != "" && r.Pool != f.Pool,
			f.Before > 0 && r.Seq >= f.Before,
			!f.At.IsZero() && r.At.After(f.At),
			f.Changes && r.Decision.Desired == r.Decision.Current:
			continue
		}
		if out = append(out, r); len(out) == min(max(f.Limit, 1), 1000) {
			break
		}
	}
	return out, nil
}

// SaveStates implements [journal.Journal].
func (m *Memory) SaveStates(_ context.Context, states map[string]json.RawMessage) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.states == nil {
		m.states = map[string]json.RawMessage{}
	}
	maps.Copy(m.states, states)
	return nil
}

// LoadStates implements [journal.Journal].
func (m *Memory) LoadStates(context.Context) (map[string]json.RawMessage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.states), nil
}

// Prune implements [journal.Journal].
func (m *Memory) Prune(_ context.Context, before time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records = slices.DeleteFunc(m.records, func(r journal.Record) bool { return r.At.Before(before) })
	return nil
}
