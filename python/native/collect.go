//go:build cgo

package main

import (
	"unsafe"

	"lockstep"
)

type collectRequest struct {
	Routes    int64
	Positions []int
	Policy    controllerSpec
	Samples   int // of each route; 0 for the mean action
	Seed      uint64
}

type collectAnswer struct {
	Handle int64            `json:"handle"`
	Steps  []int            `json:"steps"` // of each rollout
	Errors map[int]*failure `json:"errors"`
}

// collect rolls out with a network and keeps what training needs: rollout k of route i
// of n has number k·n+i.
func collect(t *task, s *simulator, q collectRequest, _ []byte) (any, error) {
	collector, ok := s.Simulator.(lockstep.Collector)
	if !ok {
		return nil, usagef("the %s engine collects no training data", s.Name())
	}
	picked, err := pick(q.Routes, q.Positions)
	if err != nil {
		return nil, err
	}
	policy, done, err := q.Policy.policy(t, picked)
	if err != nil {
		return nil, err
	}
	defer done()
	var jobs []lockstep.Job
	for range max(q.Samples, 1) {
		for _, route := range picked {
			job := lockstep.Job{Route: route, Policy: policy}
			if q.Samples > 0 {
				job.Sampling = &lockstep.Sampling{Seed: q.Seed, ID: uint64(len(jobs))}
			}
			jobs = append(jobs, job)
		}
	}
	e, err := collector.Collect(t, jobs)
	if err == nil {
		err = t.Err()
	}
	if err != nil {
		return nil, usage(err)
	}
	answer := collectAnswer{Handle: put(&experience{collector, e}), Errors: map[int]*failure{}}
	for i, result := range e.Results {
		answer.Steps = append(answer.Steps, e.Steps(i))
		if result.Err != nil {
			answer.Errors[i] = describe(result.Err)
		}
	}
	return answer, nil
}

// experience is what rollouts left, and who made it.
type experience struct {
	lockstep.Collector
	*lockstep.Experience
}

// gather writes all arrays: lataccel, action and three costs in float64, then raw,
// softplus and reward in float32.
func gather(_ *task, e *experience, _ nothing, buffer []byte) (any, error) {
	n := len(e.Jobs)
	doubles := n * (2*lockstep.ExperienceSteps + 3)
	at := min(len(buffer), doubles*int(unsafe.Sizeof(float64(0))))
	wide, err := floats[float64](buffer[:at], doubles)
	if err != nil {
		return nil, err
	}
	narrow, err := floats[float32](buffer[at:], n*4*lockstep.ExperienceSteps)
	if err != nil {
		return nil, err
	}
	wide = wide[copy(wide, e.Lataccel):]
	wide = wide[copy(wide, e.Action):]
	for i, result := range e.Results {
		put3(wide[3*i:], result)
	}
	for _, column := range [][]float32{e.Raw, e.Softplus, e.Reward} {
		narrow = narrow[copy(narrow, column):]
	}
	return nothing{}, nil
}

// observe writes the observations of some places, by number: rollout·ExperienceSteps+step.
// The buffer has the numbers, int64, then room for the observations.
func observe(_ *task, e *experience, q struct{ Places int }, buffer []byte) (any, error) {
	head := q.Places * int(unsafe.Sizeof(int64(0)))
	if q.Places < 1 || head > len(buffer) {
		return nil, usagef("%d places", q.Places)
	}
	out, err := floats[float32](buffer[head:], q.Places*lockstep.ObservationSize)
	if err != nil {
		return nil, err
	}
	places := make([]lockstep.Place, q.Places)
	for i, number := range unsafe.Slice((*int64)(unsafe.Pointer(&buffer[0])), q.Places) {
		places[i] = lockstep.Place{Rollout: int(number / lockstep.ExperienceSteps), Step: int(number % lockstep.ExperienceSteps)}
	}
	return nothing{}, usage(e.Collector.Observe(e.Experience, places, out))
}
