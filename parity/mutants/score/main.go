// Command score enters into parity/mutants/MUTATION.md what a package's own tests said of
// mutants that gremlins made of it, and names those that live: see `make mutation`.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"lockstep/internal/fileio"
)

const (
	ledger      = "parity/mutants/MUTATION.md"
	equivalents = "parity/mutants/equivalent.tsv"
)

// A result is what gremlins writes.
type result struct {
	Files []struct {
		Name      string   `json:"file_name"`
		Mutations []mutant `json:"mutations"`
	} `json:"files"`
}

type mutant struct {
	Operator string `json:"type"`
	Status   string `json:"status"`
	Line     int    `json:"line"`
	Column   int    `json:"column"`
}

// A score counts a package's mutants. Those that nothing runs live, too; those that do not
// compile are none.
type score struct {
	mutants, killed, equivalent int
	alive                       []string // the others: where, what, and the line
}

func (s *score) percent() float64 {
	if s.mutants == s.equivalent {
		return 100
	}
	return 100 * float64(s.killed) / float64(s.mutants-s.equivalent)
}

// An equivalent is a mutant that no test can kill, with the reason: a row of five cells.
type equivalent struct{ file, column, operator, text, reason string }

// parseEquivalents reads their table, whose first row names the cells.
func parseEquivalents(table string) (all []equivalent, err error) {
	for i, row := range strings.Split(strings.TrimSpace(table), "\n") {
		cells := strings.Split(row, "\t")
		if len(cells) != 5 || cells[4] == "" {
			return nil, fmt.Errorf("%s:%d: want file, column, operator, the line and a reason", equivalents, i+1)
		}
		if i > 0 {
			all = append(all, equivalent{cells[0], cells[1], cells[2], cells[3], cells[4]})
		}
	}
	return all, nil
}

// count scores a result; lines are those of a file.
func count(r *result, known []equivalent, lines func(file string) ([]string, error)) (*score, error) {
	s := &score{}
	for _, f := range r.Files {
		text, err := lines(f.Name)
		if err != nil {
			return nil, err
		}
		for _, m := range f.Mutations {
			if m.Line < 1 || m.Line > len(text) {
				return nil, fmt.Errorf("%s has no line %d: it was changed since its mutants were made", f.Name, m.Line)
			}
			line := strings.TrimSpace(text[m.Line-1])
			as := func(e equivalent) bool {
				return e.file == f.Name && e.column == fmt.Sprint(m.Column) && e.operator == m.Operator && e.text == line
			}
			switch m.Status {
			case "NOT VIABLE", "SKIPPED":
				continue
			case "KILLED", "TIMED OUT":
				s.killed++
			case "LIVED", "NOT COVERED":
				if slices.ContainsFunc(known, as) {
					s.equivalent++
					break
				}
				s.alive = append(s.alive, fmt.Sprintf("%s:%d:%d %s, %s: %s", f.Name, m.Line, m.Column, m.Operator, strings.ToLower(m.Status), line))
			default:
				return nil, fmt.Errorf("%s:%d: a mutant has the status %q, which nobody knows", f.Name, m.Line, m.Status)
			}
			s.mutants++
		}
	}
	if s.mutants == 0 {
		return nil, fmt.Errorf("there was no mutant: nothing was judged")
	}
	return s, nil
}

// enter puts a package's row into the ledger, in place of the one that it has.
func enter(text, folder, commit string, s *score) string {
	row := fmt.Sprintf("| %s | %s | %d | %d | %d | %.0f %% |", folder, commit, s.mutants, s.killed, s.equivalent, s.percent())
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	own := "| " + folder + " |"
	if i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, own) }); i >= 0 {
		lines[i] = row
	} else {
		lines = append(lines, row)
	}
	return strings.Join(lines, "\n") + "\n"
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run scores the result in a file, of the package in a folder.
func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want a package's folder, and the file that gremlins wrote")
	}
	folder := strings.TrimPrefix(strings.TrimSuffix(args[0], "/"), "./")
	data, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	var r result
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("%s: %w", args[1], err)
	}
	table, err := os.ReadFile(equivalents)
	if err != nil {
		return err
	}
	known, err := parseEquivalents(string(table))
	if err != nil {
		return err
	}
	s, err := count(&r, known, func(file string) ([]string, error) {
		text, err := os.ReadFile(file)
		return strings.Split(string(text), "\n"), err
	})
	if err != nil {
		return err
	}
	for _, line := range s.alive {
		fmt.Println(line)
	}
	commit, err := exec.Command("git", "rev-parse", "--short=7", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("which commit this is: %w", err)
	}
	text, err := os.ReadFile(ledger)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d of %d mutants killed, %d are equivalent: %.0f %%\n", folder, s.killed, s.mutants, s.equivalent, s.percent())
	return fileio.Write(ledger, func(w io.Writer) error {
		_, err := io.WriteString(w, enter(string(text), folder, string(bytes.TrimSpace(commit)), s))
		return err
	})
}
