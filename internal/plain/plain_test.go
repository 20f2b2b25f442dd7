package plain_test

import (
	"bytes"
	"strings"
	"testing"

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
	var out bytes.Buffer
	if plain.Raw(plain.NewWriter(&out)) != &out || plain.Raw(&out) != &out {
		t.Error("Raw is something else")
	}
	if got := plain.Text(strings.Repeat("\x1b", 3)); got != "\ufffd\ufffd\ufffd" {
		t.Errorf("%q", got)
	}
}
