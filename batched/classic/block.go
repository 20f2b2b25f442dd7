package classic

import (
	"math"
	"unsafe"

	"lockstep/classic"
)

// blockSize is how many environments step together: their columns fit a core's
// first cache.
const blockSize = 256

// padded is what columns are padded to: the lanes of the widest kernels.
const padded = 8

// A block is environments first to first+count-1, in columns of lanes.n elements.
// The elements beyond count are padding, which steps along and is put back to 0.
type block struct {
	lanes
	task         *classic.Task
	kernels      *kernels
	first, count int

	states, rewards, totals []float64
	observations, final     []float32
	actions                 []int32
	forces                  []float32 // continuous actions
	terminations            []bool
	truncations             []bool
	steps                   []int32

	generators []generator
	episodes   []int64
	ended      []bool    // and not reset; without autoreset, has terminated
	pending    []int     // those of them that the next step resets
	before     []float64 // their totals before it
	wide       []bool    // the mountain car's state is float64
	words      [4][]uint32
	wordsOf    int64 // the block of Philox that words has, plus 1, and its key
	wordsKey   uint64
	scratch    [][]float64
	sure       []bool
	inputs     []float32 // of the network's layers, if there is one
}

// scratchColumns is how many columns of scratch the dynamics use.
var scratchColumns = map[classic.Dynamics]int{
	classic.MountainCarContinuous: cosAngle + 1,
	classic.Pendulum:              work,
	classic.Acrobot:               work + 24,
}

func newBlock(t *classic.Task, k *kernels, first, count int) *block {
	n := (count + padded - 1) / padded * padded
	b := &block{task: t, kernels: k, first: first, count: count}
	column := func() []float64 { return make([]float64, n) }
	b.states = make([]float64, len(t.State)*n)
	b.observations = make([]float32, len(t.Observation)*n)
	b.final = make([]float32, len(t.Observation)*n)
	b.rewards, b.totals = column(), column()
	b.actions, b.steps = make([]int32, n), make([]int32, n)
	b.forces = make([]float32, n)
	b.terminations, b.truncations = make([]bool, n), make([]bool, n)
	b.generators, b.episodes = make([]generator, n), make([]int64, n)
	b.ended, b.wide, b.sure = make([]bool, n), make([]bool, n), make([]bool, n)
	for i := range b.words {
		b.words[i] = make([]uint32, n)
	}
	for range scratchColumns[t.Dynamics] {
		b.scratch = append(b.scratch, column())
	}
	b.lanes = lanes{
		n: n, state: &b.states[0], observation: &b.observations[0], action: &b.actions[0],
		reward: &b.rewards[0], total: &b.totals[0], terminated: &b.terminations[0],
		truncated: &b.truncations[0],
		elapsed:   &b.steps[0], table: &table[0], limit: t.MaxSteps, goal: t.GoalVelocity,
	}
	if t.MaxSteps == 0 {
		b.limit = math.MaxInt32
	}
	if t.Dynamics == classic.Pendulum {
		b.force, b.sine = &b.forces[0], &b.scratch[sine][0]
		b.normalSquare, b.speedSquare = &b.scratch[squareNormal][0], &b.scratch[squareSpeed][0]
		b.pull = float64(t.Gravity*3) / 2
		b.logs, b.exps = &log2fTable[0], &exp2fTable[0]
	}
	switch {
	case t.Dynamics == classic.Acrobot:
		b.going, b.end = -1, 0
	case t.Dynamics == classic.MountainCar:
		b.going, b.end = -1, -1
	case t.Dynamics == classic.CartPole && t.SuttonBarto:
		b.going, b.end = 0, -1
		if t.Shared {
			b.going = math.Copysign(0, -1)
		}
	case t.Dynamics == classic.CartPole:
		b.going, b.end = 1, 1
	}
	return b
}

// row is column k of the state.
func (b *block) row(k int) []float64 { return b.states[k*b.n : (k+1)*b.n] }

// observed is column k of the observation.
func (b *block) observed(k int) []float32 { return b.observations[k*b.n : (k+1)*b.n] }

