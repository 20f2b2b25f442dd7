package pandas

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"testing"
)

// oddBlank is a blank line that CR alone ends, where pandas takes what follows for something else.
var oddBlank = regexp.MustCompile("(^|[\r\n])[ \t]*\r[, \t]")

// TestRecords: short texts of quotes, blanks and ends of lines have the records that pandas finds,
// and are refused where it refuses them.
func TestRecords(t *testing.T) {
	data, err := os.ReadFile("testdata/records.json") // by records.py
	if err != nil {
		t.Fatal(err)
	}
	var cases [][2]any
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	refused, odd := 0, 0
	for _, c := range cases {
		text := c[0].(string)
		var want [][]string
		whole, ok := c[1].([]any)
		for _, row := range whole {
			var fields []string
			for _, field := range row.([]any) {
				fields = append(fields, field.(string))
			}
			want = append(want, fields)
		}
		var got [][]string
		r := NewRecords(text)
		var end error
		for end == nil {
			var fields []string
			if fields, end = r.Next(); end == nil {
				missing := make([]string, 7-len(fields)) // which pandas has as empty ones
				got = append(got, append(slices.Clone(fields), missing...))
			}
		}
		if oddBlank.MatchString(text) {
			if odd++; !errors.Is(end, ErrBlank) {
				t.Errorf("%q ends with %v, and pandas has %q", text, end, want)
			}
		} else if !ok {
			if refused++; !errors.Is(end, ErrQuote) {
				t.Errorf("%q ends with %v, and pandas refuses it", text, end)
			}
		} else if !errors.Is(end, io.EOF) || !reflect.DeepEqual(got, want) {
			t.Errorf("%q has the records %q, %v; pandas has %q", text, got, end, want)
		}
	}
	if len(cases) < 250 || refused < 50 || odd < 9 {
		t.Errorf("of %d texts %d are refused, and %d odd", len(cases), refused, odd)
	}
}
