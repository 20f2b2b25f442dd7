package gymnasium

import (
	"math"

	"lockstep/classic"
	"lockstep/parity"
	b "lockstep/parity/branches"
	"lockstep/parity/schema"
)

// Bounds of the environments' states, as Gymnasium has them.
const (
	cartEnd       = 2.4
	poleEnd       = 12 * 2 * math.Pi / 360
	carWall       = -1.2
	carSpeed      = 0.07
	pendulumSpeed = 8
	firstSpeed    = 4 * math.Pi
	secondSpeed   = 9 * math.Pi
)

// ofDynamics are the branches of an environment's own equations.
var ofDynamics = map[classic.Dynamics][]int{
	classic.CartPole: {
		b.CartPoleRight, b.CartPoleLeft, b.CartPoleTiltRight, b.CartPoleTiltLeft, b.CartPoleFallen,
	},
	classic.MountainCar: {b.MountainCarWall, b.MountainCarSpeed, b.MountainCarSlow},
	classic.MountainCarContinuous: {
		b.MountainCarWall, b.MountainCarSpeed, b.MountainCarSlow, b.ForceHigh, b.ForceLow,
	},
	classic.Pendulum: {b.ForceHigh, b.ForceLow, b.PendulumFast, b.PendulumTurned},
	classic.Acrobot:  {b.AcrobotWrapped, b.AcrobotFastFirst, b.AcrobotFastSecond},
}

// ofMode is what becomes of an environment that has ended.
var ofMode = map[classic.Autoreset]int{
	classic.SameStep: b.ResetSameStep,
	classic.NextStep: b.ResetNextStep,
	classic.Off:      b.NeverReset,
}

// branchesOf are places in branches.Classic of what a task can come to: a pendulum never
// terminates.
func branchesOf(t classic.Task) []int {
	places := []int{b.Truncated, b.EveryAction}
	if t.Dynamics != classic.Pendulum {
		places = append(places, b.Terminated, b.TerminatedAndTruncated)
	}
	if place, ok := ofMode[t.Autoreset]; ok {
		places = append(places, place)
	}
	return append(places, ofDynamics[t.Dynamics]...)
}

// watcher looks at a task's environments for the branches of the specification.
type watcher struct {
	classic.Task
	view     *schema.View[*step]
	branches []int
	times    []int // by place in branches.Classic()
	before   []float64
	ended    []bool
	actions  map[int]bool
}

// watching is what a comparison of a task's environments looks for, and how.
func watching(
	t classic.Task, view *schema.View[*step],
) (names []parity.Branch, watch func(*parity.RolloutTask) parity.Watcher) {
	places := branchesOf(t)
	for _, place := range places {
		names = append(names, b.Classic()[place])
	}
	return names, func(*parity.RolloutTask) parity.Watcher {
		return &watcher{
			Task:     t,
			view:     view,
			branches: places,
			times:    make([]int, len(b.Classic())),
			ended:    make([]bool, t.Num),
			actions:  map[int]bool{},
		}
	}
}

func (w *watcher) count(branch int, is bool) {
	if is {
		w.times[branch]++
	}
}

// array is a stage's elements, nil if they are not known.
func array[T float32 | float64 | int32 | uint8](w *watcher, s *schema.Step, stage string) []T {
	at := w.view.Index(stage)
	if at < 0 || len(s.Data[at]) == 0 {
		return nil
	}
	return schema.Elements[T](s.Data[at])
}

// Step counts what a step of all environments went through.
func (w *watcher) Step(s *schema.Step) {
	states, terminated, truncated := array[float64](w, s, "state"),
		array[uint8](w, s, "terminated"), array[uint8](w, s, "truncated")
	if states == nil || terminated == nil || truncated == nil {
		return
	}
	final := array[float32](w, s, "final")
	for i := range w.Num {
		ends := terminated[i] != 0 || truncated[i] != 0
		reset := w.ended[i] && w.Autoreset == classic.NextStep
		w.count(b.ResetNextStep, reset)
		w.count(b.NeverReset, w.ended[i] && w.Autoreset == classic.Off)
		w.count(b.Terminated, terminated[i] != 0)
		w.count(b.Truncated, truncated[i] != 0)
		w.count(b.TerminatedAndTruncated, terminated[i] != 0 && truncated[i] != 0)
		hidden := ends && w.Autoreset == classic.SameStep
		w.count(b.ResetSameStep, hidden)
		if !reset {
			w.action(s, i)
			w.place(i, states, final, hidden)
		}
		w.ended[i] = ends || w.ended[i] && w.Autoreset == classic.Off
	}
	w.before = append(w.before[:0], states...)
}

