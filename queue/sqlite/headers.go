package sqlite

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// encodeHeaders returns h as a count and length-prefixed names and values, sorted by name; nil when there are none.
// Any bytes survive, which JSON would not promise.
func encodeHeaders(h map[string]string) []byte {
	if len(h) == 0 {
		return nil
	}
	b := binary.AppendUvarint(nil, uint64(len(h)))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, s := range [...]string{name, h[name]} {
			b = binary.AppendUvarint(b, uint64(len(s)))
			b = append(b, s...)
		}
	}
	return b
}

var errHeaders = errors.New("stored headers are damaged")

func decodeHeaders(b []byte) (map[string]string, error) {
	if len(b) == 0 {
		return nil, nil
	}
	count, n := binary.Uvarint(b)
	if n <= 0 || count == 0 || count > uint64(len(b)) {
		return nil, errHeaders
	}
	b = b[n:]
	next := func() (string, bool) {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return "", false
		}
		s := string(b[n : n+int(size)])
		b = b[n+int(size):]
		return s, true
	}
	h := make(map[string]string, count)
	for range count {
		name, ok := next()
		value, ok2 := next()
		if !ok || !ok2 {
			return nil, errHeaders
		}
		h[name] = value
	}
	if len(b) != 0 {
		return nil, errHeaders
	}
	return h, nil
}
