// Package plain has text that others have written, such as controllers, journals and file names,
// as a terminal may be given it: without what that would obey; and tells which a file can hold.
package plain

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Text has U+FFFD in place of each character that is neither visible nor a space, tab or end of
// line: control characters, those that turn the direction of writing, bytes that are no UTF-8.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) || r == '\n' || r == '\t' {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// Kept is an error if a text comes back as another from JSON, which holds UTF-8 alone.
func Kept(what, text string) error {
	if utf8.ValidString(text) {
		return nil
	}
	return fmt.Errorf("%s %.60q is no UTF-8, and would be read as another: rename it", what, text)
}

// Writer writes Text of what it is given. It may be used by several goroutines.
type Writer struct {
	w    io.Writer
	mu   sync.Mutex
	rest []byte // the beginning of a character
}

// NewWriter is one that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes all but a character whose end is still to come.
func (p *Writer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := append(p.rest, b...)
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if last := text[len(text)-back:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				whole -= back
			}
			break
		}
	}
	p.rest = append([]byte(nil), text[whole:]...)
	if _, err := io.WriteString(p.w, Text(string(text[:whole]))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Raw is what a Writer writes to, for one's own control of a terminal; another writer is itself.
func Raw(w io.Writer) io.Writer {
	if p, ok := w.(*Writer); ok {
		return p.w
	}
	return w
}

// Command is a command line: it quotes words as a POSIX shell wants them.
func Command(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = word
		if word == "" || strings.ContainsFunc(word, func(r rune) bool {
			return !strings.ContainsRune("+-./:=@_,%^", r) && (r < '0' || r > '9') &&
				(r < 'A' || r > 'Z') &&
				(r < 'a' || r > 'z')
		}) {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
