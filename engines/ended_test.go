package engines

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"lockstep"
)

// A closable controller of a batch counts how often it is closed.
type closable struct {
	update func() error  // what comes of a step, where it is not nil
	takes  time.Duration // to close: who made it must wait
	closed int
}

func (c *closable) Update(*lockstep.BatchStep) error {
	if c.update == nil {
		return nil
	}
	return c.update()
}

func (c *closable) Close() error {
	time.Sleep(c.takes)
	c.closed++
	return nil
}

// TestEndsWhatItMade: a controller of a batch that was made is closed once, before the call that
// made it returns, whatever comes of it: any policy may fail to make its own, or in a step, in any
// way, before it or behind it.
func TestEndsWhatItMade(t *testing.T) {
	no := errors.New("no controller")
	ways := map[string]func() (lockstep.BatchController, error){
		"none is nil": nil,
		"nil":         func() (lockstep.BatchController, error) { return nil, nil },
		"a nil pointer": func() (lockstep.BatchController, error) {
			return (*closable)(nil), nil
		},
		"an error": func() (lockstep.BatchController, error) { return nil, no },
		"a panic":  func() (lockstep.BatchController, error) { panic(no) },

		"an error in a step": nil, "a panic in a step": nil,
	}
	updates := map[string]func() error{
		"an error in a step": func() error { return no },
		"a panic in a step":  func() error { panic(no) },
	}
	const batches = 3
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, config(t))
			route := cutRoute(policyRoutes(t, 1)[0], lockstep.MinRows)
			for way, fails := range ways {
				for at := range batches {
					if e.Slow && at != 1 {
						continue // one behind it, one before it
					}
					name := fmt.Sprintf("%s, policy %d of %d", way, at, batches)
					var made []*closable
					var jobs []lockstep.Job
					for i := range batches {
						policy := &lockstep.Batch{Name: fmt.Sprint("batch ", i)}
						policy.New = func([]*lockstep.Route) (lockstep.BatchController, error) {
							if i == at && fails != nil {
								return fails()
							}
							c := &closable{}
							if i == at {
								c.update = updates[way]
							}
							if way == "none is nil" {
								c.takes = 2 * time.Millisecond
							}
							made = append(made, c)
							return c, nil
						}
						jobs = append(jobs, lockstep.Job{Route: route, Policy: policy})
					}
					endsWhatItMade(t, name, s, jobs, fails != nil, &made)
				}
			}
		})
	}
}

// endsWhatItMade makes rollouts of jobs, in one go and in step.
func endsWhatItMade(
	t *testing.T, name string, s lockstep.Implementation, jobs []lockstep.Job, fails bool,
	made *[]*closable,
) {
	t.Helper()
	ended := func(how string) {
		t.Helper()
		if !fails && len(*made) != len(jobs) {
			t.Errorf("%s, %s: %d controllers were made, want %d", name, how, len(*made), len(jobs))
		}
		for i, c := range *made {
			if c.closed != 1 {
				t.Errorf("%s, %s: controller %d of those that were made was closed %d times", name,
					how, i, c.closed)
			}
		}
		*made = nil
	}
	for range s.Simulate(t.Context(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly}) {
	}
	ended("simulated")
	p, err := s.Reset(t.Context(), jobs, lockstep.Options{})
	if (err != nil) != fails {
		t.Errorf("%s: reset says %v", name, err)
	}
	if err == nil {
		if err := p.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	ended("in step")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p, err := s.Reset(ctx, jobs, lockstep.Options{}); err == nil {
		p.Close()
	}
	fails = true // none need be made
	ended("cancelled")
}
