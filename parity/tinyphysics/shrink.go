package tinyphysics

import (
	"context"
	"math"
	"slices"

	"lockstep"
	"lockstep/parity"
)

// Shrink looks for a smaller case that fails in the same stage, see parity.Shrink: the
// fewest jobs and routes, then the fewest rows and so steps, then those steps alone at
// which the network has to run, then a simpler controller, no draws of its own, and
// columns of zeros or of one value, whole or in part. The case returned names the stage;
// the case given stays as it is.
func Shrink(
	ctx context.Context, c *DriveCase,
	run func(ctx context.Context, c *DriveCase) (*parity.Divergence, error), limit int,
) (*DriveCase, *parity.Divergence, error) {
	small, d, err := parity.Shrink(
		ctx, c, run, limit, fewerJobs, fewerRows, shortcuts, plainBatch, simplerPolicies,
		plainDraws, simplerColumns,
	)
	if d == nil {
		return nil, nil, err
	}
	small = small.clone()
	small.Stage, small.Results, small.Path = d.Stage, nil, ""
	return small, d, err
}

type shrinker = parity.Shrinker[*DriveCase]

// try tries the best case with a change.
func try(s *shrinker, change func(c *DriveCase)) bool {
	c := s.Best.clone()
	change(c)
	return s.Try(c)
}

// keep is the case with only some jobs, and the routes that they need.
func (c *DriveCase) keep(jobs []CaseJob) *DriveCase {
	d := *c
	d.Routes, d.Batch = nil, nil
	at := map[int]int{}
	for _, j := range jobs {
		i, ok := at[j.Route]
		if !ok {
			i = len(d.Routes)
			at[j.Route] = i
			d.Routes = append(d.Routes, c.Routes[j.Route])
		}
		j.Route = i
		d.Batch = append(d.Batch, j)
	}
	return d.clone()
}

// fewerJobs leaves out jobs: all but the one that fails, else ever smaller parts.
func fewerJobs(s *shrinker) {
	tasks, _ := s.Best.tasks() // which ran
	for i := range tasks {
		if len(tasks) > 1 && slices.Equal(s.Divergence.Key, tasks[i].Key) {
			if s.Try(s.Best.keep(s.Best.Batch[i : i+1])) {
				return
			}
			break
		}
	}
	parity.Fewer(s, func(c *DriveCase) []CaseJob { return c.Batch }, (*DriveCase).keep)
}

// cut is the case with the first n rows of all routes.
func (c *DriveCase) cut(n int) *DriveCase {
	c = c.clone()
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
	return c
}

// rows are those of the longest route.
func (c *DriveCase) rows() int {
	return slices.MaxFunc(c.Routes, func(a, b CaseRoute) int { return a.Rows - b.Rows }).Rows
}

// fewerRows looks for the fewest, first just beyond the step that fails.
func fewerRows(s *shrinker) {
	if n := max(s.Divergence.Step+1, lockstep.MinRows); n < s.Best.rows() {
		s.Try(s.Best.cut(n))
	}
	parity.Least(s, lockstep.MinRows, (*DriveCase).rows, (*DriveCase).cut)
}

// shortcuts leaves out all work that is not needed for the divergence.
func shortcuts(s *shrinker) {
	for _, bit := range []lockstep.Shortcuts{
		lockstep.StopAtCostEnd, lockstep.SkipWarmup, lockstep.LastPosition,
	} {
		if lockstep.Shortcuts(s.Best.Shortcuts)&bit == 0 {
			try(s, func(c *DriveCase) { c.Shortcuts |= Shortcuts(bit) })
		}
	}
}

// plainBatch makes the batch an ordinary one.
func plainBatch(s *shrinker) {
	if s.Best.Chunk != 0 || s.Best.Workers != 0 {
		try(s, func(c *DriveCase) { c.Chunk, c.Workers = 0, 0 })
	}
}

func simplerPolicies(s *shrinker) {
	for i := range s.Best.Batch {
		if s.Best.Batch[i].Policy.Kind == "zero" ||
			try(
				s,
				func(c *DriveCase) {
					c.Batch[i].Policy, c.Batch[i].Sampling = CasePolicy{Kind: "zero"}, nil
				},
			) {
			continue
		}
		for g, x := range s.Best.Batch[i].Policy.Gains {
			if math.Float64bits(float64(x)) != 0 {
				try(s, func(c *DriveCase) { c.Batch[i].Policy.Gains[g] = 0 })
			}
		}
		parity.Simpler(
			s,
			(*DriveCase).clone,
			func(c *DriveCase) []parity.Float { return c.Batch[i].Policy.Steer },
		)
	}
}

func plainDraws(s *shrinker) {
	for i := range s.Best.Batch {
		if s.Best.Batch[i].Draws != nil && !try(s, func(c *DriveCase) { c.Batch[i].Draws = nil }) {
			parity.Simpler(
				s,
				(*DriveCase).clone,
				func(c *DriveCase) []parity.Float { return c.Batch[i].Draws },
			)
		}
	}
}

func simplerColumns(s *shrinker) {
	for i := range s.Best.Routes {
		if s.Best.Routes[i].Seed != 0 {
			try(s, func(c *DriveCase) { c.Routes[i].Seed = 0 })
		}
		for k := range s.Best.Routes[i].columns() {
			parity.Simpler(s, (*DriveCase).clone, func(c *DriveCase) []parity.Float {
				column := c.Routes[i].columns()[k]
				if len(*column) == 1 {
					*column = slices.Repeat(*column, c.Routes[i].Rows)
				}
				return *column
			})
		}
	}
}
