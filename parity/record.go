package parity

import (
	"context"

	"lockstep"
	"lockstep/parity/trace"
)

// Record runs the jobs on a simulator and writes a trace of them, with its engine,
// profile and shortcuts entered into the header. Rollouts that fail are recorded with
// their errors; the error returned is the file's or the context's.
func Record(ctx context.Context, sim lockstep.Simulator, jobs []lockstep.Job, shortcuts lockstep.Shortcuts, h trace.Header, full trace.Stages, path string) error {
	h.Engine, h.Profile, h.Shortcuts = sim.Name(), sim.Profile().String(), trace.Shortcuts(shortcuts)
	return trace.WriteFile(path, h, full, func(w *trace.Writer) error {
		own := make([]lockstep.Job, len(jobs))
		writers := make([]*trace.RolloutWriter, len(jobs))
		for i, job := range jobs {
			writers[i] = w.Begin(trace.Of(job))
			own[i] = job
			own[i].Observe = writers[i].Observe
		}
		for i, result := range sim.Simulate(ctx, own, lockstep.Options{Shortcuts: shortcuts}) {
			writers[i].End(result)
		}
		return ctx.Err()
	})
}
