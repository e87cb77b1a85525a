package ledger

import (
	"bytes"
	"fmt"

	"github.com/google/uuid"

	"github.com/headrace/headrace/queue"
)

// Publish adds jobs, which must be valid. The error is the store's and aborts the batch; all else is in the answers.
func (l *Ledger) Publish(now int64, jobs []queue.Job) ([]queue.Published, error) {
	l.Begin()
	out := make([]queue.Published, len(jobs))
	for i := range jobs {
		p, err := l.publish(now, &jobs[i])
		if err != nil {
			return nil, err
		}
		out[i] = p
	}
	return out, nil
}

func (l *Ledger) publish(now int64, j *queue.Job) (queue.Published, error) {
	known, err := l.known(now, j)
	if known != nil || err != nil {
		return l.duplicate(known, j, err)
	}
	id := j.ID
	if id == "" {
		u, err := uuid.NewV7()
		if err != nil {
			return queue.Published{Err: fmt.Errorf("make a job id: %w", err)}, nil
		}
		id = u.String()
	} else {
		id = uuid.MustParse(id).String() // the canonical form
		r, foreign, err := l.store.Get(id)
		switch {
		case err != nil:
			return queue.Published{}, err
		case foreign:
			return queue.Published{ID: id, Err: fmt.Errorf("publish job %s: %w: another queue has a job with this id", id, queue.ErrConflict)}, nil
		case r != nil:
			return l.duplicate(r, j, nil)
		}
	}
	r := &Row{
		ID: id, Tenant: j.Tenant, Priority: j.Priority, EnqueuedAt: now,
		Payload: &Payload{Key: j.Key, Headers: j.Headers, Body: j.Payload},
	}
	if j.ExpiresIn > 0 {
		r.ExpiresAt = later(now, j.ExpiresIn)
	}
	r.toWaiting(now, j.Delay)
	if r.State == Ready {
		r.Arrived = true
		l.n.add(Arrivals)
	}
	if err := l.store.Insert(r); err != nil {
		return queue.Published{}, err
	}
	l.n.Level[r.State]++
	l.moved(r)
	return queue.Published{ID: id}, nil
}

// known returns the job that has j's key, if it is kept still.
func (l *Ledger) known(now int64, j *queue.Job) (*Row, error) {
	if j.Key == "" {
		return nil, nil
	}
	r, err := l.store.ByKey(j.Key)
	if r == nil || err != nil {
		return nil, err
	}
	if l.forgettable(now, r) {
		return nil, l.forget(r)
	}
	return r, nil
}

// duplicate answers for a job that is known as r.
func (l *Ledger) duplicate(r *Row, j *queue.Job, err error) (queue.Published, error) {
	if err == nil {
		err = l.store.Load(r)
	}
	if err != nil {
		return queue.Published{}, err
	}
	if !bytes.Equal(r.Payload.Body, j.Payload) {
		what := "id " + r.ID
		if j.Key != "" {
			what = fmt.Sprintf("key %q", j.Key)
		}
		return queue.Published{ID: r.ID, Err: fmt.Errorf("publish job: %w: the %s was used with another payload", queue.ErrConflict, what)}, nil
	}
	return queue.Published{ID: r.ID, Duplicate: true}, nil
}

// forgettable reports whether r ended longer ago than jobs are kept. Dead letters are kept for ever.
func (l *Ledger) forgettable(now int64, r *Row) bool {
	return r.State.Terminal() && r.State != Dead && r.At <= now-int64(l.policy.KeepResults)
}

func (l *Ledger) forget(r *Row) error {
	if err := l.store.Delete(r); err != nil {
		return err
	}
	l.n.Level[r.State]--
	return nil
}
