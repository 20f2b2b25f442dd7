//go:build cgo

package main

import (
	"errors"

	"lockstep"
)

// predict runs the network once. The buffer has the last steps' actions, roll lataccels,
// v ego, a ego, the lataccels before them, each ContextLength numbers, the draw, and
// room for the predicted lataccel.
func predict(t *task, s *simulator, _ nothing, buffer []byte) (any, error) {
	const n = lockstep.ContextLength
	numbers, err := floats[float64](buffer, 5*n+2)
	if err != nil {
		return nil, err
	}
	stepping, ok := s.Simulator.(lockstep.StepSimulator)
	if !ok {
		return nil, usagef("the %s engine has no step mode", s.Name())
	}
	// A route whose first simulated step sees what is given: at step n the network sees
	// the states and actions of steps 1 to n, and the lataccels of steps 0 to n-1.
	columns := make([][]float64, 5)
	for i := range columns {
		columns[i] = make([]float64, lockstep.MinRows)
		from := 1
		if i == 4 {
			from = 0
		}
		copy(columns[i][from:], numbers[i*n:][:n])
	}
	draws := make([]float64, lockstep.MinRows-n)
	draws[0] = numbers[5*n]
	err = errors.New("the step was not observed")
	job := lockstep.Job{
		Route: &lockstep.Route{
			Name: "predict", SteerCommand: columns[0], RollLataccel: columns[1], VEgo: columns[2], AEgo: columns[3], TargetLataccel: columns[4],
		},
		Draws: draws,
		Observe: func(step *lockstep.Step) {
			if step.Action != columns[0][n] {
				err = usagef("action %v: want one from %v to %v", columns[0][n], lockstep.SteerMin, lockstep.SteerMax)
				return
			}
			numbers[5*n+1], err = step.Prediction, nil
		},
	}
	stepper, failed := stepping.Reset(t, []lockstep.Job{job}, lockstep.Options{Shortcuts: lockstep.AllSteps})
	if failed != nil {
		return nil, usage(failed)
	}
	defer stepper.Close()
	if failed := stepper.Step(t, make([]float64, 1), make([]float64, 1)); failed != nil {
		return nil, failed
	}
	if failed := stepper.Err(0); failed != nil {
		return nil, failed
	}
	return nothing{}, err
}
