package parity

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"lockstep/parity/schema"
)

const (
	// blockSize is how many rollouts are in memory at once, with 100 bytes a step and side.
	blockSize = 256
	// groupSize is the same for rollouts with all stages in full, 10 MB each and side in
	// tinyphysics.
	groupSize = 8

	// maxDetails is how many divergences are described in full, one for each stage.
	maxDetails = 8
)

// Sides.
const (
	wanted = iota
	gotten
)

// Compare holds got to want on those tasks. Between two recordings tasks may be nil: then
// all rollouts of both are compared. The schema may be nil, too: then it is the one that
// want has or, if only got is live, got.
//
// First all steps of all rollouts are compared by digests. A rollout that differs is
// repeated with one side forced onto the other's trajectory: got onto want's, or, if got
// is a recording and want is live, want onto got's. Neither is possible between
// recordings; there, steps whose histories differ are compared but not judged. At last
// the first divergences are repeated on their own, to describe them in full.
//
// The error is of a comparison that could not be made; divergences are the
// report's, see Report.Err.
func Compare(
	ctx context.Context, f Family, want, got Side, tasks []RolloutTask, opts CompareOptions,
) (*Report, error) {
	start := time.Now()
	c := &comparison{ctx: ctx, family: &f, opts: opts, sources: [2]Side{want, got}}
	var recordings []recorded
	for side, s := range c.sources {
		r, ok := s.(recorded)
		if c.live[side] = !ok; ok {
			recordings = append(recordings, r)
		}
	}
	if f.Explain == nil {
		f.Explain = func(_, _ *schema.Step) *Explanation { return nil }
	}
	if f.Plot == nil {
		f.Plot = f.plotEffects
	}
	if f.Schema == nil {
		if f.Schema = want.Schema(); c.live[gotten] && !c.live[wanted] {
			f.Schema = got.Schema()
		}
	}
	if c.held, c.running = wanted, gotten; c.live[wanted] && !c.live[gotten] {
		c.held, c.running = gotten, wanted
	}
	var err error
	if c.hash, err = agree(recordings); err != nil {
		return nil, err
	}
	for side, s := range c.sources {
		if c.arrange[side], err = arrange(s, f.Schema); err != nil {
			return nil, err
		}
	}
	if c.tasks, err = pairUp(recordings, tasks); err != nil {
		return nil, err
	}
	r := &Report{
		Want:     want.Info(),
		Got:      got.Info(),
		Exact:    !opts.Inexact,
		Budget:   opts.Budget,
		Compared: map[string]int{},
		Lacking:  map[string]int{},
	}
	for _, g := range f.Schema.Stages {
		r.Stages, r.Tolerated = append(r.Stages, g.Name),
			append(r.Tolerated, Tolerance{Stage: g.Name})
	}
	r.Stages, c.report = append(r.Stages, f.Schema.Outcome.Name), r
	r.Exercised = newExercised(f.Branches)
	for block := range slices.Chunk(c.tasks, blockSize) {
		if err := c.block(block); err != nil {
			return nil, err
		}
	}
	r.Stages = slices.DeleteFunc(r.Stages, func(stage string) bool {
		i := f.Schema.Index(stage)
		return i >= 0 && f.Schema.Stages[i].Optional && r.Compared[stage] == 0
	})
	r.Tolerated = slices.DeleteFunc(r.Tolerated, func(t Tolerance) bool { return t.Steps == 0 })
	r.Want, r.Got = want.Info(), got.Info() // again: by now it is known what has computed
	took := time.Since(start)
	r.Seconds, r.After = took.Seconds(), (took - c.took).Seconds()
	return r, nil
}

// comparison is one call of Compare.
type comparison struct {
	ctx     context.Context
	family  *Family
	sources [2]Side
	live    [2]bool
	arrange [2]func(*schema.Step) *schema.Step
	hash    schema.Hash
	held    int // the side onto whose trajectory the other one is forced
	running int
	opts    CompareOptions
	tasks   []RolloutTask

	watchers []Watcher // of the tasks of the first pass, as it runs
	watched  int       // the side that they look at

	took   time.Duration // by the first pass
	report *Report
}

// result is what is known of a task once its block is done.
type result struct {
	block         []RolloutTask // that it ran with
	at            int           // in the block
	first, second *pairing      // without forcing and, if that differed, with it
	teacher       *Teacher
}

// play runs a side, and shows its steps as the schema has them.
func (c *comparison) play(
	side int, tasks []RolloutTask, full bool, visit func(i int, s *schema.Step),
) ([]End, error) {
	return c.sources[side].play(
		c.ctx, tasks, c.hash, full, func(i int, s *schema.Step) { visit(i, c.arrange[side](s)) },
	)
}

// collect runs one side and keeps it.
func (c *comparison) collect(side int, tasks []RolloutTask, full bool) ([]*rollout, error) {
	rollouts := make([]*rollout, len(tasks))
	teaches := side == c.held && c.live[c.running] && !full
	for i := range rollouts {
		if rollouts[i] = newRollout(c.family.Schema); !teaches {
			rollouts[i].columns = nil
		}
	}
	// Recordings have to be read in full for what they teach.
	arrays := full ||
		teaches &&
			slices.ContainsFunc(
				c.family.Schema.Stages, func(g schema.Stage) bool { return g.Teach && g.IsArray() },
			)
	ends, err := c.play(side, tasks, arrays, func(i int, s *schema.Step) {
		if end := c.family.Schema.End; end > 0 && s.Index >= end {
			rollouts[i].past++
			return
		}
		if c.watchers != nil && side == c.watched {
			c.watchers[i].Step(s)
		}
		rollouts[i].add(s, full)
	})
	if err != nil {
		return nil, err
	}
	for i, end := range ends {
		rollouts[i].end = end
	}
	return rollouts, nil
}

