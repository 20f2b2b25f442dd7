package lockstep

import (
	"errors"
	"fmt"
)

// ErrClosed is the error of what a simulator would have to compute after Close.
var ErrClosed = errors.New("the simulator is closed")

// Failed is the error of a job that failed at a step, 0 if before the first.
func (j *Job) Failed(step int, err error) error {
	name := ""
	if j.Route != nil {
		name = j.Route.Name
	}
	if j.Policy == nil {
		return fmt.Errorf("route %s, step %d: %w", name, step, err)
	}
	return fmt.Errorf("route %s, controller %v, step %d: %w", name, j.Policy, step, err)
}

// passing marks an error as one of the moment.
type passing struct{ error }

func (p passing) Unwrap() error { return p.error }

// Passing marks an error as one of the moment and the machine, such as that of a process that
// was killed or did not answer in time. It says nothing of what was to be computed: done again,
// the same may succeed, so that nobody keeps it for a result. Its text stays as it is.
func Passing(err error) error {
	if err == nil || IsPassing(err) {
		return err
	}
	return passing{err}
}

// IsPassing reports whether Passing marked the error, or one that it wraps.
func IsPassing(err error) bool {
	var p passing
	return errors.As(err, &p)
}
