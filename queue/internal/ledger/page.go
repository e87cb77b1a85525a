package ledger

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/headrace/headrace/queue"
)

// MaxPage is the most jobs on one page of a list.
const MaxPage = 1000

// CheckFilter returns the stored states that f selects and the place to continue behind.
func CheckFilter(f queue.Filter) ([]State, queue.Cursor, error) {
	states := StatesOf(f.State)
	if len(states) == 0 {
		return nil, queue.Cursor{}, fmt.Errorf("list jobs: %w: no state %q", queue.ErrInvalid, f.State)
	}
	if f.Limit < 1 || f.Limit > MaxPage {
		return nil, queue.Cursor{}, fmt.Errorf("list jobs: %w: limit is %d, it must be 1 to %d", queue.ErrInvalid, f.Limit, MaxPage)
	}
	if f.After == "" {
		return states, queue.Cursor{At: -1 << 63}, nil
	}
	c, err := queue.ParseCursor(f.After)
	if err != nil {
		return nil, queue.Cursor{}, fmt.Errorf("list jobs: %w", err)
	}
	return states, c, nil
}

// Page makes a page of rows, which are the first ones behind the last page of each state that was asked for.
func Page(rows []*Row, limit int, queueName string) (page []queue.Record, next string) {
	slices.SortFunc(rows, func(a, b *Row) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Seq, b.Seq)) })
	if len(rows) > limit {
		rows = rows[:limit]
		last := rows[limit-1]
		next = queue.Cursor{At: last.At, Seq: last.Seq}.String()
	}
	for _, r := range rows {
		page = append(page, r.Record(queueName))
	}
	return page, next
}
