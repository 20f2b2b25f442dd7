package lockstep

import "errors"

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
