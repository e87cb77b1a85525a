package config

import (
	"errors"
	"strings"
)

// splitWords splits a command line into its words as a POSIX shell does, and does nothing else of what a shell
// does: no variables, no globs, no pipes, no redirections. Blanks separate words; '…' keeps everything as it is;
// "…" keeps blanks and knows \" \\ \$ and \`; a backslash outside quotes keeps the next character.
// Characters that would mean something to a shell are an error rather than a surprise.
func splitWords(line string) ([]string, error) {
	var (
		words []string
		word  strings.Builder
		open  bool // a word has begun, perhaps an empty one
		rs    = []rune(line)
	)
	for i := 0; i < len(rs); i++ {
		switch r := rs[i]; r {
		case ' ', '\t', '\n':
			if open {
				words = append(words, word.String())
				word.Reset()
				open = false
			}
		case '\'':
			open = true
			end := i + 1
			for end < len(rs) && rs[end] != '\'' {
				end++
			}
			if end == len(rs) {
				return nil, errors.New("a ' is never closed")
			}
			word.WriteString(string(rs[i+1 : end]))
			i = end
		case '"':
			open = true
			for i++; ; i++ {
				if i >= len(rs) {
					return nil, errors.New(`a " is never closed`)
				}
				if rs[i] == '"' {
					break
				}
				if rs[i] == '\\' && i+1 < len(rs) && strings.ContainsRune("\"\\$`", rs[i+1]) {
					i++
				}
				word.WriteRune(rs[i])
			}
		case '\\':
			if i+1 == len(rs) {
				return nil, errors.New(`it ends with a \`)
			}
			i++
			open = true
			word.WriteRune(rs[i])
		case '|', '&', ';', '<', '>', '`', '(', ')':
			return nil, errors.New("no shell runs the command, so " + string(r) + ` means nothing: quote it, or run a shell: ["sh", "-c", "…"]`)
		default:
			open = true
			word.WriteRune(r)
		}
	}
	if open {
		words = append(words, word.String())
	}
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("there is no program to run")
	}
	return words, nil
}
