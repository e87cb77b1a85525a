package sqlite

import (
	"errors"
	"fmt"
	"strings"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/headrace/headrace/queue"
)

// explain adds what an operator can do about an error of SQLite, and marks those after which nobody knows what is on the
// disk.
func explain(err error) error {
	var e *driver.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff {
	case lib.SQLITE_FULL:
		return fmt.Errorf("%w: the disk is full: %w", queue.ErrUnavailable, err)
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return fmt.Errorf("the file is damaged: restore it from a backup: %w", err)
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return fmt.Errorf("%w: another program holds the file locked: %w", queue.ErrUnavailable, err)
	case lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_CANTOPEN:
		return fmt.Errorf("%w: the file or its directory cannot be written: %w", queue.ErrUnavailable, err)
	case lib.SQLITE_IOERR:
		return fmt.Errorf("%w: the disk failed: %w", queue.ErrUncertain, err)
	}
	return err
}

func join(columns []string) string { return strings.Join(columns, ", ") }
