package plain_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"lockstep/internal/plain"
)

// TestWriter: nothing that a terminal obeys comes through, however the text is cut into pieces.
func TestWriter(t *testing.T) {
	const text = "a\x1b]0;title\x07\x1b[2J\u009bA\r\b\tb\u202eç €😀\xff\n"
	const want = "a�]0;title��[2J�A��\tb�ç €😀�\n"
	for cut := range len(text) {
		var out bytes.Buffer
		w := plain.NewWriter(&out)
		for _, part := range []string{text[:cut], text[cut:]} {
			if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		if out.String() != want {
			t.Errorf("cut at %d: %q, want %q", cut, out.String(), want)
		}
	}
	// A byte at a time: what is whole is written at once, what is not waits for its end.
	for _, size := range []int{1, 2, 3, 5} {
		var out bytes.Buffer
		w := plain.NewWriter(&out)
		for at := 0; at < len(text); at += size {
			if _, err := w.Write([]byte(text[at:min(at+size, len(text))])); err != nil {
				t.Fatal(err)
			}
			whole := min(at+size, len(text))
			for back := 1; back < utf8.UTFMax && back <= whole; back++ {
				if last := text[whole-back : whole]; utf8.RuneStart(last[0]) {
					if !utf8.FullRuneInString(last) {
						whole -= back
					}
					break
				}
			}
			if got, want := out.String(), plain.Text(text[:whole]); got != want {
				t.Fatalf("by %d: after %d bytes %q is written, want %q", size, at+size, got, want)
			}
		}
	}
	var out bytes.Buffer
	if plain.Raw(plain.NewWriter(&out)) != &out || plain.Raw(&out) != &out {
		t.Error("Raw is something else")
	}
	if got := plain.Text(strings.Repeat("\x1b", 3)); got != "\ufffd\ufffd\ufffd" {
		t.Errorf("%q", got)
	}
}

// TestCommand: a shell reads the words again.
func TestCommand(t *testing.T) {
	for want, words := range map[string][]string{
		"lockstep eval --pid 0.3,0.05,-0.1": {"lockstep", "eval", "--pid", "0.3,0.05,-0.1"},
		`a '' 'b c' 'it'\''s' '$x' '~'`:     {"a", "", "b c", "it's", "$x", "~"},
		"":                                  nil,
	} {
		if got := plain.Command(words); got != want {
			t.Errorf("%q is %s, want %s", words, got, want)
		}
	}
}
