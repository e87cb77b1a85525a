// Package sqlite is the built-in queue in one file, for one machine.
//
// What is a job here? A row of table job, with its payload beside it. What is a lease? A state of that row with a fencing
// token from one counter a file; its end is kept in memory, because a process that opens the file gives every lease it
// finds a full new term. When is a job seen twice? When its lease ran out, or when the process died while a worker held
// it. What does Stats cost? One read of kept counters and four index look-ups, whatever the backlog. What must be set
// up? A directory on a local disk (not a network file system).
//
// A lease is measured by the time in which this process runs. A step of the wall clock neither ends nor prolongs one. While
// the process is stopped, its machine suspended or its virtual machine paused, nobody can extend, so on its return all leases
// get the lost time back (gaps of up to a second are taken for a busy machine, and count). Delays and ages are measured by
// the same clock: one that began before the machine was suspended is over that much later, until the file is opened anew.
//
// Everything acknowledged is durable: WAL, synchronous=FULL. One goroutine writes; operations of different callers that
// wait at the same time share a transaction, so that a flush of the disk is paid for once (group commit). If any of them
// fails, the transaction is rolled back and each is run again alone, so that a failing one harms no neighbour.
package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
	_ "modernc.org/sqlite" // the driver

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/internal/ledger"
)

//go:embed schema.sql
var schema string

const (
	applicationID = 0x48647263 // "Hdrc": marks the file as ours
	schemaVersion = 1
)

// Options of a file. The zero value is good.
type Options struct {
	// Log receives what goes wrong in the background; default: nothing is logged.
	Log *slog.Logger
	// Readers is the number of connections for reads; default 4.
	Readers int
}

// DB is an open file. Its methods are safe for concurrent use.
type DB struct {
	path  string
	log   *slog.Logger
	clock ledger.Clock

	lock    *os.File
	pool    *sql.DB // of the writer's one connection
	readers *sql.DB
	w       writer // belongs to the writer goroutine

	mu      sync.Mutex
	pending []*op
	closing bool
	queues  map[string]*Queue // handles that are open
	wake    chan struct{}     // has room for one: there is something pending
	stopped chan struct{}     // closed when the writer has ended

	books []*books // belongs to the writer goroutine
}

// books is a queue of the file that this process works on.
type books struct {
	*ledger.Ledger
	id          int64
	name, epoch string
}

