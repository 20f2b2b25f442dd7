package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestOmissions: in a package that has an example of each, the operators make the mutants of a
// table, in which stands what each does to what TestShow prints, and no others: none where nothing
// could be seen, nor where it would not compile.
func TestOmissions(t *testing.T) {
	const folder = "parity/mutants/mutation/testdata/forgotten"
	t.Chdir("../../..")
	b := &build{work: t.TempDir(), operators: ofOmissions}
	var err error
	if b.root, err = os.Getwd(); err != nil {
		t.Fatal(err)
	}
	if err := b.list("./" + folder); err != nil {
		t.Fatal(err)
	}
	programs, left, err := b.make([]string{"./" + folder}, nil)
	if err != nil || left > 0 || len(programs) != 1 {
		t.Fatalf("%d programs, %d lines left, %v", len(programs), left, err)
	}
	show := func(i int) []string {
		out, _, err := programs[0].start([]string{"TestShow"}, i, "", time.Minute)
		if err != nil {
			t.Fatalf("mutant %d: %v: %s", i, err, out)
		}
		return strings.Split(out, "\n")
	}
	usual := show(-1)
	got := []string{"operator\tcolumn\tline\twhat is other"}
	for i, m := range b.mutants {
		other := "nothing"
		for k, line := range show(i) {
			if line != usual[k] {
				other = line
			}
		}
		got = append(got, fmt.Sprintf("%s\t%d\t%s\t%s", m.Operator, m.Column,
			strings.TrimSpace(b.lines[m.File][m.Line-1]), other))
	}
	table, err := os.ReadFile(folder + "/mutants.tsv")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(table)), "\n")
	for i := range max(len(got), len(want)) {
		row := func(rows []string) string {
			if i < len(rows) {
				return rows[i]
			}
			return "none"
		}
		if row(got) != row(want) {
			t.Fatalf("mutants.tsv:%d is\n%s\nthe mutant is\n%s", i+1, row(want), row(got))
		}
	}
}

// TestOperators: gremlins' operators and omissions are all of them, and a row is of either.
func TestOperators(t *testing.T) {
	t.Chdir("../../..")
	of := map[string]int{}
	for _, operators := range []string{ofGremlins, ofOmissions, ofAll} {
		b := &build{work: t.TempDir(), operators: operators}
		var err error
		if b.root, err = os.Getwd(); err != nil {
			t.Fatal(err)
		}
		for _, folder := range []string{toy, "parity/mutants/mutation/testdata/forgotten"} {
			if err := b.list("./" + folder); err != nil {
				t.Fatal(err)
			}
			if _, err := b.rewrite(nil); err != nil {
				t.Fatal(err)
			}
			of[operators] += len(b.mutants)
		}
	}
	if of[ofGremlins] == 0 || of[ofOmissions] == 0 || of[ofAll] != of[ofGremlins]+of[ofOmissions] {
		t.Errorf("mutants: %v", of)
	}
	for want, o := range map[string]options{
		"want gremlins, omissions or all":       {operators: "any"},
		"is of --operators gremlins or omissio": {operators: ofAll, enter: true},
		"want one package's folder":             {operators: ofAll},
	} {
		if err := run(o, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
}
