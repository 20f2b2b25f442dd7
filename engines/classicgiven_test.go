package engines

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"lockstep/classic"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
)

// A classicRun is some steps of environments of classic control, and a reset between them.
type classicRun struct {
	task         classic.Task
	reset, again classic.Reset
	policy       classic.Policy
}

// A classicGiven is another value of a field, in runs of an environment that begin as it says.
type classicGiven struct {
	env        string
	begin, set func(r *classicRun)
}

// classicSteps are those of a run before the second reset, and after it.
const classicSteps = 6

// classicGivens are those of all fields of tasks, resets, policies and their networks.
func classicGivens(t *testing.T) map[string]classicGiven {
	four := func(x float64) []float64 { return []float64{x, x, x, x} }
	as := func(*classicRun) {}
	network := func(r *classicRun) {
		r.policy = classic.Policy{Network: &classic.Perceptron{
			Layers: []classic.Layer{
				{Weights: []float32{1, -1, 0.5, 2, -3, 1, 0, 1, 1}, Bias: []float32{0, 0.1, 0}},
				{Weights: []float32{1, 2, 3, 2, 1, 3, 0, 1, 1}, Bias: make([]float32, 3)},
			},
			Noise: []float32{-9, 0, 4, 9}, Seed: 5,
		}}
		for i, l := range r.policy.Network.Layers { // as many inputs as an Acrobot has
			if inputs := []int{6, 3}[i]; len(l.Weights) < 3*inputs {
				r.policy.Network.Layers[i].Weights = append(l.Weights, l.Weights...)
			}
		}
	}
	top := func(r *classicRun) { // behind the goal, and slow
		r.reset.Low, r.reset.High = []float64{0.6}, []float64{0.6}
	}
	apart := func(r *classicRun) { r.task.Autoreset, r.reset.Seed = classic.Off, 7 }
	own := func(r *classicRun) { r.policy.Network.Layers[0].Bias[0] = 50 }
	return map[string]classicGiven{
		"Task.Environment": {"CartPole-v1", as, func(r *classicRun) {
			r.task.Environment = classicTask(t, "CartPoleVectorEnv").Environment
		}},
		"Task.Num": {"CartPole-v1", as, func(r *classicRun) { r.task.Num = 2 }},
		"Task.Autoreset": {"CartPole-v1", func(r *classicRun) { r.task.MaxSteps = 3 },
			func(r *classicRun) { r.task.Autoreset = classic.SameStep }},
		"Task.NumPy1":      {"Pendulum-v1", as, func(r *classicRun) { r.task.NumPy1 = true }},
		"Task.MaxSteps":    {"CartPole-v1", as, func(r *classicRun) { r.task.MaxSteps = 3 }},
		"Task.SuttonBarto": {"CartPole-v1", as, func(r *classicRun) { r.task.SuttonBarto = true }},
		"Task.SemiImplicit": {"CartPole-v1", as, func(r *classicRun) {
			r.task.SemiImplicit = true
		}},
		"Task.GoalVelocity": {"MountainCar-v0", top, func(r *classicRun) {
			r.task.GoalVelocity = 1
		}},
		"Task.Gravity": {"Pendulum-v1", as, func(r *classicRun) { r.task.Gravity = 9.5 }},
		"Task.Nips":    {"Acrobot-v1", as, func(r *classicRun) { r.task.Nips = true }},

		"Reset.Seed":     {"CartPole-v1", as, func(r *classicRun) { r.reset.Seed = 9 }},
		"Reset.Continue": {"CartPole-v1", as, func(r *classicRun) { r.again.Continue = true }},
		"Reset.Seeds": {"CartPole-v1", as, func(r *classicRun) {
			r.reset.Seeds = []int64{1, 3, 3}
		}},
		"Reset.Mask": {"CartPole-v1", apart, func(r *classicRun) {
			r.again.Mask = []bool{true, false, true}
		}},
		"Reset.Low":  {"Acrobot-v1", as, func(r *classicRun) { r.reset.Low = four(-0.2) }},
		"Reset.High": {"Acrobot-v1", as, func(r *classicRun) { r.reset.High = four(0.2) }},

		"Policy.Recorded": {"Acrobot-v1", as, func(r *classicRun) {
			r.policy = classic.Policy{}
			for range classicSteps {
				r.policy.Recorded = append(
					r.policy.Recorded, classic.Actions{Discrete: []int32{0, 1, 2}},
				)
			}
		}},
		"Policy.Uniform": {"Acrobot-v1", as, func(r *classicRun) {
			r.policy.Uniform = new(uint64)
		}},
		"Policy.Network":    {"Acrobot-v1", as, network},
		"Perceptron.Layers": {"Acrobot-v1", network, own},
		"Perceptron.Noise": {"Acrobot-v1", network, func(r *classicRun) {
			r.policy.Network.Noise = nil
		}},
		"Perceptron.Seed": {"Acrobot-v1", network, func(r *classicRun) {
			r.policy.Network.Seed++
		}},
		"Layer.Bias": {"Acrobot-v1", network, own},
		"Layer.Weights": {"Acrobot-v1", network, func(r *classicRun) {
			r.policy.Network.Layers[0].Weights[0] = 50
		}},
	}
}