// Open opens or creates the file and becomes its only writer. ctx bounds the opening.
func Open(ctx context.Context, path string, opts Options) (*DB, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Readers <= 0 {
		opts.Readers = 4
	}
	abs, err := filepath.Abs(path)
	if path == "" || err != nil {
		return nil, fmt.Errorf("open queue file %q: bad path", path)
	}
	db := &DB{
		path: path, log: opts.Log, clock: ledger.StartClock(time.Now()),
		queues: map[string]*Queue{}, wake: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	if err := db.open(ctx, abs, opts.Readers); err != nil {
		return nil, fmt.Errorf("open queue file %s: %w", path, errors.Join(explain(err), db.release()))
	}
	go db.write()
	return db, nil
}

func (db *DB) open(ctx context.Context, abs string, readers int) (err error) {
	if db.lock, err = os.OpenFile(abs+".lock", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	switch taken, err := lockFile(db.lock); {
	case err != nil:
		return fmt.Errorf("lock: %w", err)
	case !taken:
		return errors.New("another process has it open: stop that process, or use its API")
	}
	if err := checkHeader(abs); err != nil {
		return err
	}
	dsn := func(pragmas ...string) string {
		u := url.URL{Scheme: "file", Path: filepath.ToSlash(abs)}
		u.RawQuery = url.Values{"_pragma": append(pragmas, "busy_timeout("+busyTimeout+")", "temp_store(memory)")}.Encode()
		return u.String()
	}
	if db.pool, err = sql.Open("sqlite", dsn("journal_mode(wal)", "synchronous(full)", "foreign_keys(off)",
		"cache_size(-65536)", "wal_autocheckpoint(4000)", "journal_size_limit(67108864)")); err != nil {
		return err
	}
	db.pool.SetMaxOpenConns(1)
	if db.w.conn, err = db.pool.Conn(ctx); err != nil {
		return err
	}
	if err := db.prepareSchema(ctx); err != nil {
		return err
	}
	if err := db.w.conn.QueryRowContext(ctx, "SELECT token FROM file").Scan(&db.w.token); err != nil {
		return err
	}
	db.w.savedToken = db.w.token
	if err := db.w.prepare(ctx); err != nil {
		return err
	}
	if db.readers, err = sql.Open("sqlite", dsn("query_only(1)")); err != nil {
		return err
	}
	db.readers.SetMaxOpenConns(readers)
	db.readers.SetMaxIdleConns(readers)
	return nil
}

// checkHeader refuses a file that is no SQLite database, before SQLite could touch it.
func checkHeader(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var head [100]byte
	n, err := io.ReadFull(f, head[:])
	switch {
	case errors.Is(err, io.EOF):
		return nil // an empty file is a new one
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	}
	if n < len(head) || string(head[:16]) != "SQLite format 3\x00" {
		return fmt.Errorf("not a SQLite database: it starts with %q", head[:min(n, 16)])
	}
	if id := binary.BigEndian.Uint32(head[68:]); id != 0 && id != applicationID {
		return errForeign
	}
	return nil
}

var errForeign = errors.New("not a queue file: the database belongs to another program")

func (db *DB) prepareSchema(ctx context.Context) error {
	var mode string
	var appID, version, tables int
	for query, to := range map[string]any{
		"PRAGMA journal_mode":                &mode,
		"PRAGMA application_id":              &appID,
		"PRAGMA user_version":                &version,
		"SELECT count(*) FROM sqlite_schema": &tables,
	} {
		if err := db.w.conn.QueryRowContext(ctx, query).Scan(to); err != nil {
			return err
		}
	}
	switch {
	case mode != "wal":
		return fmt.Errorf("the file system does not support write-ahead logging (journal mode is %q)", mode)
	case appID == applicationID && version == schemaVersion:
		return nil
	case appID == applicationID && version > schemaVersion:
		return fmt.Errorf("made by a newer version: its schema is %d, this program knows %d", version, schemaVersion)
	case appID != 0 || tables > 0:
		return errForeign
	}
	_, err := db.w.conn.ExecContext(ctx, fmt.Sprintf("BEGIN IMMEDIATE; %s; PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT",
		schema, applicationID, schemaVersion))
	return err
}

// now returns the file's time in nanoseconds since 1970.
func (db *DB) now() int64 { return db.clock.Now() }

// Queue returns the queue with the name, made if it is new, under the policy p. While a queue is open, asking for it
// again returns the same one with the new policy.
func (db *DB) Queue(ctx context.Context, name string, p queue.Policy) (*Queue, error) {
	if name == "" {
		return nil, fmt.Errorf("open queue: %w: it has no name", queue.ErrInvalid)
	}
	var q *Queue
	err := db.doAlone(ctx, func(now int64) error {
		b, err := db.openBooks(now, name, p)
		if err != nil {
			return err
		}
		db.mu.Lock()
		defer db.mu.Unlock()
		if q = db.queues[name]; q == nil {
			b.Reopen()
			q = &Queue{db: db, books: b}
			db.queues[name] = q
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("open queue %q: %w", name, err)
	}
	return q, nil
}

// openBooks finds or makes the books of a queue; on the writer goroutine.
func (db *DB) openBooks(now int64, name string, p queue.Policy) (*books, error) {
	for _, b := range db.books {
		if b.name == name {
			b.SetPolicy(p)
			return b, nil
		}
	}
	if err := db.w.start(); err != nil {
		return nil, err
	}
	conn := db.w.conn
	if _, err := conn.ExecContext(background, "INSERT INTO queue (name, epoch) VALUES (?, ?) ON CONFLICT DO NOTHING", name, uuid.NewString()); err != nil {
		return nil, err
	}
	b := &books{name: name}
	var n ledger.Counters
	err := conn.QueryRowContext(background, "SELECT queue, epoch, "+join(counterColumns)+" FROM queue WHERE name = ?", name).
		Scan(append([]any{&b.id, &b.epoch}, scanCounters(&n)...)...)
	if err != nil {
		return nil, err
	}
	s := &store{w: &db.w, queue: b.id}
	b.Ledger = ledger.New(s, p, n)
	leased, err := s.First(ledger.Leased, ledger.Never, int(n.Level[ledger.Leased])+1, false)
	if err != nil {
		return nil, err
	}
	if err := db.w.commit(); err != nil {
		return nil, err
	}
	for _, r := range leased {
		b.Inherit(now, r)
	}
	db.books = append(db.books, b)
	return b, nil
}

// Close ends every queue of the file, waits for the writer and closes the file. It is idempotent.
func (db *DB) Close() error {
	db.mu.Lock()
	first := !db.closing
	db.closing = true
	db.mu.Unlock()
	db.signal()
	<-db.stopped
	if !first {
		return nil
	}
	return db.release()
}

// release closes what is open.
func (db *DB) release() error {
	var errs []error
	if db.readers != nil {
		errs = append(errs, db.readers.Close())
	}
	for _, st := range db.w.prepared { // or SQLite would keep the file, and its log, open
		if st != nil {
			errs = append(errs, st.Close())
		}
	}
	if db.w.conn != nil {
		errs = append(errs, db.w.conn.Close())
	}
	if db.pool != nil {
		errs = append(errs, db.pool.Close())
	}
	if db.lock != nil {
		errs = append(errs, db.lock.Close())
	}
	return errors.Join(errs...)
}
