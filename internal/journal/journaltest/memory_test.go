package journaltest_test

import (
	"testing"

	"github.com/headrace/headrace/internal/journal"
	"github.com/headrace/headrace/internal/journal/journaltest"
)

func TestMemory(t *testing.T) {
	journaltest.Run(t, func(*testing.T) journal.Journal { return &journaltest.Memory{} })
}
