//go:build cgo

package native

import (
	"sync"
	"time"

	"lockstep"
	"lockstep/gpu"
)

// counts is what a simulator has done so far.
type counts struct {
	sync.Mutex
	setUp, load, rolling time.Duration
	routes, rollouts     int
	steps                int64
}

// loaded counts a load that began at a time.
func (c *counts) loaded(begin time.Time, routes int) {
	c.Lock()
	defer c.Unlock()
	c.load += time.Since(begin)
	c.routes += routes
}

// rolled counts rollouts, or steps of them, that began at a time.
func (c *counts) rolled(begin time.Time, rollouts int, steps int64) {
	c.Lock()
	defer c.Unlock()
	c.rolling += time.Since(begin)
	c.rollouts += rollouts
	c.steps += steps
}

// ended are the rollouts of jobs that ended well, and their steps.
func ended(jobs []lockstep.Job, shortcuts lockstep.Shortcuts,
	failed func(int) bool) (n int, steps int64) {
	for i := range jobs {
		if !failed(i) {
			n++
			steps += int64(jobs[i].End(shortcuts) - lockstep.ContextLength)
		}
	}
	return n, steps
}

type statsAnswer struct {
	SetUp    float64    `json:"set_up_seconds"`
	Load     float64    `json:"load_seconds"`
	Routes   int        `json:"routes"`
	Rolling  float64    `json:"rollout_seconds"`
	Rollouts int        `json:"rollouts"`
	Steps    int64      `json:"steps"`
	Step     float64    `json:"us_per_step"`
	Network  *float64   `json:"network_seconds"` // nil where nobody takes the time
	Device   *gpu.Stats `json:"device"`          // nil without one
	Idle     *float64   `json:"device_idle_seconds"`
}

// stats says what a simulator has done so far, and how long that took.
func stats(_ *task, s *simulator, _ nothing, _ []byte) (any, error) {
	s.counts.Lock()
	defer s.counts.Unlock()
	c := &s.counts
	a := statsAnswer{
		SetUp: c.setUp.Seconds(), Load: c.load.Seconds(), Routes: c.routes,
		Rolling: c.rolling.Seconds(), Rollouts: c.rollouts, Steps: c.steps,
		Step: 1e6 * c.rolling.Seconds() / float64(max(c.steps, 1)),
	}
	if took := s.About().NetworkTime; took != nil {
		seconds := took().Seconds()
		a.Network = &seconds
	}
	if g, ok := s.Implementation.(*gpu.Simulator); ok {
		device := g.Stats()
		idle := device.Host().Seconds()
		a.Device, a.Idle = &device, &idle
	}
	return a, nil
}
