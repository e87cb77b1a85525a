package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/headrace/headrace/internal/httpapi"
	"github.com/headrace/headrace/queue"
)

// jobLine is a line of the input that is a job.
type jobLine struct {
	n     int    // line number, from 1
	job   []byte // JSON of an [httpapi.JobInput] with its pool; the payload as it was written
	keyed bool   // it has a key of its own
}

// badLine is a line that is no job, or that the server refused.
type badLine struct {
	n   int
	why string
}

// lineReader turns NDJSON into jobs.
type lineReader struct {
	// pool is for jobs that name none; payloadOnly: each line is a payload, not a job; keyPrefix: jobs without a key
	// get this and their line number.
	pool        string
	payloadOnly bool
	keyPrefix   string
}

// maxLine is the longest line that can be a job: a payload of 256 KiB, every byte escaped, and its fields.
const maxLine = 1<<20 - 1024

// read calls each for every line that is not blank, with one of the two set, until each says stop or in ends. The
// number of bytes read so far goes with it.
func (r lineReader) read(in io.Reader, each func(j *jobLine, b *badLine, offset int64) (more bool)) error {
	buf := bufio.NewReaderSize(in, 64<<10)
	var offset int64
	for n := 1; ; n++ {
		line, size, err := readLine(buf)
		offset += size
		if text := bytes.TrimSpace(line); len(text) > 0 || size > maxLine {
			job, why := r.job(n, text, size)
			var more bool
			if why != "" {
				more = each(nil, &badLine{n, why}, offset)
			} else {
				more = each(&job, nil, offset)
			}
			if !more {
				return nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read line %d: %w", n, err)
		}
	}
}

// readLine returns the next line and how many bytes it took. Of a line that is too long nothing is kept.
func readLine(buf *bufio.Reader) (line []byte, size int64, err error) {
	for {
		part, err := buf.ReadSlice('\n')
		size += int64(len(part))
		if size <= maxLine {
			line = append(line, part...)
		} else {
			line = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, size, err
		}
	}
}

// job makes a job of a line, or says why it is none.
func (r lineReader) job(n int, text []byte, size int64) (j jobLine, why string) {
	if size > maxLine {
		return j, fmt.Sprintf("longer than %d KiB: put large data elsewhere and its address in the job", maxLine>>10)
	}
	if !json.Valid(text) {
		return j, "not JSON: " + whyInvalid(text)
	}
	if r.payloadOnly {
		text = append(append([]byte(`{"payload":`), text...), '}')
	}
	var in httpapi.JobInput
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if text[0] != '{' {
		return j, "not a job object such as {\"payload\": …}; with --payload-only a line is a payload"
	}
	if err := dec.Decode(&in); err != nil {
		return j, trimJSON(err)
	}
	switch {
	case in.Payload == nil:
		return j, "payload is missing"
	case len(in.Payload) > queue.MaxPayload:
		return j, fmt.Sprintf("the payload has %d KiB, more than %d: put large data elsewhere and its address in the job", len(in.Payload)>>10, queue.MaxPayload>>10)
	case in.Priority < 0 || in.Priority > 9:
		return j, fmt.Sprintf("priority %d: it must be between 0 and 9", in.Priority)
	case len(in.Key) > 512:
		return j, "the key is longer than 512 bytes"
	case len(in.Tenant) > 128:
		return j, "the tenant is longer than 128 bytes"
	case in.Pool == "" && r.pool == "":
		return j, "names no pool, and --pool is not given"
	}
	// Fields are put in front, and the line stays as it was written: a payload is passed on byte for byte.
	var extra []byte
	add := func(field, value string) {
		quoted, _ := json.Marshal(value) // a string always encodes
		extra = append(append(append(extra, '"'), field+`":`...), quoted...)
		extra = append(extra, ',')
	}
	if in.Pool == "" {
		add("pool", r.pool)
	}
	if in.Key == "" && r.keyPrefix != "" {
		add("key", r.keyPrefix+strconv.Itoa(n))
	}
	body := append([]byte{'{'}, extra...)
	return jobLine{n: n, job: append(body, text[1:]...), keyed: in.Key != "" || r.keyPrefix != ""}, ""
}

func whyInvalid(text []byte) string {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err.Error()
	}
	return "more than one value"
}

// trimJSON says what the JSON package found, in a user's words.
func trimJSON(err error) string {
	if e := (*json.UnmarshalTypeError)(nil); errors.As(err, &e) {
		return fmt.Sprintf("%s: it is a %s, and must be a %s", e.Field, e.Value, e.Type)
	}
	return string(bytes.TrimPrefix([]byte(err.Error()), []byte("json: ")))
}
