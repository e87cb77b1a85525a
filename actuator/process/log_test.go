package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLogFileChangesAtTheEndOfALine(t *testing.T) {
	for _, c := range []struct {
		name             string
		writes           []string
		newest, previous string
	}{
		{"fits", []string{"one\n", "two\n"}, "one\ntwo\n", ""},
		{"full", []string{"1234567\n", "a\n", "bcd\n"}, "bcd\n", "1234567\na\n"},
		{"one write of many lines", []string{"1234567\na\nbcd\n"}, "bcd\n", "1234567\na\n"},
		{"only the last two are kept", []string{"aaaaaaa\n", "bbbbbbb\n", "ccccccc\n"}, "ccccccc\n", "bbbbbbb\n"},
		{"a line longer than a file", []string{"0123456789ABCDE\n"}, "ABCDE\n", "0123456789"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "logs", "w.log")
			l, err := openLog(path, 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range c.writes {
				if n, err := l.Write([]byte(w)); n != len(w) || err != nil {
					t.Fatalf("write: got %d, %v", n, err)
				}
			}
			l.Close()
			newest, _ := os.ReadFile(path)
			previous, _ := os.ReadFile(path + ".1")
			if string(newest) != c.newest || string(previous) != c.previous {
				t.Errorf("got %q and %q, want %q and %q", newest, previous, c.newest, c.previous)
			}
		})
	}
}

func TestLogFileGoesOnWhereItEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.log")
	for range 3 {
		l, err := openLog(path, 10)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = l.Write([]byte("abc\n"))
		l.Close()
	}
	newest, _ := os.ReadFile(path)
	if previous, _ := os.ReadFile(path + ".1"); string(newest) != "abc\n" || string(previous) != strings.Repeat("abc\n", 2) {
		t.Errorf("got %q and %q", newest, previous)
	}
}
