package gpu

import (
	"context"

	"lockstep"
	"lockstep/internal/guard"
)

// steps runs a group whose controllers are on the host.
func (r *run) steps(g *group) {
	for tasks := g.tasks; len(tasks) > 0 && !r.stopped; {
		p, err := r.reset(r.ctx, tasks, g.kind, r.opts)
		if err != nil {
			r.failAll(tasks, -1, err)
			return
		}
		func() {
			defer p.Close() // also where the caller panics in its loop
			r.drive(p)
		}()
		tasks = tasks[len(p.engine.tasks):]
	}
}

// drive runs the rollouts of a Stepper to their ends.
func (r *run) drive(p *stepper) {
	tasks := p.engine.tasks
	commands, lataccels := make([]float64, len(tasks)), make([]float64, len(tasks))
	for j, err := range p.engine.unmade {
		if err != nil {
			r.fail(tasks[j], 0, err)
		}
	}
	for !r.stopped && !p.Done() {
		step := p.Index()
		err := r.ctx.Err()
		if err == nil {
			err = p.Step(context.WithoutCancel(r.ctx), commands, lataccels)
		}
		if err != nil {
			r.failAll(tasks, step, err)
			return
		}
		for j, t := range tasks {
			if err := p.Err(j); err != nil {
				r.report(t, lockstep.Result{Err: err})
			}
		}
	}
	if r.stopped {
		return
	}
	results, err := p.Results(context.WithoutCancel(r.ctx))
	for j, t := range tasks {
		if err != nil {
			r.fail(t, -1, err)
		} else {
			r.report(t, results[j])
		}
	}
}

// hostController computes the commands of some of the jobs.
type hostController interface {
	// update writes the commands of those that run, and fails those whose
	// controller fails.
	update(d *rollouts, step int)
	// close ends the controller's use.
	close()
}

// controllers makes those of all jobs. Jobs with the same *Batch share one.
func (d *rollouts) makeControllers() []hostController {
	var all []hostController
	var batches []*batchController
	of := map[*lockstep.Batch]*batchController{}
	for j, t := range d.tasks {
		switch policy := t.job.Policy.(type) {
		case lockstep.Custom:
			c := &customController{job: j}
			if err := guard.Do(func() { c.controller = policy.New() }); err != nil {
				d.cannotMake(j, err)
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

// cannotMake notes why a job has no controller.
func (d *rollouts) cannotMake(j int, err error) {
	if d.unmade == nil {
		d.unmade = make([]error, len(d.tasks))
	}
	d.unmade[j] = err
}

// customController steers one job.
type customController struct {
	job        int
	controller lockstep.Controller
}

func (*customController) close() {}

func (c *customController) update(d *rollouts, step int) {
	if !d.running[c.job] {
		return
	}
	t := d.tasks[c.job]
	route := t.job.Route
	err := guard.Do(func() {
		d.command[c.job] = c.controller.Update(route.TargetLataccel[step], d.lataccel[c.job][step-1], route.State(step), route.FuturePlan(step))
	})
	if err != nil {
		d.failJob(c.job, err)
	}
}

// batchController steers several jobs at once.
type batchController struct {
	policy     *lockstep.Batch
	jobs       []int
	controller lockstep.BatchController
	step       *lockstep.BatchStep
}

func (b *batchController) start(d *rollouts) {
	routes := make([]*lockstep.Route, len(b.jobs))
	for k, j := range b.jobs {
		routes[k] = d.tasks[j].job.Route
	}
	b.step = lockstep.NewBatchStep(len(b.jobs))
	err := guard.Try(func() (err error) {
		b.controller, err = b.policy.New(routes)
		return err
	})
	if err != nil {
		for _, j := range b.jobs {
			d.cannotMake(j, err)
		}
	}
}

func (b *batchController) fail(d *rollouts, err error) {
	for _, j := range b.jobs {
		if d.running[j] {
			d.failJob(j, err)
		}
	}
}

func (b *batchController) update(d *rollouts, step int) {
	in := b.step
	in.Step = step
	clear(in.Err)
	any := false
	for k, j := range b.jobs {
		in.Running[k] = d.running[j]
		if !in.Running[k] {
			continue
		}
		any = true
		route := d.tasks[j].job.Route
		in.TargetLataccel[k], in.CurrentLataccel[k] = route.TargetLataccel[step], d.lataccel[j][step-1]
		in.State[k], in.Plan[k] = route.State(step), route.FuturePlan(step)
	}
	if !any {
		return
	}
	if err := guard.Try(func() error { return b.controller.Update(in) }); err != nil {
		b.fail(d, err)
		return
	}
	for k, j := range b.jobs {
		switch {
		case !d.running[j]:
		case in.Err[k] != nil:
			d.failJob(j, in.Err[k])
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
