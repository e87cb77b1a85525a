package process

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// logFile appends to a file and keeps its size in bounds.
type logFile struct {
	path string
	max  int64
	f    *os.File
	size int64
}

func openLog(path string, most int64) (*logFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make log directory: %w", err)
	}
	l := &logFile{path: path, max: most}
	return l, l.open()
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return fmt.Errorf("open log: %w", err)
	}
	l.f, l.size = f, info.Size()
	return nil
}

// Write never reports an error: a full disk must not stop a worker. It changes files at the end of a line where it can.
func (l *logFile) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(int64(len(rest)), l.max-l.size)
		if n < int64(len(rest)) { // not all fits
			n = int64(bytes.LastIndexByte(rest[:max(n, 0)], '\n') + 1)
			if n == 0 && l.size == 0 {
				n = l.max // a line longer than a file
			}
		}
		if n == 0 {
			l.rotate()
			continue
		}
		if l.f == nil && l.open() != nil {
			break
		}
		written, err := l.f.Write(rest[:n])
		l.size += int64(written)
		if err != nil {
			break
		}
		rest = rest[n:]
	}
	return len(p), nil
}

func (l *logFile) rotate() {
	if l.f != nil {
		l.f.Close()
	}
	_ = os.Rename(l.path, l.path+".1")
	l.f, l.size = nil, 0
}

func (l *logFile) Close() {
	if l.f != nil {
		l.f.Close()
	}
}

// fileName makes a pool's name fit for a file.
func fileName(pool string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|`, r) || r < ' ' {
			return '_'
		}
		return r
	}, pool)
}

// lastLine passes output on and remembers the last line that was not empty.
type lastLine struct {
	w io.Writer

	mu   sync.Mutex
	tail []byte
}

func (l *lastLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	l.tail = append(l.tail, p...)
	l.tail = append([]byte(nil), l.tail[max(0, len(l.tail)-512):]...)
	l.mu.Unlock()
	return l.w.Write(p)
}

func (l *lastLine) line() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := bytes.TrimSpace(l.tail)
	t = t[bytes.LastIndexByte(t, '\n')+1:]
	return strings.ToValidUTF8(string(t), "?")
}
