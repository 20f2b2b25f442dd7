package pandas

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
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

// TestPlaces: each field begins where a person who counts lines and bytes finds it, also behind
// blank lines and lines between quotes; of a record that is refused the last one is told.
func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		text, want string
		end        error
	}{
		{"a,bc,d", "1:1 a, 1:3 bc, 1:6 d", io.EOF},
		{"a,b\nc,,d\n", "1:1 a, 1:3 b, 2:1 c, 2:3 , 2:4 d", io.EOF},
		{"a\r\nb\rc\n,d", "1:1 a, 2:1 b, 3:1 c, 4:1 , 4:2 d", io.EOF},
		{"\n  \t\n\na, b", "4:1 a, 4:3  b", io.EOF},
		{"a\n \r\n\nb", "1:1 a, 4:1 b", io.EOF},
		{`"x,y",z`, "1:1 x,y, 1:7 z", io.EOF},
		{`"x""y"u,z,""`, `1:1 x"yu, 1:9 z, 1:11 `, io.EOF},
		{"\"x\ny\",z\nu", "1:1 x\ny, 2:4 z, 3:1 u", io.EOF},
		{"a,\"\nb\",c\nd", "1:1 a, 1:3 \nb, 2:4 c, 3:1 d", io.EOF},
		{"\"\n\n\",a\nb,c", "1:1 \n\n, 3:3 a, 4:1 b, 4:3 c", io.EOF},
		{"a,b\nc,\"d\ne", "1:1 a, 1:3 b, 2:1 c, 2:3 \"d\ne", ErrQuote},
		{"a,b\n\r,c", "1:1 a, 1:3 b, 3:1 ", ErrBlank},
	} {
		var got []string
		r := NewRecords(c.text)
		var end error
		for end == nil {
			var fields []string
			fields, end = r.Next()
			for i, field := range fields {
				line, column := r.Place(i)
				got = append(got, fmt.Sprintf("%d:%d %s", line, column, field))
			}
		}
		if text := strings.Join(got, ", "); text != c.want || end != c.end {
			t.Errorf("%q has the fields %q, %v; want %q, %v", c.text, text, end, c.want, c.end)
		}
	}
}
