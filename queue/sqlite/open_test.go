package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/sqlite"
)

func openErr(t *testing.T, path string) error {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err == nil {
		db.Close()
		t.Fatalf("%s was opened", path)
	}
	return err
}

func wantText(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error is %q, want %q in it", err, text)
		}
	}
}

func TestOpenRefusesWhatIsNoQueueFile(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }

	if err := os.WriteFile(path("text"), []byte(strings.Repeat("hello world\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	wantText(t, openErr(t, path("text")), path("text"), "not a SQLite database")
	if b, _ := os.ReadFile(path("text")); !strings.HasPrefix(string(b), "hello") {
		t.Error("the foreign file was changed")
	}

	foreign, err := sql.Open("sqlite", path("foreign"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := foreign.Exec("CREATE TABLE songs (title TEXT)"); err != nil {
		t.Fatal(err)
	}
	foreign.Close()
	wantText(t, openErr(t, path("foreign")), "belongs to another program")

	openQueue(t, path("newer"), queue.Policy{})
	newer, err := sql.Open("sqlite", copyFile(t, path("newer"), path("newer2")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newer.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	newer.Close()
	wantText(t, openErr(t, path("newer2")), "newer version", "99")

	wantText(t, openErr(t, path("no/such/dir/queue.db")), "no such file or directory")
	wantText(t, openErr(t, ""), "bad path")
}

func TestDamagedFileIsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	db, q := openQueue(t, path, queue.Policy{})
	publishN(t, q, 2000)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + "-wal"); !os.IsNotExist(err) {
		t.Errorf("the log is there after Close: %v", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	size, _ := f.Seek(0, 2)
	for at := int64(4096); at < size; at += 4096 {
		f.WriteAt([]byte(strings.Repeat("garbage!", 512)), at)
	}
	f.Close()
	wantText(t, openErr(t, path), "damaged", "backup")
}

func TestSecondOpenerIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	db, _ := openQueue(t, path, queue.Policy{})
	wantText(t, openErr(t, path), "another process has it open")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	out, _ := cmd.CombinedOutput()
	wantText(t, errors.New(string(out)), "another process has it open")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db, _ = openQueue(t, path, queue.Policy{}) // free again
	db.Close()
}

func TestNamesAndFilesWithOddCharacters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?c#d%20ü&e=f.db")
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	names := []string{"a", "ünïcode/日本 語", "with space", "'; DROP TABLE job; --", "a/b?c"}
	for _, name := range names {
		q, err := db.Queue(t.Context(), name, queue.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = q.Publish(t.Context(), []queue.Job{{Payload: []byte(name)}})[0].ID
	}
	for _, name := range names {
		q, _ := db.Queue(t.Context(), name, queue.Policy{})
		r, err := q.Get(t.Context(), ids[name])
		if err != nil || r.Queue != name || string(r.Payload) != name {
			t.Errorf("queue %q: %+v, %v", name, r, err)
		}
		if r, err := db.Find(t.Context(), ids[name]); err != nil || r.Queue != name {
			t.Errorf("found %+v, %v", r, err)
		}
		other, _ := db.Queue(t.Context(), names[0], queue.Policy{})
		if _, err := other.Get(t.Context(), ids[name]); name != names[0] && !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("queue %q has a job of queue %q", names[0], name)
		}
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestQueueTwiceIsTheSameWithTheNewPolicy(t *testing.T) {
	db, q := openQueue(t, filepath.Join(t.TempDir(), "queue.db"), queue.Policy{Lease: time.Minute})
	again, err := db.Queue(t.Context(), "jobs", queue.Policy{Lease: 2 * time.Minute, MaxLease: 3 * time.Minute})
	if err != nil || again != q {
		t.Fatalf("%p, %v; want %p", again, err, q)
	}
	publishN(t, q, 1)
	ls, err := q.Receive(t.Context(), queue.Request{Worker: "w", Max: 1})
	if err != nil || len(ls) != 1 || ls[0].For < 2*time.Minute || q.Caps().MaxLease != 3*time.Minute {
		t.Fatalf("received %+v, %v", ls, err)
	}
	// A queue that was closed may be opened again; its leases were kept.
	if err := q.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err = db.Queue(t.Context(), "jobs", queue.Policy{})
	if err != nil || again == q {
		t.Fatalf("opened again: %p, %v", again, err)
	}
	if err := again.Settle(t.Context(), settle(ls, queue.Ack))[0]; err != nil {
		t.Fatal(err)
	}
	if err := q.Settle(t.Context(), settle(ls, queue.Ack))[0]; !errors.Is(err, queue.ErrClosed) {
		t.Fatalf("the closed handle answers %v", err)
	}
}

func TestCloseOfTheFileWakesEverybody(t *testing.T) {
	db, q := openQueue(t, filepath.Join(t.TempDir(), "queue.db"), queue.Policy{})
	errs := make(chan error, 3)
	go func() {
		_, err := q.Receive(context.Background(), queue.Request{Worker: "w", Max: 1, Wait: time.Hour})
		errs <- err
	}()
	go func() { errs <- q.Wait(context.Background(), "w") }()
	id := q.Publish(t.Context(), []queue.Job{{Delay: time.Hour}})[0].ID
	go func() {
		_, err := q.Await(context.Background(), id)
		errs <- err
	}()
	time.Sleep(20 * time.Millisecond)
	for range 2 {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if err := <-errs; !errors.Is(err, queue.ErrClosed) {
			t.Errorf("woken with %v", err)
		}
	}
	if _, err := db.Queue(t.Context(), "x", queue.Policy{}); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := db.Find(t.Context(), id); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := db.Drift(t.Context()); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
