package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/internal/ledger"
)

// Reads use their own connections and never wait for the writer.

// lastLook bounds the look at a job after the caller's time is over.
const lastLook = 5 * time.Second

const (
	recordQuery = `SELECT ` + rowColumns + `, q.name, p.key, p.headers, p.body, r.body
		FROM job j JOIN queue q ON q.queue = j.queue JOIN payload p ON p.seq = j.seq LEFT JOIN result r ON r.seq = j.seq
		WHERE j.id = ?`
	listQuery = `SELECT ` + rowColumns + `, p.key FROM job j JOIN payload p ON p.seq = j.seq
		WHERE j.queue = ? AND j.state = ? AND (j.at, j.seq) > (?, ?) ORDER BY j.at, j.seq LIMIT ?`
)

// Find returns the job with the id, in whichever queue of the file it is, or [queue.ErrNotFound].
func (db *DB) Find(ctx context.Context, id string) (queue.Record, error) {
	if db.isClosing() { // the connections may be open still, but whoever was woken by Close must learn of it
		return queue.Record{}, fmt.Errorf("get job %s: %w", id, queue.ErrClosed)
	}
	rec, err := db.find(ctx, id)
	if err != nil {
		return queue.Record{}, fmt.Errorf("get job %s: %w", id, db.closedOr(err))
	}
	return rec, nil
}

func (db *DB) find(ctx context.Context, id string) (queue.Record, error) {
	u, err := uuid.Parse(id)
	if err != nil {
		return queue.Record{}, queue.ErrNotFound
	}
	var queueID int64
	var name string
	var key, headers, body, result []byte
	r, err := scanRow(db.readers.QueryRowContext(ctx, recordQuery, u[:]), &queueID, &name, &key, &headers, &body, &result)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return queue.Record{}, queue.ErrNotFound
	case err != nil:
		return queue.Record{}, err
	}
	if r.Payload, err = payloadOf(key, headers, body); err != nil {
		return queue.Record{}, err
	}
	r.Result = result
	return r.Record(name), nil
}

func (db *DB) isClosing() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.closing
}

// closedOr turns an error of the closed pool into the contract's.
func (db *DB) closedOr(err error) error {
	if db.isClosing() && !errors.Is(err, queue.ErrNotFound) {
		return queue.ErrClosed
	}
	return explain(err)
}

// Get implements [queue.Finder].
func (q *Queue) Get(ctx context.Context, id string) (queue.Record, error) {
	if q.closed.Load() {
		return queue.Record{}, queue.ErrClosed
	}
	rec, err := q.db.Find(ctx, id)
	if err == nil && rec.Queue != q.books.name {
		return queue.Record{}, fmt.Errorf("get job %s: %w", id, queue.ErrNotFound)
	}
	return rec, err
}

// List implements [queue.Finder].
func (q *Queue) List(ctx context.Context, f queue.Filter) ([]queue.Record, string, error) {
	if q.closed.Load() {
		return nil, "", queue.ErrClosed
	}
	states, after, err := ledger.CheckFilter(f)
	if err != nil {
		return nil, "", err
	}
	var rows []*ledger.Row
	for _, st := range states {
		more, err := q.list(ctx, st, after, f.Limit+1)
		if err != nil {
			return nil, "", fmt.Errorf("list jobs: %w", q.db.closedOr(err))
		}
		rows = append(rows, more...)
	}
	page, next := ledger.Page(rows, f.Limit, q.books.name)
	return page, next, nil
}

func (q *Queue) list(ctx context.Context, st ledger.State, after queue.Cursor, n int) ([]*ledger.Row, error) {
	rows, err := q.db.readers.QueryContext(ctx, listQuery, q.books.id, int64(st), after.At, after.Seq, n)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []*ledger.Row
	for rows.Next() {
		var queueID int64
		var key []byte
		r, err := scanRow(rows, &queueID, &key)
		if err != nil {
			return nil, err
		}
		r.Payload = &ledger.Payload{Key: string(key)} // first in its row: the body is not read
		out = append(out, r)
	}
	return out, rows.Err()
}

