package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/headrace/headrace/queue"
)

// What an operator can mend, such as a full disk, is a 503 that says what it is: a producer tries again, and knows why.
func TestAQueueThatCannotNowIsUnavailable(t *testing.T) {
	for _, sentinel := range []error{queue.ErrUnavailable, queue.ErrUncertain} {
		p := problemOf(fmt.Errorf("publish: %w: the disk is full", sentinel))
		if p.Status != http.StatusServiceUnavailable || p.Type != problemUnavailable || !strings.Contains(p.Detail, "the disk is full") {
			t.Errorf("%v: got %d %s %q, want a 503 that names the disk", sentinel, p.Status, p.Type, p.Detail)
		}
	}
	if p := problemOf(fmt.Errorf("publish: the file is damaged")); p.Status != http.StatusInternalServerError {
		t.Errorf("a damaged file: got %d, want 500: trying again does not help", p.Status)
	}
}
