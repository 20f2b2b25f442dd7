package parity

import (
	"slices"

	"lockstep/parity/schema"
)

// describe repeats the task of the first divergence of a stage, describes it in full, and
// enters it into the report; for the first of all it makes the plot. What is more than
// maxDetails is left out.
func (c *comparison) describe(o *result, d *Divergence) {
	r, t := c.report, &o.block[o.at]
	if r.First != nil && len(r.Others) == maxDetails-1 {
		return
	}
	var pair [2]*schema.Step
	if at := c.family.Schema.Index(d.Stage); at >= 0 {
		if pair = c.repeated(o, d, at); pair[wanted] != nil && pair[gotten] != nil {
			d.Explanation = c.family.Explain(pair[wanted], pair[gotten])
		}
	}
	if c.opts.Replay != nil && t.Job != nil {
		d.Replay = c.opts.Replay(t)
	}
	if r.First != nil {
		r.Others = append(r.Others, d)
		return
	}
	if r.First = d; d.Stage != c.family.Schema.Key[0] {
		want, got := sides(o.first, &o.first.held.digests, &o.first.running.digests)
		r.Plot = &Plot{
			Rollout: d.Rollout,
			Step:    d.Step,
			Charts:  c.family.Plot(t, [2]*schema.Digests{want, got}, pair),
		}
	}
}

// repeated looks for a divergence again, and fills it in: first in the rollout alone, then
// in the batch that it was found in. Each repetition runs to its end, which takes as long
// again as that rollout, or its whole block, on both sides.
func (c *comparison) repeated(o *result, d *Divergence, at int) (pair [2]*schema.Step) {
	g := &c.family.Schema.Stages[at]
	batches := [][]RolloutTask{o.block[o.at : o.at+1], o.block}
	if d.Forced || len(o.block) == 1 {
		batches = batches[:1]
	}
	for k, batch := range batches {
		pair = [2]*schema.Step{}
		for side := range pair {
			tasks := slices.Clone(batch)
			if d.Forced && side == c.running {
				tasks[0].Teacher = o.teacher
			}
			_, err := c.play(side, tasks, true, func(i int, s *schema.Step) {
				if i == k*o.at && s.Index == d.Step && pair[side] == nil {
					pair[side] = s.Clone()
				}
			})
			if err != nil {
				d.Unread = err.Error()
				return [2]*schema.Step{}
			}
		}
		if pair[wanted] == nil || pair[gotten] == nil {
			continue
		}
		if again := diffDigests(g, at, pair[wanted], pair[gotten]); again != nil &&
			again.Want == d.Want &&
			again.Got == d.Got {
			full := diffStage(g, at, pair[wanted], pair[gotten])
			d.Index, d.Values = full.Index, full.Values
			d.Want, d.Got, d.ULPs = full.Want, full.Got, full.ULPs
			if d.Element = full.Element; c.family.Element != nil && d.Index >= 0 {
				d.Element = c.family.Element(&o.block[o.at], g, d.Index)
			}
			d.Neighbours = len(batch) - 1
			return pair
		}
	}
	d.Unrepeated = true
	return pair
}

// plotEffects draws the stages with an effect.
func (f *Family) plotEffects(
	_ *RolloutTask, sides [2]*schema.Digests, _ [2]*schema.Step,
) (charts []Chart) {
	for _, g := range f.Schema.Stages {
		if g.Effect {
			charts = append(
				charts, Chart{Label: g.Name, First: f.Schema.First, Lines: f.Lines(sides, g.Name)},
			)
		}
	}
	return charts
}

// Lines are both sides' values of a stage that is a number, at steps of which none before is
// lacking.
func (f *Family) Lines(sides [2]*schema.Digests, stage string) []Line {
	lines, i := []Line{{Name: "wanted"}, {Name: "got"}}, f.Schema.Index(stage)
	for side, d := range sides {
		for k := 0; k < d.Len() && d.At(k).Index == f.Schema.First+k; k++ {
			lines[side].Values = append(
				lines[side].Values, Float(f.Schema.Stages[i].Type.Float(d.At(k).Bits[i])),
			)
		}
	}
	return lines
}
