package gate

import (
	"context"
	"errors"
	"fmt"
	"lockstep/parity/verdict"
)

// Hardware is what is known of the kernels' runs on GPUs.
type Hardware struct {
	Kernels string        // hash of the kernels' sources as they are
	Runs    []HardwareRun // recorded runs in which nothing differed
}

// HardwareRun is one recorded run.
type HardwareRun struct {
	File    string // that records it
	Device  string // the GPU's name
	Kernels string // hash of the sources that ran
}

// A leaving is the reason why a check does not run after all.
type leaving string

func (l leaving) Error() string { return string(l) }

// hardware holds the kernels to the runs that are recorded. Runs of other kernels are
// no evidence.
func (g *run) hardware(_ context.Context, c *verdict.Check) error {
	missing := func(format string, args ...any) error {
		why := fmt.Sprintf(format, args...)
		if g.RequireHardware {
			return errors.New(why)
		}
		return leaving(why + "; not required")
	}
	if g.Hardware == nil {
		return missing("this build knows no kernels")
	}
	h, err := g.Hardware(g.Root)
	if err != nil {
		return err
	}
	if h.Kernels == "" {
		return errors.New("the kernels' sources have no hash")
	}
	for _, r := range h.Runs {
		k := verdict.Case{Class: "hardware", Name: r.File, Outcome: verdict.Passed, Message: r.Device + " ran these kernels"}
		if r.Kernels != h.Kernels {
			k.Outcome, k.Message = verdict.NotApplicable, fmt.Sprintf("%s ran other kernels, %.12s", r.Device, r.Kernels)
		}
		c.Cases = append(c.Cases, k)
	}
	if c.Count(verdict.Passed) == 0 {
		return missing("no recorded run of these kernels, %.12s, on a GPU: run `make gpu-test` where one is", h.Kernels)
	}
	return nil
}
