package main

import (
	"slices"
	"sync/atomic"
	"time"

	"lockstep"
	"lockstep/reference"
)

// networkFMA is how many fused multiply-adds one prediction needs: those of the graph's
// products, all columns of the scores among them, but from the last layer's queries on
// those of the last position alone.
const networkFMA = 13.06e6

// A gauge measures how many fused multiply-adds a core does in a second with nothing else
// to do, while a run is under way: the controllers of its rollouts stop now and then for
// a probe, whose time is taken off the run's. So a mean over a run is set against a mean
// over the same seconds on the same cores: their clock changes from one second to the next,
// and so does other programs' load on them.
type gauge struct {
	peak  func() (fma int) // of the kernels; nil for none
	fma   atomic.Int64
	nanos atomic.Int64
}

// A rollout stops once in so many steps for a probe of so many calls, of 3 µs or so.
const (
	probeSteps = 16
	probeCalls = 50
)

// jobs are the same jobs, of PID controllers, under some that probe, if there is anything
// to probe.
func (g *gauge) jobs(jobs []lockstep.Job) []lockstep.Job {
	if g.peak == nil {
		return jobs
	}
	all := slices.Clone(jobs)
	for i := range all {
		gains := all[i].Policy.(lockstep.PID)
		all[i].Policy = lockstep.Custom{
			Name: gains.String(),
			New: func() lockstep.Controller {
				return &probing{Controller: reference.NewPID(gains), gauge: g, calls: i}
			},
		}
	}
	return all
}

// probing is a controller that probes.
type probing struct {
	lockstep.Controller
	gauge *gauge
	calls int
}

func (c *probing) Update(
	target, current float64, state lockstep.State, plan lockstep.FuturePlan,
) float64 {
	if c.calls++; c.calls%probeSteps == 0 {
		n, start := 0, time.Now()
		for range probeCalls {
			n += c.gauge.peak()
		}
		c.gauge.nanos.Add(int64(time.Since(start)))
		c.gauge.fma.Add(int64(n))
	}
	return c.Controller.Update(target, current, state, plan)
}

// spent is the time of all probes, in seconds of one core.
func (g *gauge) spent() float64 { return time.Duration(g.nanos.Load()).Seconds() }

// share is that of a core's peak which the predictions that the costs of some jobs need,
// in so many seconds of one core, are.
func (g *gauge) share(jobs []lockstep.Job, seconds float64) float64 {
	calls := 0
	for i := range jobs {
		calls += jobs[i].End(lockstep.CostOnly) - lockstep.ControlStartIdx
	}
	return float64(calls) * networkFMA / seconds / (float64(g.fma.Load()) / g.spent())
}
