package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"lockstep/parity"
	"lockstep/parity/schema"
)

// Engine holds an engine of any family to what parity.Engine promises, on some tasks:
// each has one end; every step is shown, once and in order, with all stages that the
// schema does not call optional, of their sizes; a rollout has the same bits alone, in
// another order, beside others and forced onto its own trajectory; a context that has
// ended ends rollouts that are not finished. The error joins all that is wrong.
func Engine(ctx context.Context, e parity.Engine, tasks []parity.Task) error {
	if len(tasks) == 0 {
		return errors.New("no tasks: nothing is held to anything")
	}
	h := &holder{ctx: ctx, engine: e}
	whole := h.run(tasks)
	if len(h.errs) > 0 {
		return errors.Join(h.errs...)
	}
	backwards := slices.Clone(tasks)
	slices.Reverse(backwards)
	again := h.run(backwards)
	slices.Reverse(again)
	var alone []shown
	for i := range tasks {
		alone = append(alone, h.run(tasks[i:i+1])...)
	}
	doubled := h.run(append(slices.Clone(tasks), tasks...))
	if len(h.errs) == 0 {
		h.same("in another order", tasks, whole, again)
		h.same("alone", tasks, whole, alone)
		h.same("beside its twin", tasks, whole, doubled[:len(tasks)])
		h.same("as a twin", tasks, whole, doubled[len(tasks):])
	}
	h.taught(tasks, whole)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for i, end := range e.Run(ended, tasks, func(int, *schema.Step) {}) {
		if !errors.Is(end.Err, context.Canceled) {
			h.errorf("%s: in a context that has ended its error is %v", tasks[i].Name(), end.Err)
		}
	}
	return errors.Join(h.errs...)
}

// shown is one rollout as it was shown.
type shown struct {
	steps []*schema.Step
	end   parity.End
	ends  int
}

type holder struct {
	ctx    context.Context
	engine parity.Engine

	mutex sync.Mutex
	errs  []error
}

func (h *holder) errorf(format string, args ...any) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.errs = append(h.errs, fmt.Errorf(format, args...))
}

// run runs tasks and checks what is shown of each.
func (h *holder) run(tasks []parity.Task) []shown {
	all := make([]shown, len(tasks))
	s := h.engine.Schema()
	for i, end := range h.engine.Run(h.ctx, tasks, func(i int, step *schema.Step) { h.observe(s, tasks, all, i, step) }) {
		if i < 0 || i >= len(tasks) {
			h.errorf("an end of rollout %d, there are %d", i, len(tasks))
			continue
		}
		all[i].end = end
		all[i].ends++
	}
	for i := range all {
		switch end := &all[i].end; {
		case all[i].ends != 1:
			h.errorf("%s: it ends %d times", tasks[i].Name(), all[i].ends)
		case end.Err == nil && len(all[i].steps) == 0:
			h.errorf("%s: no step is shown", tasks[i].Name())
		case end.Err == nil && len(end.Outcome) != len(s.Outcome.Elements):
			h.errorf("%s: an outcome of %d numbers, want %d", tasks[i].Name(), len(end.Outcome), len(s.Outcome.Elements))
		}
	}
	return all
}

func (h *holder) observe(s *schema.Schema, tasks []parity.Task, all []shown, i int, step *schema.Step) {
	if i < 0 || i >= len(tasks) {
		h.errorf("a step of rollout %d, there are %d", i, len(tasks))
		return
	}
	name := tasks[i].Name()
	if want := s.First + len(all[i].steps); step.Index != want || all[i].ends > 0 {
		h.errorf("%s: step %d is shown, want step %d next, before the end", name, step.Index, want)
	}
	step.Sum(schema.XXH64)
	if missing := s.At(step.Index) &^ step.Has; missing != 0 {
		for k := range s.Stages {
			if missing.Has(k) {
				h.errorf("%s, step %d: stage %s is missing", name, step.Index, s.Stages[k].Name)
			}
		}
	}
	for k, data := range step.Data {
		if g := &s.Stages[k]; data != nil && (len(data) != g.Size() || !g.IsArray()) {
			h.errorf("%s, step %d: stage %s has %d bytes, want %d", name, step.Index, g.Name, len(data), g.Size())
		}
	}
	all[i].steps = append(all[i].steps, step.Clone())
}

// same holds rollouts to those that were shown first.
func (h *holder) same(how string, tasks []parity.Task, want, got []shown) {
	for i := range tasks {
		if err := parity.Differs(h.engine.Schema(), want[i].steps, got[i].steps, want[i].end, got[i].end); err != nil {
			h.errorf("%s, %s: %w", tasks[i].Name(), how, err)
		}
	}
}

// taught forces each rollout onto its own trajectory.
func (h *holder) taught(tasks []parity.Task, want []shown) {
	if !slices.ContainsFunc(h.engine.Schema().Stages, func(g schema.Stage) bool { return g.Teach }) {
		return
	}
	own := slices.Clone(tasks)
	for i := range own {
		if want[i].end.Err == nil {
			own[i].Teacher = parity.NewTeacher(h.engine.Schema(), want[i].steps)
		}
	}
	if got := h.run(own); len(h.errs) == 0 {
		h.same("taught its own trajectory", tasks, want, got)
	}
}
