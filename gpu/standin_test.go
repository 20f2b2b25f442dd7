package gpu

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"lockstep"
	"lockstep/gpu/internal/driver"
)

// TestStandin plants faults in the stand-in driver: runs fail with one clear line,
// nothing hangs, and the next run works.
func TestStandin(t *testing.T) {
	if err := Available(); err != nil {
		t.Skipf("not on the stand-in driver: %v", err)
	}
	s := newSimulator(t, Config{})
	if info, err := s.Info(); err != nil || info.Name != "stand-in" {
		t.Skipf("not on the stand-in driver: %v, %v", info.Name, err)
	}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly}
	jobs := []lockstep.Job{
		{Route: shorten(routes()[0], 103), Policy: lockstep.DefaultPID()},
		{Route: shorten(routes()[1], 103), Policy: weavePolicy},
	}
	want := results(t, s, context.Background(), jobs, opts)
	for _, c := range []struct{ fault, want string }{
		{"launch", "CUDA_ERROR_LAUNCH_FAILED (719): unspecified launch failure"},
		{"hang", "the device did not finish within 200ms and was given up"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			if c.fault == "hang" {
				s.config.Watchdog = 200 * time.Millisecond
			}
			t.Setenv("LOCKSTEP_STANDIN_FAULT", c.fault)
			for i, r := range results(t, s, context.Background(), jobs, opts) {
				if !contains(r.Err, c.want) || strings.Contains(r.Err.Error(), "\n") ||
					!strings.HasPrefix(r.Err.Error(), "route "+jobs[i].Route.Name+", ") {
					t.Errorf("job %d: error %v, want one line with %q", i, r.Err, c.want)
				}
			}
			s.config.Watchdog = time.Minute
			t.Setenv("LOCKSTEP_STANDIN_FAULT", "")
			for i, got := range results(t, s, context.Background(), jobs, opts) {
				if d := resultDifference(got, want[i]); d != "" {
					t.Errorf("afterwards: job %d: %s", i, d)
				}
			}
		})
	}
	s.Close()

	path, err := modelPath()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LOCKSTEP_STANDIN_MEMORY", "4000000") // the weights and little more
	s, err = New(Config{ModelPath: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var many []lockstep.Job
	for range 24 {
		many = append(many, jobs...)
	}
	before := s.Stats()
	for i, got := range results(t, s, context.Background(), many, opts) {
		if d := resultDifference(got, want[i%2]); d != "" {
			t.Errorf("with little memory: job %d: %s", i, d)
		}
	}
	if n := s.Stats().Sub(before).Launches; n < 2+2*83 {
		t.Errorf("%d launches with little memory, want the jobs in parts", n)
	}
	s.Close()
	t.Setenv("LOCKSTEP_STANDIN_MEMORY", "1000000")
	if _, err := New(Config{ModelPath: path}); !errors.Is(err, driver.ErrOutOfMemory) ||
		!contains(err, "CUDA_ERROR_OUT_OF_MEMORY") {
		t.Errorf("without memory for the weights: %v", err)
	}
}
