package queue

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
)

// A Cursor is a place in a list of jobs that is ordered by time, then by number. Its text is [Filter.After].
type Cursor struct {
	At  int64 // nanoseconds since 1970
	Seq int64 // tells jobs of the same nanosecond apart
}

// String returns the cursor as an opaque text that is safe in a URL.
func (c Cursor) String() string {
	b := binary.AppendVarint(nil, c.At)
	return base64.RawURLEncoding.EncodeToString(binary.AppendVarint(b, c.Seq))
}

// ParseCursor reads what [Cursor.String] wrote. An error wraps [ErrInvalid].
func ParseCursor(s string) (Cursor, error) {
	bad := fmt.Errorf("%w: %q is not the end of a page", ErrInvalid, s)
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return Cursor{}, bad
	}
	at, n := binary.Varint(b)
	if n <= 0 {
		return Cursor{}, bad
	}
	seq, m := binary.Varint(b[n:])
	if m <= 0 || n+m != len(b) {
		return Cursor{}, bad
	}
	return Cursor{At: at, Seq: seq}, nil
}
