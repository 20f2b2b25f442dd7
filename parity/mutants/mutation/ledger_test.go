package main

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"lockstep/internal/simtest"
)

// readLedger is the text of the ledger's page, and the rows.
func readLedger(t *testing.T, root string) (text string, rows []*ledgerRow) {
	t.Helper()
	page, err := os.ReadFile(root + ledger)
	if err != nil {
		t.Fatal(err)
	}
	if _, rows, err = parseLedger(string(page)); err != nil {
		t.Fatal(err)
	}
	return string(page), rows
}

// TestLedger: rows of the ledger stand in order, each with the score of its numbers, and README.md
// says what they come to.
func TestLedger(t *testing.T) {
	const root = "../../../"
	_, rows := readLedger(t, root)
	for i, r := range rows[1:] {
		if rows[i].order(r) >= 0 {
			t.Errorf("%s: a row is behind its place: %s", ledger, r.line())
		}
	}
	sum, err := totals(rows)
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(root + "README.md")
	if got := totalsLine.FindAllString(string(readme), -1); err != nil ||
		!slices.Equal(got, []string{sum}) {
		t.Errorf("README.md has %q (%v), want %q", got, err, sum)
	}
}

// TestWithoutRow: a package has a row of the ledger, or its page says why it has none.
func TestWithoutRow(t *testing.T) {
	const root = "../../../"
	text, rows := readLedger(t, root)
	has := map[string]bool{}
	for _, r := range rows {
		has[r.folder] = true
	}
	_, told, _ := strings.Cut(text, "\n## Packages without a row\n\n")
	told, _, _ = strings.Cut(told, "\n\n")
	says := map[string]bool{}
	for line := range strings.Lines(told) {
		for k, name := range strings.Split(strings.Split(line, "|")[1], "`") {
			if k%2 == 1 {
				says[name] = true
			}
		}
	}
	packages, err := packagesIn(root)
	if err != nil || len(packages) < len(says) || len(says) == 0 {
		t.Fatalf("%d packages, of which %d have no row: %v", len(packages), len(says), err)
	}
	for name := range packages {
		if has[name] == says[name] {
			t.Errorf("%s: %s has a row: %v; a reason why it has none: %v", ledger, name, has[name],
				says[name])
		}
	}
	for name := range says {
		if !packages[name] {
			t.Errorf("%s: there is no package %s that could have a row", ledger, name)
		}
	}
}

// packagesIn are the folders of the module's packages, those of tests alone, too.
func packagesIn(root string) (packages map[string]bool, err error) {
	packages = map[string]bool{}
	err = fs.WalkDir(os.DirFS(root), ".", func(file string, d fs.DirEntry, err error) error {
		name := d.Name()
		if d.IsDir() && file != "." && (name[0] == '.' || name[0] == '_' || name == "testdata" ||
			name == "build") {
			return fs.SkipDir
		}
		if path.Ext(name) == ".go" {
			packages[path.Dir(file)] = true
		}
		return err
	})
	return packages, err
}

// enteredRows are what stands behind a page when rows are entered one after the other, and the sum.
func enteredRows(t *testing.T, page string, rows []ledgerRow) (table, sum string) {
	t.Helper()
	text := page
	for i := range rows {
		var err error
		if text, sum, err = rows[i].enter(text); err != nil {
			t.Fatal(err)
		}
	}
	table, ok := strings.CutPrefix(text, page)
	if !ok {
		t.Fatalf("the page before the table is another:\n%s", text)
	}
	return table, sum
}

