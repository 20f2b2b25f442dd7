package classic

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Autoreset is what happens at the end of an episode.
type Autoreset int

const (
	// NextStep: the step after the end ignores its action and returns the reset's
	// observation, reward 0 and no flags.
	NextStep Autoreset = iota
	// SameStep: the last step returns the reset's observation, its own reward and
	// flags; its own observation is the final one.
	SameStep
	// Disabled: the caller resets what has ended, and may step nothing before.
	Disabled
	// Off: separate environments as gymnasium.make returns them. The caller may
	// step past the end.
	Off
)

var autoresets = []string{"next-step", "same-step", "disabled", "off"}

func (a Autoreset) String() string { return autoresets[a] }

// ParseAutoreset reads what String writes.
func ParseAutoreset(name string) (Autoreset, error) {
	if i := slices.Index(autoresets, name); i >= 0 {
		return Autoreset(i), nil
	}
	return 0, fmt.Errorf(
		"autoreset mode %q is unknown: there are %s", name, strings.Join(autoresets, ", "),
	)
}

// A Task is a number of environments of one kind.
type Task struct {
	*Environment
	Num       int
	Autoreset Autoreset
	// NumPy1 has NumPy 1's rules: a float32 and a Python number make a float64.
	NumPy1 bool

	MaxSteps     int     // of an episode; 0: no limit
	SuttonBarto  bool    // CartPole: reward 0, and -1 from the end on
	SemiImplicit bool    // CartPole: velocities first
	GoalVelocity float64 // both mountain cars
	Gravity      float64 // Pendulum: g
	Nips         bool    // Acrobot: the paper's equations
}

// option is one that gymnasium.make takes by its name.
type option struct {
	values string // for messages
	set    func(t *Task, value string) bool
}

var options = map[string]option{
	"max_episode_steps": {
		fmt.Sprintf("a positive number to %d, or -1 for none", MostSteps),
		func(t *Task, value string) bool {
			n, err := strconv.ParseInt(value, 10, 32)
			if err != nil || n == 0 || n < -1 || n > MostSteps || n < 0 && t.Shared {
				return false
			}
			t.MaxSteps = int(max(n, 0))
			return true
		},
	},
	"sutton_barto_reward": {
		"True or False", either(func(t *Task) *bool { return &t.SuttonBarto }, "False", "True"),
	},
	"kinematics_integrator": {
		"euler or semi-implicit",
		either(func(t *Task) *bool { return &t.SemiImplicit }, "euler", "semi-implicit"),
	},
	"book_or_nips": {
		"book or nips", either(func(t *Task) *bool { return &t.Nips }, "book", "nips"),
	},
	"goal_velocity": {
		"a finite number", within(
			math.MaxFloat64, func(t *Task) *float64 { return &t.GoalVelocity },
		),
	},
	"g": {
		"a finite number within ±1e300", within(
			maxGravity, func(t *Task) *float64 { return &t.Gravity },
		),
	},
}

func either(field func(*Task) *bool, no, yes string) func(*Task, string) bool {
	return func(t *Task, value string) bool {
		*field(t) = value == yes
		return value == yes || value == no
	}
}

// maxGravity keeps Pendulum's 3·g finite. If it were infinite, the pull at angle 0 would be
// infinity times 0, NaN, and so the speed from then on: clipping leaves NaN as it is.
const maxGravity = 1e300

func within(most float64, field func(*Task) *float64) func(*Task, string) bool {
	return func(t *Task, value string) bool {
		x, err := strconv.ParseFloat(value, 64)
		*field(t) = x
		return err == nil && math.Abs(x) <= most
	}
}

// MaxNum is how many environments a task has at most: several times what fills the
// largest GPU, and some hundred bytes each.
const MaxNum = 1 << 24

// MostSteps is how many steps of an episode are counted, and the largest limit. Engines count in 32
// bits, so that some may be done before what was counted beyond it is taken back.
const MostSteps = 2_000_000_000

// Make returns a task of num environments with options by Gymnasium's names, such
// as "g" or "max_episode_steps".
func Make(name string, num int, given map[string]string) (Task, error) {
	e, err := Find(name)
	if err != nil {
		return Task{}, err
	}
	t := Task{Environment: e, Num: num, MaxSteps: e.MaxSteps, Gravity: 10}
	if err := t.Check(); err != nil {
		return Task{}, err
	}
	known := append([]string{"max_episode_steps"}, e.options...)
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(known, key) {
			return Task{}, fmt.Errorf(
				"%s has no option %q: it has %s", name, key, strings.Join(known, ", "),
			)
		}
		if o := options[key]; !o.set(&t, given[key]) {
			return Task{}, fmt.Errorf(
				"%s: option %s is %q: it wants %s", name, key, given[key], o.values,
			)
		}
	}
	return t, nil
}

// Check says what is wrong with the task, or returns nil.
func (t Task) Check() error {
	switch {
	case t.Environment == nil:
		return fmt.Errorf("the task has no environment")
	case t.Num < 1 || t.Num > MaxNum:
		return fmt.Errorf(
			"%s: %d environments: at least 1 are needed, and at most %d can be", t.Name, t.Num,
			MaxNum,
		)
	case t.Shared && (t.Autoreset != NextStep || t.MaxSteps == 0):
		return fmt.Errorf(
			"%s resets at the next step, and needs a limit of steps: for another mode take "+
				"CartPole-v1",
			t.Name,
		)
	case t.MaxSteps < 0 || t.MaxSteps > MostSteps:
		return fmt.Errorf(
			"%s: a limit of %d steps: want 1 to %d, or 0 for none", t.Name, t.MaxSteps, MostSteps,
		)
	case !(math.Abs(t.Gravity) <= maxGravity):
		return fmt.Errorf("%s: g %g: want one within ±%g", t.Name, t.Gravity, maxGravity)
	}
	return nil
}

// Options lists what Make takes for the environment.
func (e *Environment) Options() []string {
	return append([]string{"max_episode_steps"}, e.options...)
}
