package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/queue/sqlite"
)

func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "queue")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "queue.db")

	db, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		panic(err)
	}
	q, err := db.Queue(ctx, "emails", queue.Policy{})
	if err != nil {
		panic(err)
	}
	p := q.Publish(ctx, []queue.Job{{Payload: []byte("hello")}})[0]
	db.Close()

	// Another process, another day.
	if db, err = sqlite.Open(ctx, path, sqlite.Options{}); err != nil {
		panic(err)
	}
	defer db.Close()
	r, err := db.Find(ctx, p.ID)
	fmt.Printf("%s %s in %s, %v\n", r.Payload, r.State, r.Queue, err)
	// Output: hello ready in emails, <nil>
}
