package batched

import (
	"fmt"
	"slices"

	"lockstep"
	"lockstep/internal/model"
)

// rollout is one job. Histories have an element for every step up to the end.
type rollout struct {
	job   *lockstep.Job
	index int // the job's
	end   int // one past the last step
	step  int // the next one
	err   error

	reported bool // that it has ended or failed

	controller controller // of this rollout alone, or nil
	command    float64    // the controller's answer to this step, before clipping
	current    float64    // lataccel after the previous step, m/s²

	target   []float64 // m/s²
	lataccel []float64 // m/s²
	action   []float64 // steer command after clipping
	tokens   []int32   // encoded lataccel
	states   []float32 // (end, 4): action, roll lataccel, v ego, a ego
	draws    []float64 // from step ContextLength on

	// Of this step: what is computed, whatever a teacher says; what the network says, and its row
	// in the worker's arrays, -1 if the network is not asked.
	computed   struct{ action, lataccel float64 }
	row, token int
	prediction float64
}

// begin makes the rollout of a job with its controller.
func begin(job *lockstep.Job, index int, shortcuts lockstep.Shortcuts) (*rollout, error) {
	r, err := newRollout(job, index, shortcuts)
	if err != nil {
		return nil, err
	}
	r.controller, err = newController(job)
	return r, err
}

// newRollout makes the rollout of a job, at step ContextLength. It refuses a job that no engine
// can simulate.
func newRollout(job *lockstep.Job, index int, shortcuts lockstep.Shortcuts) (*rollout, error) {
	if err := job.Check(shortcuts); err != nil {
		return nil, err
	}
	route, end := job.Route, job.End(shortcuts)
	r := &rollout{job: job, index: index, end: end, target: route.TargetLataccel}
	r.draws = job.Uniforms(end - lockstep.ContextLength)
	histories := make([]float64, 2*end)
	r.lataccel, r.action = histories[:end:end], histories[end:]
	r.tokens, r.states = make([]int32, end), make([]float32, end*model.StateSize)
	for i := range end {
		row := r.states[i*model.StateSize:][:model.StateSize]
		row[1], row[2], row[3] = float32(route.RollLataccel[i]), float32(route.VEgo[i]),
			float32(route.AEgo[i])
	}
	r.enter(
		route.TargetLataccel[:lockstep.ContextLength], route.SteerCommand[:lockstep.ContextLength],
	)
	return r, nil
}

// enter makes histories those of the steps before the next one.
func (r *rollout) enter(lataccel, action []float64) {
	r.step = len(lataccel)
	for i, x := range lataccel {
		r.act(i, action[i])
		r.move(i, x)
	}
	r.current = lataccel[r.step-1]
}

// act enters a steer command into the histories, move a lateral acceleration.
func (r *rollout) act(step int, action float64) {
	r.action[step] = action
	r.states[step*model.StateSize] = float32(action)
}

func (r *rollout) move(step int, lataccel float64) {
	r.lataccel[step] = lataccel
	r.tokens[step] = tokenOf(lataccel)
}

// running reports whether the rollout has neither ended nor failed.
func (r *rollout) running() bool { return r.err == nil && r.step < r.end }

// steer turns the controller's answer into the step's action.
func (r *rollout) steer() {
	action := r.command
	if r.step < lockstep.ControlStartIdx {
		action = r.job.Route.SteerCommand[r.step]
	}
	r.computed.action = clip(action, lockstep.SteerMin, lockstep.SteerMax)
	if teacher := r.job.Teacher; teacher != nil {
		r.act(r.step, teacher.Action[r.step])
	} else {
		r.act(r.step, r.computed.action)
	}
}

// drive moves the car on by a prediction, of which it goes as far as it can.
func (r *rollout) drive(prediction float64) {
	if r.step >= lockstep.ControlStartIdx {
		r.arrive(clip(prediction, r.current-lockstep.MaxAccDelta, r.current+lockstep.MaxAccDelta))
	} else {
		r.arrive(r.target[r.step])
	}
}

// arrive enters the step's lataccel, or the teacher's.
func (r *rollout) arrive(lataccel float64) {
	r.computed.lataccel, r.current = lataccel, lataccel
	if teacher := r.job.Teacher; teacher != nil {
		r.current = teacher.Lataccel[r.step]
	}
	r.move(r.step, r.current)
}

// draw is the step's uniform variate.
func (r *rollout) draw() float64 { return r.draws[r.step-lockstep.ContextLength] }

// window copies what the network sees at this step: the lataccels of the 20 steps
// before it, as tokens, and the states and actions up to it.
func (r *rollout) window(tokens []int32, states []float32) error {
	past := r.tokens[r.step-positions : r.step]
	if i := slices.Index(past, vocabulary); i >= 0 {
		return fmt.Errorf("lataccel %v has no token", r.lataccel[r.step-positions+i])
	}
	copy(tokens, past)
	copy(states, r.states[(r.step+1-positions)*model.StateSize:(r.step+1)*model.StateSize])
	return nil
}

// result is that of a rollout that has ended.
func (r *rollout) result(trajectory bool) lockstep.Result {
	const from = lockstep.ControlStartIdx
	to := min(r.end, lockstep.CostEndIdx)
	result := lockstep.Result{
		Costs: costsOf(r.target[from:to], r.lataccel[from:to], make([]float64, to-from)),
	}
	if trajectory {
		result.Trajectory = &lockstep.Trajectory{
			Target:   slices.Clone(r.target[:r.end]),
			Lataccel: slices.Clone(r.lataccel),
			Action:   slices.Clone(r.action),
		}
	}
	return result
}
