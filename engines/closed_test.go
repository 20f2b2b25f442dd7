package engines

import (
	"errors"
	"testing"

	"lockstep"
)

// closes is a batch controller that answers 0, at a step does something else, and counts its ends.
type closes struct {
	at   int
	do   func()
	ends *int
}

func (c closes) Update(s *lockstep.BatchStep) error {
	if clear(s.Steer); s.Step == c.at {
		c.do()
	}
	return nil
}

func (c closes) Close() error { *c.ends++; return nil }

// TestClosed: an engine that is closed computes nothing, whatever is asked of it, nor does it end
// what is under way; a reset that fails has closed what it had made.
func TestClosed(t *testing.T) {
	c := config(t)
	route := policyRoutes(t, 1)[0]
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			s, ends := e.ForTest(t, c), 0
			batch := func(at int, do func()) lockstep.Job {
				return lockstep.Job{Route: route, Policy: &lockstep.Batch{
					Name: "counted",
					New: func([]*lockstep.Route) (lockstep.BatchController, error) {
						return closes{at, do, &ends}, nil
					},
				}}
			}
			broken := lockstep.Job{Route: route, Policy: &lockstep.Batch{
				Name: "broken",
				New: func([]*lockstep.Route) (lockstep.BatchController, error) {
					return nil, errors.New("no wheel")
				},
			}}
			options := lockstep.Options{Shortcuts: lockstep.CostOnly}
			if _, err := s.Reset(
				t.Context(), []lockstep.Job{batch(0, nil), broken}, options,
			); err == nil || ends != 1 {
				t.Errorf("a reset with a controller that cannot be made: %v, and %d of 1 closed",
					err, ends)
			}
			closing := batch(60, func() { s.Close() })
			for _, r := range s.Simulate(t.Context(), []lockstep.Job{closing}, options) {
				if !errors.Is(r.Err, lockstep.ErrClosed) {
					t.Errorf("a job that was under way: %v", r.Err)
				}
			}
			good := []lockstep.Job{{Route: route, Policy: lockstep.Zero{}}}
			for _, r := range s.Simulate(t.Context(), good, options) {
				if !errors.Is(r.Err, lockstep.ErrClosed) {
					t.Errorf("a job: %v", r.Err)
				}
			}
			if _, err := s.Reset(t.Context(), good, options); !errors.Is(err, lockstep.ErrClosed) {
				t.Errorf("a reset: %v", err)
			}
		})
	}
}
