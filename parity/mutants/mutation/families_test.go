package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// examples are packages that have one of each place that a family's operators fit.
var examples = map[string]string{
	ofGremlins:   toy,
	ofOmissions:  "parity/mutants/mutation/testdata/forgotten",
	ofConfusions: "parity/mutants/mutation/testdata/confused",
}

// TestFamilies: in a package that has an example of each, the operators make the mutants of a
// table, in which stands what each does to what TestShow prints, and no others: none where nothing
// could be seen, nor where it would not compile.
func TestFamilies(t *testing.T) {
	t.Chdir("../../..")
	for _, family := range families[1:] {
		t.Run(family, func(t *testing.T) { makes(t, family, examples[family]) })
	}
}

func makes(t *testing.T, family, folder string) {
	b := &build{work: t.TempDir(), operators: family}
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

// TestOperators: all operators are those of the families, and a row is of one of them.
func TestOperators(t *testing.T) {
	t.Chdir("../../..")
	of, sum := map[string]int{}, 0
	for _, operators := range append([]string{ofAll}, families...) {
		b := &build{work: t.TempDir(), operators: operators}
		var err error
		if b.root, err = os.Getwd(); err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if err := b.list("./" + examples[family]); err != nil {
				t.Fatal(err)
			}
			if _, err := b.rewrite(nil); err != nil {
				t.Fatal(err)
			}
			of[operators] += len(b.mutants)
			if operators == ofAll {
				sum -= len(b.mutants)
			} else {
				sum += len(b.mutants)
			}
		}
	}
	if of[ofGremlins] == 0 || of[ofOmissions] == 0 || of[ofConfusions] == 0 || sum != 0 {
		t.Errorf("mutants: %v", of)
	}
	for want, o := range map[string]options{
		"want gremlins, omissions, confusions or all":   {operators: "any"},
		"is of one of --operators gremlins, omissions,": {operators: ofAll, enter: true},
		"want one package's folder":                     {operators: ofAll},
	} {
		if err := run(o, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
}
