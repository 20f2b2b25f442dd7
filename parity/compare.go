package parity

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"lockstep/parity/schema"
	"lockstep/parity/trace"
)

const (
	// blockSize is how many rollouts are in memory at once, with 100 bytes a step.
	blockSize = 256
	// groupSize is the same for rollouts with all stages in full, 10 MB each.
	groupSize = 8

	// maxDetails is how many divergences are described in full, one for each stage.
	maxDetails = 8
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
func Compare(ctx context.Context, f Family, want, got Source, tasks []Task, opts CompareOptions) (*Report, error) {
	start := time.Now()
	if f.Schema == nil {
		if f.Schema = want.Schema(); got.Info().Live && !want.Info().Live {
			f.Schema = got.Schema()
		}
	}
	c := &comparison{ctx: ctx, family: &f, opts: opts}
	var err error
	if c.hash, err = agree(want, got); err != nil {
		return nil, err
	}
	for side, s := range []Source{want, got} {
		if c.sources[side], err = arrange(s, f.Schema); err != nil {
			return nil, err
		}
		c.live[side] = s.Info().Live
	}
	if c.tasks, err = pairUp(want, got, tasks); err != nil {
		return nil, err
	}
	c.tolerated = make([]Tolerance, len(f.Schema.Stages))
	c.report = &Report{Want: want.Info(), Got: got.Info(), Exact: !opts.Inexact, Budget: opts.Budget, Compared: map[string]int{}, Lacking: map[string]int{}}
	for i := range f.Schema.Stages {
		c.report.Stages = append(c.report.Stages, f.Schema.Stages[i].Name)
	}
	c.report.Stages = append(c.report.Stages, f.Schema.Outcome.Name)
	c.held, c.running = wanted, gotten
	if !c.live[gotten] && c.live[wanted] {
		c.held, c.running = gotten, wanted
	}
	for from := 0; from < len(c.tasks); from += blockSize {
		to := min(from+blockSize, len(c.tasks))
		if err := c.block(c.tasks[from:to]); err != nil {
			return nil, err
		}
		if opts.Progress != nil {
			opts.Progress(to, len(c.tasks))
		}
	}
	if err := c.finish(); err != nil {
		return nil, err
	}
	took := time.Since(start)
	c.report.Seconds, c.report.After = took.Seconds(), (took - c.first).Seconds()
	return c.report, nil
}

// comparison is one call of Compare.
type comparison struct {
	ctx     context.Context
	family  *Family
	sources [2]Source
	live    [2]bool
	hash    schema.Hash
	held    int // the side that is kept while the other one runs
	running int
	opts    CompareOptions
	tasks   []Task

	first     time.Duration // in the first pass
	report    *Report
	tolerated []Tolerance // by stage
	results   []*result   // by task
}

// result is what is known of a task once its block is done.
type result struct {
	block         []Task   // that it ran with
	at            int      // in the block
	first, second *pairing // without forcing and, if that differed, with it
	teacher       *Teacher
	findings      []Finding // of both, in order
}

// rollout is one side of a task, kept.
type rollout struct {
	digests schema.Digests
	steps   []*schema.Step // in full, if asked for
	taught  [][]byte       // by stage: the values of those that can be taught
	lacking bool           // one of them, at some step
	past    int            // steps that are not compared
	end     End
}

func (r *rollout) step(i int) *schema.Step {
	if r.steps != nil {
		return r.steps[i]
	}
	return r.digests.At(i)
}

// add keeps a step.
func (r *rollout) add(s *schema.Schema, step *schema.Step, full bool) {
	if want := s.First + r.digests.Len(); step.Index != want {
		r.lacking = true
	}
	r.digests.Append(step)
	if full {
		r.steps = append(r.steps, step.Clone())
	}
	if r.taught == nil {
		r.taught = make([][]byte, len(s.Stages))
	}
	for i := range s.Stages {
		g := &s.Stages[i]
		switch {
		case !g.Teach:
		case !step.Has.Has(i) || g.IsArray() && len(step.Data[i]) != g.Size():
			r.lacking = r.lacking || !g.Optional
		case g.IsArray():
			r.taught[i] = append(r.taught[i], step.Data[i]...)
		default:
			r.taught[i] = g.Type.AppendBits(r.taught[i], step.Bits[i])
		}
	}
}

// past reports whether a step is beyond those that are compared.
func (c *comparison) past(s *schema.Step) bool {
	return c.family.Schema.End > 0 && s.Index >= c.family.Schema.End
}

// collect runs one side and keeps it.
func (c *comparison) collect(side int, tasks []Task, full bool) ([]rollout, error) {
	rollouts := make([]rollout, len(tasks))
	// Recordings have to be read in full for what they teach.
	arrays := full || !c.live[side] && slices.ContainsFunc(c.family.Schema.Stages, func(g schema.Stage) bool { return g.Teach && g.IsArray() })
	ends, err := c.sources[side].play(c.ctx, tasks, arrays, func(i int, s *schema.Step) {
		if c.past(s) {
			rollouts[i].past++
			return
		}
		rollouts[i].add(c.family.Schema, s, full)
	})
	if err != nil {
		return nil, err
	}
	for i := range ends {
		rollouts[i].end = ends[i]
	}
	return rollouts, nil
}

// pair runs the other side and compares.
func (c *comparison) pair(tasks []Task, held []rollout, full, forced, inexact bool) ([]*pairing, error) {
	pairings := make([]*pairing, len(tasks))
	for i := range tasks {
		pairings[i] = &pairing{c: c, task: &tasks[i], held: &held[i], judge: newJudge(c.family, c.live, forced, inexact)}
	}
	ends, err := c.sources[c.running].play(c.ctx, tasks, full, func(i int, s *schema.Step) { pairings[i].visit(s) })
	if err != nil {
		return nil, err
	}
	for i, p := range pairings {
		p.finish(ends[i])
	}
	return pairings, nil
}

// pairing is both sides of one task.
type pairing struct {
	*judge
	c       *comparison
	task    *Task
	held    *rollout
	past    int // steps that are not compared
	next    int // of the held steps
	seen    int // steps of the running side
	running End
	rolling [2]uint64

	// Divergences that belong to no step's stage.
	special []*Divergence
	broken  bool // steps cannot be paired up any more
}

// sides puts what is held and what runs in order.
func sides[T any](p *pairing, held, running T) (want, got T) {
	if p.c.held == wanted {
		return held, running
	}
	return running, held
}

// visit compares a step of the running side.
func (p *pairing) visit(s *schema.Step) {
	if p.c.past(s) {
		p.past++
		return
	}
	p.seen++
	if p.broken {
		return
	}
	if p.next >= p.held.digests.Len() {
		if e := &p.held.end; !e.found || e.Err != nil {
			p.extent(s.Index, e.String(), fmt.Sprintf("step %d", s.Index))
		} else {
			p.extent(s.Index, fmt.Sprintf("%d steps", p.next), "one more")
		}
		return
	}
	h := p.held.step(p.next)
	if h.Index != s.Index {
		p.extent(s.Index, fmt.Sprintf("step %d next", h.Index), fmt.Sprintf("step %d", s.Index))
		return
	}
	p.next++
	want, got := sides(p, h, s)
	p.step(want, got)
	p.rolling[wanted] = p.c.family.Schema.Roll(p.c.hash, p.rolling[wanted], want)
	p.rolling[gotten] = p.c.family.Schema.Roll(p.c.hash, p.rolling[gotten], got)
}

// extent notes that the sides went differently far.
func (p *pairing) extent(step int, held, running string) {
	p.broken = true
	want, got := sides(p, held, running)
	p.note(&Divergence{Step: step, Stage: schema.Extent, Index: -1, Want: want, Got: got})
	p.find(Finding{step, schema.Extent}, nil, nil)
}

func (p *pairing) note(d *Divergence) {
	d.Rollout, d.Key = rolloutText(p.c.family.Schema, p.task.Key), p.task.Key
	p.special = append(p.special, d)
	p.differs = true
}

// other reports whether the rollouts were computed from other inputs.
func (p *pairing) other() bool {
	return len(p.findings) > 0 && p.findings[0].Stage == p.c.family.Schema.Key[0]
}

// finish compares the ends.
func (p *pairing) finish(running End) {
	p.running = running
	held := p.held.end
	for _, e := range []End{held, running} {
		if e.rollout == nil {
			continue
		}
		want, got := &p.task.Rollout, e.rollout
		if p.task.Job == nil && held.rollout != nil && running.rollout != nil {
			want, got = sides(p, held.rollout, running.rollout)
		}
		if d := diffRollouts(want.Inputs, got.Inputs, p.task.Job != nil && len(want.Inputs) > 0); d != nil {
			d.Step, d.Stage = -1, p.c.family.Schema.Key[0]
			p.note(d)
			// From other inputs all else differs, too.
			p.findings, p.broken = []Finding{{-1, d.Stage}}, true
			return
		}
	}
	step := p.c.family.Schema.First + p.next
	if p.next > 0 {
		step = p.held.digests.At(p.next-1).Index + 1
	}
	switch failed := held.Err != nil; {
	case p.broken:
	case held.found != running.found, failed != (running.Err != nil):
		p.extent(step, held.String(), running.String())
	case p.next < p.held.digests.Len():
		p.extent(step, fmt.Sprintf("%d steps", p.held.digests.Len()), fmt.Sprintf("%d", p.next))
	case failed:
	default:
		want, got := sides(p, held.Outcome, running.Outcome)
		if d := p.end(want, got); d != nil {
			p.note(d)
		}
	}
}

// changed is what the differences did to the rollout.
func (p *pairing) changed() (all []Effect) {
	for _, e := range p.effects {
		if e.Steps > 0 {
			all = append(all, e)
		}
	}
	want, got := sides(p, p.held.end.Outcome, p.running.Outcome)
	for i, name := range p.c.family.Schema.Outcome.Elements {
		if i >= len(want) || i >= len(got) || math.Float64bits(want[i]) == math.Float64bits(got[i]) || want[i] != want[i] && got[i] != got[i] {
			continue
		}
		w, g := Float(want[i]), Float(got[i])
		all = append(all, Effect{Stage: p.c.family.Schema.Outcome.Name + " " + name, Step: -1, Apart: Float(math.Abs(want[i] - got[i])), Want: &w, Got: &g})
	}
	return all
}

// teacher is the trajectory of a kept rollout, or nil if it lacks a step that the
// running side simulates.
func (r *rollout) teacher(s *schema.Schema, seen int) *Teacher {
	if !r.end.found || r.end.Err != nil || r.lacking || r.digests.Len() < seen {
		return nil
	}
	return &Teacher{schema: s, columns: r.taught, steps: r.digests.Len()}
}

// block compares some tasks, in both passes.
func (c *comparison) block(tasks []Task) error {
	start := time.Now()
	held, err := c.collect(c.held, tasks, false)
	if err != nil {
		return err
	}
	pairings, err := c.pair(tasks, held, false, false, false)
	if err != nil {
		return err
	}
	c.first += time.Since(start)
	results := make([]*result, len(tasks))
	var again []int
	for i, p := range pairings {
		results[i] = &result{block: tasks, at: i, first: p}
		if !p.differs || !p.held.end.found || !p.running.found || p.other() {
			continue
		}
		if c.live[c.running] {
			results[i].teacher = held[i].teacher(c.family.Schema, p.seen)
		}
		if results[i].teacher != nil || c.opts.Inexact {
			again = append(again, i)
		}
	}
	c.results = append(c.results, results...)
	size := max(len(again), 1)
	if c.opts.Inexact {
		size = groupSize
	}
	for group := range slices.Chunk(again, size) {
		if err := c.repeat(tasks, group, held, results); err != nil {
			return err
		}
	}
	for i, o := range results {
		c.tally(&tasks[i], o)
		o.first.held = nil // frees the digests
		if o.second != nil {
			o.second.held = nil
		}
	}
	return nil
}

// repeat is the second pass of some tasks of a block: forced where possible and, in
// an inexact comparison, with all stages in full.
func (c *comparison) repeat(tasks []Task, group []int, held []rollout, results []*result) error {
	// Rollouts that can be forced, and others.
	for _, forced := range []bool{true, false} {
		var own []int
		var again []Task
		var kept []rollout
		for _, i := range group {
			if (results[i].teacher != nil) == forced {
				own, again, kept = append(own, i), append(again, tasks[i]), append(kept, held[i])
			}
		}
		if len(own) == 0 {
			continue
		}
		if c.opts.Inexact {
			var err error
			if kept, err = c.collect(c.held, again, true); err != nil {
				return err
			}
		}
		for k, i := range own {
			again[k].Teacher = results[i].teacher
		}
		pairings, err := c.pair(again, kept, c.opts.Inexact, forced, c.opts.Inexact)
		if err != nil {
			return err
		}
		for k, i := range own {
			results[i].second = pairings[k]
		}
	}
	return nil
}

// order is the order of the findings of a rollout: the inputs, the steps, the outcome.
func (f *Family) order(a, b Finding) int {
	step := func(x Finding) int {
		if x.Stage == f.Schema.Outcome.Name {
			return math.MaxInt
		}
		return x.Step
	}
	stage := func(x Finding) int {
		if i := f.Schema.Index(x.Stage); i >= 0 || x.Stage == f.Schema.Key[0] {
			return i
		}
		return schema.MaxStages
	}
	return cmp.Or(cmp.Compare(step(a), step(b)), cmp.Compare(stage(a), stage(b)))
}

// tally enters a task's result into the report.
func (c *comparison) tally(t *Task, o *result) {
	r := c.report
	judged := o.first
	switch {
	case o.second == nil:
		o.findings = slices.Clone(o.first.findings)
	case c.opts.Inexact:
		// What the first pass found in stages is judged by the second; how far the
		// sides went is found by both.
		judged = o.second
		o.findings = slices.Clone(o.second.findings)
		for _, f := range o.first.findings {
			if f.Stage == schema.Extent {
				o.findings = append(o.findings, f)
			}
		}
	default:
		o.findings = append(slices.Clone(o.first.findings), o.second.findings...)
	}
	slices.SortFunc(o.findings, c.family.order)
	o.findings = slices.Compact(o.findings)

	v := Verdict{
		Rollout: rolloutText(c.family.Schema, t.Key), Key: t.Key,
		Steps: o.first.steps, Equal: !o.first.differs,
		WantHash: trace.Hex(o.first.rolling[wanted]), GotHash: trace.Hex(o.first.rolling[gotten]),
		Findings: len(o.findings), Flips: judged.flips.Explained, Forced: o.teacher != nil, Effects: o.first.changed(),
	}
	if held, running := o.first.held.end.Err, o.first.running.Err; held != nil && running != nil {
		v.Error = held.Error()
	}
	if len(o.findings) > 0 {
		v.First = &o.findings[0]
	}
	r.Rollouts = append(r.Rollouts, v)
	r.Steps += o.first.steps
	r.Past += max(o.first.held.past, o.first.past)
	if o.second == nil {
		r.Unjudged += o.first.unjudged
	} else {
		r.Unjudged += o.second.unjudged
	}
	if o.teacher != nil {
		r.Forced += o.second.steps
	}
	for i, n := range append(o.first.compared, o.first.outcomes) {
		if n > 0 {
			r.Compared[r.Stages[i]] += n
		}
	}
	for i, n := range o.first.lacking {
		if n > 0 {
			r.Lacking[r.Stages[i]] += n
		}
	}
	flips := &judged.flips
	r.Flips.Stage = cmp.Or(flips.Stage, r.Flips.Stage)
	r.Flips.Explained += flips.Explained
	r.Flips.Unexplained += flips.Unexplained
	for _, e := range flips.Examples {
		if len(r.Flips.Examples) < maxExamples {
			e.Rollout = v.Rollout
			r.Flips.Examples = append(r.Flips.Examples, e)
		}
	}
	flips.Examples = nil
	for i := range judged.tolerated {
		if n := &judged.tolerated[i]; n.Steps > 0 {
			n.Rollout = v.Rollout
			c.tolerated[i].add(n)
		}
	}
}

// finish counts the findings and describes the first ones.
func (c *comparison) finish() error {
	r := c.report
	r.Stages = slices.DeleteFunc(r.Stages, func(stage string) bool {
		i := c.family.Schema.Index(stage)
		return i >= 0 && c.family.Schema.Stages[i].Optional && r.Compared[stage] == 0
	})
	for i, t := range c.tolerated {
		if t.Steps > 0 {
			t.Stage = c.family.Schema.Stages[i].Name
			r.Tolerated = append(r.Tolerated, t)
		}
	}
	where := map[string]int{} // of r.Findings, which are in the order in which they are met
	var first []int           // the task of each
	for i, o := range c.results {
		in := map[string]bool{}
		for _, f := range o.findings {
			at, ok := where[f.Stage]
			if !ok {
				v := &r.Rollouts[i]
				at = len(r.Findings)
				where[f.Stage] = at
				first = append(first, i)
				r.Findings = append(r.Findings, StageFindings{Stage: f.Stage, Rollout: v.Rollout, Key: v.Key, Step: f.Step})
			}
			s := &r.Findings[at]
			s.Findings++
			if !in[f.Stage] {
				in[f.Stage] = true
				s.Rollouts++
			}
		}
	}
	for i, s := range r.Findings[:min(maxDetails, len(r.Findings))] {
		d, err := c.describe(c.results[first[i]], Finding{s.Step, s.Stage}, i == 0)
		if err != nil {
			return err
		}
		if i == 0 {
			r.First = d
		} else {
			r.Others = append(r.Others, d)
		}
	}
	return nil
}
