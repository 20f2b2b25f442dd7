package fuzz

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"lockstep"
	"lockstep/parity/schema"
	"lockstep/parity/tinyphysics"
)

// A run is what one job did: each stage of each step, and its result.
type run struct {
	steps  []stages
	result lockstep.Result
}

// stages are the 64 bits of each of a step's stages, in which all NaN are one: which of
// them an operation gives depends on the order of its operands, which nothing prescribes.
type stages struct {
	*schema.Step
	ran bool
}

func (tr *run) observe(s *lockstep.Step) {
	h := stages{tinyphysics.Schema(0).NewStep(), s.Logits != nil}
	tinyphysics.Expose(s, h.Step)
	h.Sum(schema.XXH64)
	h.Data = nil
	for i, g := range tinyphysics.Schema(0).Stages {
		if x := g.Type.Float(h.Bits[i]); !g.IsArray() && x != x {
			h.Bits[i] = math.Float64bits(math.NaN())
		}
	}
	tr.steps = append(tr.steps, h)
}

// stepsDifference says where two runs of steps part, or "". A stage that one of
// them did not compute is not compared.
func stepsDifference(got, want []stages) string {
	for i := range min(len(got), len(want)) {
		if got[i].Index != want[i].Index {
			return fmt.Sprintf("step %d, want step %d", got[i].Index, want[i].Index)
		}
		for k, g := range tinyphysics.Schema(0).Stages {
			if both := got[i].Has & want[i].Has; both.Has(k) && got[i].Bits[k] != want[i].Bits[k] {
				return fmt.Sprintf("step %d, stage %s differs", want[i].Index, g.Name)
			}
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d steps, want %d", len(got), len(want))
	}
	return ""
}

// difference says where two jobs part, or "".
func (tr *run) difference(want *run) string {
	for i := range min(len(tr.steps), len(want.steps)) {
		if tr.steps[i].ran != want.steps[i].ran {
			return fmt.Sprintf(
				"step %d: the network ran is %v, want %v", want.steps[i].Index, tr.steps[i].ran,
				want.steps[i].ran,
			)
		}
	}
	if d := stepsDifference(tr.steps, want.steps); d != "" {
		return d
	}
	return resultDifference(tr.result, want.result)
}

func resultDifference(got, want lockstep.Result) string {
	if g, w := message(got.Err), message(want.Err); g != w {
		return fmt.Sprintf("error %q, want %q", g, w)
	}
	if d := costsDifference(got.Costs, want.Costs); d != "" {
		return d
	}
	g, w := got.Trajectory, want.Trajectory
	if (g == nil) != (w == nil) {
		return fmt.Sprintf("trajectory %v, want %v", g, w)
	}
	if g == nil {
		return ""
	}
	for _, c := range []struct {
		name      string
		got, want []float64
	}{{"target", g.Target, w.Target}, {"lataccel", g.Lataccel, w.Lataccel}, {"action", g.Action,
		w.Action}} {
		if len(c.got) != len(c.want) {
			return fmt.Sprintf(
				"trajectory's %s has %d values, want %d", c.name, len(c.got), len(c.want),
			)
		}
		for i := range c.got {
			if !schema.Equal(c.got[i], c.want[i]) {
				return fmt.Sprintf(
					"trajectory's %s differs at step %d: %v, want %v", c.name, i, c.got[i],
					c.want[i],
				)
			}
		}
	}
	return ""
}

func costsDifference(got, want lockstep.Costs) string {
	if schema.Equal(got.Lataccel, want.Lataccel) && schema.Equal(got.Jerk, want.Jerk) &&
		schema.Equal(got.Total, want.Total) {
		return ""
	}
	return fmt.Sprintf("costs %v, want %v", got, want)
}

// message is an error's first line: a panic's goes on with the stack.
func message(err error) string {
	if err == nil {
		return ""
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// rollout runs jobs and returns what each did. An observer that a job has is
// called too.
func rollout(t interface {
	Helper()
	Fatalf(string, ...any)
}, e engine, jobs []lockstep.Job, opts lockstep.Options) []*run {
	t.Helper()
	out, seen := make([]*run, len(jobs)), make([]int, len(jobs))
	jobs = slices.Clone(jobs)
	for i := range jobs {
		tr, observe := &run{}, jobs[i].Observe
		out[i] = tr
		jobs[i].Observe = func(s *lockstep.Step) {
			tr.observe(s)
			if observe != nil {
				observe(s)
			}
		}
	}
	for i, r := range e.Simulate(context.Background(), jobs, opts) {
		if i < 0 || i >= len(jobs) {
			t.Fatalf("%s: a result of job %d, there are %d", e.name, i, len(jobs))
		}
		out[i].result = r
		seen[i]++
	}
	for i, n := range seen {
		if n != 1 {
			t.Fatalf("%s: job %d of %d has %d results", e.name, i, len(jobs), n)
		}
	}
	return out
}
