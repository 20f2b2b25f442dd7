package classic

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Dynamics are the equations that an environment follows.
type Dynamics int

const (
	CartPole Dynamics = iota
	MountainCar
	MountainCarContinuous
	Pendulum
	Acrobot
)

// An Environment is what Gymnasium registers under a name.
type Environment struct {
	Name     string
	Dynamics Dynamics
	// Shared is one generator for all environments, as in CartPoleVectorEnv, which
	// has an autoreset and a reward type of its own.
	Shared bool

	State       []string // names of the values of the state
	Observation []string // and of the observation
	Actions     int      // the actions are 0 to Actions-1; 0: they are one float32
	Limit       float32  // of |action|, where it is a float32: beyond it the environment clips
	MaxSteps    int      // of an episode

	// Low and High bound the values drawn at a reset, in the order of the draws.
	Low, High []float64
	options   []string // that gymnasium.make takes, besides max_episode_steps
}

// environments are all of them, in Gymnasium's order.
var environments = []Environment{
	{
		Name: "CartPole-v1", Dynamics: CartPole,
		State:       []string{"x", "x_dot", "theta", "theta_dot"},
		Observation: []string{"x", "x_dot", "theta", "theta_dot"},
		Actions:     2, MaxSteps: 500, Low: fill(4, -0.05), High: fill(4, 0.05),
		options: []string{"sutton_barto_reward", "kinematics_integrator"},
	},
	{
		Name: "CartPoleVectorEnv", Dynamics: CartPole, Shared: true,
		State:       []string{"x", "x_dot", "theta", "theta_dot"},
		Observation: []string{"x", "x_dot", "theta", "theta_dot"},
		Actions:     2, MaxSteps: 500, Low: fill(4, -0.05), High: fill(4, 0.05),
		options: []string{"sutton_barto_reward", "kinematics_integrator"},
	},
	{
		Name: "MountainCar-v0", Dynamics: MountainCar,
		State:       []string{"position", "velocity"},
		Observation: []string{"position", "velocity"},
		Actions:     3, MaxSteps: 200, Low: fill(1, -0.6), High: fill(1, -0.4),
		options: []string{"goal_velocity"},
	},
	{
		Name: "MountainCarContinuous-v0", Dynamics: MountainCarContinuous,
		State:       []string{"position", "velocity"},
		Observation: []string{"position", "velocity"},
		Limit:       1, MaxSteps: 999, Low: fill(1, -0.6), High: fill(1, -0.4),
		options: []string{"goal_velocity"},
	},
	{
		Name: "Pendulum-v1", Dynamics: Pendulum,
		State:       []string{"theta", "theta_dot"},
		Observation: []string{"cos_theta", "sin_theta", "theta_dot"},
		Limit:       2, MaxSteps: 200, Low: []float64{-math.Pi, -1}, High: []float64{math.Pi, 1},
		options: []string{"g"},
	},
	{
		Name: "Acrobot-v1", Dynamics: Acrobot,
		State: []string{"theta_1", "theta_2", "theta_1_dot", "theta_2_dot"},
		Observation: []string{
			"cos_theta_1", "sin_theta_1", "cos_theta_2", "sin_theta_2", "theta_1_dot",
			"theta_2_dot",
		},
		Actions: 3, MaxSteps: 500, Low: fill(4, -0.1), High: fill(4, 0.1),
		options: []string{"book_or_nips"},
	},
}

// Environments are all of them, in Gymnasium's order. They are the caller's own.
func Environments() (all []Environment) {
	for i := range environments {
		all = append(all, *environments[i].clone())
	}
	return all
}

func (e *Environment) clone() *Environment {
	own := *e
	own.State, own.Observation = slices.Clone(e.State), slices.Clone(e.Observation)
	own.Low, own.High = slices.Clone(e.Low), slices.Clone(e.High)
	return &own
}

func fill(n int, x float64) []float64 { return slices.Repeat([]float64{x}, n) }

// Find returns the environment of that name, the caller's own.
func Find(name string) (*Environment, error) {
	var names []string
	for i := range environments {
		if environments[i].Name == name {
			return environments[i].clone(), nil
		}
		names = append(names, environments[i].Name)
	}
	return nil, fmt.Errorf(
		"environment %q is unknown: there are %s", name, strings.Join(names, ", "),
	)
}
