package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/headrace/headrace/queue/internal/ledger"
)

// statement names one of the writer's prepared statements.
type statement int

const (
	insertJob statement = iota
	insertPayload
	insertKey
	insertResult
	getJob
	getByKey
	getPayload
	updateJob
	deleteKey
	deleteResult
	deletePayload
	deleteJob
	first
	firstLoaded
	firstDead
	overdue
	earliestAt
	earliestExpiry
	saveCounters
	saveToken
	begin
	commit
	numStatements
)

var statements = [numStatements]string{
	insertJob: `INSERT INTO job (id, queue, state, at, tenant, priority, arrived, enqueued_at, ready_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
	insertPayload: `INSERT INTO payload VALUES (?, ?, ?, ?)`,
	insertKey:     `INSERT INTO dedupe VALUES (?, ?, ?)`,
	insertResult:  `INSERT OR REPLACE INTO result VALUES (?, ?)`,
	getJob:        `SELECT ` + rowColumns + ` FROM job j WHERE j.id = ?`,
	getByKey:      `SELECT ` + rowColumns + ` FROM dedupe d JOIN job j ON j.seq = d.seq WHERE d.queue = ? AND d.key = ?`,
	getPayload:    `SELECT key, headers, body FROM payload WHERE seq = ?`,
	updateJob: `UPDATE job SET state = ?, at = ?, attempts = ?, crashes = ?, redrives = ?, arrived = ?, ready_at = ?, started_at = ?,
		expires_at = ?, token = ?, worker = ?, max_at = ?, cancel = ?, settled_token = ?, settled = ?, error = ?, dead_reason = ? WHERE seq = ?`,
	deleteKey: `DELETE FROM dedupe WHERE (queue, key) IN (SELECT j.queue, p.key FROM payload p JOIN job j ON j.seq = p.seq
		WHERE p.seq = ? AND p.key IS NOT NULL)`,
	deleteResult:  `DELETE FROM result WHERE seq = ?`,
	deletePayload: `DELETE FROM payload WHERE seq = ?`,
	deleteJob:     `DELETE FROM job WHERE seq = ?`,
	first:         `SELECT ` + rowColumns + ` FROM job j WHERE j.queue = ? AND j.state = ? AND j.at <= ? ORDER BY j.at, j.seq LIMIT ?`,
	firstLoaded: `SELECT ` + rowColumns + `, p.key, p.headers, p.body FROM job j CROSS JOIN payload p ON p.seq = j.seq
		WHERE j.queue = ? AND j.state = ? AND j.at <= ? ORDER BY j.at, j.seq LIMIT ?`,
	firstDead: `SELECT ` + rowColumns + ` FROM job j WHERE j.queue = ? AND j.state = 5 AND j.dead_reason <> ? ORDER BY j.at, j.seq LIMIT ?`,
	overdue: `SELECT ` + rowColumns + ` FROM job j WHERE j.queue = ? AND j.expires_at > 0 AND j.state <= 2 AND j.expires_at <= ?
		ORDER BY j.expires_at LIMIT ?`,
	earliestAt:     `SELECT min(at) FROM job WHERE queue = ? AND state = ?`,
	earliestExpiry: `SELECT min(expires_at) FROM job WHERE queue = ? AND expires_at > 0 AND state <= 2`,
	saveCounters:   `UPDATE queue SET ` + strings.Join(counterColumns, " = ?, ") + ` = ? WHERE queue = ?`,
	saveToken:      `UPDATE file SET token = ?`,
	begin:          `BEGIN IMMEDIATE`,
	commit:         `COMMIT`,
}

// counterColumns are the columns of [ledger.Counters], levels then totals.
var counterColumns = []string{
	"ready", "suspect", "delayed", "leased", "succeeded", "dead", "cancelled", "expired",
	"arrivals", "completions", "attempts", "total_succeeded", "total_dead", "total_cancelled", "total_expired",
	"nacked", "released", "crashed", "lost", "redriven",
}

// scanCounters returns where counterColumns are scanned to.
func scanCounters(n *ledger.Counters) []any {
	var to []any
	for i := range n.Level {
		to = append(to, &n.Level[i])
	}
	for i := range n.Totals {
		to = append(to, &n.Totals[i])
	}
	return to
}

// writer is the one connection that writes. It belongs to the writer goroutine.
type writer struct {
	conn       *sql.Conn
	prepared   [numStatements]*sql.Stmt
	inTx       bool
	token      int64 // the highest given out
	savedToken int64 // as stored

	// before, when a test sets it, is called before each statement, and with numStatements after each COMMIT, when
	// nobody was answered yet.
	before func(statement)
}

func (w *writer) step(s statement) {
	if w.before != nil {
		w.before(s)
	}
}

func (w *writer) prepare(ctx context.Context) error {
	for i, text := range statements {
		st, err := w.conn.PrepareContext(ctx, text) //nolint:sqlclosecheck // closed with the connection, which lives as long
		if err != nil {
			return fmt.Errorf("prepare %q: %w", text, err)
		}
		w.prepared[i] = st
	}
	return nil
}

// start begins a transaction unless one is open. Batches that touch nothing never get here.
func (w *writer) start() error {
	if w.inTx {
		return nil
	}
	w.step(begin)
	if _, err := w.prepared[begin].ExecContext(background); err != nil {
		return err
	}
	w.inTx = true
	return nil
}

func (w *writer) exec(s statement, args ...any) (sql.Result, error) {
	if err := w.start(); err != nil {
		return nil, err
	}
	w.step(s)
	return w.prepared[s].ExecContext(background, args...)
}

func (w *writer) query(s statement, args ...any) (*sql.Rows, error) {
	if err := w.start(); err != nil {
		return nil, err
	}
	w.step(s)
	return w.prepared[s].QueryContext(background, args...)
}

func (w *writer) queryRow(s statement, args ...any) (*sql.Row, error) {
	if err := w.start(); err != nil {
		return nil, err
	}
	w.step(s)
	return w.prepared[s].QueryRowContext(background, args...), nil
}

// commit makes the transaction durable.
func (w *writer) commit() error {
	if !w.inTx {
		return nil
	}
	if w.token != w.savedToken {
		if _, err := w.exec(saveToken, w.token); err != nil {
			return err
		}
	}
	w.step(commit)
	if _, err := w.prepared[commit].ExecContext(background); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	w.step(numStatements)
	w.inTx, w.savedToken = false, w.token
	return nil
}

// rollback ends the transaction without a trace. SQLite may have done so on its own, after an error of the disk.
func (w *writer) rollback() {
	if w.inTx {
		_, _ = w.conn.ExecContext(background, "ROLLBACK")
		w.inTx = false
	}
}

func (w *writer) saveCounters(queueID int64, n *ledger.Counters) error {
	args := make([]any, 0, len(counterColumns)+1)
	for _, v := range n.Level {
		args = append(args, v)
	}
	for _, v := range n.Totals {
		args = append(args, v)
	}
	_, err := w.exec(saveCounters, append(args, queueID)...)
	return err
}