// TestEnter: in whatever order rows are entered they stand by package, then by family of operators,
// and what is entered again stands in the place of what was there.
func TestEnter(t *testing.T) {
	const page = "# Scores\n\n| a | table |\n|---|---|\n| a | row |\n\n" + ledgerHead
	rows := []ledgerRow{
		{".", ofConfusions, "c1", 1, score{mutants: 8, judged: 4, killed: 1}},
		{"a", ofGremlins, "c2", 2, score{mutants: 9, judged: 9, killed: 5, equivalent: 1}},
		{"a", ofOmissions, "c3", 3, score{mutants: 2, judged: 2, killed: 1}},
		{"a", ofConfusions, "c4", 4, score{mutants: 1, judged: 1, equivalent: 1}},
		{"a", ofTokens, "c5", 5, score{mutants: 3, judged: 3, killed: 2}},
		{"a/b", ofGremlins, "c6", 6, score{mutants: 2, judged: 2, killed: 2}},
	}
	const want = "| . | confusions | c1 | 1 | 8 | 4 | 1 | 0 | 25 % | 5–70 % |\n" +
		"| a | gremlins | c2 | 2 | 9 | 9 | 5 | 1 | 62 % | all |\n" +
		"| a | omissions | c3 | 3 | 2 | 2 | 1 | 0 | 50 % | all |\n" +
		"| a | confusions | c4 | 4 | 1 | 1 | 0 | 1 | 100 % | all |\n" +
		"| a | tokens | c5 | 5 | 3 | 3 | 2 | 0 | 67 % | all |\n" +
		"| a/b | gremlins | c6 | 6 | 2 | 2 | 2 | 0 | 100 % | all |\n"
	const wantSum = "9 of 13 mutants killed (69.2 %); omissions: 50.0 % of 2; " +
		"confusions: 25.0 % of 4."
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		some := slices.Clone(rows)
		some[0].commit, some[4].killed = "older", 0
		some = append(some, rows...)
		random.Shuffle(len(rows), func(i, j int) { some[i], some[j] = some[j], some[i] })
		last := some[len(rows):]
		random.Shuffle(len(last), func(i, j int) { last[i], last[j] = last[j], last[i] })
		if got, sum := enteredRows(t, page, some); got != want || sum != wantSum {
			t.Fatalf("entered as %v:\n%s%s\nwant\n%s%s", some, got, sum, want, wantSum)
		}
	}
	if _, sum := enteredRows(t, page, rows[1:2]); sum != "5 of 8 mutants killed (62.5 %)." {
		t.Errorf("of one family: %s", sum)
	}
}

// TestLedgerRefused: a table that no runner has written is not written to.
func TestLedgerRefused(t *testing.T) {
	const good = "| a | tokens | c | 1 | 4 | 4 | 2 | 1 | 67 % | all |\n"
	for old, c := range map[string]struct{ now, want string }{
		ledgerHead:      {"| package |\n|---|\n", "no table that begins"},
		" | tokens":     {"", "a row of 9 cells, want 10"},
		"| tokens":      {"| all", `"all": want gremlins, omissions, confusions or tokens`},
		"| 2 | 1 |":     {"| two | 1 |", "expected integer"},
		"| 4 | 4 | 2":   {"| 4 | 5 | 2", "4 mutants, 5 judged"},
		"| 4 | 2 | 1 |": {"| 4 | 4 | 1 |", "4 judged, 4 killed, 1 equivalent"},
		"67 %":          {"68 %", "its numbers make " + strings.TrimSpace(good)},
		good:            {"\n" + good, "a row of 1 cells"},
	} {
		text := strings.Replace(ledgerHead+good, old, c.now, 1)
		_, _, err := parseLedger(text)
		simtest.Refused(t, text, err, c.want)
	}
	if _, _, err := parseLedger("page\n" + ledgerHead + good); err != nil {
		t.Error(err)
	}
	if _, err := totals(nil); err == nil {
		t.Error("no rows have a sum")
	}
	for row, want := range map[string]string{
		"a,tokens,1,2,2,1":    "want package, operators, seed",
		"a,tokens,1,2,2,1,0,": "want package, operators, seed",
		"a,tokens,1,2,2,1,x":  "want package, operators, seed",
		"a,all,1,2,2,1,0":     `operators "all"`, "a,tokens,1,2,0,0,0": "0 judged",
	} {
		_, err := countedRow(row, "c")
		simtest.Refused(t, row, err, want)
	}
}
