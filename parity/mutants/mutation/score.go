package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

const (
	equivalents = "parity/mutants/equivalent.tsv"
	helpers     = "parity/mutants/helping.tsv"
)

// A score counts a package's mutants. Those that nothing runs live, too.
type score struct {
	mutants, judged, killed, equivalent int
	late                                int      // of those killed, by time
	unknown                             int      // not judged, since the machine was too busy
	alive                               []string // the others: where, what, and the line
}

func (s *score) percent() float64 {
	if s.judged == s.equivalent {
		return 100
	}
	return 100 * float64(s.killed) / float64(s.judged-s.equivalent)
}

// interval is Wilson's, of 95 %, for the score of all where only a sample was judged.
func (s *score) interval() string {
	if s.judged == s.mutants {
		return "all"
	}
	const z = 1.959964
	n, p := float64(s.judged-s.equivalent), s.percent()/100
	mid, half := p+z*z/(2*n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return fmt.Sprintf("%.0f–%.0f %%", 100*(mid-half)/(1+z*z/n), 100*(mid+half)/(1+z*z/n))
}

// An equivalent is a mutant that no test can kill, with the reason: a row of five cells.
type equivalent struct{ file, column, operator, text, reason string }

// parseEquivalents reads their table, whose first row names the cells.
func parseEquivalents(table string) (all []equivalent, err error) {
	for i, row := range strings.Split(strings.TrimSpace(table), "\n") {
		cells := strings.Split(row, "\t")
		if len(cells) != 5 || cells[4] == "" {
			return nil, fmt.Errorf(
				"%s:%d: want file, column, operator, the line and a reason", equivalents, i+1,
			)
		}
		if i > 0 {
			all = append(all, equivalent{cells[0], cells[1], cells[2], cells[3], cells[4]})
		}
	}
	return all, nil
}

// count scores the mutants that were judged; lines are those of the files.
func count(all []mutant, known []equivalent, lines map[string][]string) (*score, error) {
	s := &score{mutants: len(all)}
	for _, m := range all {
		line := strings.TrimSpace(lines[m.File][m.Line-1])
		switch m.status {
		case "":
			continue
		case unknown:
			s.unknown++
			continue
		case "TIMED OUT":
			s.late++
			s.killed++
		case "KILLED":
			s.killed++
		default:
			if slices.ContainsFunc(known, func(e equivalent) bool {
				return e.file == m.File && e.column == fmt.Sprint(m.Column) &&
					e.operator == m.Operator &&
					e.text == line
			}) {
				s.equivalent++
				break
			}
			s.alive = append(
				s.alive,
				fmt.Sprintf(
					"%s:%d:%d\t%s\t%s\t%s", m.File, m.Line, m.Column, m.Operator,
					strings.ToLower(m.status), line,
				),
			)
		}
		s.judged++
	}
	slices.Sort(s.alive)
	if s.judged == 0 {
		return nil, unfit("no mutant was judged")
	}
	return s, nil
}