// action counts what an environment was told.
func (w *watcher) action(s *schema.Step, i int) {
	if w.Actions > 0 {
		if a := array[int32](w, s, "action"); a != nil {
			w.actions[int(a[i])] = true
		}
		w.count(b.EveryAction, len(w.actions) == w.Actions)
		return
	}
	a := array[float32](w, s, "action")
	if a == nil {
		return
	}
	w.actions[int(math.Copysign(1, float64(a[i])))] = true
	w.count(b.EveryAction, len(w.actions) == 2)
	w.count(b.ForceHigh, a[i] > w.Limit)
	w.count(b.ForceLow, a[i] < -w.Limit)
}

// place counts where a step left an environment, before it was reset if that hides it.
func (w *watcher) place(i int, states []float64, final []float32, hidden bool) {
	at := func(row int) float64 {
		if hidden { // of environments whose observation is their state
			return float64(final[row*w.Num+i])
		}
		return states[row*w.Num+i]
	}
	switch w.Dynamics {
	case classic.CartPole:
		w.count(b.CartPoleRight, at(0) > cartEnd)
		w.count(b.CartPoleLeft, at(0) < -cartEnd)
		w.count(b.CartPoleTiltRight, at(2) > poleEnd)
		w.count(b.CartPoleTiltLeft, at(2) < -poleEnd)
		w.count(b.CartPoleFallen, math.Abs(at(2)) > math.Pi/4)
	case classic.MountainCar, classic.MountainCarContinuous:
		fast := math.Abs(at(1)) >= carSpeed
		w.count(b.MountainCarWall, at(0) <= carWall)
		w.count(b.MountainCarSpeed, fast)
		w.count(b.MountainCarSlow, !fast)
	case classic.Pendulum:
		if !hidden {
			w.count(b.PendulumFast, math.Abs(at(1)) == pendulumSpeed)
			w.count(b.PendulumTurned, math.Abs(at(0)) > math.Pi)
		}
	case classic.Acrobot:
		if !hidden && w.before != nil {
			w.count(
				b.AcrobotWrapped,
				math.Abs(at(0)-w.before[i]) > math.Pi ||
					math.Abs(at(1)-w.before[w.Num+i]) > math.Pi,
			)
			w.count(b.AcrobotFastFirst, math.Abs(at(2)) == firstSpeed)
			w.count(b.AcrobotFastSecond, math.Abs(at(3)) == secondSpeed)
		}
	}
}

// End is what was seen.
func (w *watcher) End(parity.End) (seen parity.Watched) {
	for _, branch := range w.branches {
		seen.Times = append(seen.Times, w.times[branch])
	}
	return seen
}

// Hard are rollouts of an environment that together go through all of its branches: from
// states far off and near, with actions beyond the bounds, in every mode, and episodes of
// two lengths. They take milliseconds.
func Hard(e classic.Environment) (all []*Episodes) {
	modes := []classic.Autoreset{classic.NextStep, classic.SameStep, classic.Off}
	if e.Shared {
		modes = modes[:1]
	}
	for _, mode := range modes {
		for i, bound := range []float64{0, 1, 40} {
			r := &Episodes{
				Environment: e.Name,
				Num:         9,
				Autoreset:   mode.String(),
				Bound:       bound,
				Steps:       120,
			}
			for k := range r.generators() {
				r.Seeds = append(r.Seeds, int64(10*i+k))
			}
			if bound > 0 {
				r.Options = map[string]string{"max_episode_steps": "2"}
			}
			r.Actions = hardActions(e, r.Steps, r.Num)
			all = append(all, r)
		}
	}
	return all
}

// hardActions push an environment to one side for some steps, then to the other, in each
// environment at another pace, and at times less than they could.
func hardActions(e classic.Environment, steps, num int) (all []parity.Float) {
	for k := range steps {
		for i := range num {
			side := k / (3 + 5*i) % 2 // 0 or 1
			switch {
			case e.Actions > 0 && (k+i)%13 == 0:
				all = append(all, parity.Float((k+i)%e.Actions))
			case e.Actions > 0:
				all = append(all, parity.Float(side*(e.Actions-1)))
			case (k+i)%13 == 0:
				all = append(all, 0.5)
			default:
				all = append(all, parity.Float((2*side-1)*3))
			}
		}
	}
	return all
}
