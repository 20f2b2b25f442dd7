package classic

import "lockstep/classic"

// Seeds of the recordings: small, the last of one word, and beyond.
var seeds = []int64{0, 1, 1<<32 - 1, 1<<32 + 7}

// linear is a network of one layer without biases.
func linear(weights ...float32) *classic.Perceptron {
	return &classic.Perceptron{Layers: []classic.Layer{{Weights: weights}}}
}

// goals are policies that reach walls, clips, goals and limits.
var goals = map[string]*classic.Perceptron{
	"CartPole-v1":       bias(linear(0, 0, 0, 0, 0.1, 0.3, 1, 0.4), 0, 0), // balances
	"CartPoleVectorEnv": bias(linear(0, 0, 0, 0, 0.1, 0.3, 1, 0.4), 0, 0), // balances
	"MountainCar-v0":    bias(linear(0, -1, 0, 0, 0, 1), 0, -1, 0),        // pumps
	// Pumps, unclipped at first.
	"MountainCarContinuous-v0": bias(linear(0, 30), 0),
	"Pendulum-v1":              bias(linear(0, 0, 0.9), 0.01), // spins
	"Acrobot-v1": bias(
		linear(0, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0), 0, -1, 0,
	), // swings
}

// Goal is a policy that reaches an environment's walls, clips, goals or limits.
func Goal(environment string) *classic.Perceptron { return goals[environment] }

func bias(n *classic.Perceptron, b ...float32) *classic.Perceptron {
	n.Layers[0].Bias = b
	return n
}

// deep has a hidden layer, whose units are sometimes negative.
func deep(t *classic.Environment) *classic.Perceptron {
	inputs, outputs, hidden := len(t.Observation), max(t.Actions, 1), 8
	word := uint32(2463534242)
	random := func(n int) []float32 {
		w := make([]float32, n)
		for i := range w {
			word ^= word << 13
			word ^= word >> 17
			word ^= word << 5
			w[i] = float32(int32(word)>>8) * 0x1p-23
		}
		return w
	}
	return &classic.Perceptron{Layers: []classic.Layer{
		{Weights: random(hidden * inputs), Bias: random(hidden)},
		{Weights: random(outputs * hidden), Bias: random(outputs)},
	}}
}

// Cases are what is recorded with NumPy 2, or with NumPy 1.
func Cases(numpy1 bool) []RecordedCase {
	var cases []RecordedCase
	add := func(c RecordedCase) {
		c.NumPy1 = numpy1
		c.Every, c.Values = c.Steps/5, 3
		if c.Options == nil {
			c.Options = map[string]string{}
		}
		cases = append(cases, c)
	}
	all := classic.Environments()
	for i := range all {
		e := &all[i]
		modes := []string{"off", "next-step", "same-step", "disabled"}
		if e.Shared {
			modes = modes[1:2]
		}
		if numpy1 && e.Dynamics != classic.MountainCarContinuous && e.Dynamics != classic.Pendulum {
			continue
		}
		for s, seed := range seeds {
			add(RecordedCase{
				Env:       e.Name,
				Autoreset: modes[0],
				Num:       1,
				Seed:      seed,
				Uniform:   uint64(seed) + 3,
				Steps:     1000,
			})
			add(RecordedCase{
				Env:       e.Name,
				Autoreset: modes[0],
				Num:       1,
				Seed:      seed,
				Network:   Goal(e.Name),
				Steps:     1000,
			})
			for _, mode := range modes[min(1, len(modes)-1):] {
				add(RecordedCase{
					Env:       e.Name,
					Autoreset: mode,
					Num:       7,
					Seed:      seed,
					Uniform:   uint64(s) << 40,
					Steps:     500,
				})
			}
		}
		add(RecordedCase{
			Env:       e.Name,
			Autoreset: "next-step",
			Num:       3,
			Seed:      5,
			Network:   Goal(e.Name),
			Steps:     1500,
		})
		add(RecordedCase{
			Env:       e.Name,
			Autoreset: "next-step",
			Num:       9,
			Seed:      6,
			Network:   deep(e),
			Steps:     300,
		})
		add(RecordedCase{
			Env:       e.Name,
			Autoreset: "next-step",
			Num:       5,
			Seed:      7,
			Options:   map[string]string{"max_episode_steps": "17"},
			Steps:     300,
		})
		for _, o := range others[e.Name] {
			add(RecordedCase{
				Env:       e.Name,
				Autoreset: "next-step",
				Num:       5,
				Seed:      8,
				Uniform:   9,
				Options:   o.options,
				Bounds:    o.bounds,
				Steps:     500,
			})
			add(RecordedCase{
				Env:       e.Name,
				Autoreset: "next-step",
				Num:       2,
				Seed:      9,
				Network:   Goal(e.Name),
				Options:   o.options,
				Bounds:    o.bounds,
				Steps:     500,
			})
		}
	}
	if !numpy1 {
		add(RecordedCase{
			Env:       "Pendulum-v1",
			Autoreset: "off",
			Num:       1,
			Seed:      1,
			Network:   Goal("Pendulum-v1"),
			Options:   map[string]string{"max_episode_steps": "25000"},
			Steps:     25000,
		})
		add(
			RecordedCase{
				Env:       "Acrobot-v1",
				Autoreset: "off",
				Num:       2,
				Seed:      1,
				Network:   Goal("Acrobot-v1"),
				Options:   map[string]string{"max_episode_steps": "-1"},
				Steps:     1000,
			},
		)
		// angles of all sizes, then NaN
		for _, integrator := range []string{"euler", "semi-implicit"} {
			add(RecordedCase{
				Env:       "CartPole-v1",
				Autoreset: "off",
				Num:       16,
				Seed:      10,
				Uniform:   11,
				Options:   map[string]string{"kinematics_integrator": integrator},
				Bounds:    map[string]float64{"low": -5000, "high": 5000},
				Steps:     100,
			})
		}
	}
	return cases
}

// others are options and bounds that are recorded besides the defaults.
var others = map[string][]struct {
	options map[string]string
	bounds  map[string]float64
}{
	"CartPole-v1": {
		{map[string]string{"sutton_barto_reward": "True"}, nil},
		{map[string]string{"kinematics_integrator": "semi-implicit"}, nil},
		{nil, map[string]float64{"low": -1.5, "high": 3.2}},
	},
	"CartPoleVectorEnv": {
		{map[string]string{"sutton_barto_reward": "True"}, nil},
		{map[string]string{"kinematics_integrator": "semi-implicit"}, nil},
		{nil, map[string]float64{"low": -0.1, "high": 0.3}},
	},
	"MountainCar-v0": {
		{map[string]string{"goal_velocity": "0.03"}, nil},
		{nil, map[string]float64{"low": -1.3, "high": 0.7}},
	},
	"MountainCarContinuous-v0": {
		{map[string]string{"goal_velocity": "0.05"}, nil},
		{map[string]string{"goal_velocity": "0.07"}, nil},
		{nil, map[string]float64{"low": -1.3, "high": 0.7}},
	},
	"Pendulum-v1": {
		{map[string]string{"g": "9.81"}, nil},
		{map[string]string{"g": "-3"}, nil},
		{nil, map[string]float64{"x_init": 90, "y_init": 12}},
		{nil, map[string]float64{"x_init": 1e-9, "y_init": 1e-170}},
	},
	"Acrobot-v1": {
		{map[string]string{"book_or_nips": "nips"}, nil},
		{nil, map[string]float64{"low": -6, "high": 30}},
		{nil, map[string]float64{"low": -1e-20, "high": 1e-20}},
	},
}