// restart draws a new state for environment i. A shared generator's environments
// are reset in the vector.
func (b *block) restart(i int, low, high []float64) {
	g := &b.generators[i]
	draw := func(k int) float64 { return g.uniform(low[k], high[k]-low[k]) }
	switch b.task.Dynamics {
	case classic.CartPole:
		for k := range 4 {
			b.row(k)[i] = draw(k)
		}
	case classic.MountainCar, classic.MountainCarContinuous:
		b.row(0)[i], b.row(1)[i], b.wide[i] = draw(0), 0, true
	case classic.Pendulum:
		b.row(0)[i] = draw(0)
		b.row(1)[i] = draw(1)
	case classic.Acrobot:
		for k := range 4 {
			b.row(k)[i] = float64(float32(draw(k)))
		}
	}
	b.fresh(i)
}

// fresh observes the state after a reset.
func (b *block) fresh(i int) {
	b.steps[i], b.ended[i] = 0, false
	switch b.task.Dynamics {
	case classic.Pendulum:
		sin, cos := sincos(b.row(0)[i])
		b.scratch[sine][i] = sin
		b.observed(0)[i], b.observed(1)[i], b.observed(2)[i] = float32(cos), float32(sin),
			float32(b.row(1)[i])
	case classic.Acrobot:
		for k := range 2 {
			sin, cos := sincos32(float32(b.row(k)[i]))
			b.observed(2 * k)[i], b.observed(2*k + 1)[i] = cos, sin
			b.observed(4 + k)[i] = float32(b.row(2 + k)[i])
		}
	default:
		for k := range b.task.State {
			b.observed(k)[i] = float32(b.row(k)[i])
		}
	}
}

// resume has the block go on from a state that is put in, its episodes ended or not.
func (b *block) resume(ended []bool) {
	b.pending = b.pending[:0]
	for i := range b.count {
		b.ended[i], b.wide[i] = ended[i], b.steps[i] == 0
		if ended[i] && b.task.Autoreset == classic.NextStep {
			b.pending = append(b.pending, i)
		}
		if b.task.Dynamics == classic.Pendulum {
			b.scratch[sine][i], _ = sincos(b.row(0)[i])
		}
	}
}

// step is one step of the block, with its resets; those of a shared generator are
// left to the vector, in pending.
func (b *block) step() {
	b.before = b.before[:0]
	for _, i := range b.pending {
		b.before = append(b.before, b.totals[i])
	}
	b.move()
	for k, i := range b.pending {
		b.totals[i] = b.before[k] // the step's reward is 0
		b.rewards[i], b.terminations[i], b.truncations[i] = 0, false, false
		if !b.task.Shared {
			b.restart(i, b.task.Low, b.task.High)
		}
	}
	if b.task.Autoreset == classic.Off {
		b.beyond()
	}
	if !b.task.Shared {
		b.settle()
	}
}

// beyond notes what has terminated, and takes back the reward of CartPoles that had
// fallen before.
func (b *block) beyond() {
	for i := range b.count {
		if b.terminations[i] && b.ended[i] && b.task.Dynamics == classic.CartPole &&
			!b.task.SuttonBarto {
			b.rewards[i] = 0
			b.totals[i]--
		}
		b.ended[i] = b.ended[i] || b.terminations[i]
	}
}

// settle counts episodes that the step has ended, and resets or notes them.
func (b *block) settle() {
	b.pending = b.pending[:0]
	for i := 0; i < b.n; i += 8 {
		terminations := *(*uint64)(unsafe.Pointer(&b.terminations[i]))
		truncations := *(*uint64)(unsafe.Pointer(&b.truncations[i]))
		if terminations|truncations != 0 {
			for j := i; j < i+8; j++ {
				if b.terminations[j] || b.truncations[j] {
					b.end1(j)
				}
			}
		}
	}
	if b.task.Autoreset == classic.Disabled {
		for i := range b.count {
			b.ended[i] = b.terminations[i] || b.truncations[i]
		}
	}
}

// end1 is the end of one environment's episode.
func (b *block) end1(i int) {
	if i >= b.count { // padding
		for k := range b.task.State {
			b.row(k)[i] = 0
		}
		b.fresh(i)
		return
	}
	b.episodes[i]++
	switch b.task.Autoreset {
	case classic.NextStep:
		b.pending = append(b.pending, i)
		b.ended[i] = true
	case classic.SameStep:
		for k := range b.task.Observation {
			b.final[k*b.n+i] = b.observed(k)[i]
		}
		b.restart(i, b.task.Low, b.task.High)
	}
}
