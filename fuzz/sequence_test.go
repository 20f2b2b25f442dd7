package fuzz

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/internal/arbitrary"
	"lockstep/internal/snapshot"
	"lockstep/parity/schema"
)

// Sequences of calls: whatever an engine did before, what it does now is what the
// reference does for each job by itself. The engines stay open from one sequence to
// the next.

func TestCalls(t *testing.T)    { check(t, 0.05, calls) }
func TestStepping(t *testing.T) { check(t, 0.6, stepping) }

func FuzzCalls(f *testing.F)    { fuzzEngines(f, calls) }
func FuzzStepping(f *testing.F) { fuzzEngines(f, stepping) }

// calls: batches larger and smaller than the one before, draws that are given and
// then the route's own, a teacher and then none, one that is broken off.
func calls(t *rapid.T, cover func(string)) {
	all := fast(arbitrary.Network{})
	size := 0
	run := func(t *rapid.T, change func(job *lockstep.Job)) {
		policy := rapid.OneOf(arbitrary.Policy(), arbitrary.FaultyPolicy())
		jobs := arbitrary.Jobs(7, rapid.IntRange(lockstep.MinRows, 104), policy).Draw(t, "jobs")
		for i := range jobs {
			change(&jobs[i])
		}
		switch {
		case size > 0 && len(jobs) > size:
			cover("a larger batch")
		case len(jobs) < size:
			cover("a smaller batch")
		}
		size = len(jobs)
		opts := lockstep.Options{Shortcuts: lockstep.SkipWarmup | arbitrary.Shortcuts().Draw(t, "shortcuts"), Trajectory: rapid.Bool().Draw(t, "trajectory")}
		var want []*run
		for i := range jobs {
			want = append(want, rollout(t, all[0], jobs[i:i+1], opts)...)
		}
		for _, e := range all[1:] {
			for i, got := range rollout(t, e, jobs, opts) {
				if d := got.difference(want[i]); d != "" {
					t.Fatalf("%s, job %d of %d: %s", e.name, i, len(jobs), d)
				}
			}
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"plain": func(t *rapid.T) { run(t, func(*lockstep.Job) {}) },
		"given draws": func(t *rapid.T) {
			cover("given draws")
			other := rapid.Uint32Range(0, 9).Draw(t, "their seed")
			run(t, func(job *lockstep.Job) { job.Draws = lockstep.Draws(other, job.Route.Len()) })
		},
		"teacher": func(t *rapid.T) {
			cover("teacher")
			taught := trajectory(t, 104)
			run(t, func(job *lockstep.Job) { job.Teacher = taught })
		},
		"broken off": func(t *rapid.T) {
			cover("broken off")
			jobs := arbitrary.Jobs(7, rapid.Just(lockstep.MinRows), rapid.Just[lockstep.Policy](lockstep.DefaultPID())).Draw(t, "jobs")
			for _, e := range all {
				for range e.Simulate(context.Background(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly}) {
					break
				}
			}
		},
	})
}

// A commandee is a controller that is told beforehand what to answer.
type commandee struct{ commands []float64 }

func (c *commandee) Update(float64, float64, lockstep.State, lockstep.FuturePlan) float64 {
	x := c.commands[0]
	c.commands = c.commands[1:]
	return x
}

// stepping: steps, snapshots and returns to any of them, in any order, also twice
// and by way of bytes, and rollouts put back to the start in other numbers. In the
// end every rollout is one of the reference's Simulate with the same commands. An engine
// at a time: an input that has enough for all of them would be some 700 KB.
func stepping(t *rapid.T, cover func(string)) {
	ref := load(arbitrary.Network{})[0]
	e := rapid.SampledFrom(distinct(arbitrary.Network{})).Draw(t, "engine")
	cover(e.name)
	m := &steps{engine: e, reference: ref, cover: cover, simulator: e.Implementation}
	m.reset(t)
	t.Repeat(map[string]func(*rapid.T){"": m.check, "step": m.step, "snapshot": m.snapshot, "restore": m.restore, "again": m.again})
	m.finish(t)
}

// steps is a Stepper beside what is known of it.
type steps struct {
	engine, reference engine
	simulator         lockstep.StepSimulator
	cover             func(string)

	opts     lockstep.Options
	jobs     []lockstep.Job
	stepper  lockstep.Stepper
	commands [][]float64 // of each step so far, by rollout
	returned [][]float64 // lataccels
	saved    []saved
	last     int // the snapshot that was restored last
}

// saved is a snapshot, and what was known when it was taken.
type saved struct {
	snapshot           *lockstep.Snapshot
	commands, returned [][]float64
}

// reset begins anew, with commands from outside for some rollouts.
func (m *steps) reset(t *rapid.T) {
	native := rapid.SampledFrom([]lockstep.Policy{nil, nil, lockstep.Zero{}, lockstep.DefaultPID()})
	routes := rapid.SliceOfN(arbitrary.Route(rapid.IntRange(lockstep.MinRows, 106)), 1, 3).Draw(t, "routes")
	m.jobs = nil
	for range rapid.IntRange(1, 5).Draw(t, "rollouts") {
		r := *rapid.SampledFrom(routes).Draw(t, "route")
		r.Draws = nil
		m.jobs = append(m.jobs, lockstep.Job{Route: &r, Policy: native.Draw(t, "policy")})
	}
	m.opts = lockstep.Options{Shortcuts: lockstep.SkipWarmup | lockstep.LastPosition, Trajectory: true}
	var err error
	if m.stepper, err = m.simulator.Reset(context.Background(), m.jobs, m.opts); err != nil {
		t.Fatalf("%s: %v", m.engine.name, err)
	}
	m.commands, m.returned, m.saved, m.last = nil, nil, nil, -1
}

