package gpu

import (
	"context"

	"lockstep"
	"lockstep/internal/guard"
)

// steps runs a group whose controllers are on the host.
func (r *run) steps(g *group) {
	for tasks := g.tasks; len(tasks) > 0 && !r.stopped; {
		p, err := r.reset(r.ctx, tasks, g.kind, r.opts.Shortcuts)
		if err != nil {
			r.failAll(tasks, -1, err)
			return
		}
		func() {
			defer p.Close()
			d := &drive{run: r, stepper: p, tasks: p.batch.tasks, command: make([]float64, len(p.jobs))}
			d.rollout()
		}()
		tasks = tasks[len(p.jobs):]
	}
}

// drive is a Stepper with its controllers.
type drive struct {
	*run
	stepper *Stepper
	tasks   []*task
	command []float64
}

func (d *drive) running(j int) bool { return !d.tasks[j].done && d.stepper.Running(j) }

// failJob fails a job by its controller's doing. The device does not know, and
// computes it to its end.
func (d *drive) failJob(j, step int, err error) {
	d.stepper.fail(j, err)
	d.fail(d.tasks[j], step, err)
}

func (d *drive) rollout() {
	controllers := d.controllers()
	defer func() {
		for _, c := range controllers {
			c.close()
		}
	}()
	for !d.stopped && d.any() {
		step := d.stepper.Index()
		if err := d.ctx.Err(); err != nil {
			d.failAll(d.tasks, step, err)
			return
		}
		for _, c := range controllers {
			c.update(d, step)
		}
		if d.stopped || !d.any() {
			break
		}
		if _, err := d.stepper.Step(d.ctx, d.command); err != nil {
			d.failAll(d.tasks, step, err)
			return
		}
		for j, t := range d.tasks {
			if step, err := d.stepper.Err(j); err != nil {
				d.fail(t, step, err)
			}
		}
	}
	if d.stopped {
		return
	}
	results, err := d.stepper.Results(context.WithoutCancel(d.ctx))
	for j, t := range d.tasks {
		if err != nil {
			d.fail(t, -1, err)
		} else {
			d.report(t, results[j])
		}
	}
}

// any tells whether any job runs.
func (d *drive) any() bool {
	for j := range d.tasks {
		if d.running(j) {
			return true
		}
	}
	return false
}

// hostController computes the commands of some of the jobs.
type hostController interface {
	// update writes the commands of those that run, and fails those whose
	// controller fails.
	update(d *drive, step int)
	// close ends the controller's use.
	close()
}

// controllers makes those of all jobs. Jobs with the same *Batch share one.
func (d *drive) controllers() []hostController {
	var all []hostController
	var batches []*batchController
	of := map[*lockstep.Batch]*batchController{}
	for j, t := range d.tasks {
		switch policy := t.job.Policy.(type) {
		case lockstep.Custom:
			c := &customController{job: j}
			if err := guard.Do(func() { c.controller = policy.New() }); err != nil {
				d.failJob(j, 0, err)
				continue
			}
			all = append(all, c)
		case *lockstep.Batch:
			b := of[policy]
			if b == nil {
				b = &batchController{policy: policy}
				of[policy] = b
				batches = append(batches, b)
			}
			b.jobs = append(b.jobs, j)
		}
	}
	for _, b := range batches {
		b.start(d)
		all = append(all, b)
	}
	return all
}

// customController steers one job.
type customController struct {
	job        int
	controller lockstep.Controller
}

func (*customController) close() {}

func (c *customController) update(d *drive, step int) {
	if !d.running(c.job) {
		return
	}
	t := d.tasks[c.job]
	route := t.job.Route
	err := guard.Do(func() {
		d.command[c.job] = c.controller.Update(route.TargetLataccel[step], d.stepper.Lataccel(c.job), route.State(step), route.FuturePlan(step))
	})
	if err != nil {
		d.failJob(c.job, step, err)
	}
}

// batchController steers several jobs at once.
type batchController struct {
	policy     *lockstep.Batch
	jobs       []int
	controller lockstep.BatchController
	step       *lockstep.BatchStep
}

func (b *batchController) start(d *drive) {
	routes := make([]*lockstep.Route, len(b.jobs))
	for k, j := range b.jobs {
		routes[k] = d.tasks[j].job.Route
	}
	b.step = lockstep.NewBatchStep(len(b.jobs))
	var err error
	if panicked := guard.Do(func() { b.controller, err = b.policy.New(routes) }); panicked != nil {
		err = panicked
	}
	if err != nil {
		b.fail(d, 0, err)
	}
}

func (b *batchController) fail(d *drive, step int, err error) {
	for _, j := range b.jobs {
		if d.running(j) {
			d.failJob(j, step, err)
		}
	}
}

func (b *batchController) update(d *drive, step int) {
	in := b.step
	in.Step = step
	clear(in.Err)
	any := false
	for k, j := range b.jobs {
		in.Running[k] = d.running(j)
		if !in.Running[k] {
			continue
		}
		any = true
		route := d.tasks[j].job.Route
		in.TargetLataccel[k], in.CurrentLataccel[k] = route.TargetLataccel[step], d.stepper.Lataccel(j)
		in.State[k], in.Plan[k] = route.State(step), route.FuturePlan(step)
	}
	if !any {
		return
	}
	var err error
	if panicked := guard.Do(func() { err = b.controller.Update(in) }); panicked != nil {
		err = panicked
	}
	if err != nil {
		b.fail(d, step, err)
		return
	}
	for k, j := range b.jobs {
		switch {
		case !d.running(j):
		case in.Err[k] != nil:
			d.failJob(j, step, in.Err[k])
		default:
			d.command[j] = in.Steer[k]
		}
	}
}

// close ends the controller's use. Results are out by then, so an error can no
// longer be anybody's.
func (b *batchController) close() {
	if b.controller != nil {
		guard.Do(func() { b.controller.Close() })
	}
}
