package sqlite

import (
	"maps"
	"testing"
)

func FuzzDecodeHeaders(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(encodeHeaders(map[string]string{"a": "b", "": "\x00\xff"}))
	f.Add([]byte{1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHeaders(b)
		if err != nil {
			return
		}
		again, err := decodeHeaders(encodeHeaders(h))
		if err != nil || !maps.Equal(h, again) {
			t.Fatalf("%v became %v, %v", h, again, err)
		}
	})
}
