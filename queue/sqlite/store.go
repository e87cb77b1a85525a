package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/internal/ledger"
)

// store is the [ledger.Store] of one queue, on the writer's connection and within the writer's transaction.
type store struct {
	w     *writer
	queue int64
}

// rowColumns are scanned by scanRow.
const rowColumns = `j.seq, j.id, j.queue, j.state, j.at, j.tenant, j.priority, j.attempts, j.crashes, j.redrives, j.arrived,
	j.enqueued_at, j.ready_at, j.started_at, j.expires_at, j.token, j.worker, j.max_at, j.cancel, j.settled_token, j.settled,
	j.error, j.dead_reason`

type scanner interface{ Scan(...any) error }

// scanRow reads rowColumns, then more.
func scanRow(s scanner, queueID *int64, more ...any) (*ledger.Row, error) {
	var r ledger.Row
	var idBytes []byte
	to := append([]any{&r.Seq, &idBytes, queueID, &r.State, &r.At, &r.Tenant, &r.Priority, &r.Attempts, &r.Crashes, &r.Redrives, &r.Arrived,
		&r.EnqueuedAt, &r.ReadyAt, &r.StartedAt, &r.ExpiresAt, &r.Token, &r.Worker, &r.MaxAt, &r.Cancel, &r.SettledToken, &r.Settled,
		&r.Error, &r.DeadReason}, more...)
	if err := s.Scan(to...); err != nil {
		return nil, err
	}
	u, err := uuid.FromBytes(idBytes)
	if err != nil {
		return nil, fmt.Errorf("job %d: stored id is damaged: %w", r.Seq, err)
	}
	if r.State < 0 || int(r.State) >= ledger.NumStates {
		return nil, fmt.Errorf("job %s: stored state %d is damaged", u, r.State)
	}
	r.ID = u.String()
	return &r, nil
}

// Insert implements [ledger.Store].
func (s *store) Insert(r *ledger.Row) error {
	u, err := uuid.Parse(r.ID)
	if err != nil {
		return err
	}
	res, err := s.w.exec(insertJob, u[:], s.queue, int64(r.State), r.At, r.Tenant, r.Priority, r.Arrived, r.EnqueuedAt, r.ReadyAt, r.ExpiresAt)
	if err != nil {
		return err
	}
	if r.Seq, err = res.LastInsertId(); err != nil {
		return err
	}
	p := r.Payload
	body := p.Body
	if body == nil {
		body = []byte{}
	}
	if p.Key == "" {
		_, err = s.w.exec(insertPayload, r.Seq, nil, encodeHeaders(p.Headers), body)
		return err
	}
	if _, err = s.w.exec(insertPayload, r.Seq, []byte(p.Key), encodeHeaders(p.Headers), body); err != nil {
		return err
	}
	_, err = s.w.exec(insertKey, s.queue, []byte(p.Key), r.Seq)
	return err
}

// Get implements [ledger.Store].
func (s *store) Get(id string) (*ledger.Row, bool, error) {
	u, err := uuid.Parse(id)
	if err != nil {
		return nil, false, nil // nobody has such an id
	}
	var queueID int64
	r, err := s.one(&queueID, getJob, u[:])
	return r, r != nil && queueID != s.queue, err
}

// ByKey implements [ledger.Store].
func (s *store) ByKey(key string) (*ledger.Row, error) {
	var queueID int64
	return s.one(&queueID, getByKey, s.queue, []byte(key))
}

func (s *store) one(queueID *int64, which statement, args ...any) (*ledger.Row, error) {
	row, err := s.w.queryRow(which, args...)
	if err != nil {
		return nil, err
	}
	r, err := scanRow(row, queueID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return r, err
}

// Load implements [ledger.Store].
func (s *store) Load(r *ledger.Row) error {
	row, err := s.w.queryRow(getPayload, r.Seq)
	if err != nil {
		return err
	}
	var key, headers, body []byte
	if err := row.Scan(&key, &headers, &body); err != nil {
		return fmt.Errorf("read the payload of job %s: %w", r.ID, err)
	}
	r.Payload, err = payloadOf(key, headers, body)
	return err
}

func payloadOf(key, headers, body []byte) (*ledger.Payload, error) {
	h, err := decodeHeaders(headers)
	return &ledger.Payload{Key: string(key), Headers: h, Body: body}, err
}

// Update implements [ledger.Store].
func (s *store) Update(r *ledger.Row) error {
	_, err := s.w.exec(updateJob, int64(r.State), r.At, r.Attempts, r.Crashes, r.Redrives, r.Arrived, r.ReadyAt, r.StartedAt, r.ExpiresAt,
		r.Token, r.Worker, r.MaxAt, r.Cancel, r.SettledToken, string(r.Settled), r.Error, r.DeadReason, r.Seq)
	if err != nil || r.Result == nil {
		return err
	}
	_, err = s.w.exec(insertResult, r.Seq, r.Result)
	return err
}

// Delete implements [ledger.Store].
func (s *store) Delete(r *ledger.Row) error {
	for _, st := range []statement{deleteKey, deleteResult, deletePayload, deleteJob} { // the key is found through the payload
		if _, err := s.w.exec(st, r.Seq); err != nil {
			return err
		}
	}
	return nil
}

// First implements [ledger.Store].
func (s *store) First(st ledger.State, upTo int64, n int, payloads bool) ([]*ledger.Row, error) {
	if payloads {
		return s.many(firstLoaded, true, s.queue, int64(st), upTo, n)
	}
	return s.many(first, false, s.queue, int64(st), upTo, n)
}

// Overdue implements [ledger.Store].
func (s *store) Overdue(upTo int64, n int) ([]*ledger.Row, error) {
	return s.many(overdue, false, s.queue, upTo, n)
}

// Dead implements [ledger.Store].
func (s *store) Dead(n int, poison bool) ([]*ledger.Row, error) {
	skip := queue.ReasonPoison
	if poison {
		skip = ""
	}
	return s.many(firstDead, false, s.queue, skip, n)
}

func (s *store) many(which statement, payloads bool, args ...any) ([]*ledger.Row, error) {
	rows, err := s.w.query(which, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []*ledger.Row
	for rows.Next() {
		var queueID int64
		var key, headers, body []byte
		var r *ledger.Row
		if payloads {
			if r, err = scanRow(rows, &queueID, &key, &headers, &body); err == nil {
				r.Payload, err = payloadOf(key, headers, body)
			}
		} else {
			r, err = scanRow(rows, &queueID)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// EarliestAt implements [ledger.Store].
func (s *store) EarliestAt(st ledger.State) (int64, error) {
	return s.earliest(earliestAt, s.queue, int64(st))
}

// EarliestExpiry implements [ledger.Store].
func (s *store) EarliestExpiry() (int64, error) { return s.earliest(earliestExpiry, s.queue) }

func (s *store) earliest(which statement, args ...any) (int64, error) {
	row, err := s.w.queryRow(which, args...)
	if err != nil {
		return 0, err
	}
	var at sql.NullInt64
	if err := row.Scan(&at); err != nil {
		return 0, err
	}
	if !at.Valid {
		return ledger.Never, nil
	}
	return at.Int64, nil
}

// NextToken implements [ledger.Store]. The number is stored by the commit that gives it out; one lost to a rollback is
// not used again.
func (s *store) NextToken() int64 {
	s.w.token++
	return s.w.token
}

var background = context.Background() // a statement of the writer is never interrupted
