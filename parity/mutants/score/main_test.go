package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// gremlins is a result of every status.
const gremlins = `{"files": [{"file_name": "a/b.go", "mutations": [
	{"type": "CONDITIONALS_BOUNDARY", "status": "KILLED", "line": 1, "column": 6},
	{"type": "INCREMENT_DECREMENT", "status": "TIMED OUT", "line": 1, "column": 9},
	{"type": "ARITHMETIC_BASE", "status": "LIVED", "line": 2, "column": 8},
	{"type": "INVERT_NEGATIVES", "status": "LIVED", "line": 2, "column": 8},
	{"type": "ARITHMETIC_BASE", "status": "NOT COVERED", "line": 2, "column": 12},
	{"type": "ARITHMETIC_BASE", "status": "NOT VIABLE", "line": 2, "column": 1}]}]}`

func scored(t *testing.T, text string, known ...equivalent) (*score, error) {
	t.Helper()
	var r result
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	return count(&r, known, func(string) ([]string, error) { return []string{"for i < n {", "\tx = y + z"}, nil })
}

// TestCount: what nothing runs lives, what takes too long is killed, what does not compile
// is none, and an equivalent one counts only at its place, by its operator.
func TestCount(t *testing.T) {
	row := equivalent{"a/b.go", "8", "ARITHMETIC_BASE", "x = y + z", "since"}
	s, err := scored(t, gremlins, row)
	if err != nil {
		t.Fatal(err)
	}
	if s.mutants != 5 || s.killed != 2 || s.equivalent != 1 || s.percent() != 50 {
		t.Errorf("%+v, %v %%", s, s.percent())
	}
	want := "a/b.go:2:8 INVERT_NEGATIVES, lived: x = y + z\na/b.go:2:12 ARITHMETIC_BASE, not covered: x = y + z"
	if got := strings.Join(s.alive, "\n"); got != want {
		t.Errorf("alive:\n%s\nwant:\n%s", got, want)
	}
	row.text = "x = y"
	if s, err := scored(t, gremlins, row); err != nil || s.equivalent != 0 {
		t.Errorf("a row of another line: %+v, %v", s, err)
	}
	for text, want := range map[string]string{
		`{"files": []}`: "nothing was judged",
		strings.Replace(gremlins, `"line": 1`, `"line": 3`, 1): "a/b.go has no line 3",
		strings.Replace(gremlins, "LIVED", "ASLEEP", 1):        `the status "ASLEEP"`,
	} {
		if _, err := scored(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestEnter: a package has one row, the last one.
func TestEnter(t *testing.T) {
	const table = "# Scores\n\n| package |\n|---|\n"
	text := enter(table, "a/b", "1234567", &score{mutants: 5, killed: 2, equivalent: 1})
	if want := table + "| a/b | 1234567 | 5 | 2 | 1 | 50 % |\n"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
	text = enter(text, "a", "1234567", &score{mutants: 1, equivalent: 1})
	text = enter(text, "a/b", "89abcde", &score{mutants: 4, killed: 3})
	if want := table + "| a/b | 89abcde | 4 | 3 | 0 | 75 % |\n| a | 1234567 | 1 | 0 | 1 | 100 % |\n"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
}

// TestEquivalents: the table that is kept can be read, and each line that it names is there.
func TestEquivalents(t *testing.T) {
	const root = "../../../"
	table, err := os.ReadFile(root + equivalents)
	if err != nil {
		t.Fatal(err)
	}
	known, err := parseEquivalents(string(table))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range known {
		text, err := os.ReadFile(root + e.file)
		if err != nil || !strings.Contains(string(text), e.text) {
			t.Errorf("%s: the line %q is not there: %v", e.file, e.text, err)
		}
	}
	if _, err := parseEquivalents("file\tcolumn\toperator\tline\treason\na\t1\tX\tx\t\n"); err == nil {
		t.Error("a row without a reason is read")
	}
}
