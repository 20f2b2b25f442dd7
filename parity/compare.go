package parity

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"lockstep"
	"lockstep/parity/trace"
)

const (
	// blockSize is how many rollouts are in memory at once, with 100 bytes a step.
	blockSize = 256
	// groupSize is the same for rollouts with all stages in full, 10 MB each.
	groupSize = 8

	defaultDetails = 8

	// plotTokens is how many tokens to each side of the choice a plot shows.
	plotTokens = 12
)

// Compare holds got to want on those jobs, whose Observe and Teacher it sets itself.
// Between two recordings jobs may be nil: then all rollouts of both are compared.
//
// First all steps of all rollouts are compared by digests. A rollout that differs is
// repeated with one side forced onto the other's trajectory: got onto want's, or, if got
// is a recording and want is live, want onto got's. Neither is possible between
// recordings; there, steps whose histories differ are compared but not judged. At last
// the first divergences are repeated on their own, to describe them in full.
//
// The error is of a comparison that could not be made; divergences are the
// report's, see Report.Err.
func Compare(ctx context.Context, want, got Source, jobs []lockstep.Job, opts CompareOptions) (*Report, error) {
	start := time.Now()
	if err := agree(want, got); err != nil {
		return nil, err
	}
	tasks, err := makeTasks(want, got, jobs)
	if err != nil {
		return nil, err
	}
	c := &comparison{
		ctx: ctx, sources: [2]Source{want, got}, opts: opts, tasks: tasks,
		report: &Report{Want: want.info(), Got: got.info(), Exact: !opts.Inexact, Budget: opts.Budget},
	}
	c.hash, _ = want.digest()
	if got.info().Live || !want.info().Live {
		c.held, c.running = wanted, gotten
	} else {
		c.held, c.running = gotten, wanted
	}
	for from := 0; from < len(tasks); from += blockSize {
		to := min(from+blockSize, len(tasks))
		if err := c.block(tasks[from:to]); err != nil {
			return nil, err
		}
		if opts.Progress != nil {
			opts.Progress(to, len(tasks))
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
	sources [2]Source
	hash    trace.Hash
	held    int // the side that is kept while the other one runs
	running int
	opts    CompareOptions
	tasks   []task

	first    time.Duration // in the first pass
	report   *Report
	outcomes []*outcome // by task
}

// outcome is what is known of a task once its block is done.
type outcome struct {
	first, second *pairing // without forcing and, if that differed, with it
	teacher       *lockstep.Trajectory
	faults        []Fault // of both, in order
}

func (c *comparison) live(side int) bool { return c.sources[side].info().Live }

// expects are the stages whose absence is a fault: a live engine has all that its
// shortcuts do not leave out.
func (c *comparison) expects(side int, s *trace.Step) trace.Stages {
	switch {
	case !c.live(side):
		return 0
	case s.Index < lockstep.ControlStartIdx && c.opts.Shortcuts&lockstep.SkipWarmup != 0:
		return trace.Set(Action, Draw, Lataccel)
	}
	return trace.AllStages
}

// rollout is one side of a task, kept.
type rollout struct {
	digests []trace.Digest
	steps   []*trace.Step // in full, if asked for
	end     end
}

func (r *rollout) step(i int) *trace.Step {
	if r.steps != nil {
		return r.steps[i]
	}
	return &trace.Step{Digest: r.digests[i]}
}

// past tells whether a step is beyond those that are compared.
func (c *comparison) past(s *trace.Step) bool {
	return c.opts.Shortcuts&lockstep.StopAtCostEnd != 0 && s.Index >= lockstep.CostEndIdx
}

func (c *comparison) options() lockstep.Options {
	return lockstep.Options{Shortcuts: c.opts.Shortcuts}
}

// collect runs one side and keeps it.
func (c *comparison) collect(side int, tasks []task, full bool) ([]rollout, error) {
	rollouts := make([]rollout, len(tasks))
	ends, err := c.sources[side].play(c.ctx, tasks, c.options(), full, func(i int, s *trace.Step) {
		if c.past(s) {
			return
		}
		rollouts[i].digests = append(rollouts[i].digests, s.Digest)
		if full {
			rollouts[i].steps = append(rollouts[i].steps, s.Clone())
		}
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
func (c *comparison) pair(tasks []task, held []rollout, full, forced, inexact bool) ([]*pairing, error) {
	pairings := make([]*pairing, len(tasks))
	for i := range tasks {
		pairings[i] = &pairing{c: c, task: &tasks[i], held: &held[i], judge: newJudge(forced, inexact, c.expects)}
	}
	ends, err := c.sources[c.running].play(c.ctx, tasks, c.options(), full, func(i int, s *trace.Step) { pairings[i].visit(s) })
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
	task    *task
	held    *rollout
	next    int // of the held steps
	running end
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
func (p *pairing) visit(s *trace.Step) {
	if p.broken || p.c.past(s) {
		return
	}
	if p.next >= len(p.held.digests) {
		if e := p.held.end; !e.found || e.err != nil {
			p.extent(int(s.Index), e.String(), fmt.Sprintf("step %d", s.Index))
		} else {
			p.extent(int(s.Index), fmt.Sprintf("%d steps", p.next), "one more")
		}
		return
	}
	h := p.held.step(p.next)
	if h.Index != s.Index {
		p.extent(int(s.Index), fmt.Sprintf("step %d next", h.Index), fmt.Sprintf("step %d", s.Index))
		return
	}
	p.next++
	want, got := sides(p, h, s)
	p.step(want, got)
	p.rolling[wanted] = p.c.hash.Roll(p.rolling[wanted], &want.Digest)
	p.rolling[gotten] = p.c.hash.Roll(p.rolling[gotten], &got.Digest)
}

// extent notes that the sides went differently far.
func (p *pairing) extent(step int, held, running string) {
	p.broken = true
	want, got := sides(p, held, running)
	p.note(&Divergence{Step: step, Stage: Steps, Index: -1, Want: want, Got: got})
	p.faults = append(p.faults, Fault{step, Steps})
}

func (p *pairing) note(d *Divergence) {
	d.Route, d.Policy = p.task.about.Route, p.task.about.Policy
	p.special = append(p.special, d)
	p.differs = true
}

// finish compares the ends.
func (p *pairing) finish(running end) {
	p.running = running
	held := p.held.end
	for _, e := range []end{held, running} {
		if e.about == nil {
			continue
		}
		want, got := &p.task.about, e.about
		if p.task.job.Route == nil && held.about != nil && running.about != nil {
			want, got = sides(p, held.about, running.about)
		}
		if d := diffRoute(want, got); d != nil {
			d.Step, d.Stage = -1, Route
			p.note(d)
			// From another route all else differs, too.
			p.faults, p.broken = []Fault{{-1, Route}}, true
			return
		}
	}
	step := lockstep.ContextLength + p.next
	if p.next > 0 {
		step = int(p.held.digests[p.next-1].Index) + 1
	}
	switch failed := held.err != nil; {
	case p.broken:
	case held.found != running.found, failed != (running.err != nil):
		p.extent(step, held.String(), running.String())
	case p.next < len(p.held.digests):
		p.extent(step, fmt.Sprintf("%d steps", len(p.held.digests)), fmt.Sprintf("%d", p.next))
	case failed:
	default:
		want, got := sides(p, held.costs, running.costs)
		if d := p.end(want, got); d != nil {
			d.Step, d.Stage = -1, Cost
			p.note(d)
		}
	}
}

// teacher is the trajectory of a kept rollout, or nil if it does not have every step
// that the running side simulates.
func (c *comparison) teacher(t *task, r *rollout) *lockstep.Trajectory {
	route := t.job.Route
	n := lockstep.ContextLength + len(r.digests)
	end := route.Len()
	if c.opts.Shortcuts&lockstep.StopAtCostEnd != 0 {
		end = min(end, lockstep.CostEndIdx)
	}
	if !r.end.found || n < end {
		return nil
	}
	j := &lockstep.Trajectory{
		Target:   route.TargetLataccel,
		Lataccel: slices.Clone(route.TargetLataccel[:lockstep.ContextLength]),
		Action:   slices.Clone(route.SteerCommand[:lockstep.ContextLength]),
	}
	needed := trace.Set(Action, Lataccel)
	for i, d := range r.digests {
		if int(d.Index) != lockstep.ContextLength+i || d.Has&needed != needed {
			return nil
		}
		j.Action, j.Lataccel = append(j.Action, d.Action), append(j.Lataccel, d.Lataccel)
	}
	return j
}

// block compares some tasks, in both passes.
func (c *comparison) block(tasks []task) error {
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
	outcomes := make([]*outcome, len(tasks))
	var again []int
	for i, p := range pairings {
		outcomes[i] = &outcome{first: p}
		if !p.differs || !p.held.end.found || !p.running.found || slices.Contains(p.faults, Fault{-1, Route}) {
			continue
		}
		if c.live(c.running) {
			outcomes[i].teacher = c.teacher(&tasks[i], &held[i])
		}
		if outcomes[i].teacher != nil || c.opts.Inexact {
			again = append(again, i)
		}
	}
	c.outcomes = append(c.outcomes, outcomes...)
	size := max(len(again), 1)
	if c.opts.Inexact {
		size = groupSize
	}
	for group := range slices.Chunk(again, size) {
		if err := c.repeat(tasks, group, held, outcomes); err != nil {
			return err
		}
	}
	for i, o := range outcomes {
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
func (c *comparison) repeat(tasks []task, group []int, held []rollout, outcomes []*outcome) error {
	// Rollouts that can be forced, and others.
	for _, forced := range []bool{true, false} {
		var own []int
		var again []task
		var kept []rollout
		for _, i := range group {
			if (outcomes[i].teacher != nil) == forced {
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
			again[k].job.Teacher = outcomes[i].teacher
		}
		pairings, err := c.pair(again, kept, c.opts.Inexact, forced, c.opts.Inexact)
		if err != nil {
			return err
		}
		for k, i := range own {
			outcomes[i].second = pairings[k]
		}
	}
	return nil
}

// order is the order of the faults of a rollout: the route, the steps, the costs.
func order(a, b Fault) int {
	step := func(f Fault) int {
		if f.Stage == Cost {
			return math.MaxInt
		}
		return f.Step
	}
	return cmp.Or(cmp.Compare(step(a), step(b)), cmp.Compare(a.Stage, b.Stage))
}

// tally enters a task's outcome into the report.
func (c *comparison) tally(t *task, o *outcome) {
	r := c.report
	judged := o.first
	switch {
	case o.second == nil:
		o.faults = slices.Clone(o.first.faults)
	case c.opts.Inexact:
		// What the first pass found in stages is judged by the second; how far the
		// sides went is found by both.
		judged = o.second
		o.faults = slices.Clone(o.second.faults)
		for _, f := range o.first.faults {
			if f.Stage == Steps {
				o.faults = append(o.faults, f)
			}
		}
	default:
		o.faults = append(slices.Clone(o.first.faults), o.second.faults...)
	}
	slices.SortFunc(o.faults, order)
	o.faults = slices.Compact(o.faults)

	v := Verdict{
		Route: t.about.Route, Policy: t.about.Policy,
		Steps: o.first.steps, Network: o.first.network, Equal: !o.first.differs,
		WantHash: trace.Hex(o.first.rolling[wanted]), GotHash: trace.Hex(o.first.rolling[gotten]),
		Faults: len(o.faults), Flips: judged.explained, Forced: o.teacher != nil,
	}
	if len(o.faults) > 0 {
		v.First = &o.faults[0]
	}
	r.Rollouts = append(r.Rollouts, v)
	r.Steps += o.first.steps
	if o.second == nil {
		r.Unjudged += o.first.unjudged
	} else {
		r.Unjudged += o.second.unjudged
	}
	if o.teacher != nil {
		r.Forced += o.second.steps
	}
	if r.Compared == nil {
		r.Compared = map[Stage]int{}
	}
	for s, n := range o.first.compared {
		if n > 0 {
			r.Compared[Stage(s)] += n
		}
	}
	r.Flips.Explained += judged.explained
	r.Flips.Unexplained += judged.unexplained
	for _, e := range judged.examples {
		if len(r.Flips.Examples) < maxExamples {
			e.Route, e.Policy = t.about.Route, t.about.Policy
			r.Flips.Examples = append(r.Flips.Examples, e)
		}
	}
	judged.examples = nil
	for s, n := range judged.tolerated {
		if n.steps == 0 {
			continue
		}
		at := slices.IndexFunc(r.Tolerated, func(t Tolerance) bool { return t.Stage == Stage(s) })
		if at < 0 {
			at = len(r.Tolerated)
			r.Tolerated = append(r.Tolerated, Tolerance{Stage: Stage(s), Abs: -1})
		}
		total := &r.Tolerated[at]
		total.Steps += n.steps
		total.Unknown += n.unknown
		total.ULPs = max(total.ULPs, n.greatest.ULPs)
		if n.greatest.Abs > total.Abs {
			total.Abs, total.Route, total.Policy, total.Step = n.greatest.Abs, t.about.Route, t.about.Policy, n.step
		}
	}
}

// finish counts the faults and describes the first ones.
func (c *comparison) finish() error {
	r := c.report
	slices.SortFunc(r.Tolerated, func(a, b Tolerance) int { return cmp.Compare(a.Stage, b.Stage) })
	limit := c.opts.Details
	if limit <= 0 {
		limit = defaultDetails
	}
	byStage := map[Stage]*StageFaults{}
	var stages []Stage // in the order in which they are met
	where := map[Stage]int{}
	for i, o := range c.outcomes {
		in := map[Stage]bool{}
		for _, f := range o.faults {
			s := byStage[f.Stage]
			if s == nil {
				v := &r.Rollouts[i]
				s = &StageFaults{Stage: f.Stage, Route: v.Route, Policy: v.Policy, Step: f.Step}
				byStage[f.Stage] = s
				stages = append(stages, f.Stage)
				where[f.Stage] = i
			}
			s.Faults++
			if !in[f.Stage] {
				in[f.Stage] = true
				s.Rollouts++
			}
		}
	}
	for i, stage := range stages {
		s := byStage[stage]
		r.Faults = append(r.Faults, *s)
		if i >= limit {
			continue
		}
		d, err := c.describe(&c.tasks[where[stage]], c.outcomes[where[stage]], Fault{s.Step, stage}, i == 0)
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

// describe repeats a task up to a fault, and describes it in full. For the first
// divergence it makes the plot.
func (c *comparison) describe(t *task, o *outcome, f Fault, plot bool) (*Divergence, error) {
	p, forced := o.first, false
	if !slices.Contains(p.faults, f) || c.opts.Inexact && o.second != nil && slices.Contains(o.second.faults, f) {
		p, forced = o.second, o.teacher != nil
	}
	var d *Divergence
	var pair [2]*trace.Step
	if i := slices.IndexFunc(p.special, func(d *Divergence) bool { return d.Stage == f.Stage }); i >= 0 {
		d = p.special[i]
	} else {
		for side := range pair {
			var err error
			if pair[side], err = c.fetch(side, t, o, f.Step, forced); err != nil {
				return nil, err
			}
		}
		known := p.evidence[f.Stage]
		if pair[wanted] != nil && pair[gotten] != nil && known[wanted].Value(f.Stage) == pair[wanted].Value(f.Stage) && known[gotten].Value(f.Stage) == pair[gotten].Value(f.Stage) {
			d = diffStage(f.Stage, pair[wanted], pair[gotten])
		}
		if d == nil {
			d = diffStage(f.Stage, &trace.Step{Digest: known[wanted]}, &trace.Step{Digest: known[gotten]})
			d.Unrepeated = true
		}
		d.Route, d.Policy, d.Step, d.Stage = t.about.Route, t.about.Policy, f.Step, f.Stage
		d.Choice = newChoice(pair[wanted], pair[gotten])
	}
	d.Forced = forced
	if c.opts.Replay != nil && t.job.Route != nil {
		d.Replay = c.opts.Replay(t.job)
	}
	if !plot || f.Stage == Route {
		return d, nil
	}
	return d, c.plot(t, d, pair)
}

// fetch gets one step of a task, in full where the side has it, or nil if it is not
// there any more.
func (c *comparison) fetch(side int, t *task, o *outcome, step int, forced bool) (*trace.Step, error) {
	one := *t
	one.until = step
	if forced && side == c.running {
		one.job.Teacher = o.teacher
	}
	var found *trace.Step
	_, err := c.sources[side].play(c.ctx, []task{one}, c.options(), true, func(_ int, s *trace.Step) {
		if int(s.Index) == step && found == nil {
			found = s.Clone()
		}
	})
	return found, err
}

// plot fills in the report's plot.
func (c *comparison) plot(t *task, d *Divergence, pair [2]*trace.Step) error {
	p := &Plot{Route: d.Route, Policy: d.Policy, Step: d.Step, FirstStep: lockstep.ContextLength}
	var lataccel, action [2][]Float
	for side := range c.sources {
		one := *t
		one.until, one.nth = 0, t.nth
		rollouts, err := c.collect(side, []task{one}, false)
		if err != nil {
			return err
		}
		for i, s := range rollouts[0].digests {
			if int(s.Index) != lockstep.ContextLength+i {
				break
			}
			lataccel[side], action[side] = append(lataccel[side], Float(s.Lataccel)), append(action[side], Float(s.Action))
		}
	}
	p.WantLataccel, p.GotLataccel = lataccel[wanted], lataccel[gotten]
	p.WantAction, p.GotAction = action[wanted], action[gotten]
	if r := t.job.Route; r != nil {
		p.Target = floats(r.TargetLataccel[min(lockstep.ContextLength, r.Len()):])
	}
	if want, got := pair[wanted], pair[gotten]; want != nil && got != nil {
		p.Draw = Float(want.Draw)
		low, high := min(want.Sample, got.Sample), max(want.Sample, got.Sample)
		p.FirstToken = int(min(max(low-plotTokens, 0), lockstep.VocabSize))
		end := int(min(max(high, 0), lockstep.VocabSize)) + plotTokens
		p.WantCDF, p.GotCDF = cut(want.CDF, p.FirstToken, end), cut(got.CDF, p.FirstToken, end)
	}
	c.report.Plot = p
	return nil
}

func cut(cdf []float64, from, to int) []Float {
	from, to = min(from, len(cdf)), min(to, len(cdf))
	return floats(cdf[from:max(from, to)])
}
