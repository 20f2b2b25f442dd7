package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"lockstep/internal/simtest"
)

const toy = "parity/mutants/mutation/testdata/toy"

// TestToy: of a package of which it is known, the runner names the mutants that live, counts
// those that are seen, one of them since it never ends, and leaves what does not compile.
func TestToy(t *testing.T) {
	t.Chdir("../../..")
	defer func(was time.Duration) { grace = was }(grace)
	grace = time.Second / 2
	at := func(place string) string { return toy + "/toy.go:" + place }
	want := []string{
		at("30:43\tARITHMETIC_BASE\tlived\tfunc missed(a float64) float64 { return a * 2 }"),
		at("32:35\tCONDITIONALS_BOUNDARY\tnot covered\tfunc never(a int) bool { return a < 1 }"),
		at("32:35\tCONDITIONALS_NEGATION\tnot covered\tfunc never(a int) bool { return a < 1 }"),
	}
	known := []equivalent{{toy + "/toy.go", "11", selfless, "r.at[i] += i*b - -i", "r.at[i] is 0"}}
	b := &build{work: t.TempDir(), operators: ofGremlins}
	var err error
	if b.root, err = os.Getwd(); err != nil {
		t.Fatal(err)
	}
	helping := "package\tfolder\ttest\twhat\n" + toy + "\t" + toy + "/other\tTestOther/helps\tit " +
		"helps\n"
	if b.helping, err = parseHelpers(helping); err != nil {
		t.Fatal(err)
	}
	s, err := b.score(toy, &options{most: 400}, known, time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.alive, want) || s.mutants != 36 || s.judged != 36 || s.killed != 32 ||
		s.equivalent != 1 {
		t.Errorf("%+v, want alive %q", s, want)
	}
	endless, jumps, places := "", 0, map[string]bool{}
	for _, m := range b.mutants {
		places[m.Operator] = true
		if m.Operator == step && b.lines[m.File][m.Line-1] == "\t\tn--" {
			endless = m.status
		}
		if m.Operator == loop {
			jumps++
		}
	}
	if endless != "TIMED OUT" {
		t.Errorf("a loop that never ends is %q", endless)
	}
	if jumps != 1 { // with a break the function at the end has no end, and does not compile
		t.Errorf("%d of loop control are there, want 1", jumps)
	}
	for _, operator := range []string{
		arithmetic, boundary, negation, step, negative, logical, assignment, bitwise, bitwiseSelf,
		selfless,
	} {
		if !places[operator] {
			t.Errorf("no mutant by %s", operator)
		}
	}
}

// TestLate: a mutant is killed by time if it computes for longer than it may, or if it is late
// where the same tests without it are not; a machine on which both are late judges nothing.
func TestLate(t *testing.T) {
	was := grace
	t.Cleanup(func() { grace = was }) // when its parallel parts have ended
	grace = time.Second / 5
	for _, c := range []struct {
		name, script, want string
		starts             int // more where a control was late, too
	}{
		{"computes without end", `while :; do :; done`, "TIMED OUT", 1},
		{"waits without end", `test $LOCKSTEP_MUTANT = -1 || exec sleep 60`, "TIMED OUT", 3},
		{"a busy moment", `test $n -gt 3 || exec sleep 60; exit 0`, "", 5},
		{"a busy moment, and seen", `test $n -gt 3 || exec sleep 60; test $n = 4`, "KILLED", 5},
		{"always busy", `exec sleep 60`, unknown, 1 + attempts},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			starts := filepath.Join(dir, "starts")
			path := filepath.Join(dir, "tests")
			text := "#!/bin/sh\necho >> " + starts + "; n=$(($(wc -l < " + starts + ")))\n" +
				c.script
			if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
			b := &batch{in: &program{path: path, dir: dir}, names: []string{"TestA"}}
			if c.starts == 1 {
				b.seconds = 0.1 // and no work: the limit is far beyond what it may compute
			}
			got, err := b.judge(3)
			if err != nil || got != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
			counted, err := os.ReadFile(starts)
			n := strings.Count(string(counted), "\n")
			if err != nil || n < c.starts || c.starts == 1 && n > 1 {
				t.Errorf("%d starts (%v), want %d", n, err, c.starts)
			}
		})
	}
}

// TestHelpers: the table of helping tests can be read, and each of its packages and tests is there.
func TestHelpers(t *testing.T) {
	const root = "../../../"
	table, err := os.ReadFile(root + helpers)
	if err != nil {
		t.Fatal(err)
	}
	all, err := parseHelpers(string(table))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range all {
		if files, err := filepath.Glob(root + h.folder + "/*.go"); err != nil || len(files) == 0 {
			t.Errorf("there is no package %s (%v)", h.folder, err)
		}
		name, _, _ := strings.Cut(h.test, "/")
		if !simtest.Declares(t, root+h.in, name+"(t *testing.T) {") {
			t.Errorf("%s has no %s", h.in, name)
		}
	}
	if _, err := parseHelpers("package\tfolder\ttest\twhat\na\tb\tTestC\t\n"); err == nil {
		t.Error("a row that does not say what it sees is read")
	}
}

