//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"lockstep"
	"lockstep/pycontroller"
)

// controllerSpec names a policy.
type controllerSpec struct {
	Kind   string
	Params []float64
	File   string
	Python string // the interpreter that runs a controller written in Python
}

// policy makes the policy; the function ends its use.
func (c controllerSpec) policy() (lockstep.Policy, func() error, error) {
	none := func() error { return nil }
	for i, x := range c.Params {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, none, usagef("%s: parameter %d is %v, want a finite number", c.Kind, i, x)
		}
	}
	switch c.Kind {
	case "zero":
		return lockstep.Zero{}, none, nil
	case "pid":
		if len(c.Params) == 0 {
			return lockstep.DefaultPID, none, nil
		}
		if len(c.Params) != 3 {
			return nil, none, usagef("pid: %d gains, want 3", len(c.Params))
		}
		return lockstep.PID{P: c.Params[0], I: c.Params[1], D: c.Params[2]}, none, nil
	case "python":
		p, err := pycontroller.New(pycontroller.Options{File: c.File, Python: c.Python})
		if err != nil {
			return nil, none, fmt.Errorf("%s: %w", c.File, err)
		}
		return p.Policy(), p.Close, nil
	}
	return nil, none, usagef("controller %.60q is not known", c.Kind)
}

// run is rollouts on their way.
type run struct {
	jobs    []lockstep.Job
	results []lockstep.Result
	err     error         // of all of them
	count   atomic.Int64  // of those that have ended
	ended   chan struct{} // closed when all have
	cancel  context.CancelFunc
	closers []func() error
}

func (r *run) Close() error {
	r.cancel()
	<-r.ended
	var errs []error
	for _, c := range r.closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

type rolloutRequest struct {
	Routes      int64
	Index       []int
	Controllers []controllerSpec
	Trajectory  bool
}

type rolloutAnswer struct {
	Handle int64    `json:"handle"`
	Jobs   int      `json:"jobs"`
	Names  []string `json:"names"` // of the controllers
}

// rollout starts rollouts: for each controller all routes.
func rollout(s *simulator, q rolloutRequest, _ []byte) (any, error) {
	all, err := get[routes](q.Routes)
	if err != nil {
		return nil, err
	}
	picked, err := all.pick(q.Index)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{ended: make(chan struct{}), cancel: cancel}
	answer := rolloutAnswer{}
	for _, spec := range q.Controllers {
		policy, done, err := spec.policy()
		if err != nil {
			close(r.ended)
			r.Close()
			return nil, err
		}
		r.closers = append(r.closers, done)
		answer.Names = append(answer.Names, policy.String())
		for _, route := range picked {
			r.jobs = append(r.jobs, lockstep.Job{Route: route, Policy: policy})
		}
	}
	r.results = make([]lockstep.Result, len(r.jobs))
	options := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: q.Trajectory}
	if q.Trajectory {
		options.Shortcuts = lockstep.FullTrajectory
	}
	go r.simulate(ctx, s, options)
	answer.Handle, answer.Jobs = put(r), len(r.jobs)
	return answer, nil
}

func (r *run) simulate(ctx context.Context, s *simulator, options lockstep.Options) {
	defer close(r.ended)
	defer guard(&r.err)
	for i, result := range s.Simulate(ctx, r.jobs, options) {
		r.results[i] = result
		r.count.Add(1)
		if ctx.Err() != nil {
			return // nobody asks for the results of what was interrupted
		}
	}
}

type resultsAnswer struct {
	Errors map[int]*failure `json:"errors"` // by job
	Steps  []int            `json:"steps"`  // of each trajectory
}

// results writes what a run that has ended gave: three costs for each job, then, where
// trajectories were asked for, lataccel and action of each job, as long as the
// longest route.
func results(r *run, q struct{ Rows int }, buffer []byte) (any, error) {
	<-r.ended
	if r.err != nil {
		return nil, r.err
	}
	n := len(r.jobs)
	out, err := floats(buffer, n*(3+2*q.Rows))
	if err != nil {
		return nil, err
	}
	answer := resultsAnswer{Errors: map[int]*failure{}, Steps: make([]int, n)}
	costs, trajectories := out[:3*n], out[3*n:]
	for i, result := range r.results {
		c := result.Costs
		if result.Err != nil {
			c = lockstep.Costs{Lataccel: math.NaN(), Jerk: math.NaN(), Total: math.NaN()}
			answer.Errors[i] = describe(result.Err)
		}
		copy(costs[3*i:], []float64{c.Lataccel, c.Jerk, c.Total})
		if t := result.Trajectory; t != nil && q.Rows > 0 {
			answer.Steps[i] = len(t.Lataccel)
			copy(trajectories[2*i*q.Rows:][:q.Rows], t.Lataccel)
			copy(trajectories[(2*i+1)*q.Rows:][:q.Rows], t.Action)
		}
	}
	return answer, nil
}
