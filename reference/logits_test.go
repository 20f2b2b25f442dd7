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
	// A lataccel that is NaN has no token, from the first step on that looks at it.
	taught := job
	taught.Observe, taught.Route = nil, route.First(lockstep.ControlStartIdx+20)
	taught.Teacher = &lockstep.Trajectory{
		Lataccel: slices.Clone(taught.Route.TargetLataccel),
		Action:   make([]float64, taught.Route.Len()),
	}
	taught.Teacher.Lataccel[lockstep.ControlStartIdx+5] = math.NaN()
	for _, r := range s.Simulate(t.Context(), []lockstep.Job{taught},
		lockstep.Options{Shortcuts: lockstep.FullTrajectory}) {
		if r.Err == nil || !strings.HasSuffix(r.Err.Error(), "106: lataccel NaN has no token") {
			t.Errorf("a teacher whose lataccel is NaN: %v", r.Err)
		}
	}
	const sizes, tokenRange = "want 20480, 80 and 20", "want 0 to 1023"
	at := func(position int, token int64) []int64 {
		all := slices.Clone(tokens)
		all[position] = token
		return all
	}
	with := func(token int64) []int64 { return at(7, token) }
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
		{"the first of them", logits, states, at(0, 1024), "1024 at position 0, " + tokenRange},
		{"the last of them", logits, states, at(19, 1024), "1024 at position 19, " + tokenRange},
		{"the first token", logits, states, with(0), ""},
		{"the last token", logits, states, with(1023), ""},
	} {
		err := s.Logits(c.logits, c.states, c.tokens)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}
