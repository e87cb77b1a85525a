package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/queue"
)

// limit makes the file's disk full, as SQLite sees it, at its present size plus pages; or has room again.
func limit(t *testing.T, db *DB, pages int) {
	t.Helper()
	err := db.doAlone(t.Context(), func(int64) error {
		var n, got int
		if err := db.w.conn.QueryRowContext(background, "PRAGMA page_count").Scan(&n); err != nil {
			return err
		}
		return db.w.conn.QueryRowContext(background, fmt.Sprintf("PRAGMA max_page_count = %d", n+pages)).Scan(&got)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFullDiskIsReportedAndForgiven(t *testing.T) {
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "queue.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	q, err := db.Queue(t.Context(), "jobs", queue.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	kept := q.Publish(ctx, []queue.Job{{Payload: []byte("kept")}, {Payload: []byte("kept too")}})
	ls, err := q.Receive(ctx, queue.Request{Worker: "w", Max: 1})
	if err != nil || len(ls) != 1 {
		t.Fatal(ls, err)
	}
	parked := make(chan []queue.Lease, 1)
	taken, err := q.Receive(ctx, queue.Request{Worker: "other", Max: 1})
	if err != nil || len(taken) != 1 {
		t.Fatal(taken, err)
	}
	go func() {
		got, _ := q.Receive(ctx, queue.Request{Worker: "parked", Max: 5, Wait: time.Minute})
		parked <- got
	}()
	time.Sleep(10 * time.Millisecond)

	limit(t, db, 1)
	big := queue.Job{Payload: []byte(strings.Repeat("x", queue.MaxPayload))}
	p := q.Publish(ctx, []queue.Job{big})[0]
	if !errors.Is(p.Err, queue.ErrUnavailable) || !strings.Contains(p.Err.Error(), "disk is full") || errors.Is(p.Err, queue.ErrUncertain) {
		t.Fatalf("publishing to a full disk: %v", p.Err)
	}
	// What needs no room goes on: the holder settles, in the same transaction as others that fail.
	failed := make(chan error, 8)
	for range cap(failed) {
		go func() { failed <- q.Publish(ctx, []queue.Job{big})[0].Err }()
	}
	if err := q.Settle(ctx, []queue.Settlement{{Receipt: ls[0].Receipt(), Verdict: queue.Ack}})[0]; err != nil {
		t.Fatalf("settling beside publishers that fail: %v", err)
	}
	for range cap(failed) {
		if err := <-failed; err == nil {
			t.Error("a job was accepted by a full disk")
		}
	}
	if drift, err := db.Drift(ctx); err != nil || len(drift) > 0 {
		t.Errorf("drift %v, %v", drift, err)
	}

	limit(t, db, 1<<20)
	p = q.Publish(ctx, []queue.Job{big})[0]
	if p.Err != nil {
		t.Fatalf("publishing when there is room again: %v", p.Err)
	}
	if got := <-parked; len(got) != 1 || got[0].JobID != p.ID {
		t.Errorf("the worker that waited all the time received %d jobs", len(got))
	}
	for _, k := range kept {
		if _, err := q.Get(ctx, k.ID); err != nil {
			t.Errorf("an acknowledged job is lost: %v", err)
		}
	}
	if s, err := q.Stats(ctx); err != nil || s.Arrivals.Value != 3 || s.InFlight.Value != 2 {
		t.Errorf("stats are %+v, %v", s, err)
	}
	if drift, err := db.Drift(ctx); err != nil || len(drift) > 0 {
		t.Errorf("drift %v, %v", drift, err)
	}
}

// One operation's error of the store rolls back the transaction; its neighbours are run again and answered.
func TestFailingOperationHarmsNoNeighbour(t *testing.T) {
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "queue.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	q, err := db.Queue(t.Context(), "jobs", queue.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	running, held := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() { first <- db.do(1, func(int64) error { close(running); <-held; return nil }) }()
	<-running // the writer is busy: all others will share a transaction
	answers := make(chan error, 20)
	var runs int
	for i := range cap(answers) {
		go func() {
			if i%5 == 0 {
				answers <- db.do(1, func(int64) error { runs++; return boom })
				return
			}
			answers <- q.Publish(context.Background(), []queue.Job{{Payload: []byte("x"), Key: fmt.Sprint(i)}})[0].Err
		}()
	}
	for {
		db.mu.Lock()
		n := len(db.pending)
		db.mu.Unlock()
		if n == cap(answers) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	close(held)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	booms := 0
	for range cap(answers) {
		if err := <-answers; errors.Is(err, boom) {
			booms++
		} else if err != nil {
			t.Errorf("a neighbour failed: %v", err)
		}
	}
	if booms != 4 || runs < 5 {
		t.Errorf("%d failed in %d runs, want 4, and the first of them twice", booms, runs)
	}
	if s, err := q.Stats(t.Context()); err != nil || s.Backlog.Value != 16 || s.Arrivals.Value != 16 {
		t.Errorf("stats are %+v, %v", s, err)
	}
	if drift, err := db.Drift(t.Context()); err != nil || len(drift) > 0 {
		t.Errorf("drift %v, %v", drift, err)
	}
}

// A reader that never ends keeps the log from being emptied, and nothing else.
func TestReaderHoldingTheLogDoesNotStopWriters(t *testing.T) {
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "queue.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	q, err := db.Queue(t.Context(), "jobs", queue.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.readers.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var n int
	if err := tx.QueryRow("SELECT count(*) FROM job").Scan(&n); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		jobs := make([]queue.Job, 100)
		for i := range jobs {
			jobs[i].Payload = make([]byte, 2000)
		}
		for _, p := range q.Publish(t.Context(), jobs) {
			if p.Err != nil {
				t.Fatal(p.Err)
			}
		}
	}
	start := time.Now()
	if err := db.doAlone(t.Context(), func(int64) error { db.checkpoint(); return nil }); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("a checkpoint waited %v for the reader, and all callers with it", d)
	}
	if s, err := q.Stats(t.Context()); err != nil || s.Backlog.Value != 5000 {
		t.Fatalf("stats are %+v, %v", s, err)
	}
	if err := tx.QueryRow("SELECT count(*) FROM job").Scan(&n); err != nil || n != 0 {
		t.Fatalf("the reader sees %d jobs, %v", n, err)
	}
}
