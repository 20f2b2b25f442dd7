package parity

import (
	"context"
	"errors"
	"slices"

	"lockstep"
	"lockstep/parity/trace"
)

// ErrNoDivergence is Shrink's answer to a case that does not fail.
var ErrNoDivergence = errors.New("the case does not fail: there is nothing to shrink")

// defaultRuns bounds the runs of Shrink.
const defaultRuns = 300

// Shrink looks for a smaller case that fails in the same stage: the fewest jobs and
// routes, then the fewest rows and so steps, then those steps alone at which the network
// has to run, then a simpler controller, no draws of its own, and columns of zeros or
// of one value, whole or in part. It always takes the same way, and it ends after limit
// runs, 300 if 0.
//
// Run compares a case and returns its first divergence, nil if there is none; an error
// of its own ends the search. Shrink returns the smallest case found, whose Stage is the
// stage at fault, and its divergence. The error is run's, or ErrNoDivergence. The
// case given stays as it is.
func Shrink(ctx context.Context, c *Case, run func(ctx context.Context, c *Case) (*Divergence, error), limit int) (*Case, *Divergence, error) {
	if limit <= 0 {
		limit = defaultRuns
	}
	s := &shrinker{ctx: ctx, run: run, left: limit}
	first, err := run(ctx, c)
	s.left--
	if err != nil {
		return nil, nil, err
	}
	if first == nil {
		return nil, nil, ErrNoDivergence
	}
	s.best = c.clone()
	s.best.Stage, s.best.Results, s.best.Path = first.Stage, nil, ""
	s.divergence = first
	for _, pass := range []func(){s.jobs, s.rows, s.shortcuts, s.batch, s.policies, s.draws, s.columns} {
		pass()
	}
	return s.best, s.divergence, s.err
}

// clone copies a case so that its slices can be changed.
func (c *Case) clone() *Case {
	d := *c
	d.Routes = slices.Clone(c.Routes)
	for i := range d.Routes {
		for _, column := range d.Routes[i].columns() {
			*column = slices.Clone(*column)
		}
	}
	d.Batch = slices.Clone(c.Batch)
	for i := range d.Batch {
		b := &d.Batch[i]
		b.Draws = slices.Clone(b.Draws)
		b.Policy.Gains, b.Policy.Steer = slices.Clone(b.Policy.Gains), slices.Clone(b.Policy.Steer)
	}
	return &d
}

type shrinker struct {
	ctx        context.Context
	run        func(ctx context.Context, c *Case) (*Divergence, error)
	left       int // runs
	best       *Case
	divergence *Divergence // of best
	err        error
}

// try takes a changed case as the best if it still fails in the same stage.
func (s *shrinker) try(change func(c *Case)) bool {
	if s.left <= 0 || s.err != nil {
		return false
	}
	c := s.best.clone()
	change(c)
	s.left--
	d, err := s.run(s.ctx, c)
	if err == nil {
		err = s.ctx.Err()
	}
	if err != nil {
		s.err = err
		return false
	}
	if d == nil || d.Stage != s.best.Stage {
		return false
	}
	s.best, s.divergence = c, d
	return true
}

// keep leaves only some jobs, and the routes that they need.
func (c *Case) keep(jobs []CaseJob) {
	var routes []CaseRoute
	at := map[int]int{}
	c.Batch = nil
	for _, j := range jobs {
		i, ok := at[j.Route]
		if !ok {
			i = len(routes)
			at[j.Route] = i
			routes = append(routes, c.Routes[j.Route])
		}
		j.Route = i
		c.Batch = append(c.Batch, j)
	}
	c.Routes = routes
}

// jobs leaves out jobs: all but the one that fails, else ever smaller parts.
func (s *shrinker) jobs() {
	if len(s.best.Batch) < 2 {
		return
	}
	for _, j := range s.best.Batch {
		policy, err := j.Policy.policy()
		if err != nil {
			continue
		}
		if s.best.Routes[j.Route].Name == s.divergence.Route && trace.PolicyName(policy) == s.divergence.Policy {
			if s.try(func(c *Case) { c.keep([]CaseJob{j}) }) {
				return
			}
			break
		}
	}
	for size := len(s.best.Batch) / 2; size > 0; size /= 2 {
		for from := 0; from < len(s.best.Batch) && len(s.best.Batch) > 1; {
			to := min(from+size, len(s.best.Batch))
			rest := slices.Delete(slices.Clone(s.best.Batch), from, to)
			if len(rest) == 0 || !s.try(func(c *Case) { c.keep(rest) }) {
				from = to
			}
		}
	}
}

