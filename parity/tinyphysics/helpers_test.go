package tinyphysics

import (
	"context"

	"lockstep"
	"lockstep/parity"
	"lockstep/parity/schema"
	"lockstep/parity/trace"
)

// everything are the stages of a step.
var everything = schema.StageSet(1<<len(view.Stages) - 1)

// parallel is a source of a simulator that is called so often at once.
func parallel(sim lockstep.Simulator, n int) *parity.LiveSource {
	l := Live(sim)
	l.Parallel = n
	return l
}

// stages are the names of those of a step, and of the outcome.
var stages = view.Required()

// is reports whether findings are so many, in so many rollouts, the first of a route at a
// step.
func is(f parity.StageFindings, stage string, findings, rollouts int, route string, step int) bool {
	return f.Stage == stage && f.Findings == findings && f.Rollouts == rollouts &&
		f.Rollout == "route "+route+", controller pid" &&
		f.Step == step
}

// known is a step of which some numbers are known.
func known(index int, set schema.StageSet, from lockstep.Step) *schema.Step {
	s := view.NewStep()
	from.Index = index
	Expose(&from, s)
	s.Has &= set
	for i := range s.Data {
		if !set.Has(i) {
			s.Data[i] = nil
		}
	}
	return s
}

// recordTo runs the jobs on a simulator and writes a trace of them.
func recordTo(
	ctx context.Context, sim lockstep.Simulator, jobs []lockstep.Job, shortcuts lockstep.Shortcuts,
	h trace.Header, full schema.StageSet, path string,
) error {
	tasks, err := Tasks(jobs, shortcuts)
	if err != nil {
		return err
	}
	h.Shortcuts = Words(shortcuts)
	return parity.Record(ctx, Engine(sim, shortcuts), tasks, h, full, path)
}