func classicTask(t *testing.T, name string) classic.Task {
	t.Helper()
	task, err := classic.Make(name, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// tell runs it on an engine, and says all that was answered with all digits.
func (r *classicRun) tell(t *testing.T, e classic.Maker) string {
	t.Helper()
	v, err := e.Make(r.task)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	var text strings.Builder
	record := make([]classic.Transition, classicSteps)
	for i := range record {
		record[i] = classic.NewTransition(r.task)
	}
	for _, reset := range []classic.Reset{r.reset, r.again} {
		if err := v.Reset(reset); err != nil {
			t.Fatal(err)
		}
		if err := v.Run(t.Context(), r.policy, classicSteps, record); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&text, record, v.Totals())
	}
	return text.String()
}

// TestClassicSeeds: where each environment is given its seed, all else that says how generators go
// on says nothing, at the first reset and at the next.
func TestClassicSeeds(t *testing.T) {
	key, seeds := uint64(5), []int64{3, 1, 4}
	others := []classic.Reset{{Continue: true}, {Seed: 7}, {Seed: -1, Continue: true}, {Seed: -1}}
	for _, e := range Classic().Checked() {
		t.Run(e.Name, func(t *testing.T) {
			engine, err := e.New(2)
			want.Skip(t, err)
			tell := func(reset classic.Reset) string {
				reset.Seeds = seeds
				r := &classicRun{
					task: classicTask(t, "CartPole-v1"), reset: reset, again: reset,
					policy: classic.Policy{Uniform: &key},
				}
				return r.tell(t, engine)
			}
			alone := tell(classic.Reset{})
			for _, other := range others {
				if tell(other) != alone {
					t.Errorf("beside %+v the seeds make other episodes", other)
				}
			}
		})
	}
}

// TestClassicGivens: each field of a task, a reset and a policy of classic control is heeded by
// each engine. A field that is new has no line, and fails.
func TestClassicGivens(t *testing.T) {
	lines := classicGivens(t)
	for _, e := range Classic().Checked() {
		t.Run(e.Name, func(t *testing.T) {
			engine, err := e.New(2)
			want.Skip(t, err)
			simtest.Fields(t, lines, func(name string, g classicGiven) {
				key := uint64(5)
				said := map[string]bool{}
				for _, set := range []func(*classicRun){func(*classicRun) {}, g.set} {
					r := &classicRun{
						task: classicTask(t, g.env), reset: classic.Reset{Seed: 1},
						again: classic.Reset{Seed: 4}, policy: classic.Policy{Uniform: &key},
					}
					g.begin(r)
					set(r)
					said[r.tell(t, engine)] = true
				}
				if len(said) < 2 {
					t.Errorf("%s: with another one all is the same", name)
				}
			}, reflect.TypeFor[classic.Task](), reflect.TypeFor[classic.Reset](),
				reflect.TypeFor[classic.Policy](), reflect.TypeFor[classic.Perceptron](),
				reflect.TypeFor[classic.Layer]())
		})
	}
}
