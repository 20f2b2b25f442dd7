package tinyphysics

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"lockstep"
)

// Hard are jobs that go through every branch of the specification in seconds: gains that
// saturate, routes of every kind of length, NaN, draws on the edges of the distributions,
// and every kind of policy. Where the edges are depends on network and arithmetic, so the
// simulator that is the yardstick is asked.
func Hard(ctx context.Context, yardstick lockstep.Simulator) ([]lockstep.Job, error) {
	network, err := hardNetwork()
	if err != nil {
		return nil, err
	}
	even, err := evenNetwork()
	if err != nil {
		return nil, err
	}
	long := hardRoute("hard-long", lockstep.CostEndIdx+4, 1)
	table, err := hardTable(long.Name)
	if err != nil {
		return nil, err
	}
	edges := hardRoute("hard-edges", lockstep.MinRows, 1)
	draws, err := edgeDraws(ctx, yardstick, edges)
	if err != nil {
		return nil, err
	}
	// A plan is whole up to 50 steps before the end, and a policy acts from step 100 on.
	rows := lockstep.ControlStartIdx + lockstep.FuturePlanSteps + 4
	planned, slow := hardRoute("hard-plan", rows, 1.5), hardRoute("hard-slow", 110, 1)
	for i := range slow.VEgo {
		slow.VEgo[i] = 3
	}
	jobs := []lockstep.Job{
		{Route: hardRoute("hard-steps", 130, 3), Policy: lockstep.PID{P: 3}},
		{Route: hardRoute("hard-shortest", lockstep.MinRows, 1), Policy: lockstep.Zero{}},
		{Route: long, Policy: table},
		{Route: edges, Policy: lockstep.Zero{}, Draws: draws[0]},
		{Route: edges, Policy: lockstep.Zero{}, Draws: draws[1]},
		{Route: edges, Policy: lockstep.Zero{}, Draws: draws[2]},
		{
			Route:  flatRoute("hard-high", 6),
			Policy: lockstep.PID{P: -3},
			Draws:  level(math.Nextafter(1, 0)),
		},
		{Route: flatRoute("hard-low", -6), Policy: lockstep.PID{P: -3}, Draws: level(0)},
		{Route: planned, Policy: network},
		{Route: planned, Policy: network, Sampling: &lockstep.Sampling{Seed: 1<<63 + 1, ID: 7}},
		{Route: slow, Policy: even, Sampling: &lockstep.Sampling{Seed: 5, ID: 3}},
		{Route: planned, Policy: hardCode},
		{Route: planned, Policy: hardBatch},
		{
			Route: slow,
			Policy: lockstep.PIDFF{
				P:      0.2,
				I:      0.1,
				D:      -0.05,
				FF:     [4]float64{0.1, 0.2, -0.1, 0.05},
				FFV:    0.3,
				Smooth: 0.2,
				Leak:   0.02,
			},
		},
		{Route: slow, Policy: lockstep.DefaultPID(), Expected: true},
		{
			Route:   hardRoute("hard-taught", 110, 1),
			Policy:  lockstep.DefaultPID(),
			Teacher: hardTeacher(110),
		},
	}
	return append(jobs, hardNaN()...), nil
}

// hardRoute is a route whose target steps up and down by amplitude, with recorded commands
// beyond both bounds. It needs no file, and no function that machines differ in.
func hardRoute(name string, rows int, amplitude float64) *lockstep.Route {
	r := &lockstep.Route{Name: name, Seed: uint32(rows)}
	for i := range rows {
		saw := float64(i%40)/20 - 1 // from -1 to 1
		side := 1.0
		if i/12%2 == 1 {
			side = -1
		}
		r.RollLataccel = append(r.RollLataccel, 0.3*saw)
		r.VEgo = append(r.VEgo, 20+4*saw)
		r.AEgo = append(r.AEgo, -0.2*saw)
		r.TargetLataccel = append(r.TargetLataccel, amplitude*side)
		r.SteerCommand = append(r.SteerCommand, 2.5*saw)
	}
	return r
}

// flatRoute is one whose target is beyond the bins.
func flatRoute(name string, target float64) *lockstep.Route {
	r := hardRoute(name, lockstep.MinRows+4, 0)
	for i := range r.TargetLataccel {
		r.TargetLataccel[i] = target
	}
	return r
}

// level are draws that are all the same, for a flatRoute.
func level(x float64) []float64 {
	draws := make([]float64, lockstep.MinRows+4-lockstep.ContextLength)
	for i := range draws {
		draws[i] = x
	}
	return draws
}

// hardNaN are routes with a NaN in each column.
func hardNaN() (jobs []lockstep.Job) {
	for k, name := range []string{"roll", "speed", "acceleration", "target", "command"} {
		r := hardRoute("hard-nan-"+name, lockstep.MinRows+3, 1)
		at := lockstep.ControlStartIdx + 1
		if name == "command" { // which later steps do not look at
			at = lockstep.ContextLength + 10
		}
		(*r.Columns()[k])[at] = math.NaN()
		jobs = append(jobs, lockstep.Job{Route: r, Policy: lockstep.Zero{}})
	}
	return jobs
}

