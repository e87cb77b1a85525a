package memory

import (
	"bytes"
	"cmp"
	"container/heap"
	"maps"
	"slices"

	"github.com/headrace/headrace/queue/internal/ledger"
)

// store keeps rows in maps and heaps. It never fails, so batches are never rolled back.
type store struct {
	seq, token int64
	byID       map[string]*item
	byKey      map[string]*item
	inState    [ledger.NumStates]byAt
	expiring   byExpiry
}

type item struct {
	row       ledger.Row
	at, dying int // places in the two heaps; -1: in none
}

func newStore() *store {
	return &store{byID: map[string]*item{}, byKey: map[string]*item{}}
}

// Insert keeps copies of the payload and headers: the caller may reuse its own.
func (s *store) Insert(r *ledger.Row) error {
	s.seq++
	r.Seq = s.seq
	it := &item{row: *r, at: -1, dying: -1}
	it.row.Payload = &ledger.Payload{
		Key: r.Payload.Key, Headers: maps.Clone(r.Payload.Headers), Body: bytes.Clone(r.Payload.Body),
	}
	s.byID[r.ID] = it
	if r.Payload.Key != "" {
		s.byKey[r.Payload.Key] = it
	}
	s.file(it)
	return nil
}

func (s *store) file(it *item) {
	heap.Push(&s.inState[it.row.State], it)
	if it.row.ExpiresAt != 0 && it.row.State.Waiting() {
		heap.Push(&s.expiring, it)
	}
}

func (s *store) unfile(it *item) {
	heap.Remove(&s.inState[it.row.State], it.at)
	if it.dying >= 0 {
		heap.Remove(&s.expiring, it.dying)
	}
}

// bare returns a copy of the row without what never changes.
func (it *item) bare() *ledger.Row {
	r := it.row
	r.Payload, r.Result = nil, nil
	return &r
}

func (s *store) Get(id string) (*ledger.Row, bool, error) {
	it := s.byID[id]
	if it == nil {
		return nil, false, nil
	}
	return it.bare(), false, nil
}

func (s *store) ByKey(key string) (*ledger.Row, error) {
	it := s.byKey[key]
	if it == nil {
		return nil, nil
	}
	return it.bare(), nil
}

func (s *store) Load(r *ledger.Row) error {
	it := s.byID[r.ID]
	p := *it.row.Payload
	p.Headers, p.Body = maps.Clone(p.Headers), bytes.Clone(p.Body)
	r.Payload = &p
	return nil
}

func (s *store) Update(r *ledger.Row) error {
	it := s.byID[r.ID]
	s.unfile(it)
	payload, result := it.row.Payload, it.row.Result
	it.row = *r
	it.row.Payload = payload
	if it.row.Result == nil {
		it.row.Result = result
	} else {
		it.row.Result = bytes.Clone(r.Result)
	}
	s.file(it)
	return nil
}

func (s *store) Delete(r *ledger.Row) error {
	it := s.byID[r.ID]
	s.unfile(it)
	delete(s.byID, r.ID)
	if key := it.row.Payload.Key; key != "" && s.byKey[key] == it {
		delete(s.byKey, key)
	}
	return nil
}

func (s *store) First(st ledger.State, upTo int64, n int, payloads bool) ([]*ledger.Row, error) {
	h := &s.inState[st]
	var taken []*item
	for len(*h) > 0 && len(taken) < n && (*h)[0].row.At <= upTo {
		taken = append(taken, heap.Pop(h).(*item))
	}
	rows := make([]*ledger.Row, len(taken))
	for i, it := range taken {
		heap.Push(h, it)
		rows[i] = it.bare()
		if payloads {
			_ = s.Load(rows[i]) // never fails
		}
	}
	return rows, nil
}

func (s *store) Dead(n int, poison bool) ([]*ledger.Row, error) {
	var rows []*ledger.Row
	for _, it := range s.sorted(ledger.Dead) {
		if len(rows) == n {
			break
		}
		if poison || !it.row.Poison() {
			rows = append(rows, it.bare())
		}
	}
	return rows, nil
}

// sorted returns all items of a state in order.
func (s *store) sorted(st ledger.State) []*item {
	return slices.SortedFunc(slices.Values(s.inState[st]), compare)
}

func (s *store) Overdue(upTo int64, n int) ([]*ledger.Row, error) {
	var taken []*item
	for len(s.expiring) > 0 && len(taken) < n && s.expiring[0].row.ExpiresAt <= upTo {
		taken = append(taken, heap.Pop(&s.expiring).(*item))
	}
	rows := make([]*ledger.Row, len(taken))
	for i, it := range taken {
		heap.Push(&s.expiring, it)
		rows[i] = it.bare()
	}
	return rows, nil
}

func (s *store) EarliestAt(st ledger.State) (int64, error) {
	if h := s.inState[st]; len(h) > 0 {
		return h[0].row.At, nil
	}
	return ledger.Never, nil
}

func (s *store) EarliestExpiry() (int64, error) {
	if len(s.expiring) > 0 {
		return s.expiring[0].row.ExpiresAt, nil
	}
	return ledger.Never, nil
}

func (s *store) NextToken() int64 {
	s.token++
	return s.token
}

func compare(a, b *item) int {
	return cmp.Or(cmp.Compare(a.row.At, b.row.At), cmp.Compare(a.row.Seq, b.row.Seq))
}

type byAt []*item

func (h byAt) Len() int           { return len(h) }
func (h byAt) Less(i, j int) bool { return compare(h[i], h[j]) < 0 }
func (h byAt) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }
func (h *byAt) Push(x any)        { x.(*item).at = len(*h); *h = append(*h, x.(*item)) }
func (h *byAt) Pop() any {
	x := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	x.at = -1
	return x
}

type byExpiry []*item

func (h byExpiry) Len() int           { return len(h) }
func (h byExpiry) Less(i, j int) bool { return h[i].row.ExpiresAt < h[j].row.ExpiresAt }
func (h byExpiry) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].dying, h[j].dying = i, j }
func (h *byExpiry) Push(x any)        { x.(*item).dying = len(*h); *h = append(*h, x.(*item)) }
func (h *byExpiry) Pop() any {
	x := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	x.dying = -1
	return x
}
