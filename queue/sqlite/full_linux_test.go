package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/queue"
)

// smallDisk opens a file on a disk of its own that is soon full, and returns what gives it more room. Only root may mount
// one; others get a file that SQLite may not let grow, which fails with the same error.
func smallDisk(t *testing.T) (db *DB, room func()) {
	dir := t.TempDir()
	open := func() {
		var err error
		if db, err = Open(t.Context(), filepath.Join(dir, "queue.db"), Options{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Logf("a simulated disk, because none can be mounted: %v", err)
		open()
		limit(t, db, 800)
		return db, func() { limit(t, db, 1<<20) }
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	open()
	return db, func() {
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=64m"); err != nil {
			t.Fatal(err)
		}
	}
}

// A disk is filled by publishing. The error says so, what was acknowledged stays, claims and settlements that find room go
// on, and so does all else as soon as there is room.
func TestDiskFilledByPublishing(t *testing.T) {
	db, room := smallDisk(t)
	q, err := db.Queue(t.Context(), "jobs", queue.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	var kept []string
	var full error
	for i := 0; full == nil && i < 1000; i++ {
		p := q.Publish(ctx, []queue.Job{{Payload: []byte(strings.Repeat("x", 30_000)), Key: fmt.Sprint(i)}})[0]
		if full = p.Err; full == nil {
			kept = append(kept, p.ID)
		}
	}
	if full == nil || !strings.Contains(full.Error(), "disk is full") {
		t.Fatalf("after %d jobs: %v, want that the disk is full", len(kept), full)
	}
	check := func(when string) {
		t.Helper()
		for _, id := range kept {
			if _, err := q.Get(ctx, id); err != nil {
				t.Errorf("%s, an acknowledged job is lost: %v", when, err)
			}
		}
		if s, err := q.Stats(ctx); err != nil || s.Arrivals.Value != float64(len(kept)) {
			t.Errorf("%s, %d jobs are kept and stats are %+v, %v", when, len(kept), s, err)
		}
		if drift, err := db.Drift(ctx); err != nil || len(drift) > 0 {
			t.Errorf("%s, drift %v, %v", when, drift, err)
		}
	}
	t.Logf("%d jobs were acknowledged, then: %v", len(kept), full)
	check("with the disk full")
	// A claim is answered: with jobs, or that there is no room.
	ls, err := q.Receive(ctx, queue.Request{Worker: "w", Max: 1})
	if err != nil && !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("received %v, %v", ls, err)
	}
	room()
	p := q.Publish(ctx, []queue.Job{{Payload: []byte("after")}})[0]
	if p.Err != nil {
		t.Fatalf("publishing when there is room again: %v", p.Err)
	}
	kept = append(kept, p.ID)
	check("with room again")
	for acked := 0; acked < len(kept); acked++ {
		if len(ls) == 0 {
			if ls, err = q.Receive(ctx, queue.Request{Worker: "w", Max: 1}); err != nil || len(ls) != 1 {
				t.Fatalf("received %v, %v", ls, err)
			}
		}
		if err := errors.Join(q.Settle(ctx, []queue.Settlement{{Receipt: ls[0].Receipt(), Verdict: queue.Ack}})...); err != nil {
			t.Fatal(err)
		}
		ls = nil
	}
	check("at the end")
}
