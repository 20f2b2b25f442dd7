package gate

import (
	"os"
	"strings"
	"testing"
	"time"

	"lockstep/parity/verdict"
)

// TestMutation: a mutant that lives in an engine is red, one elsewhere is shown, and a program
// that ends otherwise than its lines say is an error.
func TestMutation(t *testing.T) {
	const (
		red   = "red\ta.go:1:2\tARITHMETIC_BASE\tlived\tx + y\n"
		shown = "shown\tb.go:3:4\tINVERT_LOGICAL\tnot covered\tx && y\n"
		sum   = "a: 1 of 1\n"
	)
	for _, c := range []struct {
		name, prints, status, why string
		outcome                   string
		failed, shown             int
	}{
		{"one of an engine", shown + red + sum, "1", "1 of 1 cases failed", verdict.Failed, 1, 1},
		{"one elsewhere", shown + sum, "0", "", verdict.Passed, 0, 1},
		{"none lives", sum, "0", "", verdict.Passed, 0, 0},
		{"nothing was changed", "", "0", "no line that was changed has a mutant", verdict.NotRun,
			0, 0},
		{"it ends badly", sum, "1", "no mutant says why", verdict.Failed, 0, 0},
		{"it ends well in spite of one", red, "0", "although mutants live", verdict.Failed, 1, 0},
	} {
		root := t.TempDir()
		write(t, root, "said", c.prints)
		write(
			t, root, "Makefile",
			"mutation-diff:\n\t@test $(BASE) = theirs && cat said && exit "+c.status+"\n",
		)
		g := &run{
			Config: Config{Root: root},
			env:    os.Environ(),
			change: verdict.Change{MergeBase: "theirs"},
		}
		s := step{run: g.mutation}
		got := s.execute(t.Context(), time.Minute, nil)
		if got.Outcome != c.outcome || !strings.Contains(got.Why, c.why) ||
			got.Count(verdict.Failed) != c.failed ||
			got.Count(verdict.NotRun) != c.shown {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	s := step{run: new(run).mutation}
	if got := s.execute(t.Context(), time.Minute, nil); got.Outcome != verdict.NotRun {
		t.Errorf("without a revision to compare with: %+v", got)
	}
}