// hardTeacher is a trajectory of its own, which no policy would drive.
func hardTeacher(rows int) *lockstep.Trajectory {
	t := &lockstep.Trajectory{}
	for i := range rows {
		t.Target = append(t.Target, 0)
		t.Lataccel = append(t.Lataccel, float64(i%9)/4-1)
		t.Action = append(t.Action, float64(i%7)/4-0.75)
	}
	return t
}

// hardNetwork is one layer whose scale makes the bound on a command's change active.
func hardNetwork() (*lockstep.Network, error) {
	l := lockstep.Layer{
		Inputs: lockstep.ObservationSize, Outputs: lockstep.ActorSize, Bias: []float32{0.5, -0.25},
		Weights: make([]float32, lockstep.ObservationSize*lockstep.ActorSize),
	}
	for i := range l.Weights {
		l.Weights[i] = float32(i%11-5) / 8
	}
	return lockstep.NewNetwork([]lockstep.Layer{l}, 2)
}

// evenNetwork is one whose two outputs are always equal: its distribution is symmetrical.
func evenNetwork() (*lockstep.Network, error) {
	return lockstep.NewNetwork([]lockstep.Layer{{
		Inputs: lockstep.ObservationSize, Outputs: lockstep.ActorSize, Bias: []float32{0.5, 0.5},
		Weights: make([]float32, lockstep.ObservationSize*lockstep.ActorSize),
	}}, 0.25)
}

func hardTable(route string) (*lockstep.Table, error) {
	actions := make([]float64, lockstep.TableSteps)
	for i := range actions {
		actions[i] = float64(i%16)/8 - 1 // the last is not 0, by which nothing could be told
	}
	return lockstep.NewTable(map[string][]float64{route: actions})
}

// hardAnswer is of a controller that looks at all that it is told.
func hardAnswer(target, current float64, s lockstep.State, plan lockstep.FuturePlan) float64 {
	sum := 0.0
	for _, column := range [][]float64{plan.Lataccel, plan.RollLataccel, plan.VEgo, plan.AEgo} {
		for _, x := range column {
			sum += x
		}
	}
	return float64(0.3*(target-current)) + float64(0.001*(sum+s.RollLataccel+s.VEgo+s.AEgo)) - 1.5
}

var hardCode = lockstep.Custom{
	Name: "hard-code",
	New:  func() lockstep.Controller { return hardController{} },
}

type hardController struct{}

func (hardController) Update(
	target, current float64, s lockstep.State, plan lockstep.FuturePlan,
) float64 {
	return hardAnswer(target, current, s, plan)
}

var hardBatch = &lockstep.Batch{
	Name: "hard-batch",
	New:  func([]*lockstep.Route) (lockstep.BatchController, error) { return hardBatched{}, nil },
}

type hardBatched struct{}

func (hardBatched) Update(s *lockstep.BatchStep) error {
	for i := range s.Steer {
		if s.Running[i] {
			s.Steer[i] = hardAnswer(
				s.TargetLataccel[i], s.CurrentLataccel[i], s.State[i], s.Plan[i],
			)
		}
	}
	return nil
}

func (hardBatched) Close() error { return nil }

// edgeDraws are draws for a route that lie in turn on an edge of the step's CDF, 1 ulp
// below one and 1 ulp above one, and so for each of the three at step 100. Up to there no
// step's CDF depends on what was drawn.
func edgeDraws(
	ctx context.Context, sim lockstep.Simulator, r *lockstep.Route,
) (draws [3][]float64, err error) {
	even := slices.Repeat([]float64{0.5}, r.Len()-lockstep.ContextLength)
	for i := range draws {
		draws[i] = slices.Clone(even)
	}
	edges := 0
	probe := lockstep.Job{
		Route:  r,
		Policy: lockstep.Zero{},
		Draws:  even,
		Observe: func(s *lockstep.Step) {
			if s.Index > lockstep.ControlStartIdx || s.Sample < 0 || s.Sample >= len(s.CDF) {
				return
			}
			edge := s.CDF[s.Sample]
			if !(0 < edge && edge < 1) {
				return
			}
			edges++
			around := [3]float64{edge, math.Nextafter(edge, 0), math.Nextafter(edge, 1)}
			for i := range draws {
				draws[i][s.Index-lockstep.ContextLength] = around[(s.Index+i)%3]
			}
		},
	}
	for _, result := range sim.Simulate(
		ctx, []lockstep.Job{probe}, lockstep.Options{Shortcuts: lockstep.AllSteps},
	) {
		if result.Err != nil {
			return draws, fmt.Errorf("where the edges of the CDF are: %w", result.Err)
		}
	}
	if edges == 0 && ctx.Err() == nil {
		return draws, errors.New(
			"the yardstick shows no CDF: whether a draw on its edge is right cannot be compared",
		)
	}
	return draws, ctx.Err()
}
