package reference

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/defaults"
	"lockstep/internal/model"
	"lockstep/internal/simtest"
	"lockstep/routefile"
)

// TestLogits: the network alone gives the logits that a rollout's window has, and refuses arrays
// of other sizes, and tokens that there are not.
func TestLogits(t *testing.T) {
	path, routes, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(path, lockstep.Profile{})
	if err != nil {
		t.Fatal(err)
	}
	route, err := routefile.Loader{}.Load(filepath.Join(routes, "g00000.csv"))
	if err != nil {
		t.Fatal(err)
	}
	var tokens []int64
	var states, want []float32
	job := lockstep.Job{Route: route.First(lockstep.MinRows), Policy: lockstep.DefaultPID()}
	job.Observe = func(s *lockstep.Step) {
		tokens = append(tokens[:0], s.Tokens...)
		states = append(states[:0], s.States...)
		want = append(want[:0], s.Logits...)
	}
	simulate(t, s, job, lockstep.AllSteps)
	logits := make([]float32, positions*model.Vocabulary)
	if err := s.Logits(logits, states, tokens); err != nil {
		t.Fatal(err)
	}
	last := logits[(positions-1)*model.Vocabulary:]
	if err := simtest.Same("logits of the last position", last, want); err != nil {
		t.Error(err)
	}
	const sizes, tokenRange = "want 20480, 80 and 20", "want 0 to 1023"
	with := func(token int64) []int64 {
		all := slices.Clone(tokens)
		all[7] = token
		return all
	}
	for _, c := range []struct {
		name           string
		logits, states []float32
		tokens         []int64
		says           string
	}{
		{"a logit less", logits[1:], states, tokens, sizes},
		{"a state less", logits, states[1:], tokens, sizes},
		{"a token less", logits, states, tokens[1:], sizes},
		{"below the first token", logits, states, with(-1),
			"token -1 at position 7, " + tokenRange},
		{"beyond the last", logits, states, with(1024), "token 1024 at position 7, " + tokenRange},
		{"the least there is", logits, states, with(math.MinInt64), tokenRange},
		{"the first token", logits, states, with(0), ""},
		{"the last token", logits, states, with(1023), ""},
	} {
		err := s.Logits(c.logits, c.states, c.tokens)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}
