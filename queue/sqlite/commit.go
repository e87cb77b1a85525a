package sqlite

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/internal/ledger"
)

// op is one caller's operation. run may be called more than once: whatever it did before was rolled back.
type op struct {
	run   func(now int64) error // an error is the store's, and aborts the transaction
	alone bool                  // not with others in one transaction
	size  int                   // jobs, roughly
	err   error
	done  chan struct{}
}

// batchSize is how many jobs one transaction handles, roughly: enough to make the flush cheap, few enough that nobody
// waits long.
const batchSize = 2000

// idleCheckpoint is how long the writer rests before it moves the log into the database and empties it.
const idleCheckpoint = 2 * time.Second

// busyTimeout, in milliseconds, only matters when another program, such as a backup, opens the file.
const busyTimeout = "5000"

// retryDue is how long due work rests after it failed.
const retryDue = time.Second

// do runs f in a transaction shared with others and returns when it is durable, or has failed. It is never abandoned half
// way: once submitted it is answered.
func (db *DB) do(size int, f func(now int64) error) error {
	return db.submit(&op{run: f, size: size, done: make(chan struct{})})
}

// doAlone runs f in a transaction of its own.
func (db *DB) doAlone(ctx context.Context, f func(now int64) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return db.submit(&op{run: f, alone: true, size: 1, done: make(chan struct{})})
}

func (db *DB) submit(o *op) error {
	db.mu.Lock()
	if db.closing {
		db.mu.Unlock()
		return queue.ErrClosed
	}
	db.pending = append(db.pending, o)
	db.mu.Unlock()
	db.signal()
	<-o.done
	return o.err
}

func (db *DB) signal() {
	select {
	case db.wake <- struct{}{}:
	default:
	}
}

// take returns the operations of the next transaction.
func (db *DB) take() (batch []*op, more, closing bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	n, size := 0, 0
	for n < len(db.pending) && size < batchSize && (n == 0 || !db.pending[n].alone) {
		size += db.pending[n].size
		n++
		if db.pending[n-1].alone {
			break
		}
	}
	batch = append(batch, db.pending[:n]...)
	rest := copy(db.pending, db.pending[n:])
	clear(db.pending[rest:])
	db.pending = db.pending[:rest]
	return batch, rest > 0, db.closing
}

// write is the writer goroutine.
func (db *DB) write() {
	defer close(db.stopped)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var tickAfter, checkpointAt int64 = 0, ledger.Never
	last := 0 // operations in the last transaction
	for {
		select {
		case <-db.wake:
			db.gather(last)
		case <-timer.C:
		}
		batch, more, closing := db.take()
		last = len(batch)
		wrote, ticked := db.commitBatch(batch, tickAfter)
		now := db.now()
		if !ticked {
			tickAfter = now + int64(retryDue)
		}
		if closing && !more {
			for _, b := range db.books {
				b.Close()
			}
			return
		}
		if more || closing {
			db.signal()
		}
		switch {
		case wrote:
			checkpointAt = now + int64(idleCheckpoint)
		case now >= checkpointAt:
			db.checkpoint()
			checkpointAt = ledger.Never
		}
		next := checkpointAt
		for _, b := range db.books {
			next = min(next, max(b.Next(), tickAfter))
		}
		timer.Reset(time.Duration(max(0, min(next-now, int64(time.Hour)))))
	}
}

// gather lets callers that were answered by the last transaction come back before the next one starts: without it,
// large and tiny transactions alternate, at the same cost each.
func (db *DB) gather(last int) {
	waiting := func() int {
		db.mu.Lock()
		defer db.mu.Unlock()
		return len(db.pending)
	}
	for n := waiting(); n < last; {
		runtime.Gosched()
		now := waiting()
		if now == n {
			return
		}
		n = now
	}
}

// commitBatch runs ops and what has become due. It reports whether anything was written, and whether the due work
// went well.
func (db *DB) commitBatch(ops []*op, tickAfter int64) (wrote, ticked bool) {
	tick := db.now() >= tickAfter
	wrote, err := db.try(ops, tick)
	if err == nil {
		return wrote, true
	}
	// One of them failed. Each again alone, so that only the culprit suffers.
	for _, o := range ops {
		if _, err := db.try([]*op{o}, false); err != nil {
			o.err = err
			close(o.done)
		}
	}
	if !tick {
		return true, true
	}
	if _, err := db.try(nil, true); err != nil {
		db.log.Error("due work of the queue failed", "file", db.path, "error", err)
		return true, false
	}
	return true, true
}

// try runs ops, and what has become due if tick, in one transaction, and answers the callers. After an error nothing
// has happened and nobody was answered.
func (db *DB) try(ops []*op, tick bool) (wrote bool, err error) {
	defer func() {
		if err != nil {
			db.w.rollback()
			for _, b := range db.books {
				b.Rollback()
			}
			err = explain(err)
		}
	}()
	now := db.now()
	for _, o := range ops {
		if err := o.run(now); err != nil {
			return false, err
		}
	}
	if tick {
		for _, b := range db.books {
			if err := b.Tick(now); err != nil {
				return false, fmt.Errorf("due work of queue %q: %w", b.name, err)
			}
			if err := b.ServeParked(now); err != nil {
				return false, fmt.Errorf("serve queue %q: %w", b.name, err)
			}
		}
	}
	for _, b := range db.books {
		if b.Dirty() {
			n := b.Counters()
			if err := db.w.saveCounters(b.id, &n); err != nil {
				return false, err
			}
		}
	}
	wrote = db.w.inTx
	if err := db.w.commit(); err != nil {
		return false, err
	}
	for _, b := range db.books {
		b.Commit()
	}
	for _, o := range ops {
		close(o.done)
	}
	return wrote, nil
}

// checkpoint empties the log while nothing else is to do. It does not wait for a reader that is in its way, because
// callers would wait with it: the checkpoint is then incomplete, and the next one does the rest.
func (db *DB) checkpoint() {
	_, err := db.w.conn.ExecContext(background, "PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA busy_timeout = "+busyTimeout)
	if err != nil {
		db.log.Warn("checkpoint of the queue file failed", "file", db.path, "error", err)
	}
}
