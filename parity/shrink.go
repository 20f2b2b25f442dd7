package parity

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sort"
)

// ErrNoDivergence is Shrink's answer to a case that does not fail.
var ErrNoDivergence = errors.New("the case does not fail: there is nothing to shrink")

// defaultRuns bounds the runs of Shrink.
const defaultRuns = 300

// Shrink looks for a smaller case that fails in the same stage, by the passes in their
// order. It always takes the same way, and it ends after limit runs, 300 if 0.
//
// Run compares a case and returns its first divergence, nil if there is none; an error
// ends the search. Shrink returns the smallest case found and its divergence. The error
// is run's, or ErrNoDivergence.
func Shrink[C any](
	ctx context.Context, c C, run func(ctx context.Context, c C) (*Divergence, error), limit int,
	passes ...func(*Shrinker[C]),
) (C, *Divergence, error) {
	first, err := run(ctx, c)
	if err == nil && first == nil {
		err = ErrNoDivergence
	}
	if err != nil {
		return c, nil, err
	}
	s := &Shrinker[C]{
		Best:       c,
		Divergence: first,
		ctx:        ctx,
		run:        run,
		left:       cmp.Or(limit, defaultRuns) - 1,
	}
	for _, pass := range passes {
		pass(s)
	}
	return s.Best, s.Divergence, s.err
}

// A Shrinker is a search for a smaller case.
type Shrinker[C any] struct {
	Best       C           // the smallest that fails
	Divergence *Divergence // of Best

	ctx  context.Context
	run  func(ctx context.Context, c C) (*Divergence, error)
	left int // runs
	err  error
}

// Done reports whether the search is over.
func (s *Shrinker[C]) Done() bool { return s.left <= 0 || s.err != nil }

// Try takes a case, which shares nothing with Best that is changed later, as the best if
// it still fails in the same stage.
func (s *Shrinker[C]) Try(c C) bool {
	if s.Done() {
		return false
	}
	s.left--
	d, err := s.run(s.ctx, c)
	s.err = cmp.Or(err, s.ctx.Err())
	if s.err != nil || d == nil || d.Stage != s.Divergence.Stage {
		return false
	}
	s.Best, s.Divergence = c, d
	return true
}

// Fewer leaves out ever smaller parts of a list: list gives the one of a case, and with a
// case that has another.
func Fewer[C, E any](s *Shrinker[C], list func(c C) []E, with func(c C, list []E) C) {
	for size := len(list(s.Best)) / 2; size > 0; size /= 2 {
		for from := 0; from < len(list(s.Best)) && len(list(s.Best)) > 1 && !s.Done(); {
			all := list(s.Best)
			to := min(from+size, len(all))
			rest := slices.Delete(slices.Clone(all), from, to)
			if len(rest) == 0 || !s.Try(with(s.Best, rest)) {
				from = to
			}
		}
	}
}

// Least looks for the least number from low on with which the case fails, by halves:
// size gives that of a case, and cut makes a case of one.
func Least[C any](s *Shrinker[C], low int, size func(c C) int, cut func(c C, n int) C) {
	sort.Search(size(s.Best)-low, func(i int) bool { return s.Try(cut(s.Best, low+i)) })
}

// Simpler makes numbers zero, or all equal to the first, or zero in parts, down to an
// eighth. clone copies a case, and of gives the numbers of one, to be changed.
func Simpler[C any](s *Shrinker[C], clone func(c C) C, of func(c C) []Float) {
	// fill makes some of them x, and reports whether they are.
	fill := func(from, to int, x Float) bool {
		c := clone(s.Best)
		part := of(c)[from:to]
		if Differ(Numbers(part), slices.Repeat([]float64{float64(x)}, len(part))) == nil {
			return true
		}
		for i := range part {
			part[i] = x
		}
		return s.Try(c)
	}
	numbers := of(clone(s.Best))
	n := len(numbers)
	if n == 0 || fill(0, n, 0) || fill(0, n, numbers[0]) {
		return
	}
	for parts := 2; parts <= 8; parts *= 2 {
		for k := range parts {
			fill(k*n/parts, (k+1)*n/parts, 0)
		}
	}
}
