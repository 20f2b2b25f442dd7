package simtest

import (
	"reflect"
	"testing"
)

// TestFields: each field has its line, and a field without one and a line without one are told of.
func TestFields(t *testing.T) {
	type part struct{ A, B int }
	type whole struct {
		part
		C int
	}
	var seen, want = "", "whole.part1 whole.C4 part.A2 part.B3 "
	lines := map[string]string{"whole.part": "1", "part.A": "2", "part.B": "3", "whole.C": "4"}
	got := &told{TB: t}
	see := func(name, line string) { seen += name + line + " " }
	if Fields(got, lines, see, reflect.TypeFor[whole](), reflect.TypeFor[part]()); seen != want ||
		got.text != "" {
		t.Errorf("it sees %q and says %q, want %q", seen, got.text, want)
	}
	lines = map[string]string{"whole.part": "1", "whole.D": "5"}
	const says = "whole.C: this test has no line of itwhole.D: there is no such field"
	if Fields(got, lines, see, reflect.TypeFor[whole]()); got.text != says {
		t.Errorf("it says %q, want %q", got.text, says)
	}
}