// TestCount: what was not judged counts for nothing, and an equivalent one only at its place.
func TestCount(t *testing.T) {
	all := []mutant{
		{boundary, "b.go", 1, 6, "KILLED"}, {step, "b.go", 1, 9, "TIMED OUT"},
		{arithmetic, "b.go", 2, 8, "LIVED"},
		{negative, "b.go", 2, 8, "LIVED"},
		{arithmetic, "b.go", 2, 12, "NOT COVERED"}, {arithmetic, "b.go", 2, 1, ""},
		{arithmetic, "b.go", 2, 3, unknown},
	}
	lines := map[string][]string{"b.go": {"for i < n {", "\tx = y + z"}}
	row := equivalent{"b.go", "8", arithmetic, "x = y + z", "since"}
	s, err := count(all, []equivalent{row}, lines)
	if err != nil {
		t.Fatal(err)
	}
	if s.mutants != 7 || s.judged != 5 || s.unknown != 1 || s.killed != 2 || s.late != 1 ||
		s.equivalent != 1 ||
		s.percent() != 50 {
		t.Errorf("%+v, %v %%", s, s.percent())
	}
	if got := s.interval(); got != "15–85 %" { // Wilson's for 2 of 4
		t.Errorf("the interval of 2 of 4 is %s", got)
	}
	if len(s.alive) != 2 || !strings.Contains(s.alive[1], negative) ||
		!strings.Contains(s.alive[0], "2:12") {
		t.Errorf("alive: %q", s.alive)
	}
	row.text = "x = y"
	if s, err := count(all, []equivalent{row}, lines); err != nil || s.equivalent != 0 {
		t.Errorf("a row of another line: %+v, %v", s, err)
	}
	if _, err := count(all[5:], nil, lines); err == nil {
		t.Error("none was judged, and there is a score")
	}
}

// TestSample: a seed decides which are judged, and another takes others.
func TestSample(t *testing.T) {
	all := func() (a []int) {
		for i := range 100 {
			a = append(a, i)
		}
		return a
	}
	one, again, other := sample(all(), 40, 1), sample(all(), 40, 1), sample(all(), 40, 2)
	if len(one) != 40 || !slices.Equal(one, again) || slices.Equal(one, other) {
		t.Errorf("%v, again %v, by another seed %v", one, again, other)
	}
	slices.Sort(one)
	if len(slices.Compact(one)) != 40 {
		t.Error("a mutant is there twice")
	}
}

