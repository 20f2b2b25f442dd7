package gymnasium_test

import (
	"strings"
	"testing"

	"lockstep/classic"
	"lockstep/parity/branches"
	"lockstep/parity/gymnasium"
)

// TestHard: the hard rollouts of the environments go through every branch of the
// specification, each environment's through all of its own, and engines agree on them.
func TestHard(t *testing.T) {
	all := map[string]bool{}
	for _, e := range classic.Environments() {
		times := map[string]int{}
		for _, r := range gymnasium.Hard(e) {
			report := compare(t, open(t, "batched"), r)
			must(t, report.Err())
			for _, x := range report.Exercised.Branches {
				times[x.Name] += x.Times
				all[x.Name] = true
			}
		}
		var never []string
		for name, n := range times {
			if n == 0 {
				never = append(never, name)
			}
		}
		if len(never) > 0 {
			t.Errorf("%s: never: %s", e.Name, strings.Join(never, ", "))
		}
	}
	for _, x := range branches.Classic() {
		if !all[x.Name] {
			t.Errorf("no environment looks for %q", x.Name)
		}
	}
}
