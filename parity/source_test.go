package parity

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"lockstep/internal/simtest"
	"lockstep/parity/schema"
	"lockstep/parity/trace"
)

// answers is an engine that yields these results to each call, of so many tasks.
type answers struct {
	of func(tasks int) []int
}

func (a answers) Info() SideInfo { return SideInfo{Name: "answers"} }

func (a answers) Schema() *schema.Schema { return &schema.Schema{} }

func (a answers) Run(
	_ context.Context, tasks []RolloutTask, _ func(int, *schema.Step),
) iter.Seq2[int, End] {
	return func(yield func(int, End) bool) {
		for _, i := range a.of(len(tasks)) {
			of := tasks[max(0, min(i, len(tasks)-1))].nth
			if !yield(i, End{Outcome: []float64{float64(of)}}) {
				return
			}
		}
	}
}

// TestLiveResults: an engine gives each rollout one result, in any order and in any number of
// calls, and one of another rollout or a second one is refused.
func TestLiveResults(t *testing.T) {
	backwards := func(n int) (all []int) {
		for i := range n {
			all = append(all, n-1-i)
		}
		return all
	}
	for _, c := range []struct {
		name     string
		of       func(int) []int
		parallel int
		refused  string
		lacks    int
	}{
		{"backwards", backwards, 0, "", 0},
		{"in one call", backwards, 1, "", 0},
		{"in two", backwards, 2, "", 0},
		{"in more than there are", backwards, 9, "", 0},
		{"none", func(int) []int { return nil }, 0, "", 5},
		{"one below", func(int) []int { return []int{-1} }, 0,
			"answers: a result of rollout -1, there are 5", 0},
		{"one beyond", func(n int) []int { return []int{n} }, 2,
			"answers: a result of rollout 3, there are 3", 0},
		{"two", func(int) []int { return []int{1, 0, 1} }, 0,
			"answers: rollout 1 has two results", 0},
	} {
		tasks := make([]RolloutTask, 5)
		for i := range tasks {
			tasks[i].nth = i
		}
		side := &LiveSource{Adapter: answers{of: c.of}, Parallel: c.parallel}
		ends, err := side.play(t.Context(), tasks, schema.XXH64, false, nil)
		if c.refused != "" {
			simtest.Refused(t, c.name, err, c.refused)
			continue
		}
		lacks := 0
		for i, end := range ends {
			if end.Err != nil && end.Err.Error() == "the engine gave no result" {
				lacks++
			} else if end.of != &tasks[i].Rollout || end.Outcome[0] != float64(i) {
				t.Errorf("%s: rollout %d came to %v", c.name, i, end.Outcome)
			}
		}
		if err != nil || len(ends) != 5 || lacks != c.lacks {
			t.Errorf("%s: %d ends, %d without a result, %v; want 5, %d", c.name, len(ends), lacks,
				err, c.lacks)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	side := Live(answers{of: backwards})
	if _, err := side.play(ctx, make([]RolloutTask, 1), schema.XXH64, false, nil); !errors.Is(
		err, context.Canceled,
	) {
		t.Errorf("given up: %v", err)
	}
	if !side.Info().Live {
		t.Error("an engine is not live")
	}
}

// keyed is a recording of rollouts of these keys.
type keyed struct {
	RecordedSide
	keys   []string
	digest schema.Hash
	cannot error // be hashed otherwise
}

func (k keyed) Digest() schema.Hash { return k.digest }

func (k keyed) Rehash(schema.Hash) error { return k.cannot }

func (k keyed) Rollouts() (all []trace.Rollout) {
	for _, key := range k.keys {
		all = append(all, trace.Rollout{Key: []string{key}})
	}
	return all
}

// TestPairUp: of two recordings all rollouts are compared, those of one key in their order, what
// only one has too.
func TestPairUp(t *testing.T) {
	for _, c := range []struct{ want, got, pairs string }{
		{"a b", "a b", "a0 b0"}, {"a a", "a", "a0 a1"}, {"a", "a a a", "a0 a1 a2"},
		{"", "b b", "b0 b1"}, {"a b a", "c a b b", "a0 b0 a1 c0 b1"},
	} {
		var recordings []recorded
		for _, keys := range []string{c.want, c.got} {
			recordings = append(recordings, Recorded(keyed{keys: strings.Fields(keys)}).(recorded))
		}
		tasks, err := pairUp(recordings, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, task := range tasks {
			got = append(got, fmt.Sprint(task.Key[0], task.nth))
		}
		if text := strings.Join(got, " "); text != c.pairs {
			t.Errorf("%s and %s: %s, want %s", c.want, c.got, text, c.pairs)
		}
	}
	if _, err := pairUp(make([]recorded, 1), nil); err == nil {
		t.Error("a live engine is compared without jobs")
	}
	given := []RolloutTask{{Teacher: &Teacher{}}}
	if tasks, err := pairUp(nil, given); err != nil || tasks[0].Teacher != nil ||
		given[0].Teacher == nil {
		t.Errorf("%+v of %+v, %v; want another without a teacher", tasks, given, err)
	}
}

// TestAgree: recordings take the first kind of digest that all can have.
func TestAgree(t *testing.T) {
	const x, y = schema.XXH64, schema.SHA256
	hashed, other := fmt.Errorf("only hashes: %w", trace.ErrHashed), errors.New("the disk is gone")
	for _, c := range []struct {
		name string
		of   []keyed
		want schema.Hash
		err  error
	}{
		{"none", nil, 0, nil},
		{"one", []keyed{{digest: y}}, y, nil},
		{"both", []keyed{{digest: x}, {digest: y}}, x, nil},
		{"the second cannot", []keyed{{digest: x}, {digest: y, cannot: hashed}}, y, nil},
		{"none can", []keyed{{digest: x, cannot: hashed}, {digest: y, cannot: hashed}}, y, hashed},
		{"alike", []keyed{{digest: y, cannot: hashed}, {digest: y, cannot: hashed}}, y, nil},
		{"the disk", []keyed{{digest: x}, {digest: y, cannot: other}}, x, other},
	} {
		var all []recorded
		for _, k := range c.of {
			all = append(all, recorded{RecordedSide: k})
		}
		h, err := agree(all)
		if err != c.err || err == nil && h != c.want {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, h, err, c.want, c.err)
		}
	}
}