// TestDifference: the lines of Go that a change has, and no others.
func TestDifference(t *testing.T) {
	t.Chdir(t.TempDir())
	do := func(args ...string) {
		t.Helper()
		args = append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	do("init", "-q")
	write("p/a.go", "package p\n\nvar a = 1\n\nvar b = 2\n")
	do("add", ".")
	do("commit", "-q", "-m", "one")
	write("p/a.go", "package p\n\nvar a = 3\n\nvar b = 2\nvar c = 4\nvar d = 5\n")
	write("p/a_test.go", "package p\n")
	write("q/c.md", "text\n")
	do("add", ".")
	folders, lines, err := difference("HEAD")
	if err != nil {
		t.Fatal(err)
	}
	if got := lines["p/a.go"]; !slices.Equal(folders, []string{"p"}) || len(lines) != 1 ||
		len(got) != 3 ||
		!got[3] ||
		!got[6] ||
		!got[7] {
		t.Errorf("folders %q, lines %v", folders, lines)
	}
	// What may be red comes first, and what Go does not build does not come.
	for _, name := range []string{
		"a/a.go", "batched/b.go", "c/c.go", "internal/libm/d.go", "_e/e.go", "f/_f/f.go",
		"testdata/g.go", "h/testdata/i/h.go",
	} {
		write(name, "package x\n\nvar x = 1\n")
	}
	do("add", ".")
	want := []string{"batched", "internal/libm", "a", "c", "p"}
	if folders, _, err = difference("HEAD"); err != nil || !slices.Equal(folders, want) {
		t.Errorf("folders %q, want %q, %v", folders, want, err)
	}
	if _, _, err := difference("none"); err == nil {
		t.Error("there is a difference from nothing")
	}
	for folders, want := range map[string]string{"": "want one package's folder", "a b": "want one",
		"q": equivalents} {
		if err := run(options{operators: ofGremlins}, strings.Fields(folders)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("run on %q: %v, want %s", folders, err, want)
		}
	}
}

// TestStrict: mutants of engines and of arithmetic are red, and no others.
func TestStrict(t *testing.T) {
	for folder, want := range map[string]bool{
		"reference": true, "batched/classic": true, "gpu/classic": true, "internal/f32": true,
		"referenced": false, "internal": false, "cmd/internal/report": false, "": false,
	} {
		if strict(folder) != want {
			t.Errorf("%s is red: %v", folder, !want)
		}
	}
}

// places are the lines of a file at which a row's mutant is: the whole line is the row's, and at
// its column stands what its operator makes another of.
func (e equivalent) places(text []byte) (lines []int) {
	at := map[int]token.Token{}
	if filepath.Ext(e.file) == ".go" {
		var s scanner.Scanner
		files := token.NewFileSet()
		s.Init(files.AddFile(e.file, -1, len(text)), text, nil, 0)
		for pos, tok, _ := s.Scan(); tok != token.EOF; pos, tok, _ = s.Scan() {
			if p := files.Position(pos); fmt.Sprint(p.Column) == e.column {
				at[p.Line] = tok
			}
		}
	}
	for i, line := range strings.Split(string(text), "\n") {
		if strings.TrimSpace(line) != e.text {
			continue
		}
		tok, fits := at[i+1]
		if fits = fits && makesAnother(e.operator, tok); filepath.Ext(e.file) != ".go" {
			fits = e.onToken(line)
		}
		if fits {
			lines = append(lines, i+1)
		}
	}
	return lines
}

// onToken is whether at the row's column of a line that is no Go stands what its operator makes
// another of.
func (e equivalent) onToken(line string) bool {
	column, err := strconv.Atoi(e.column)
	if err != nil || column < 1 || column > len(line) {
		return false
	}
	before, rest := line[:column-1], line[column-1:]
	if e.operator == "DROPPED_STATEMENT" {
		return strings.TrimSpace(before) == "" && strings.TrimSpace(rest) == rest
	}
	begins, ok := map[string]string{
		"SHARE_COPY":   `(np\.array|list|dict|[a-z_.]+(\[.*])?\.copy)\(`,
		field:          `[A-Za-z_.]+\(.*=`, // a call with an argument by name
		"CONSTANT_NOT": `True|False`, "CONSTANT_DIGIT": `[0-9a-f]`,
		"CONSTANT_PLUS": `[0-9]`, "CONSTANT_MINUS": `[0-9]`,
	}[e.operator]
	if !ok && filepath.Ext(e.file) == ".s" { // an instruction's name, or an operand
		return !unicode.IsLetter(rune(line[max(0, column-2)]))
	}
	if !ok {
		begins, ok = map[string]string{
			arithmetic: `[-+*/]`, "SWAPPED_OPERANDS": `[-/]`, "REMOVED_BARRIER": `__sync`,
			boundary: `[<>]`, negation: `[<>]|[=!]=`,
		}[e.operator]
	}
	return ok && regexp.MustCompile(`^(`+begins+`)`).MatchString(rest)
}

// makesAnother is whether an operator changes a token.
func makesAnother(operator string, tok token.Token) bool {
	if at, ok := map[string][]token.Token{
		removal: {token.ASSIGN, token.LPAREN}, field: {token.COLON}, exchange: {token.COMMA},
		altered: {token.INT, token.FLOAT, token.IDENT, token.SUB},
	}[operator]; ok {
		return slices.Contains(at, tok)
	}
	if slices.Contains(confusions, operator) { // of whole expressions, at their beginnings
		return slices.Contains([]token.Token{
			token.IDENT, token.INT, token.FLOAT, token.SUB, token.MUL, token.LPAREN, token.LBRACK,
		}, tok)
	}
	s, expression := swaps[tok]
	if expression {
		return operator == s.expression || operator == negative && tok == token.SUB
	}
	if s, ok := swaps[tok+token.ADD-token.ADD_ASSIGN]; ok {
		shift := tok == token.SHL_ASSIGN || tok == token.SHR_ASSIGN
		return operator == s.assignment || operator == selfless && !shift
	}
	switch tok {
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		return operator == boundary || operator == negation
	case token.EQL, token.NEQ:
		return operator == negation
	case token.LAND, token.LOR:
		return operator == logical
	case token.BREAK, token.CONTINUE:
		return operator == loop
	case token.INC, token.DEC:
		return operator == step
	}
	return false
}

// TestEquivalents: the table that is kept can be read, and of each row the mutant is there: a row
// whose line or operator has gone is to go, too. One that fits several lines says of how many it
// speaks, so that a line that is written later is not believed for being alike.
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
	seen := map[equivalent]bool{}
	for _, e := range known {
		text, err := os.ReadFile(root + e.file)
		at := e.places(text)
		if err != nil || len(at) == 0 {
			t.Errorf(
				"%s: no line %q with a mutant %s at column %s (%v)", e.file, e.text, e.operator,
				e.column, err,
			)
		}
		many := fmt.Sprintf("of %d lines: ", len(at))
		if len(at) > 1 && !strings.HasPrefix(e.reason, many) {
			t.Errorf("%s:%v: the row's reason is to begin with %q: %s", e.file, at, many, e.reason)
		}
		e.reason = ""
		if seen[e] {
			t.Errorf("%s: two rows of %q, column %s", e.file, e.text, e.column)
		}
		seen[e] = true
	}
	if _, err := parseEquivalents(
		"file\tcolumn\toperator\tline\treason\na\t1\tX\tx\t\n",
	); err == nil {
		t.Error("a row without a reason is read")
	}
}

