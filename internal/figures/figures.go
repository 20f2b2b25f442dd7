// Package figures counts what a simulator has done, and the time of the clock that this took.
package figures

import (
	"context"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"lockstep"
)

// Meter is what a simulator has done so far.
type Meter struct {
	mutex                sync.Mutex
	setUp, load, rolling time.Duration
	routes, rollouts     int
	steps                int64
}

// Opened counts the opening that began at a time.
func (c *Meter) Opened(begin time.Time) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.setUp += time.Since(begin)
}

// Loaded counts a load that began at a time.
func (c *Meter) Loaded(begin time.Time, routes int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.load += time.Since(begin)
	c.routes += routes
}

// Rolled counts rollouts, or steps of them, that began at a time.
func (c *Meter) Rolled(begin time.Time, rollouts int, steps int64) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.rolling += time.Since(begin)
	c.rollouts += rollouts
	c.steps += steps
}

// Ended are the rollouts of jobs that ended well, and their steps.
func Ended(
	jobs []lockstep.Job, shortcuts lockstep.Shortcuts, failed func(int) bool,
) (n int, steps int64) {
	for i := range jobs {
		if !failed(i) {
			n++
			steps += int64(jobs[i].End(shortcuts) - lockstep.ContextLength)
		}
	}
	return n, steps
}

// Counting is a simulator whose rollouts are counted.
type Counting struct {
	lockstep.Simulator
	Counts *Meter
}

// Simulate counts what is simulated, until its end.
func (s Counting) Simulate(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	return func(yield func(int, lockstep.Result) bool) {
		begin, well := time.Now(), make([]bool, len(jobs))
		defer func() {
			n, steps := Ended(jobs, opts.Shortcuts, func(i int) bool { return !well[i] })
			s.Counts.Rolled(begin, n, steps)
		}()
		for i, result := range s.Simulator.Simulate(ctx, jobs, opts) {
			well[i] = result.Err == nil
			if !yield(i, result) {
				return
			}
		}
	}
}

// Figures are what was counted.
type Figures struct {
	SetUp    float64  `json:"set_up_seconds"`
	Load     float64  `json:"load_seconds"`
	Routes   int      `json:"routes"`
	Rolling  float64  `json:"rollout_seconds"`
	Rollouts int      `json:"rollouts"`
	Steps    int64    `json:"steps"`
	Step     float64  `json:"us_per_step"`
	Network  *float64 `json:"network_seconds"` // nil where nobody takes the time
	Device   any      `json:"device"`          // what it counted; nil without one
	Idle     *float64 `json:"device_idle_seconds"`
}

// Of says what was counted of an engine.
func (c *Meter) Of(engine lockstep.Describer) Figures {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	f := Figures{
		SetUp: c.setUp.Seconds(), Load: c.load.Seconds(), Routes: c.routes,
		Rolling: c.rolling.Seconds(), Rollouts: c.rollouts, Steps: c.steps,
		Step: 1e6 * c.rolling.Seconds() / float64(max(c.steps, 1)),
	}
	if took := engine.About().NetworkTime; took != nil {
		seconds := took().Seconds()
		f.Network = &seconds
	}
	return f
}

// OnDevice adds what a device has counted, and how long it was idle.
func (f *Figures) OnDevice(counted any, idle time.Duration) {
	seconds := idle.Seconds()
	f.Device, f.Idle = counted, &seconds
}

// WriteText prints the figures for people, but those of a device.
func (f *Figures) WriteText(w io.Writer) error {
	text := fmt.Sprintf(
		"set-up %.4f s; %d routes loaded in %.4f s; %d rollouts of %d steps in %.4f s, "+
			"%.4g µs a step", f.SetUp, f.Routes, f.Load, f.Rollouts, f.Steps, f.Rolling, f.Step,
	)
	if f.Network != nil {
		text += fmt.Sprintf("; %.4f s in the network, by all threads together", *f.Network)
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
