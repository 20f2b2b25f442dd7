//go:build cgo

package native

import (
	"time"
	"unsafe"

	"lockstep"
	"lockstep/internal/figures"
)

type collectRequest struct {
	Routes    int64
	Positions []int
	Policy    controllerSpec
	Samples   int // of each route; 0 for the mean action
	Seed      uint64
	Device    bool // leave the arrays on the device
}

type collectAnswer struct {
	Handle int64            `json:"handle"`
	Steps  []int            `json:"steps"`  // of each rollout
	Inputs int              `json:"inputs"` // of an observation
	Errors map[int]*failure `json:"errors"`
	// on the device: raw, softplus, reward, lataccel, action; none on the host
	Arrays []uintptr `json:"arrays"`
}

// collect rolls out with a network and keeps what training needs: rollout k of route i
// of n has number k·n+i.
func collect(t *task, s *simulator, q collectRequest, _ []byte) (any, error) {
	onDevice, ok := s.Implementation.(lockstep.DeviceCollector)
	if q.Device && !ok {
		return nil, usagef("the %s engine leaves nothing on a device", s.Name())
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
	answer := collectAnswer{Steps: []int{}, Errors: map[int]*failure{}}
	var e *lockstep.Experience
	var left any
	begin := time.Now()
	if q.Device {
		there, failed := onDevice.CollectOnDevice(t, jobs)
		if err = failed; err == nil {
			a := there.Arrays()
			e, answer.Arrays = there.Experience(), []uintptr{
				a.Raw, a.Softplus, a.Reward, a.Lataccel, a.Action,
			}
			left = &deviceExperience{there}
		}
	} else {
		e, err = s.Collect(t, jobs)
		left = &experience{s, e}
	}
	if err == nil {
		err = t.Err()
	}
	if err != nil {
		return nil, usage(err)
	}
	n, steps := figures.Ended(
		jobs, lockstep.CostOnly, func(i int) bool { return e.Results[i].Err != nil },
	)
	s.counts.Rolled(begin, n, steps)
	answer.Handle, answer.Inputs = put(left), e.Inputs()
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

// deviceExperience is what they left on a device.
type deviceExperience struct{ lockstep.DeviceExperience }

// order is of what is on the device, which is ordered with the caller's work there.
func (e *deviceExperience) order() (lockstep.DeviceOrder, error) { return e, nil }

// deviceCosts writes three costs for each rollout.
func deviceCosts(_ *task, e *deviceExperience, _ nothing, buffer []byte) (any, error) {
	results := e.Experience().Results
	out, err := floats[float64](buffer, 3*len(results))
	if err != nil {
		return nil, err
	}
	for i, result := range results {
		put3(out[3*i:], result)
	}
	return nothing{}, nil
}

// deviceObserve is observe, to an address on the device; the buffer has the numbers.
func deviceObserve(
	_ *task, e *deviceExperience, q struct{ Into uintptr }, buffer []byte,
) (any, error) {
	return nothing{}, usage(e.Observe(places(buffer), q.Into))
}

// places are those with the numbers rollout·ExperienceSteps+step, int64.
func places(buffer []byte) []lockstep.Place {
	const size = int(unsafe.Sizeof(int64(0)))
	if len(buffer) < size {
		return nil
	}
	numbers := unsafe.Slice((*int64)(unsafe.Pointer(&buffer[0])), len(buffer)/size)
	places := make([]lockstep.Place, len(numbers))
	for i, number := range numbers {
		places[i] = lockstep.Place{
			Rollout: int(number / lockstep.ExperienceSteps),
			Step:    int(number % lockstep.ExperienceSteps),
		}
	}
	return places
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
	out, err := floats[float32](buffer[head:], q.Places*e.Inputs())
	if err != nil {
		return nil, err
	}
	return nothing{}, usage(e.Collector.Observe(e.Experience, places(buffer[:head]), out))
}
