package parity_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"lockstep/parity"
	"lockstep/parity/schema"
	"lockstep/parity/trace"
)

// A counter counts the steps of one walk and, of those that began at 1 or beyond, the steps whose
// reward is below 0.
type counter struct {
	from    start
	times   [2]int
	nearest parity.Nearest
}

func (c *counter) Step(s *schema.Step) {
	c.times[0]++
	reward := schema.Elements[float32](walks.Stages[1].Type.AppendBits(nil, s.Bits[1]))[0]
	if reward < 0 && c.from.Seed >= 1 {
		c.times[1]++
	}
	if d := parity.Float(max(reward, -reward)); c.times[0] == 1 || d < c.nearest.Distance {
		c.nearest = parity.Nearest{Step: s.Index, Distance: d}
	}
}

func (c *counter) End(parity.End) parity.Watched {
	return parity.Watched{Times: c.times[:], Nearest: &c.nearest}
}

// manyWalks are so many, no two of the same steps, and of some nothing differs.
func manyWalks(n int) (tasks []parity.RolloutTask) {
	for i := range n {
		tasks = append(tasks, parity.RolloutTask{
			Rollout: trace.Rollout{Key: []string{fmt.Sprint(i)}},
			Job:     start{parity.Float(i%29) / 8, 1 + (i*7+i/29)%9},
		})
	}
	return tasks
}

// TestBlocks: what a report counts of many rollouts is the sum of what those say that are of one
// each, in the same order, wherever a comparison begins a block of rollouts that it holds in
// memory; and so it is of what the reference went through. An inexact one repeats few at a time.
func TestBlocks(t *testing.T) {
	for name, c := range map[string]struct {
		tasks []parity.RolloutTask
		opts  parity.CompareOptions
	}{
		"exact":   {manyWalks(517), parity.CompareOptions{}}, // two blocks, and a few rollouts
		"inexact": {manyWalks(61), parity.CompareOptions{Inexact: true}},
	} {
		t.Run(name, func(t *testing.T) { blocks(t, c.tasks, c.opts) })
	}
}

func blocks(t *testing.T, all []parity.RolloutTask, opts parity.CompareOptions) {
	t.Helper()
	family := parity.Family{
		Branches: []parity.Branch{{Name: "step"}, {Name: "loss"}},
		Watch: func(task *parity.RolloutTask) parity.Watcher {
			return &counter{from: task.Job.(start)}
		},
	}
	broken := walker{4: {0, 1}, 7: {0.125, 0}}
	compare := func(tasks []parity.RolloutTask) *parity.Report {
		r, err := parity.Compare(t.Context(), family, parity.Live(walker{}), parity.Live(broken),
			tasks, opts)
		must(t, err)
		return r
	}
	counts := func(r *parity.Report) (c [8]int, stages map[string]int) {
		stages = map[string]int{}
		for stage, n := range r.Compared {
			stages["compared "+stage] = n
		}
		for _, f := range r.Findings {
			stages["findings in "+f.Stage] = f.Findings
			stages["rollouts with "+f.Stage] = f.Rollouts
		}
		e := r.Exercised.Branches
		return [8]int{
			r.Steps, r.Forced, r.Equal(), len(r.Rollouts), e[0].Times, e[0].Rollouts, e[1].Times,
			e[1].Rollouts,
		}, stages
	}
	var want [8]int
	stages, nearest := map[string]int{}, parity.Nearest{}
	var verdicts []parity.Verdict
	var found []parity.StageFindings   // the first of each stage
	var described []*parity.Divergence // and how they are described
	for i := range all {
		r := compare(all[i : i+1])
		c, s := counts(r)
		for k, n := range c {
			want[k] += n
		}
		for name, n := range s {
			stages[name] += n
		}
		if n := r.Exercised.Nearest; i == 0 || n.Distance < nearest.Distance {
			nearest = *n
		}
		verdicts = append(verdicts, r.Rollouts...)
		for k, d := range append([]*parity.Divergence{r.First}, r.Others...) {
			if d != nil && !slices.ContainsFunc(described,
				func(o *parity.Divergence) bool { return o.Stage == d.Stage }) {
				described, found = append(described, d), append(found, r.Findings[k])
			}
		}
	}
	r := compare(all)
	got, gotStages := counts(r)
	if got != want {
		t.Errorf("steps, forced ones, equal rollouts, all of them, and of two branches times and "+
			"rollouts: %d, want the sum of those of one rollout each, %d", got, want)
	}
	if fmt.Sprint(gotStages) != fmt.Sprint(stages) {
		t.Errorf("%v, want %v", gotStages, stages)
	}
	if *r.Exercised.Nearest != nearest {
		t.Errorf("the nearest is %+v, want %+v", *r.Exercised.Nearest, nearest)
	}
	for i, v := range r.Rollouts {
		if got, want := asJSON(t, v), asJSON(t, verdicts[i]); got != want {
			t.Fatalf("rollout %d: %s, want %s", i, got, want)
		}
	}
	told := append([]*parity.Divergence{r.First}, r.Others...)
	if got, want := asJSON(t, told), asJSON(t, described); got != want {
		t.Errorf("described are %s, want %s", got, want)
	}
	for i, f := range r.Findings {
		f.Findings, f.Rollouts = found[i].Findings, found[i].Rollouts
		if got, want := asJSON(t, f), asJSON(t, found[i]); got != want {
			t.Errorf("the first are %s, want %s", got, want)
		}
	}
}

// TestResultsEach: results of some rollouts are those of each by itself.
func TestResultsEach(t *testing.T) {
	all := manyWalks(7)
	got, err := parity.Results(t.Context(), walker{}, all)
	must(t, err)
	for i := range all {
		want, err := parity.Results(t.Context(), walker{}, all[i:i+1])
		must(t, err)
		if got, want := asJSON(t, got[i]), asJSON(t, want[0]); got != want {
			t.Errorf("rollout %d comes to %s, alone to %s", i, got, want)
		}
	}
}

// asJSON is a value with all that it points to.
func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	must(t, err)
	return string(text)
}
