package ledger_test

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/internal/ledger"
)

var errDisk = errors.New("disk failed")

// slowStore is the plainest store there can be: a map that is searched. It fails when told, and can go back to an
// earlier state, as a database does when a transaction is rolled back.
type slowStore struct {
	rows       map[int64]ledger.Row
	seq, token int64
	failIn     int // calls until one fails; 0: none does
}

func (s *slowStore) fail() error {
	if s.failIn > 0 {
		if s.failIn--; s.failIn == 0 {
			return errDisk
		}
	}
	return nil
}

func (s *slowStore) find(ok func(*ledger.Row) bool, n int) []*ledger.Row {
	var out []*ledger.Row
	for _, r := range s.rows {
		if ok(&r) {
			out = append(out, &r)
		}
	}
	slices.SortFunc(out, func(a, b *ledger.Row) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Seq, b.Seq)) })
	return out[:min(n, len(out))]
}

func (s *slowStore) one(ok func(*ledger.Row) bool) *ledger.Row {
	for _, r := range s.find(ok, 1) {
		return r
	}
	return nil
}

func (s *slowStore) Insert(r *ledger.Row) error {
	s.seq++
	r.Seq = s.seq
	s.rows[r.Seq] = *r
	return s.fail()
}

func (s *slowStore) Get(id string) (*ledger.Row, bool, error) {
	return s.one(func(r *ledger.Row) bool { return r.ID == id }), false, s.fail()
}

func (s *slowStore) ByKey(key string) (*ledger.Row, error) {
	return s.one(func(r *ledger.Row) bool { return r.Payload.Key == key }), s.fail()
}

func (s *slowStore) Load(r *ledger.Row) error {
	r.Payload = s.rows[r.Seq].Payload
	return s.fail()
}

func (s *slowStore) Update(r *ledger.Row) error {
	old := s.rows[r.Seq]
	now := *r
	now.Payload = old.Payload
	s.rows[r.Seq] = now
	return s.fail()
}

func (s *slowStore) Delete(r *ledger.Row) error {
	delete(s.rows, r.Seq)
	return s.fail()
}

func (s *slowStore) First(st ledger.State, upTo int64, n int, _ bool) ([]*ledger.Row, error) {
	return s.find(func(r *ledger.Row) bool { return r.State == st && r.At <= upTo }, n), s.fail()
}

func (s *slowStore) Overdue(upTo int64, n int) ([]*ledger.Row, error) {
	return s.find(func(r *ledger.Row) bool { return r.State.Waiting() && r.ExpiresAt > 0 && r.ExpiresAt <= upTo }, n), s.fail()
}

func (s *slowStore) Dead(n int, poison bool) ([]*ledger.Row, error) {
	return s.find(func(r *ledger.Row) bool { return r.State == ledger.Dead && (poison || !r.Poison()) }, n), s.fail()
}

func (s *slowStore) EarliestAt(st ledger.State) (int64, error) {
	if r := s.one(func(r *ledger.Row) bool { return r.State == st }); r != nil {
		return r.At, s.fail()
	}
	return ledger.Never, s.fail()
}

func (s *slowStore) EarliestExpiry() (int64, error) {
	next := ledger.Never
	for _, r := range s.rows {
		if r.State.Waiting() && r.ExpiresAt > 0 {
			next = min(next, r.ExpiresAt)
		}
	}
	return next, s.fail()
}

func (s *slowStore) NextToken() int64 {
	s.token++
	return s.token
}

// desk is a ledger with its store and a clock that the test moves.
type desk struct {
	*testing.T
	*ledger.Ledger
	store *slowStore
	now   int64
}

func newDesk(t *testing.T, p queue.Policy) *desk {
	s := &slowStore{rows: map[int64]ledger.Row{}}
	return &desk{T: t, Ledger: ledger.New(s, p, ledger.Counters{}), store: s, now: int64(time.Hour)}
}

// batch runs f and what is due as a queue does: committed when all went well, rolled back when not.
func (d *desk) batch(f func() error) error {
	before, seq := maps.Clone(d.store.rows), d.store.seq
	err := f()
	if err == nil {
		if err = d.Tick(d.now); err == nil {
			err = d.ServeParked(d.now)
		}
	}
	if err != nil {
		d.Rollback()
		d.store.rows, d.store.seq = before, seq
		return err
	}
	d.Commit()
	return nil
}

func (d *desk) must(f func() error) {
	d.Helper()
	if err := d.batch(f); err != nil {
		d.Fatal(err)
	}
}

// pass lets time pass as a process does that runs all the while, with the work that falls due. During it is called
// before each step.
func (d *desk) pass(span time.Duration, during func()) {
	d.Helper()
	const step = 400 * time.Millisecond
	for ; span > 0; span -= step {
		if during != nil {
			during()
		}
		d.now += int64(min(step, span))
		d.must(func() error { return nil })
	}
}

func (d *desk) publish(jobs ...queue.Job) (ids []string) {
	d.Helper()
	d.must(func() error {
		out, err := d.Publish(d.now, jobs)
		for _, p := range out {
			ids = append(ids, p.ID)
		}
		return err
	})
	return ids
}

func (d *desk) claim(worker string, n int) []queue.Lease {
	d.Helper()
	c := newClaim(worker, n)
	d.must(func() error { return d.Claim(d.now, c) })
	return c.Leases
}

func newClaim(worker string, n int) *ledger.Claim {
	return &ledger.Claim{Worker: worker, Max: n, Done: make(chan struct{})}
}

func (d *desk) settle(r queue.Receipt, v queue.Verdict) (answer error) {
	d.Helper()
	d.must(func() error {
		out, err := d.Settle(d.now, []queue.Settlement{{Receipt: r, Verdict: v}})
		if err == nil {
			answer = out[0]
		}
		return err
	})
	return answer
}

func (d *desk) state(id string) ledger.State {
	d.Helper()
	r, _, _ := d.store.Get(id)
	if r == nil {
		d.Fatalf("job %s is gone", id)
	}
	return r.State
}

// real counts the jobs in each state.
func (d *desk) noDrift() {
	d.Helper()
	var real [ledger.NumStates]int64
	for _, r := range d.store.rows {
		real[r.State]++
	}
	for _, line := range d.Drift("test", real) {
		d.Error(line)
	}
}