// Await implements [queue.Finder].
func (q *Queue) Await(ctx context.Context, id string) (queue.Record, error) {
	ended, stop := q.books.Watch(id)
	defer stop()
	rec, err := q.Get(ctx, id)
	if err == nil && rec.State.Terminal() || err != nil && ctx.Err() == nil {
		return rec, err
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	return q.Get(look, id)
}

// Stats implements [queue.StatsReader]. It is one statement, so that all numbers are of one moment.
func (q *Queue) Stats(ctx context.Context) (queue.Stats, error) {
	if q.closed.Load() {
		return queue.Stats{}, queue.ErrClosed
	}
	var n ledger.Counters
	var ready, suspect, leased, delayed sql.NullInt64
	err := q.db.readers.QueryRowContext(ctx, statsQuery, q.books.id).
		Scan(append(scanCounters(&n), &ready, &suspect, &leased, &delayed)...)
	if err != nil {
		return queue.Stats{}, fmt.Errorf("measure queue %q: %w", q.books.name, q.db.closedOr(err))
	}
	e := ledger.Edges{OldestReady: ready.Int64, OldestLease: leased.Int64, NextDue: delayed.Int64}
	if suspect.Valid && (!ready.Valid || suspect.Int64 < ready.Int64) {
		e.OldestReady = suspect.Int64
	}
	return n.Stats(q.db.now(), time.Now(), e, q.books.epoch), nil
}

var statsQuery = `SELECT ` + join(counterColumns) + `,
	(SELECT min(at) FROM job WHERE queue = ?1 AND state = 0), (SELECT min(at) FROM job WHERE queue = ?1 AND state = 1),
	(SELECT min(at) FROM job WHERE queue = ?1 AND state = 3), (SELECT min(at) FROM job WHERE queue = ?1 AND state = 2)
	FROM queue WHERE queue = ?1`

// Drift compares what is kept with what there really is, for every queue that this process has opened, and returns
// each difference: none, unless there is a defect. It counts all jobs and holds the writer up meanwhile: it is for tests
// and for a doctor, not for every minute.
func (db *DB) Drift(ctx context.Context) ([]string, error) {
	var out []string
	err := db.doAlone(ctx, func(int64) error {
		out = nil
		for _, b := range db.books {
			more, err := db.driftOf(b)
			if err != nil {
				return err
			}
			out = append(out, more...)
		}
		for what, query := range orphans {
			var n int64
			if err := db.w.conn.QueryRowContext(background, query).Scan(&n); err != nil {
				return err
			}
			if n != 0 {
				out = append(out, fmt.Sprintf("%d %s", n, what))
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("check queue file %s: %w", db.path, err)
	}
	return out, nil
}

var orphans = map[string]string{
	"jobs without a payload":                   "SELECT count(*) FROM job WHERE seq NOT IN (SELECT seq FROM payload)",
	"payloads without a job":                   "SELECT count(*) FROM payload WHERE seq NOT IN (SELECT seq FROM job)",
	"results without a job":                    "SELECT count(*) FROM result WHERE seq NOT IN (SELECT seq FROM job)",
	"keys without a job":                       "SELECT count(*) FROM dedupe WHERE seq NOT IN (SELECT seq FROM job)",
	"jobs whose key is not theirs":             "SELECT count(*) FROM job j JOIN payload p USING (seq) WHERE p.key IS NOT NULL AND (j.queue, p.key, j.seq) NOT IN (SELECT queue, key, seq FROM dedupe)",
	"jobs with a token that was not given out": "SELECT count(*) FROM job WHERE token > (SELECT token FROM file)",
	"ready jobs out of their place":            "SELECT count(*) FROM job WHERE state IN (0, 1) AND at <> ready_at",
	"ready jobs among the wrong kind":          "SELECT count(*) FROM job WHERE state = 0 AND crashes > 0 OR state = 1 AND crashes = 0",
}

func (db *DB) driftOf(b *books) ([]string, error) {
	rows, err := db.w.conn.QueryContext(background, "SELECT state, count(*) FROM job WHERE queue = ? GROUP BY state", b.id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var real [ledger.NumStates]int64
	for rows.Next() {
		var st int
		var n int64
		if err := rows.Scan(&st, &n); err != nil {
			return nil, err
		}
		if st < 0 || st >= ledger.NumStates {
			return []string{fmt.Sprintf("queue %q: %d jobs are in state %d, which does not exist", b.name, n, st)}, nil
		}
		real[st] = n
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	out := b.Drift(b.name, real)
	var stored ledger.Counters
	err = db.w.conn.QueryRowContext(background, "SELECT "+join(counterColumns)+" FROM queue WHERE queue = ?", b.id).Scan(scanCounters(&stored)...)
	if err != nil {
		return nil, err
	}
	if stored != b.Counters() {
		out = append(out, fmt.Sprintf("queue %q: counters in memory %v, stored %v", b.name, b.Counters(), stored))
	}
	return out, nil
}
