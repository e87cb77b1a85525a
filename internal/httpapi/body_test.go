package httpapi

import (
	"encoding/json"
	"testing"
)

// The framework reads the next request into the buffer of one that it has parsed. A body that went on pointing there would
// enqueue somebody else's payload.
func TestABodyKeepsNothingOfItsBuffer(t *testing.T) {
	for _, text := range []string{`{"pool":"a","payload":"mine"}`, `[{"pool":"a","payload":"mine"}]`} {
		buffer := []byte(text)
		var b jobsBody
		if err := json.Unmarshal(buffer, &b); err != nil {
			t.Fatal(err)
		}
		for i := range buffer {
			buffer[i] = 'x'
		}
		if len(b.jobs) != 1 || string(b.jobs[0]) != `{"pool":"a","payload":"mine"}` {
			t.Errorf("%s became %s", text, b.jobs)
		}
	}
}
