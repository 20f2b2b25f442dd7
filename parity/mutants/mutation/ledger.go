package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"lockstep/internal/fileio"
)

const ledger = "parity/mutants/MUTATION.md"

// ledgerHead begins the ledger's table, which ends its page.
const ledgerHead = "| package | operators | commit | seed | mutants | judged | killed | " +
	"equivalent | score | interval |\n|---|---|---|--:|--:|--:|--:|--:|--:|---|\n"

// ofTokens are the operators of what is no Go, whose runners are in parity/mutants/tokens.
const ofTokens = "tokens"

// A ledgerRow is the score of a package by one family of operators.
type ledgerRow struct {
	folder, operators, commit string
	seed                      uint64
	score
}

func (r *ledgerRow) line() string {
	return fmt.Sprintf(
		"| %s | %s | %s | %d | %d | %d | %d | %d | %.0f %% | %s |\n", r.folder, r.operators,
		r.commit, r.seed, r.mutants, r.judged, r.killed, r.equivalent, r.percent(), r.interval(),
	)
}

// order has rows stand by package, then by family, in which each has one.
func (r *ledgerRow) order(other *ledgerRow) int {
	return cmp.Or(cmp.Compare(r.folder, other.folder), cmp.Compare(r.family(), other.family()))
}

// family is the place of the row's operators among all; negative if they are none of them.
func (r *ledgerRow) family() int { return slices.Index(append(families, ofTokens), r.operators) }

// check refuses what no runner counts.
func (r *ledgerRow) check() error {
	switch {
	case r.family() < 0:
		return fmt.Errorf(
			"operators %q: want %s or %s", r.operators, strings.Join(families, ", "), ofTokens,
		)
	case r.judged < 1 || r.judged > r.mutants || r.killed < 0 || r.equivalent < 0 ||
		r.killed+r.equivalent > r.judged:
		return fmt.Errorf(
			"%d mutants, %d judged, %d killed, %d equivalent", r.mutants, r.judged, r.killed,
			r.equivalent,
		)
	}
	return nil
}

// parseLedger has the page up to the table's rows, and the rows.
func parseLedger(text string) (before string, rows []*ledgerRow, err error) {
	before, table, ok := strings.Cut(text, ledgerHead)
	if !ok {
		return "", nil, fmt.Errorf("%s has no table that begins with %q", ledger, ledgerHead)
	}
	for line := range strings.Lines(table) {
		r := &ledgerRow{}
		cells := strings.Split(line, " | ")
		if len(cells) != 10 {
			return "", nil, fmt.Errorf(
				"%s: a row of %d cells, want 10: %s", ledger, len(cells), line,
			)
		}
		r.folder, r.operators, r.commit = strings.TrimPrefix(cells[0], "| "), cells[1], cells[2]
		_, err := fmt.Sscan(strings.Join(cells[3:8], " "), &r.seed, &r.mutants, &r.judged,
			&r.killed, &r.equivalent)
		if err == nil {
			err = r.check()
		}
		if err == nil && r.line() != line {
			err = fmt.Errorf("its numbers make %s", strings.TrimSpace(r.line()))
		}
		if err != nil {
			return "", nil, fmt.Errorf("%s: %s: %w", ledger, strings.TrimSpace(line), err)
		}
		rows = append(rows, r)
	}
	return before + ledgerHead, rows, nil
}

// enter puts a row into its place of the ledger's text, instead of the one that was there, and has
// the sentence that README.md says of all rows.
func (r *ledgerRow) enter(text string) (entered, sum string, err error) {
	entered, rows, err := parseLedger(text)
	if err != nil {
		return "", "", err
	}
	rows = slices.DeleteFunc(rows, func(other *ledgerRow) bool { return r.order(other) == 0 })
	rows = append(rows, r)
	slices.SortFunc(rows, (*ledgerRow).order)
	for _, row := range rows {
		entered += row.line()
	}
	sum, err = totals(rows)
	return entered, sum, err
}

// write enters the row into the ledger, and the sum into README.md.
func (r *ledgerRow) write() error {
	text, err := os.ReadFile(ledger)
	if err != nil {
		return err
	}
	entered, sum, err := r.enter(string(text))
	if err != nil {
		return err
	}
	if err := fileio.WriteFile(ledger, []byte(entered)); err != nil {
		return err
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		return err
	}
	return fileio.WriteFile("README.md", totalsLine.ReplaceAll(readme, []byte(sum)))
}

// enterCounted enters a row that another runner has counted.
func enterCounted(text string) error {
	commit, err := head()
	if err != nil {
		return err
	}
	r, err := countedRow(text, commit)
	if err != nil {
		return err
	}
	return r.write()
}

// countedRow is the row that a text of its numbers says.
func countedRow(text, commit string) (*ledgerRow, error) {
	r := &ledgerRow{commit: commit}
	cells := strings.Split(text, ",")
	_, err := fmt.Sscan(strings.Join(cells, " "), &r.folder, &r.operators, &r.seed, &r.mutants,
		&r.judged, &r.killed, &r.equivalent)
	if err != nil || len(cells) != 7 {
		return nil, fmt.Errorf(
			"--row %s: want package, operators, seed, mutants, judged, killed and equivalent, "+
				"with commas", text,
		)
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("--row %s: %w", text, err)
	}
	return r, nil
}

// totals are the sentence that README.md says of the ledger: each family of operators apart, since
// tests see fewer of those that came later; but tokens are what gremlins are elsewhere.
func totals(rows []*ledgerRow) (string, error) {
	sums := make([]score, len(families))
	for _, r := range rows {
		s := &sums[max(0, slices.Index(families, r.operators))]
		s.judged, s.killed = s.judged+r.judged-r.equivalent, s.killed+r.killed
	}
	if len(rows) == 0 {
		return "", errors.New("the ledger has no rows")
	}
	var parts []string
	for i, s := range sums {
		switch {
		case i == 0:
			parts = append(parts,
				fmt.Sprintf("%d of %d mutants killed (%.1f %%)", s.killed, s.judged, s.percent()))
		case s.judged > 0:
			parts = append(parts,
				fmt.Sprintf("%s: %.1f %% of %d", families[i], s.percent(), s.judged))
		}
	}
	return strings.Join(parts, "; ") + ".", nil
}

var totalsLine = regexp.MustCompile(`(?m)^\d+ of \d+ mutants killed .*$`)
