package main

import (
	"sync/atomic"
	"time"

	"lockstep"
	"lockstep/internal/f32"
)

// networkFMA is how many fused multiply-adds one prediction needs: those of the graph's
// products, all columns of the scores among them, but from the last layer's queries on
// those of the last position alone.
const networkFMA = 13.06e6

// A gauge measures how many fused multiply-adds a core does in a second with nothing else
// to do, while a run is under way: the controllers of its rollouts stop now and then for
// a probe, whose time is taken off the run's. So a mean over a run is set against a mean
// over the same seconds on the same cores, whose clock, and what neighbours leave of it,
// changes from one second to the next.
type gauge struct {
	kernels *f32.Kernels
	fma     atomic.Int64
	nanos   atomic.Int64
}

// A rollout stops once in so many steps for a probe of so many calls, of 3 µs or so.
const (
	probeSteps = 16
	probeCalls = 50
)

// jobs are the same jobs under controllers that probe, if there is anything to probe:
// those that have a PID controller.
func (g *gauge) jobs(jobs []lockstep.Job) []lockstep.Job {
	probing := make([]lockstep.Job, len(jobs))
	for i, job := range jobs {
		probing[i] = job
		if gains, ok := job.Policy.(lockstep.PID); ok && g.kernels != nil && g.kernels.Peak != nil {
			probing[i].Policy = lockstep.Custom{
				Name: gains.String(),
				New:  func() lockstep.Controller { return &probingPID{gauge: g, gains: gains, calls: i} },
			}
		}
	}
	return probing
}

// probingPID is a PID controller that probes.
type probingPID struct {
	gauge            *gauge
	gains            lockstep.PID
	integral, before float64
	calls            int
}

func (c *probingPID) Update(target, current float64, _ lockstep.State, _ lockstep.FuturePlan) float64 {
	if c.calls++; c.calls%probeSteps == 0 {
		c.gauge.probe()
	}
	e := target - current
	c.integral += e
	change := e - c.before
	c.before = e
	return float64(c.gains.P*e) + float64(c.gains.I*c.integral) + float64(c.gains.D*change)
}

func (g *gauge) probe() {
	n, start := 0, time.Now()
	for range probeCalls {
		n += g.kernels.Peak()
	}
	g.nanos.Add(int64(time.Since(start)))
	g.fma.Add(int64(n))
}

// spent is the time of all probes, in seconds of one core.
func (g *gauge) spent() float64 { return time.Duration(g.nanos.Load()).Seconds() }

// share is that of a core's peak which so many predictions in so many seconds of one core
// are; 0 if nothing was probed.
func (g *gauge) share(calls int, seconds float64) float64 {
	if g.fma.Load() == 0 {
		return 0
	}
	return float64(calls) * networkFMA / seconds / (float64(g.fma.Load()) / g.spent())
}

// calls is how many predictions the costs of some jobs need.
func calls(jobs []lockstep.Job) (n int) {
	for i := range jobs {
		n += jobs[i].End(lockstep.CostOnly) - lockstep.ControlStartIdx
	}
	return n
}
