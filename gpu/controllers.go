package gpu

import (
	"context"
	"slices"

	"lockstep"
	"lockstep/internal/hostcontrol"
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

// hosted is the jobs that a controller on the host steers.
type hosted struct {
	*hostcontrol.Group
	jobs []int
}

// makeControllers makes those of all jobs. Jobs with the same *Batch share one.
func (d *rollouts) makeControllers() (all []*hosted) {
	of := map[*lockstep.Batch]*hosted{}
	for j, t := range d.tasks {
		batch, shared := t.job.Policy.(*lockstep.Batch)
		if _, custom := t.job.Policy.(lockstep.Custom); !custom && !shared {
			continue
		}
		if h := of[batch]; shared && h != nil {
			h.jobs = append(h.jobs, j)
			continue
		}
		h := &hosted{jobs: []int{j}}
		all = append(all, h)
		if shared {
			of[batch] = h
		}
	}
	return slices.DeleteFunc(all, func(h *hosted) bool { return !d.make(h) })
}

// make makes a controller, or notes why some jobs have none.
func (d *rollouts) make(h *hosted) bool {
	routes := make([]*lockstep.Route, len(h.jobs))
	for k, j := range h.jobs {
		routes[k] = d.tasks[j].job.Route
	}
	var err error
	if h.Group, err = hostcontrol.New(d.tasks[h.jobs[0]].job.Policy, routes...); err == nil {
		return true
	}
	if d.unmade == nil {
		d.unmade = make([]error, len(d.tasks))
	}
	for _, j := range h.jobs {
		d.unmade[j] = err
	}
	return false
}

// update writes the commands of the jobs that run, and fails those whose controller fails.
func (h *hosted) update(d *rollouts, step int) {
	for k, j := range h.jobs {
		h.Seats[k] = hostcontrol.Seat{Running: d.running[j]}
		if d.running[j] {
			h.Seats[k].Lataccel = d.lataccel[j][step-1]
		}
	}
	h.Ask(step)
	for k, j := range h.jobs {
		switch seat := &h.Seats[k]; {
		case !seat.Running:
		case seat.Err != nil:
			d.failJob(j, seat.Err)
		default:
			d.command[j] = seat.Command
		}
	}
}