// pass compares some tasks: first all, and again, with what was held of them, those that
// differ, the other side forced by their teachers. In an inexact comparison all stages are
// in full then.
func (c *comparison) pass(
	tasks []RolloutTask, held []*rollout, teachers []*Teacher,
) (pairings []*pairing, err error) {
	inexact := held != nil && c.opts.Inexact
	if held == nil || inexact {
		if held, err = c.collect(c.held, tasks, inexact); err != nil {
			return nil, err
		}
	}
	tasks = slices.Clone(tasks)
	for i, t := range teachers {
		tasks[i].Teacher = t
	}
	running, err := c.collect(c.running, tasks, inexact)
	if err != nil {
		return nil, err
	}
	pairings = make([]*pairing, len(tasks))
	var all sync.WaitGroup
	for i := range tasks {
		all.Go(func() { pairings[i] = newPairing(c, &tasks[i], held[i], running[i], inexact) })
	}
	all.Wait()
	return pairings, nil
}

// block compares some tasks, in both passes.
func (c *comparison) block(tasks []RolloutTask) error {
	start := time.Now()
	c.watch(tasks)
	pairings, err := c.pass(tasks, nil, nil)
	if err != nil {
		return err
	}
	c.seen(pairings)
	var results, again []*result
	var own []RolloutTask // of those again
	var held []*rollout
	var teachers []*Teacher
	for i, p := range pairings {
		o := &result{block: tasks, at: i, first: p}
		results = append(results, o)
		if p.Equal || p.held.end.of == nil || p.running.end.of == nil ||
			len(p.findings) > 0 && p.findings[0].Stage == c.family.Schema.Key[0] {
			continue
		}
		if c.live[c.running] {
			o.teacher = p.held.teacher(p.running.digests.Len())
		}
		if o.teacher != nil || c.opts.Inexact {
			again, own, held, teachers = append(again, o), append(own, tasks[i]),
				append(held, p.held), append(teachers, o.teacher)
		}
	}
	c.took += time.Since(start)
	size := len(again)
	if c.opts.Inexact {
		size = groupSize
	}
	for from := 0; from < len(again); from += size {
		to := min(from+size, len(again))
		pairings, err := c.pass(own[from:to], held[from:to], teachers[from:to])
		if err != nil {
			return err
		}
		for k, p := range pairings {
			again[from+k].second = p
		}
	}
	for _, o := range results {
		c.tally(o)
	}
	return c.ctx.Err()
}

// findings are those of both passes, in order: the inputs, the steps, the outcome.
func (c *comparison) findings(o *result) []*Divergence {
	findings := slices.Clone(o.first.findings)
	if o.second != nil {
		findings = append(findings, o.second.findings...)
	}
	const step = 2 * schema.MaxStages
	rank := func(d *Divergence) int {
		switch d.Stage {
		case c.family.Schema.Outcome.Name:
			return math.MaxInt
		case schema.Extent:
			return d.Step*step + schema.MaxStages
		}
		return d.Step*step + c.family.Schema.Index(d.Stage)
	}
	slices.SortStableFunc(
		findings, func(a, b *Divergence) int { return cmp.Compare(rank(a), rank(b)) },
	)
	return slices.CompactFunc(findings, func(a, b *Divergence) bool { return rank(a) == rank(b) })
}

// tally enters a task's result into the report.
func (c *comparison) tally(o *result) {
	r, first, last, findings := c.report, o.first, cmp.Or(o.second, o.first), c.findings(o)
	v := first.Verdict
	v.Findings, v.Flips, v.Forced = len(findings), last.flips.Explained, last.Forced
	for i, d := range findings {
		at := slices.IndexFunc(r.Findings, func(s StageFindings) bool { return s.Stage == d.Stage })
		if at < 0 {
			at = len(r.Findings)
			r.Findings = append(
				r.Findings,
				StageFindings{Stage: d.Stage, Rollout: v.Rollout, Key: v.Key, Step: d.Step},
			)
			c.describe(o, d)
		}
		r.Findings[at].Findings++
		if !slices.ContainsFunc(
			findings[:i], func(before *Divergence) bool { return before.Stage == d.Stage },
		) {
			r.Findings[at].Rollouts++
		}
		if i == 0 {
			v.First = &Finding{d.Step, d.Stage}
		}
	}
	r.Rollouts = append(r.Rollouts, v)
	r.Steps += first.Steps
	r.Past += max(first.held.past, first.running.past)
	r.Unjudged += last.unjudged
	if v.Forced {
		r.Forced += last.Steps
	}
	for stage, n := range first.compared {
		r.Compared[stage] += n
	}
	for stage, n := range first.lacking {
		r.Lacking[stage] += n
	}
	r.Flips.Stage = cmp.Or(last.flips.Stage, r.Flips.Stage)
	r.Flips.Explained += last.flips.Explained
	r.Flips.Unexplained += last.flips.Unexplained
	examples := append(r.Flips.Examples, last.flips.Examples...)
	r.Flips.Examples = examples[:min(len(examples), maxExamples)]
	for i := range last.tolerated {
		r.Tolerated[i].add(&last.tolerated[i])
	}
}
