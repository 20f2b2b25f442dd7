package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/internal/simtest"
)

// commandArguments names the variable with which this program is the command that it tests.
const commandArguments = "MUTATION_TEST_ARGUMENTS"

func TestMain(m *testing.M) {
	if arguments := os.Getenv(commandArguments); arguments != "" {
		os.Args = append(os.Args[:1], strings.Fields(arguments)...)
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A toyModule has packages with mutants, some of which its tests see.
type toyModule struct {
	t      *testing.T
	folder string
	commit string // as the ledger has it
}

var toyFiles = map[string]string{
	"go.mod":          "module toy\n\ngo 1.24\n",
	"p/p.go":          "package p\n\n" + toyDouble + "\n" + toyUnseen + "\n" + toyOther,
	"p/p_test.go":     toyTest("p", "Double", "p.Double(3) != 6") + toyIdle,
	"other/o.go":      "package other\n",
	"other/o_test.go": toyTest("other", "Other", "p.Other(3) != 2"),
	"reference/r.go":  "package reference\n\nfunc Triple(a int) int { return a * 3 }\n",
	"c/c.go":          "package c\n\nimport \"C\"\n\nvar N = C.int(3) + 4\n",
	"none/n.go":       "//go:build never\n\npackage none\n",
	"tests/t_test.go": "package tests\n",
	helpers:           "package\tfolder\ttest\twhat\n",
	equivalents:       "file\tcolumn\toperator\tline\treason\n",
	ledger:            toyPage + "| x | gremlins | c | 1 | 9 | 9 | 5 | 1 | 62 % | all |\n",
	"README.md":       "A toy.\n\n" + toySum + "\n\nEnd.\n",
}

const (
	toyDouble = "func Double(a int) int { return a * 2 }\n"
	toyUnseen = "func Unseen(a int) int { return a + 2 }\n"
	toyOther  = "func Other(a int) int { return a - 1 }\n"
	toyIdle   = "\nfunc TestIdle(t *testing.T) {}\n"
	toyFails  = "\nfunc TestFails(t *testing.T) { t.Fatal(\"as ever\") }\n"
	toyPage   = "# Scores\n\n| p | other |\n|---|---|\n\n" + ledgerHead
	toySum    = "1 of 2 mutants killed (50.0 %)."
)

// toyTest is a file with one test, of the package p.
func toyTest(pkg, name, wrong string) string {
	const text = `package %s_test

import (
	"testing"

	"toy/p"
)

func Test%s(t *testing.T) {
	if %s {
		t.Fatal("it is another")
	}
}
`
	return fmt.Sprintf(text, pkg, name, wrong)
}

// newToy writes the module, with other files in place of some, and commits it.
func newToy(t *testing.T, other map[string]string) *toyModule {
	t.Helper()
	m := &toyModule{t: t, folder: t.TempDir()}
	for name, text := range toyFiles {
		m.write(name, text)
	}
	for name, text := range other {
		m.write(name, text)
	}
	for _, arguments := range []string{
		"init -q", "add .", "-c user.name=a -c user.email=a@example.org commit -q -m one",
		"rev-parse --short=7 HEAD",
	} {
		cmd := exec.Command("git", strings.Fields(arguments)...)
		cmd.Dir = m.folder
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v: %s", arguments, err, out)
		}
		m.commit = strings.TrimSpace(string(out))
	}
	return m
}

func (m *toyModule) write(name, text string) {
	m.t.Helper()
	path := filepath.Join(m.folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

func (m *toyModule) read(name string) string {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.folder, name))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(text)
}

// run runs the command in the module: what it prints, and whether it fails.
func (m *toyModule) run(arguments string) (string, error) {
	m.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Dir = m.folder
	cmd.Env = append(os.Environ(), commandArguments+"="+arguments)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// says holds what is printed to its lines: those that are wanted are there in this order, and no
// other tells of a mutant.
func (m *toyModule) says(arguments, out string, want ...string) {
	m.t.Helper()
	rest := want
	for line := range strings.Lines(out) {
		if len(rest) > 0 && strings.Contains(line, rest[0]) {
			rest = rest[1:]
		} else if strings.HasPrefix(line, "shown\t") || strings.HasPrefix(line, "red\t") {
			m.t.Errorf("mutation %s: a line that is not wanted: %s", arguments, line)
		}
	}
	if len(rest) > 0 {
		m.t.Errorf("mutation %s: no line %q, in this order, in\n%s", arguments, rest[0], out)
	}
	for _, wrong := range []string{"too busy to judge 0", "TestOther of", "/p helps nobody"} {
		if strings.Contains(out, wrong) {
			m.t.Errorf("mutation %s: says %q:\n%s", arguments, wrong, out)
		}
	}
}

const (
	notCovered = "\tARITHMETIC_BASE\tnot covered\t"
	unseenLine = "p/p.go:5:35" + notCovered + "func Unseen(a int) int { return a + 2 }"
	otherLine  = "p/p.go:7:34" + notCovered + "func Other(a int) int { return a - 1 }"
)

// TestCommand judges a toy's package: what lives is named, what is entered is the last row of the
// package and the sum, and nothing is entered that is not to be.
func TestCommand(t *testing.T) {
	t.Parallel()
	m := newToy(t, map[string]string{
		"other/a_test.go": "package other\n\nimport \"testing\"\n" + toyIdle,
	})
	judge := func(arguments string, want ...string) {
		t.Helper()
		out, err := m.run(arguments)
		if err != nil {
			t.Fatalf("mutation %s: %v\n%s", arguments, err, out)
		}
		m.says(arguments, out, want...)
	}
	judge("--seed 7 ./p/",
		"p: 3 mutants, 0 places left", "shown\t"+unseenLine, "shown\t"+otherLine,
		"p: 3 of 3 mutants judged, 1 killed (0 by time), 0 equivalent: 33 % (all); seed 7, ")
	if got := m.read(ledger); got != toyFiles[ledger] {
		t.Errorf("without --enter the ledger is\n%s", got)
	}

	// A test of another package helps, by the table or by a flag.
	m.write(helpers, toyFiles[helpers]+"p\tother\tTestOther\tit helps\n"+
		"p\tother\tTestIdle\tnothing\nreference\tother\tTestNone\tit is another's\n")
	m.write(equivalents, toyFiles[equivalents]+
		"p/p.go\t35\tARITHMETIC_BASE\tfunc Unseen(a int) int { return a + 2 }\tsince\n")
	judge("--seed 7 --enter ./p", "TestIdle of "+filepath.Join(m.folder, "other")+" helps nobody",
		"p: 3 of 3 mutants judged, 2 killed (0 by time), 1 equivalent: 100 % (all)")
	m.entered("| p | gremlins | "+m.commit+" | 7 | 3 | 3 | 2 | 1 | 100 % | all |\n",
		"7 of 10 mutants killed (70.0 %).")
	m.write(helpers, toyFiles[helpers])
	judge("--seed 8 --tests ./other --leave ^(TestDouble|TestIdle)$ --enter ./p",
		"shown\tp/p.go:3:35\tARITHMETIC_BASE\tnot covered", "judged, 1 killed")
	own := "| p | gremlins | " + m.commit + " | 7 | 3 | 3 | 2 | 1 | 100 % | all |\n"
	others := "| p, tests of ./other too | gremlins | " + m.commit +
		" | 8 | 3 | 3 | 1 | 1 | 50 % | all |\n"
	m.entered(own+others, "8 of 12 mutants killed (66.7 %).")
	judge("--row p,tokens,9,40,4,1,0")
	m.entered(own+"| p | tokens | "+m.commit+" | 9 | 40 | 4 | 1 | 0 | 25 % | 5–70 % |\n"+others,
		"9 of 16 mutants killed (56.2 %).")

	// Of a sample the score has an interval, and its verdicts are kept.
	out, err := m.run("--most 2 --seed 1 --verdicts kept ./p")
	if err != nil || !strings.Contains(out, "2 of 3 mutants judged") ||
		!strings.Contains(out, "–") || strings.Contains(out, "(all)") {
		t.Errorf("a sample of two has no interval: %v\n%s", err, out)
	}
	if kept := m.read("kept"); strings.Count(kept, "\n") != 2 ||
		strings.Count(kept, " ARITHMETIC_BASE\n") != 2 {
		t.Errorf("of two the verdicts are\n%s", kept)
	}
}

// entered holds the ledger's rows before that of x, and README.md's line, to what is wanted.
func (m *toyModule) entered(rows, sum string) {
	m.t.Helper()
	want := strings.Replace(toyFiles[ledger], "| x |", rows+"| x |", 1)
	if got := m.read(ledger); got != want {
		m.t.Errorf("the ledger is\n%s\nwant\n%s", got, want)
	}
	if got, want := m.read("README.md"), "A toy.\n\n"+sum+"\n\nEnd.\n"; got != want {
		m.t.Errorf("README.md is\n%s\nwant\n%s", got, want)
	}
}

// TestCommandDiff: of a change the lines that differ are judged alone, by a seed that its commit
// decides; what lives in an engine is red, and elsewhere shown.
func TestCommandDiff(t *testing.T) {
	t.Parallel()
	m := newToy(t, nil)
	m.write("p/p.go", strings.Replace(toyFiles["p/p.go"], "a + 2", "a + 3", 1))
	const arguments = "--diff HEAD"
	out, err := m.run(arguments)
	if err != nil {
		t.Fatalf("mutation %s: %v\n%s", arguments, err, out)
	}
	var seed uint64
	if _, err := fmt.Sscanf(m.commit, "%x", &seed); err != nil {
		t.Fatal(err)
	}
	m.says(arguments, out, "shown\t"+strings.Replace(unseenLine, "+ 2", "+ 3", 1),
		fmt.Sprintf("p: 1 of 1 mutants judged, 0 killed (0 by time), 0 equivalent: 0 %% (all); "+
			"seed %d, ", seed))

	m.write("p/p.go", toyFiles["p/p.go"]+"\n// A line without a mutant.\n")
	m.write("c/c.go", strings.Replace(toyFiles["c/c.go"], "4", "5", 1))
	m.write("reference/r.go", strings.Replace(toyFiles["reference/r.go"], "a * 3", "3 * a", 1))
	out, err = m.run(arguments)
	if err == nil {
		t.Errorf("a mutant lives in an engine, and nothing is red:\n%s", out)
	}
	m.says(arguments, out,
		"red\treference/r.go:3:35\tARITHMETIC_BASE\tnot covered\tfunc Triple",
		"c: not judged: it has no Go", "mutants of changed lines live in reference: write a test")
	if strings.Contains(out, "p: ") {
		t.Errorf("a package is judged of which no mutant was changed:\n%s", out)
	}
	m.write("reference/r_test.go", "package reference\n\nimport \"testing\"\n\n"+
		"func TestTriple(t *testing.T) {\n\tif Triple(3) != 9 {\n\t\tt.Fatal(\"no\")\n\t}\n}\n")
	if out, err = m.run(arguments); err != nil {
		t.Errorf("no mutant lives, and it is red: %v\n%s", err, out)
	}
	m.says(arguments, out, "reference: 1 of 1 mutants judged, 1 killed")
}

// TestCommandC: of a package with C in it the files without are judged.
func TestCommandC(t *testing.T) {
	t.Parallel()
	m := newToy(t, map[string]string{
		"c/twice.go": "package c\n\nfunc Twice(a int) int { return a + four() }\n",
		"c/c_test.go": "package c\n\nimport \"testing\"\n\n" +
			"func TestTwice(t *testing.T) {\n\tif Twice(4) != 8 {\n\t\tt.Fatal(\"no\")\n\t}\n}\n",
		"c/four.go": "package c\n\nimport \"C\"\n\nfunc four() int { return int(C.int(4)) }\n",
	})
	out, err := m.run("./c")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m.says("./c", out, "c: 1 of 1 mutants judged, 1 killed")
}

// TestCommandRefused: what cannot be judged is an error that says why.
func TestCommandRefused(t *testing.T) {
	t.Parallel()
	m := newToy(t, map[string]string{"other/o_test.go": toyFiles["other/o_test.go"] + toyFails})
	refused := func(arguments, want string) {
		t.Helper()
		out, err := m.run(arguments)
		if err == nil {
			t.Errorf("mutation %s: no error", arguments)
		}
		simtest.Refused(t, "mutation "+arguments, fmt.Errorf("%s", out), want)
	}
	refused("--tests ./other ./p", "TestFails of "+filepath.Join(m.folder, "other")+
		" fails without a mutant (--leave leaves tests out): exit status 1")
	refused("--leave ( ./p", "missing closing )")
	refused("--budget 1ns ./p", "the time is over")
	refused("./c", "it has no Go for this machine, or none without C in it")
	refused("./tests", "it has no Go for this machine, or none without C in it")
	refused("./none", "build constraints exclude all Go files")
	refused("./p ./other", "want one package's folder, as in ./cmd/internal/runs")
	refused("--diff nothing", "git diff nothing: exit status 128")
	m.write("p/q.go", "package p\n\nvar x int = \"text\"\n")
	refused("./p", "go list ./p")
	m.write("p/q.go", "package p\n")
	m.write(helpers, "one\n")
	refused("./p", helpers+":1: want package, folder, test and what it sees")
	m.write(equivalents, toyFiles[equivalents]+"one\n")
	refused("./p", equivalents+":2: want file, column, operator, the line and a reason")
	for _, name := range []string{helpers, equivalents} {
		m.write(helpers, toyFiles[helpers])
		m.write(equivalents, toyFiles[equivalents])
		if err := os.Remove(filepath.Join(m.folder, name)); err != nil {
			t.Fatal(err)
		}
		refused("./p", name+": no such file")
	}
	m.write(helpers, toyFiles[helpers])
	m.write(equivalents, toyFiles[equivalents])
	refused("--row a,tokens,1,2,3", "--row a,tokens,1,2,3: want package, operators, seed, mutants")
	m.write(ledger, strings.Replace(toyFiles[ledger], "| 9 | 5 |", "| 9 | five |", 1))
	refused("--enter ./p", "| 9 | five |")
	for _, name := range []string{"README.md", ledger} {
		m.write(ledger, toyFiles[ledger])
		if err := os.Remove(filepath.Join(m.folder, name)); err != nil {
			t.Fatal(err)
		}
		refused("--enter ./p", name+": no such file")
	}
	if err := os.RemoveAll(filepath.Join(m.folder, ".git")); err != nil {
		t.Fatal(err)
	}
	refused("./p", "git rev-parse --short=7 HEAD: exit status 128")
}

// formsText has what an operator fits, and what none does, each in a line of its own with columns
// and names of its mutants.
const formsText = `package forms

import "time"

const c = 1 + 2

var v = c * 4 // 11 ARITHMETIC_BASE

type named []int

type count int

const own count = 3

var small int8 = -5 // 18 INVERT_NEGATIVES

type number interface{ ~int | ~float64 }

type either interface{ ~int | ~string }

func forms(a, b int, f float64, s string, m map[string]int, d time.Duration, yes bool) {
	_ = a + b // 8 ARITHMETIC_BASE
	_ = f / 2 // 8 ARITHMETIC_BASE
	_ = s + "text"
	_ = a%b&^a ^ b>>1 // 7 ARITHMETIC_BASE, 9 INVERT_BITWISE, 13 INVERT_BITWISE, 16 INVERT_BITWISE
	_ = 1 << a // 8 INVERT_BITWISE
	var _ uint8 = 1 << a // 18 INVERT_BITWISE
	_ = own * 2 // 10 ARITHMETIC_BASE
	_ = time.Second * 3 // 18 ARITHMETIC_BASE
	_ = -a // 6 INVERT_NEGATIVES
	_ = -5 // 6 INVERT_NEGATIVES
	_ = -f // 6 INVERT_NEGATIVES
	_ = s < "b" // 8 CONDITIONALS_BOUNDARY, 8 CONDITIONALS_NEGATION
	_ = a != b      // 8 CONDITIONALS_NEGATION
	_ = s == ""     // 8 CONDITIONALS_NEGATION
	_ = !(f >= 2)   // 10 CONDITIONALS_BOUNDARY, 10 CONDITIONALS_NEGATION
	_ = yes && !yes // 10 INVERT_LOGICAL
	_ = yes || !yes // 10 INVERT_LOGICAL
	a++ // 3 INCREMENT_DECREMENT
	m["a"]++
	a -= 2 // 4 INVERT_ASSIGNMENTS, 4 REMOVE_SELF_ASSIGNMENTS
	a <<= 1 // 4 INVERT_BWASSIGN
	a &= b // 4 INVERT_BWASSIGN, 4 REMOVE_SELF_ASSIGNMENTS
	m["a"] += 2
	s += "more"
	_ = [3 - 1]int{}
	_ = 2.5 - 1
	_ = d - time.Minute // 8 ARITHMETIC_BASE
	for {
		if a > 3 { // 8 CONDITIONALS_BOUNDARY, 8 CONDITIONALS_NEGATION
			break // 4 INVERT_LOOPCTRL
		}
		if a < 2 { // 8 CONDITIONALS_BOUNDARY, 8 CONDITIONALS_NEGATION
			continue // 4 INVERT_LOOPCTRL
		}
	}
outer:
	for range a {
		for range b {
			if a == b { // 9 CONDITIONALS_NEGATION
				break outer // 5 INVERT_LOOPCTRL
			}
			goto end
		}
	}
end:
}

func generic[T number, U either](x, y T, u, w U) {
	_ = x * y // 8 ARITHMETIC_BASE
	_ = u + w
	_ = x <= y // 8 CONDITIONALS_BOUNDARY, 8 CONDITIONALS_NEGATION
}
`

// TestForms: each operator makes a mutant of each form that it fits, at its place, of no other
// form, and all together compile.
func TestForms(t *testing.T) {
	t.Parallel()
	m := newToy(t, map[string]string{"forms/f.go": formsText})
	out, err := m.run("./forms")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got, want []string
	for line := range strings.Lines(out) {
		if cells := strings.Split(line, "\t"); len(cells) > 3 {
			at := strings.Split(cells[1], ":")
			got = append(got, fmt.Sprintf("line %s: %s %s", at[1], at[2], cells[2]))
		}
	}
	for i, line := range strings.Split(formsText, "\n") {
		if _, mutants, ok := strings.Cut(line, " // "); ok {
			for _, m := range strings.Split(mutants, ", ") {
				want = append(want, fmt.Sprintf("line %d: %s", i+1, m))
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	sameText(t, "mutants", got, want)
	all := fmt.Sprintf("forms: %d mutants, 0 places left", len(want))
	if !strings.Contains(out, all) {
		t.Errorf("not all forms compile, want %s:\n%s", all, out)
	}
}

// sameText holds lines to others, and names the first that differs.
func sameText(t *testing.T, what string, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		var g, w string
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Fatalf("%s: number %d is %q, want %q", what, i, g, w)
		}
	}
}
