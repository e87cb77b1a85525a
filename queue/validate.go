package queue

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Limits of a job, beside [MaxPayload].
const (
	MaxKey         = 512                  // bytes
	MaxTenant      = 128                  // bytes
	MaxHeaders     = 64                   // number
	MaxHeaderBytes = 16 << 10             // names and values together
	MaxPriority    = 9                    // 0 is the most urgent
	MaxWait        = 365 * 24 * time.Hour // of Delay and ExpiresIn
	MaxReason      = 4 << 10              // bytes of a failure's text that are kept
)

// Validate returns nil, or an error that wraps [ErrInvalid] and names everything that is wrong with j.
func (j Job) Validate() error {
	var wrong []string
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if j.ID != "" {
		if u, err := uuid.Parse(j.ID); err != nil || u.Version() != 7 {
			bad("id is not a UUIDv7")
		}
	}
	if len(j.Payload) > MaxPayload {
		bad("payload has %d bytes, at most %d are allowed: put the data in an object store and its address in the job", len(j.Payload), MaxPayload)
	}
	if len(j.Key) > MaxKey {
		bad("key has %d bytes, at most %d are allowed", len(j.Key), MaxKey)
	}
	switch {
	case len(j.Tenant) > MaxTenant:
		bad("tenant has %d bytes, at most %d are allowed", len(j.Tenant), MaxTenant)
	case !utf8.ValidString(j.Tenant) || strings.ContainsRune(j.Tenant, 0):
		bad("tenant is not plain UTF-8 text")
	}
	if j.Priority < 0 || j.Priority > MaxPriority {
		bad("priority is %d, it must be 0 to %d", j.Priority, MaxPriority)
	}
	if len(j.Headers) > MaxHeaders {
		bad("%d headers, at most %d are allowed", len(j.Headers), MaxHeaders)
	}
	size := 0
	for name, value := range j.Headers {
		size += len(name) + len(value)
		if name == "" {
			bad("a header has no name")
		}
	}
	if size > MaxHeaderBytes {
		bad("headers have %d bytes, at most %d are allowed", size, MaxHeaderBytes)
	}
	wait := func(name string, d time.Duration) {
		if d < 0 {
			bad("%s is negative", name)
		} else if d > MaxWait {
			bad("%s is %v, at most %v are allowed", name, d, MaxWait)
		}
	}
	wait("delay", j.Delay)
	wait("expires_in", j.ExpiresIn)
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrInvalid, strings.Join(wrong, "; "))
}