// TestPlaces: a row is of a whole line, of the place in it, and of an operator that fits there.
func TestPlaces(t *testing.T) {
	const text = "package p\n\nfunc f(x int) {\n\tfor x < 3 {\n\t\tx -= 2 << 1\n\t}\n" +
		"\tfor x < 3 {\n\t}\n\tx = g(y, &z{a: 1})\n}\n"
	for _, c := range []struct {
		row  equivalent
		want []int
	}{
		{equivalent{"a.go", "8", boundary, "for x < 3 {", ""}, []int{4, 7}},
		{equivalent{"a.go", "8", negation, "for x < 3 {", ""}, []int{4, 7}},
		{equivalent{"a.go", "8", logical, "for x < 3 {", ""}, nil},
		{equivalent{"a.go", "9", boundary, "for x < 3 {", ""}, nil},
		{equivalent{"a.go", "8", boundary, "for x < 3", ""}, nil},
		{equivalent{"a.go", "8", boundary, "", ""}, nil},
		{equivalent{"a.go", "5", assignment, "x -= 2 << 1", ""}, []int{5}},
		{equivalent{"a.go", "5", selfless, "x -= 2 << 1", ""}, []int{5}},
		{equivalent{"a.go", "5", arithmetic, "x -= 2 << 1", ""}, nil},
		{equivalent{"a.go", "10", bitwise, "x -= 2 << 1", ""}, []int{5}},
		{equivalent{"a.go", "8", altered, "x -= 2 << 1", ""}, []int{5}},
		{equivalent{"a.go", "10", altered, "x -= 2 << 1", ""}, nil},
		{equivalent{"a.go", "3", removal, "x = g(y, &z{a: 1})", ""}, nil},
		{equivalent{"a.go", "4", removal, "x = g(y, &z{a: 1})", ""}, []int{9}},
		{equivalent{"a.go", "7", removal, "x = g(y, &z{a: 1})", ""}, []int{9}},
		{equivalent{"a.go", "9", exchange, "x = g(y, &z{a: 1})", ""}, []int{9}},
		{equivalent{"a.go", "15", field, "x = g(y, &z{a: 1})", ""}, []int{9}},
		{equivalent{"a.go", "15", exchange, "x = g(y, &z{a: 1})", ""}, nil},
		{equivalent{"a.go", "8", cut, "x = g(y, &z{a: 1})", ""}, []int{9}},
		{equivalent{"a.go", "7", cut, "x = g(y, &z{a: 1})", ""}, []int{9}},
		{equivalent{"a.go", "9", cut, "x = g(y, &z{a: 1})", ""}, nil},
		{equivalent{"a.py", "8", "CONSTANT_MINUS", "x -= 2 << 1", ""}, []int{5}},
		{equivalent{"a.py", "9", "CONSTANT_MINUS", "x -= 2 << 1", ""}, nil},
		{equivalent{"a.py", "99", "CONSTANT_MINUS", "x -= 2 << 1", ""}, nil},
		{equivalent{"a.py", "3", "DROPPED_STATEMENT", "x -= 2 << 1", ""}, []int{5}},
		{equivalent{"a.py", "8", "DROPPED_STATEMENT", "x -= 2 << 1", ""}, nil},
		{equivalent{"a.py", "3", "SHARE_COPY", "x -= 2 << 1", ""}, nil},
		{equivalent{"a.cuh", "5", "ARITHMETIC_BASE", "x -= 2 << 1", ""}, []int{5}},
		{equivalent{"a.cuh", "5", "SWAPPED_OPERANDS", "x -= 2 << 1", ""}, []int{5}},
		{equivalent{"a.cuh", "8", "SWAPPED_OPERANDS", "x -= 2 << 1", ""}, nil},
		{equivalent{"a.s", "3", "INDEX_SHIFT", "x -= 2 << 1", ""}, []int{5}},
		{equivalent{"a.s", "4", "INDEX_SHIFT", "x -= 2 << 1", ""}, nil},
	} {
		if got := c.row.places([]byte(text)); !slices.Equal(got, c.want) {
			t.Errorf("%+v: lines %v, want %v", c.row, got, c.want)
		}
	}
}
