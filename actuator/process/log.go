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

// Write never reports an error: a full disk must not stop a worker.
func (l *logFile) Write(p []byte) (int, error) {
	if l.f != nil && l.size > 0 && l.size+int64(len(p)) > l.max {
		l.f.Close()
		l.f = nil
		_ = os.Rename(l.path, l.path+".1")
	}
	if l.f == nil && l.open() != nil {
		return len(p), nil
	}
	n, _ := l.f.Write(p)
	l.size += int64(n)
	return len(p), nil
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