// cut leaves the first n rows of all routes.
func (c *Case) cut(n int) {
	for i := range c.Routes {
		r := &c.Routes[i]
		r.Rows = min(r.Rows, n)
		for _, column := range r.columns() {
			if len(*column) > r.Rows {
				*column = (*column)[:r.Rows]
			}
		}
	}
	for i := range c.Batch {
		b := &c.Batch[i]
		n := c.Routes[b.Route].Rows - lockstep.ContextLength
		b.Draws = b.Draws[:min(len(b.Draws), n)]
		b.Policy.Steer = b.Policy.Steer[:min(len(b.Policy.Steer), n)]
	}
}

// rows looks for the fewest, first just beyond the step that fails.
func (s *shrinker) rows() {
	most := func() (n int) {
		for _, r := range s.best.Routes {
			n = max(n, r.Rows)
		}
		return n
	}
	if n := max(s.divergence.Step+1, lockstep.MinRows); n < most() {
		s.try(func(c *Case) { c.cut(n) })
	}
	for fails := lockstep.MinRows - 1; fails+1 < most(); {
		n := (fails + most()) / 2
		if !s.try(func(c *Case) { c.cut(n) }) {
			if s.left <= 0 || s.err != nil {
				return
			}
			fails = n
		}
	}
}

// shortcuts leaves out all work that is not needed for the divergence.
func (s *shrinker) shortcuts() {
	for _, bit := range []lockstep.Shortcuts{lockstep.StopAtCostEnd, lockstep.SkipWarmup, lockstep.LastPosition} {
		if lockstep.Shortcuts(s.best.Shortcuts)&bit == 0 {
			s.try(func(c *Case) { c.Shortcuts |= trace.Shortcuts(bit) })
		}
	}
}

// batch makes the batch an ordinary one.
func (s *shrinker) batch() {
	if s.best.Chunk != 0 || s.best.Workers != 0 {
		s.try(func(c *Case) { c.Chunk, c.Workers = 0, 0 })
	}
}

func (s *shrinker) policies() {
	for i := range s.best.Batch {
		if s.best.Batch[i].Policy.Kind == "zero" || s.try(func(c *Case) { c.Batch[i].Policy = CasePolicy{Kind: "zero"} }) {
			continue
		}
		for g, x := range s.best.Batch[i].Policy.Gains {
			if bits(float64(x)) != 0 {
				s.try(func(c *Case) { c.Batch[i].Policy.Gains[g] = 0 })
			}
		}
		if n := len(s.best.Batch[i].Policy.Steer); n > 0 {
			s.values(n, func(c *Case) []Float { return c.Batch[i].Policy.Steer })
		}
	}
}

func (s *shrinker) draws() {
	for i := range s.best.Batch {
		if s.best.Batch[i].Draws != nil && !s.try(func(c *Case) { c.Batch[i].Draws = nil }) {
			s.values(len(s.best.Batch[i].Draws), func(c *Case) []Float { return c.Batch[i].Draws })
		}
	}
}

func (s *shrinker) columns() {
	for i := range s.best.Routes {
		if s.best.Routes[i].Seed != 0 {
			s.try(func(c *Case) { c.Routes[i].Seed = 0 })
		}
		for k := range s.best.Routes[i].columns() {
			s.values(s.best.Routes[i].Rows, func(c *Case) []Float {
				column := c.Routes[i].columns()[k]
				if len(*column) == 1 {
					*column = slices.Repeat(*column, c.Routes[i].Rows)
				}
				return *column
			})
		}
	}
}

// values makes numbers zero, or all equal to the first, or zero in parts, down to an
// eighth.
func (s *shrinker) values(n int, of func(c *Case) []Float) {
	zero := func(a []Float) bool {
		return !slices.ContainsFunc(a, func(x Float) bool { return bits(float64(x)) != 0 })
	}
	if zero(of(s.best.clone())) || s.try(func(c *Case) { clear(of(c)) }) {
		return
	}
	first := of(s.best.clone())[0]
	constant := !slices.ContainsFunc(of(s.best.clone()), func(x Float) bool { return bits(float64(x)) != bits(float64(first)) })
	if constant || s.try(func(c *Case) {
		a := of(c)
		for i := range a {
			a[i] = a[0]
		}
	}) {
		return
	}
	for parts := 2; parts <= 8; parts *= 2 {
		for k := range parts {
			from, to := k*n/parts, (k+1)*n/parts
			if !zero(of(s.best.clone())[from:to]) {
				s.try(func(c *Case) { clear(of(c)[from:to]) })
			}
		}
	}
}
