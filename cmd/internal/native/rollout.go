//go:build cgo

package native

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"lockstep"
	"lockstep/internal/figures"
	"lockstep/internal/pycontroller"
	"lockstep/policyfile"
)

// controllerSpec names a policy.
type controllerSpec struct {
	Kind   string      // one of lockstep.Kinds; or "file", "python", "object"
	Handle int64       // of an object
	Gains  []float64   // of its kind; the default ones if nil
	Tables [][]float64 // of a table: the actions for each route
	File   string
	Python string // the interpreter that runs a controller written in Python
}

// policy makes the policy for some routes; the function ends its use.
func (c controllerSpec) policy(
	ctx context.Context, of routes,
) (lockstep.Policy, func() error, error) {
	none := func() error { return nil }
	switch c.Kind {
	case "file":
		p, err := policyfile.Load(c.File)
		if err != nil {
			return nil, none, usage(err)
		}
		return p, none, nil
	case "object":
		p, err := get[*lockstep.Network](c.Handle)
		return p, none, err
	case "python":
		p, err := pycontroller.New(ctx, pycontroller.Options{File: c.File, Python: c.Python})
		if err != nil {
			return nil, none, fmt.Errorf("%s: %w", c.File, err)
		}
		return p.Policy(), p.Close, nil
	case lockstep.KindTable.String():
		if len(c.Tables) != len(of) {
			return nil, none, usagef(
				"a table of actions for %d routes, want %d", len(c.Tables), len(of),
			)
		}
		actions := map[string][]float64{}
		for i, r := range of {
			name := r.Name
			for k := 2; actions[name] != nil; k++ { // see own
				name = fmt.Sprintf("%s (%d)", r.Name, k)
			}
			actions[name] = c.Tables[i]
		}
		p, err := lockstep.NewTable(actions)
		return p, none, usage(err)
	}
	if c.Gains == nil {
		p, err := lockstep.ParsePolicy(c.Kind)
		return p, none, usage(err)
	}
	kind, ok := lockstep.KindOf(c.Kind)
	if !ok {
		return nil, none, usagef("controller %.60q is not known", c.Kind)
	}
	p, err := kind.New(c.Gains)
	return p, none, usage(err)
}

// own is the policy as route i has it. A table knows routes by their names, so that of several of
// one name, or of one route several times, each but the first has a table of its own.
func (c controllerSpec) own(p lockstep.Policy, of routes, i int) lockstep.Policy {
	t, ok := p.(*lockstep.Table)
	if !ok || c.Tables == nil || &t.Actions[of[i].Name][0] == &c.Tables[i][0] {
		return p
	}
	return &lockstep.Table{Name: t.Name, Actions: map[string][]float64{of[i].Name: c.Tables[i]}}
}

type rolloutRequest struct {
	Routes      int64
	Positions   []int
	Controllers []controllerSpec
	Rows        int // of trajectories, 0 for none
}

type rolloutAnswer struct {
	Names  []string         `json:"names"`  // of the controllers
	Errors map[int]*failure `json:"errors"` // by job
}

// rollout rolls out: for each controller all routes. It writes three costs for each job,
// then, where they are asked for, lataccels and actions of each.
func rollout(t *task, s *simulator, q rolloutRequest, buffer []byte) (_ any, err error) {
	picked, err := pick(q.Routes, q.Positions)
	if err != nil {
		return nil, err
	}
	out, err := floats[float64](buffer, len(q.Controllers)*len(picked)*(3+2*q.Rows))
	if err != nil {
		return nil, err
	}
	answer := rolloutAnswer{Errors: map[int]*failure{}}
	var jobs []lockstep.Job
	for _, spec := range q.Controllers {
		policy, done, failed := spec.policy(t, picked)
		if failed != nil {
			return nil, failed
		}
		defer func() { err = errors.Join(err, done()) }()
		answer.Names = append(answer.Names, policy.String())
		for i, route := range picked {
			jobs = append(jobs, lockstep.Job{Route: route, Policy: spec.own(policy, picked, i)})
		}
	}
	options := lockstep.Options{Shortcuts: lockstep.CostOnly}
	if q.Rows > 0 {
		options = lockstep.Options{Shortcuts: lockstep.FullTrajectory, Trajectory: true}
	}
	costs, trajectories := out[:3*len(jobs)], out[3*len(jobs):]
	begin := time.Now()
	for i, result := range s.Simulate(t, jobs, options) {
		if t.Err() != nil {
			return nil, t.Err() // nobody asks for the others' results
		}
		put3(costs[3*i:], result)
		if result.Err != nil {
			answer.Errors[i] = describe(result.Err)
		} else if q.Rows > 0 {
			copy(trajectories[2*i*q.Rows:][:q.Rows], result.Trajectory.Lataccel)
			copy(trajectories[(2*i+1)*q.Rows:][:q.Rows], result.Trajectory.Action)
		}
		t.done.Add(1)
	}
	n, steps := figures.Ended(
		jobs, options.Shortcuts, func(i int) bool { return answer.Errors[i] != nil },
	)
	s.counts.Rolled(begin, n, steps)
	return answer, nil
}

// put3 writes the three costs of a result, NaN if it failed.
func put3(into []float64, r lockstep.Result) {
	into[0], into[1], into[2] = r.Costs.Lataccel, r.Costs.Jerk, r.Costs.Total
	if r.Err != nil {
		into[0], into[1], into[2] = math.NaN(), math.NaN(), math.NaN()
	}
}
