package parity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"lockstep/internal/simtest"
)

// failing runs cases of numbers, and notes them. One fails where it has a 7, in the stage that says
// whether its length is even or odd.
func failing(tried *[][]int) func(context.Context, []int) (*Divergence, error) {
	return func(_ context.Context, c []int) (*Divergence, error) {
		*tried = append(*tried, slices.Clone(c))
		switch {
		case slices.Contains(c, 13):
			return nil, errors.New("13 is run")
		case !slices.Contains(c, 7):
			return nil, nil
		case len(c)%2 == 0:
			return &Divergence{Stage: "even", Step: -1}, nil // as an outcome
		}
		return &Divergence{Stage: "odd", Step: 4}, nil
	}
}

// TestShrinkEnds: a search ends after its runs, at an error, or where nothing fails; only what
// fails in the first one's stage is smaller.
func TestShrinkEnds(t *testing.T) {
	less := func(s *Shrinker[[]int]) { // one after the other from the end
		for n := len(s.Best) - 1; n >= 0 && !s.Done(); n-- {
			s.Try(s.Best[:n])
		}
	}
	for _, c := range []struct {
		name     string
		from     []int
		limit    int
		want     string
		stage    string
		runs     int
		refused  string
		cancelAt int
	}{
		{"all", []int{7, 1, 2, 3, 4}, 0, "[7]", "odd", 6, "", 0},
		{"two runs", []int{7, 1, 2, 3, 4}, 2, "[7 1 2 3 4]", "odd", 2, "", 0},
		{"three runs", []int{7, 1, 2, 3, 4}, 3, "[7 1 2]", "odd", 3, "", 0},
		{"the first alone", []int{7, 1, 2}, 1, "[7 1 2]", "odd", 1, "", 0},
		{"nothing fails", []int{1}, 0, "[1]", "", 1, "there is nothing to shrink", 0},
		{"an error at first", []int{13}, 0, "[13]", "", 1, "13 is run", 0},
		{"given up", []int{7, 1, 2, 3, 4}, 0, "[7 1 2]", "odd", 4, "canceled", 4},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var tried [][]int
		fails := failing(&tried)
		run := func(ctx context.Context, of []int) (*Divergence, error) {
			d, err := fails(ctx, of)
			if len(tried) == c.cancelAt {
				cancel()
			}
			return d, err
		}
		got, d, err := Shrink(ctx, c.from, run, c.limit, less)
		stage := ""
		if d != nil {
			stage = d.Stage
		}
		if fmt.Sprint(got) != c.want || stage != c.stage || len(tried) != c.runs {
			t.Errorf("%s: %v in stage %q after %d runs, want %s in %q after %d", c.name, got, stage,
				len(tried), c.want, c.stage, c.runs)
		}
		if c.refused != "" {
			simtest.Refused(t, c.name, err, c.refused)
		} else if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	runs := 0
	_, _, err := Shrink(t.Context(), 0, func(context.Context, int) (*Divergence, error) {
		runs++
		return &Divergence{}, nil
	}, 0, func(s *Shrinker[int]) {
		for s.Try(0) {
		}
	})
	if err != nil || runs != 300 {
		t.Errorf("without a limit there are %d runs, %v; want 300", runs, err)
	}
}

// TestFewer: halves are left out first, then ever smaller parts, and the last one stays.
func TestFewer(t *testing.T) {
	var tried [][]int
	run := func(_ context.Context, c []int) (*Divergence, error) {
		tried = append(tried, slices.Clone(c))
		if slices.Contains(c, 7) {
			return &Divergence{}, nil
		}
		return nil, nil
	}
	fewer := func(s *Shrinker[[]int]) {
		Fewer(s, func(c []int) []int { return c }, func(_, list []int) []int { return list })
	}
	got, _, err := Shrink(t.Context(), []int{1, 2, 3, 4, 7, 5, 6}, run, 0, fewer)
	const want = "[[1 2 3 4 7 5 6] [4 7 5 6] [6] [4 7 5] [7 5] [5] [7]]"
	if fmt.Sprint(got) != "[7]" || fmt.Sprint(tried) != want || err != nil {
		t.Errorf("%v by %v, %v; want [7] by %s", got, tried, err, want)
	}
}

// TestLeast: the least number is found from the lowest to the size itself.
func TestLeast(t *testing.T) {
	for from := range 6 {
		for fails := from; fails <= 6; fails++ {
			run := func(_ context.Context, n int) (*Divergence, error) {
				if n >= fails {
					return &Divergence{}, nil
				}
				return nil, nil
			}
			got, _, err := Shrink(t.Context(), 6, run, 0, func(s *Shrinker[int]) {
				Least(s, from, func(n int) int { return n }, func(_, n int) int { return n })
			})
			if got != fails || err != nil {
				t.Errorf("from %d on the least is %d, %v; want %d", from, got, err, fails)
			}
		}
	}
}

// TestSimpler: numbers become zero all at once, or the first's, or zero in halves, quarters and
// eighths; what is so already is not tried.
func TestSimpler(t *testing.T) {
	for _, c := range []struct {
		name  string
		from  []Float
		needs func(c []Float) bool
		want  string
		runs  int
	}{
		{"zero", []Float{1, 2, 3}, func([]Float) bool { return true }, "[0 0 0]", 2},
		{"zero already", []Float{0, 0}, func([]Float) bool { return true }, "[0 0]", 1},
		{"none", nil, func([]Float) bool { return true }, "[]", 1},
		{"the first", []Float{4, 2, 3}, func(c []Float) bool { return c[2] > 0 }, "[4 4 4]", 3},
		{"parts", []Float{1, 2, 3, 4, 5, 6, 7, 8},
			func(c []Float) bool { return c[2] == 3 && c[7] == 8 }, "[0 0 3 0 0 0 0 8]", 13},
		{"minus zero is another", []Float{Float(math.Copysign(0, -1))},
			func([]Float) bool { return true }, "[0]", 2},
	} {
		runs := 0
		got, _, err := Shrink(t.Context(), c.from,
			func(_ context.Context, numbers []Float) (*Divergence, error) {
				if runs++; c.needs(numbers) {
					return &Divergence{}, nil
				}
				return nil, nil
			}, 0, func(s *Shrinker[[]Float]) {
				Simpler(s, slices.Clone[[]Float], func(c []Float) []Float { return c })
			})
		if fmt.Sprint(got) != c.want || runs != c.runs || err != nil {
			t.Errorf("%s: %v after %d runs, %v; want %s after %d", c.name, got, runs, err, c.want,
				c.runs)
		}
	}
}
