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

// Engine holds an engine of any family to what parity.Adapter promises, on some tasks:
// each has one end; every step is shown, once and in order, with all stages that the
// schema does not call optional, of their sizes; a rollout has the same bits alone, in
// another order, beside others, forced onto its own trajectory, and in batches of these
// sizes, in which tasks come more than once; a context that has ended ends rollouts that
// are not finished. The error joins all that is wrong.
func Engine(
	ctx context.Context,
	e parity.Adapter,
	tasks []parity.RolloutTask,
	batches ...int,
) error {
	if len(tasks) == 0 {
		return errors.New("no tasks: nothing is held to anything")
	}
	h := &holder{ctx: ctx, engine: e}
	var order []int
	if h.first = h.run(tasks); len(h.errs) > 0 {
		return errors.Join(h.errs...)
	}
	for i := range tasks {
		order = append(order, i)
		h.again("alone", tasks, i)
	}
	h.again("beside its twin", tasks, append(order, order...)...)
	slices.Reverse(order)
	h.again("in another order", tasks, order...)
	for _, n := range batches {
		var batch []int
		for i := range n {
			batch = append(batch, (i*i+n)%len(tasks))
		}
		h.again(fmt.Sprintf("in a batch of %d", n), tasks, batch...)
	}
	if slices.ContainsFunc(e.Schema().Stages, func(g schema.Stage) bool { return g.Teach }) {
		own := slices.Clone(tasks)
		for i := range own {
			if h.first[i].end.Err == nil {
				own[i].Teacher = parity.NewTeacher(e.Schema(), h.first[i].steps)
			}
		}
		h.again("taught its own trajectory", own, order...)
	}
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
	engine parity.Adapter
	first  []shown // of each task

	mutex sync.Mutex
	errs  []error
}

func (h *holder) errorf(format string, args ...any) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.errs = append(h.errs, fmt.Errorf(format, args...))
}

// run runs tasks and checks what is shown of each.
func (h *holder) run(tasks []parity.RolloutTask) []shown {
	all := make([]shown, len(tasks))
	s := h.engine.Schema()
	for i, end := range h.engine.Run(
		h.ctx, tasks, func(i int, step *schema.Step) { h.observe(s, tasks, all, i, step) },
	) {
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
			h.errorf(
				"%s: an outcome of %d numbers, want %d", tasks[i].Name(), len(end.Outcome),
				len(s.Outcome.Elements),
			)
		}
	}
	return all
}

func (h *holder) observe(
	s *schema.Schema, tasks []parity.RolloutTask, all []shown, i int, step *schema.Step,
) {
	if i < 0 || i >= len(tasks) {
		h.errorf("a step of rollout %d, there are %d", i, len(tasks))
		return
	}
	name := tasks[i].Name()
	if want := s.First + len(all[i].steps); step.Index != want || all[i].ends > 0 {
		h.errorf("%s: step %d is shown, want step %d next, before the end", name, step.Index, want)
	}
	step.Sum(schema.XXH64)
	if err := incomplete(s, step); err != nil {
		h.errorf("%s, step %d: %w", name, step.Index, err)
	}
	all[i].steps = append(all[i].steps, step.Clone())
}

// incomplete says which stages a step lacks, or has in another size.
func incomplete(s *schema.Schema, step *schema.Step) error {
	var errs []error
	for k, data := range step.Data {
		switch g := &s.Stages[k]; {
		case s.At(step.Index).Has(k) && !step.Has.Has(k):
			errs = append(errs, fmt.Errorf("stage %s is missing", g.Name))
		case data != nil && (len(data) != g.Size() || !g.IsArray()):
			errs = append(
				errs, fmt.Errorf("stage %s has %d bytes, want %d", g.Name, len(data), g.Size()),
			)
		}
	}
	return errors.Join(errs...)
}

// again runs some of the tasks once more, and holds them to what was shown first.
func (h *holder) again(how string, tasks []parity.RolloutTask, order ...int) {
	some := make([]parity.RolloutTask, len(order))
	for k, i := range order {
		some[k] = tasks[i]
	}
	known := len(h.errs)
	got := h.run(some)
	if len(h.errs) > known {
		return
	}
	for k, i := range order {
		want := &h.first[i]
		if err := parity.Differs(h.engine.Schema(), want.steps, got[k].steps, want.end,
			got[k].end); err != nil {
			h.errorf("%s, %s: %w", tasks[i].Name(), how, err)
		}
	}
}