// step goes on by one step, or to where the network runs.
func (m *steps) step(t *rapid.T) {
	n := 1
	if m.stepper.Index() < lockstep.ControlStartIdx-1 {
		n = rapid.SampledFrom([]int{1, 7, 79}).Draw(t, "steps")
	}
	for range n {
		if m.stepper.Done() {
			return
		}
		commands, lataccels := make([]float64, len(m.jobs)), make([]float64, len(m.jobs))
		for i := range commands {
			commands[i] = rapid.Float64Range(-3, 3).Draw(t, "command")
		}
		before := m.stepper.Index()
		if err := m.stepper.Step(context.Background(), commands, lataccels); err != nil {
			t.Fatalf("%s, step %d: %v", m.engine.name, before, err)
		}
		if m.stepper.Index() != before+1 {
			t.Fatalf("%s: after step %d comes %d", m.engine.name, before, m.stepper.Index())
		}
		m.commands, m.returned = append(m.commands, commands), append(m.returned, lataccels)
	}
}

// check: the index and the last lataccels are what they are known to be.
func (m *steps) check(t *rapid.T) {
	if got, want := m.stepper.Index(), lockstep.ContextLength+len(m.commands); got != want {
		t.Fatalf("%s: step %d is next, want %d", m.engine.name, got, want)
	}
	if len(m.returned) == 0 {
		return
	}
	for i, want := range m.returned[len(m.returned)-1] {
		if got := m.stepper.Lataccel(i); !schema.Equal(got, want) {
			t.Fatalf("%s, rollout %d: lataccel %v, the last step gave %v", m.engine.name, i, got, want)
		}
	}
}

func (m *steps) snapshot(t *rapid.T) {
	s, err := m.stepper.Snapshot(context.Background())
	if err != nil {
		t.Fatalf("%s: %v", m.engine.name, err)
	}
	if rapid.Bool().Draw(t, "by way of bytes") {
		m.cover("a snapshot by way of bytes")
		data, err := snapshot.Marshal(s)
		if err != nil {
			t.Fatalf("%s: %v", m.engine.name, err)
		}
		if s, err = snapshot.Unmarshal(data); err != nil {
			t.Fatalf("%s: %v", m.engine.name, err)
		}
	}
	m.saved = append(m.saved, saved{s, slices.Clone(m.commands), slices.Clone(m.returned)})
}

// restore goes back, or forward, to any snapshot.
func (m *steps) restore(t *rapid.T) {
	if len(m.saved) == 0 {
		t.Skip("no snapshot")
	}
	k := rapid.IntRange(0, len(m.saved)-1).Draw(t, "snapshot")
	if k == m.last {
		m.cover("a snapshot restored twice")
	}
	s := m.saved[k]
	if err := m.stepper.Restore(context.Background(), s.snapshot); err != nil {
		t.Fatalf("%s: %v", m.engine.name, err)
	}
	m.commands, m.returned, m.last = slices.Clone(s.commands), slices.Clone(s.returned), k
}

// again: other rollouts, more or fewer of them.
func (m *steps) again(t *rapid.T) {
	before := len(m.jobs)
	m.finish(t)
	m.reset(t)
	if len(m.jobs) != before {
		m.cover("another number of rollouts")
	}
}

// finish runs to the end of all and compares with rollouts of the reference that
// have the same commands.
func (m *steps) finish(t *rapid.T) {
	for !m.stepper.Done() {
		m.step(t)
	}
	results, err := m.stepper.Results(context.Background())
	if err != nil {
		t.Fatalf("%s: %v", m.engine.name, err)
	}
	for i, job := range m.jobs {
		if job.Policy == nil {
			var mine []float64
			for _, c := range m.commands {
				mine = append(mine, c[i])
			}
			job.Policy = lockstep.Custom{Name: "commanded", New: func() lockstep.Controller { return &commandee{mine} }}
		}
		want := rollout(t, m.reference, []lockstep.Job{job}, m.opts)[0].result
		if want.Err != nil && m.jobs[i].Policy == nil { // which has no name
			want.Err = errors.New(strings.Replace(want.Err.Error(), ", controller commanded", "", 1))
			m.cover("one that fails")
		}
		if d := resultDifference(results[i], want); d != "" {
			t.Fatalf("%s, rollout %d of %d, %d rows, policy %v: %s", m.engine.name, i, len(m.jobs), job.Route.Len(), m.jobs[i].Policy, d)
		}
		if want.Err == nil {
			m.seen(t, i, want.Trajectory.Lataccel)
		}
	}
	if err := m.stepper.Close(); err != nil {
		t.Fatalf("%s: %v", m.engine.name, err)
	}
}

// seen: what the steps returned is the trajectory.
func (m *steps) seen(t *rapid.T, i int, lataccel []float64) {
	for k, got := range m.returned {
		want := lataccel[min(lockstep.ContextLength+k, len(lataccel)-1)]
		if !schema.Equal(got[i], want) {
			t.Fatalf("%s, rollout %d: step %d returned %v, the trajectory has %v", m.engine.name, i, lockstep.ContextLength+k, got[i], want)
		}
	}
}
