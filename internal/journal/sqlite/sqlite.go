// Package sqlite keeps the decision journal in one SQLite file.
package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/headrace/headrace/internal/journal"
)

var _ journal.Journal = (*Journal)(nil)

// Journal is a [journal.Journal] in a SQLite file. One process at a time may have it open.
type Journal struct {
	db *sql.DB
}

// schemaVersion is what this code reads and writes, kept in PRAGMA user_version.
const schemaVersion = 1

// The record itself is JSON: it is written once, read whole, and never searched by its inside.
const schema = `
CREATE TABLE decision (
	seq     INTEGER PRIMARY KEY AUTOINCREMENT,
	at_ms   INTEGER NOT NULL,
	pool    TEXT    NOT NULL,
	changed INTEGER NOT NULL,
	record  BLOB    NOT NULL
) STRICT;
CREATE INDEX decision_pool ON decision (pool, seq);
CREATE INDEX decision_at   ON decision (at_ms);
CREATE TABLE pool_state (
	pool  TEXT PRIMARY KEY,
	state BLOB NOT NULL
) STRICT, WITHOUT ROWID;`

// Open opens or creates the journal at path.
func Open(ctx context.Context, path string) (*Journal, error) {
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return nil, fmt.Errorf("open journal %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	if err := migrate(ctx, db); err != nil {
		return nil, fmt.Errorf("open journal %s: %w", path, errors.Join(err, db.Close()))
	}
	return &Journal{db: db}, nil
}

func dsn(path string) string {
	q := url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(5000)"}, "_txlock": {"immediate"}}
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: q.Encode()}).String()
}

func migrate(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var v int
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&v); err != nil {
		return err
	}
	switch {
	case v == schemaVersion:
		return nil
	case v != 0:
		return fmt.Errorf("schema version %d is not %d: the file belongs to another version of headrace", v, schemaVersion)
	}
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", schemaVersion)); err != nil {
		return err
	}
	return tx.Commit()
}

// Close closes the file.
func (j *Journal) Close() error { return j.db.Close() }

// Append implements [journal.Journal].
func (j *Journal) Append(ctx context.Context, rs []journal.Record) error {
	if len(rs) == 0 {
		return nil
	}
	return j.inTx(ctx, "append decisions", func(tx *sql.Tx) error {
		for i := range rs {
			r := &rs[i]
			body, err := json.Marshal(r)
			if err != nil {
				return fmt.Errorf("pool %s: %w", r.Pool, err)
			}
			res, err := tx.ExecContext(ctx, "INSERT INTO decision (at_ms, pool, changed, record) VALUES (?, ?, ?, ?)",
				r.At.UnixMilli(), r.Pool, r.Decision.Desired != r.Decision.Current, body)
			if err != nil {
				return err
			}
			if r.Seq, err = res.LastInsertId(); err != nil {
				return err
			}
		}
		return nil
	})
}

// SetOutcome implements [journal.Journal].
func (j *Journal) SetOutcome(ctx context.Context, seq int64, o journal.Outcome) error {
	body, err := json.Marshal(o)
	if err == nil {
		_, err = j.db.ExecContext(ctx, "UPDATE decision SET record = CAST(json_set(record, '$.outcome', json(?)) AS BLOB) WHERE seq = ?", string(body), seq)
	}
	if err != nil {
		return fmt.Errorf("record outcome of decision %d: %w", seq, err)
	}
	return nil
}

// List implements [journal.Journal].
func (j *Journal) List(ctx context.Context, f journal.Filter) ([]journal.Record, error) {
	where, args := []string{"1"}, []any{}
	add := func(cond string, arg any) { where, args = append(where, cond), append(args, arg) }
	if f.Pool != "" {
		add("pool = ?", f.Pool)
	}
	if f.Before > 0 {
		add("seq < ?", f.Before)
	}
	if !f.At.IsZero() {
		add("at_ms <= ?", f.At.UnixMilli())
	}
	if f.Changes {
		where = append(where, "changed")
	}
	args = append(args, min(max(f.Limit, 1), 1000))
	rows, err := j.db.QueryContext(ctx, "SELECT seq, record FROM decision WHERE "+strings.Join(where, " AND ")+
		" ORDER BY seq DESC LIMIT ?", args...)
	if err != nil {
		return nil, fmt.Errorf("list decisions: %w", err)
	}
	defer rows.Close()
	var out []journal.Record
	for rows.Next() {
		var seq int64
		var body []byte
		if err := rows.Scan(&seq, &body); err != nil {
			return nil, fmt.Errorf("list decisions: %w", err)
		}
		var r journal.Record
		if err := json.Unmarshal(body, &r); err != nil {
			return nil, fmt.Errorf("list decisions: record %d: %w", seq, err)
		}
		r.Seq = seq
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list decisions: %w", err)
	}
	return out, nil
}

// SaveStates implements [journal.Journal].
func (j *Journal) SaveStates(ctx context.Context, states map[string]json.RawMessage) error {
	return j.inTx(ctx, "save pool states", func(tx *sql.Tx) error {
		for pool, state := range states {
			_, err := tx.ExecContext(ctx,
				"INSERT INTO pool_state (pool, state) VALUES (?, ?) ON CONFLICT (pool) DO UPDATE SET state = excluded.state",
				pool, []byte(state))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// LoadStates implements [journal.Journal].
func (j *Journal) LoadStates(ctx context.Context) (map[string]json.RawMessage, error) {
	rows, err := j.db.QueryContext(ctx, "SELECT pool, state FROM pool_state")
	if err != nil {
		return nil, fmt.Errorf("load pool states: %w", err)
	}
	defer rows.Close()
	out := map[string]json.RawMessage{}
	for rows.Next() {
		var pool string
		var state []byte
		if err := rows.Scan(&pool, &state); err != nil {
			return nil, fmt.Errorf("load pool states: %w", err)
		}
		out[pool] = state
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("load pool states: %w", err)
	}
	return out, nil
}

// Prune implements [journal.Journal].
func (j *Journal) Prune(ctx context.Context, before time.Time) error {
	if _, err := j.db.ExecContext(ctx, "DELETE FROM decision WHERE at_ms < ?", before.UnixMilli()); err != nil {
		return fmt.Errorf("prune decisions: %w", err)
	}
	return nil
}

func (j *Journal) inTx(ctx context.Context, doing string, f func(*sql.Tx) error) error {
	tx, err := j.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if err := f(tx); err != nil {
		return fmt.Errorf("%s: %w", doing, errors.Join(err, tx.Rollback()))
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
