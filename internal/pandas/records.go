package pandas

import (
	"errors"
	"io"
	"strings"
)

var (
	// ErrQuote is that of a text that ends between quotes.
	ErrQuote = errors.New("a quote that is not closed")
	// ErrBlank is that of a text of which pandas loses commas, or makes other records.
	ErrBlank = errors.New(
		"a comma or a blank behind a blank line that CR alone ends: end lines with LF",
	)
)

// Records are those of a CSV text, as pandas' own parser finds them. Lines end with LF, CRLF or CR,
// and those of blanks alone are none. A quote has a meaning where a field begins, and between
// quotes; what stands behind the closing one is part of the field as it is.
type Records struct {
	text   string
	at     int // where the rest begins
	line   int // in which line that is, from 0
	begin  int // where that line begins
	fields []string
	places [][2]int
}

// NewRecords are the records of a text.
func NewRecords(text string) *Records { return &Records{text: text} }

// Next is the next record, until the one after it, or io.EOF. With another error it is what was
// read of one, whose last field is wrong.
func (r *Records) Next() ([]string, error) {
	r.fields, r.places = r.fields[:0], r.places[:0]
	for r.blank() {
		if r.at > 0 && r.text[r.at-1] == '\r' && strings.IndexAny(r.text[r.at:], ", \t") == 0 {
			r.places = append(r.places, [2]int{r.line + 1, 1})
			return append(r.fields, ""), ErrBlank
		}
	}
	if r.at == len(r.text) {
		return nil, io.EOF
	}
	for {
		if err := r.field(); err != nil {
			return r.fields, err
		}
		if r.at == len(r.text) || r.text[r.at] != ',' {
			r.endLine()
			return r.fields, nil
		}
		r.at++
	}
}

// blank passes over a line that is no record, and reports whether there was one.
func (r *Records) blank() bool {
	end := r.at
	for end < len(r.text) && (r.text[end] == ' ' || r.text[end] == '\t') {
		end++
	}
	if end < len(r.text) && r.text[end] != '\n' && r.text[end] != '\r' {
		return false
	}
	there := r.at < len(r.text)
	r.at = end
	r.endLine()
	return there
}

// endLine passes over the end of a line, if there is one.
func (r *Records) endLine() {
	rest := r.text[r.at:]
	switch {
	case strings.HasPrefix(rest, "\r\n"):
		r.at += 2
	case rest != "":
		r.at++
	}
	r.line, r.begin = r.line+1, r.at
}

// field reads the next one, up to what ends it.
func (r *Records) field() error {
	r.places = append(r.places, [2]int{r.line + 1, r.at - r.begin + 1})
	quoted := ""
	if rest := r.text[r.at:]; strings.HasPrefix(rest, `"`) {
		n := closing(rest[1:])
		if n < 0 {
			r.fields, r.at = append(r.fields, rest), len(r.text)
			return ErrQuote
		}
		quoted = rest[1:][:n]
		if i := strings.LastIndexByte(quoted, '\n'); i >= 0 {
			r.line, r.begin = r.line+strings.Count(quoted, "\n"), r.at+1+i+1
		}
		r.at += 1 + n + 1
	}
	end := r.at
	for end < len(r.text) && r.text[end] != ',' && r.text[end] != '\n' && r.text[end] != '\r' {
		end++
	}
	field := r.text[r.at:end]
	if quoted != "" {
		field = strings.ReplaceAll(quoted, `""`, `"`) + field
	}
	r.fields, r.at = append(r.fields, field), end
	return nil
}

// closing is where the quote stands that closes what is quoted, or -1. Two of them are one that is
// part of it.
func closing(text string) int {
	for i := 0; i < len(text); i++ {
		if text[i] != '"' {
			continue
		}
		if !strings.HasPrefix(text[i+1:], `"`) {
			return i
		}
		i++
	}
	return -1
}

// Place is where a field of the last record begins, line and byte from 1 on.
func (r *Records) Place(field int) (line, column int) {
	return r.places[field][0], r.places[field][1]
}
