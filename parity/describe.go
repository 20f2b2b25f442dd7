package parity

import (
	"slices"

	"lockstep/parity/schema"
)

// describe repeats a task up to a finding, and describes it in full. For the first
// divergence it makes the plot.
func (c *comparison) describe(o *result, f Finding, plot bool) (*Divergence, error) {
	t := &o.block[o.at]
	p, forced := o.first, false
	if !slices.Contains(p.findings, f) || c.opts.Inexact && o.second != nil && slices.Contains(o.second.findings, f) {
		p, forced = o.second, o.teacher != nil
	}
	var d *Divergence
	var pair [2]*schema.Step
	if i := slices.IndexFunc(p.special, func(d *Divergence) bool { return d.Stage == f.Stage }); i >= 0 {
		d = p.special[i]
	} else {
		var err error
		if d, pair, err = c.repeated(o, p.evidence[f.Stage], f, forced); err != nil {
			return nil, err
		}
		d.Rollout, d.Key, d.Step, d.Stage = rolloutText(c.family.Schema, t.Key), t.Key, f.Step, f.Stage
		if c.family.Explain != nil && pair[wanted] != nil && pair[gotten] != nil {
			d.Explanation = c.family.Explain(pair[wanted], pair[gotten])
		}
	}
	d.Forced = forced
	if c.opts.Replay != nil && t.Job != nil {
		d.Replay = c.opts.Replay(t)
	}
	if !plot || f.Stage == c.family.Schema.Key[0] {
		return d, nil
	}
	return d, c.plot(t, d, pair)
}

// repeated looks for a finding again, in full: first in the rollout alone, then in the
// batch that it was found in.
func (c *comparison) repeated(o *result, known [2]*schema.Step, f Finding, forced bool) (d *Divergence, pair [2]*schema.Step, err error) {
	at := c.family.Schema.Index(f.Stage)
	g := &c.family.Schema.Stages[at]
	for _, alone := range []bool{true, false} {
		if !alone && (forced || len(o.block) == 1) {
			break
		}
		shown := true
		for side := range pair {
			if pair[side], err = c.fetch(side, o, f.Step, forced, alone); err != nil {
				return nil, pair, err
			}
			s := pair[side]
			shown = shown && s != nil && s.Has.Has(at) == known[side].Has.Has(at) && s.Bits[at] == known[side].Bits[at]
		}
		if !shown {
			continue
		}
		if d = diffStage(g, at, pair[wanted], pair[gotten]); d != nil {
			if !alone {
				d.Neighbours = len(o.block) - 1
			}
			return d, pair, nil
		}
	}
	d = diffStage(g, at, known[wanted], known[gotten])
	d.Unrepeated = true
	return d, pair, nil
}

// fetch gets one step of a task, in full where the side has it, or nil if it is not
// there any more.
func (c *comparison) fetch(side int, o *result, step int, forced, alone bool) (*schema.Step, error) {
	tasks, at := slices.Clone(o.block), o.at
	if alone {
		tasks, at = tasks[at:at+1], 0
	}
	tasks[at].Until = step + 1
	if forced && side == c.running {
		tasks[at].Teacher = o.teacher
	}
	var found *schema.Step
	_, err := c.sources[side].play(c.ctx, tasks, true, func(i int, s *schema.Step) {
		if i == at && s.Index == step && found == nil {
			found = s.Clone()
		}
	})
	return found, err
}

// plot fills in the report's plot.
func (c *comparison) plot(t *Task, d *Divergence, at [2]*schema.Step) error {
	var both [2]*schema.Digests
	for side := range c.sources {
		rollouts, err := c.collect(side, []Task{*t}, false)
		if err != nil {
			return err
		}
		digests := &rollouts[0].digests
		for i := range digests.Len() {
			if digests.At(i).Index != c.family.Schema.First+i {
				digests.Cut(i)
				break
			}
		}
		both[side] = digests
	}
	draw := c.family.Plot
	if draw == nil {
		draw = c.family.plotEffects
	}
	c.report.Plot = &Plot{Rollout: d.Rollout, Step: d.Step, Charts: draw(t, both, at)}
	return nil
}

// plotEffects draws the stages with an effect.
func (f *Family) plotEffects(_ *Task, sides [2]*schema.Digests, _ [2]*schema.Step) (charts []Chart) {
	for i := range f.Schema.Stages {
		if g := &f.Schema.Stages[i]; g.Effect {
			charts = append(charts, Chart{Label: g.Name, First: f.Schema.First, Lines: []Line{
				{"wanted", f.Column(sides[wanted], g.Name)}, {"got", f.Column(sides[gotten], g.Name)},
			}})
		}
	}
	return charts
}

// Column are a rollout's values of a stage that is a number.
func (f *Family) Column(d *schema.Digests, stage string) (column []Float) {
	i := f.Schema.Index(stage)
	for k := range d.Len() {
		column = append(column, Float(f.Schema.Stages[i].Type.Float(d.At(k).Bits[i])))
	}
	return column
}
