package conformance

import (
	"context"
	"errors"
	"math"
	"slices"

	"lockstep"
)

// stepping: rollouts that are run one step at a time, some of them steered from
// outside, have the bits of those that run through, also after they went back to a
// snapshot, their own or one that the reference made.
func (s *suite) stepping() {
	sim, ok := s.sim.(lockstep.StepSimulator)
	if !ok {
		s.note = "left out: the simulator has no step mode"
		return
	}
	jobs := s.some()[:3]
	jobs = append(jobs, lockstep.Job{Route: short(s.routes[15], 105), Policy: weave})
	want := s.expected(jobs, brief)
	if s.contractOnly {
		want = s.good(jobs, brief)
	}
	const outside = 3
	jobs[outside].Policy = nil
	var commands []float64 // of the job that is steered from outside
	for _, step := range want[outside].steps {
		commands = append(commands, step.Action)
	}
	drive := &driver{suite: s, jobs: jobs, outside: outside, commands: commands, want: want}

	all, order := observed(jobs)
	p := drive.reset(sim, order)
	defer p.Close()
	drive.through(p, 1000)
	for i, r := range all {
		for _, fault := range r.faults {
			s.errorf("job %d: %s", i, fault)
		}
		r.result = drive.results(p)[i]
		s.same(r, want[i], "job %d, run step by step", i)
	}
	s.snapshots(drive, sim)
	s.stepFaults(drive, sim)
	s.failsOnce(drive, sim)
}

// snapshots goes back to snapshots before, at and after the ends of rollouts.
func (s *suite) snapshots(drive *driver, sim lockstep.StepSimulator) {
	ctx := context.Background()
	p, other := drive.reset(sim, drive.jobs), drive.reset(sim, drive.jobs)
	defer p.Close()
	defer other.Close()
	simulators := []lockstep.Stepper{p, other}
	if ref, ok := s.ref.(lockstep.StepSimulator); ok && !s.contractOnly {
		r := drive.reset(ref, drive.jobs)
		defer r.Close()
		simulators = append(simulators, r)
	}
	snapshot := func(p lockstep.Stepper) *lockstep.Snapshot {
		shot, err := p.Snapshot(ctx)
		if err != nil {
			s.fatalf("Snapshot before step %d: %w", p.Index(), err)
		}
		return shot
	}
	restore := func(p lockstep.Stepper, shot *lockstep.Snapshot) {
		if err := p.Restore(ctx, shot); err != nil {
			s.fatalf("Restore of a snapshot before step %d: %w", shot.Step, err)
		}
		if p.Index() != shot.Step {
			s.fatalf("Index is %d after the Restore of a snapshot before step %d", p.Index(), shot.Step)
		}
	}
	begin := snapshot(p)
	for _, at := range []int{60, 102} {
		for _, from := range simulators {
			restore(from, begin)
			drive.through(from, at)
			shot := snapshot(from)
			drive.through(from, 1000)
			for _, to := range simulators {
				for range 2 {
					restore(to, shot)
					drive.through(to, 1000)
					for i, r := range drive.results(to) {
						if d := resultDifference(r, drive.want[i].result); d != "" {
							s.errorf("job %d, from a snapshot before step %d: %s", i, at, d)
						}
					}
				}
			}
		}
	}
	for what, change := range map[string]func(*lockstep.Snapshot){
		"of another profile":      func(s *lockstep.Snapshot) { s.Profile.Exp = lockstep.ExpF - s.Profile.Exp + lockstep.ExpU },
		"of another model":        func(s *lockstep.Snapshot) { s.Model = "another" },
		"with a rollout too few":  func(s *lockstep.Snapshot) { s.Rollouts = s.Rollouts[1:] },
		"of another route":        func(s *lockstep.Snapshot) { s.Rollouts[1].Route = "elsewhere" },
		"with a lataccel too few": func(s *lockstep.Snapshot) { s.Rollouts[1].Lataccel = s.Rollouts[1].Lataccel[1:] },
		"without a PID's memory":  func(s *lockstep.Snapshot) { s.Rollouts[0].Policy = nil },
	} {
		shot := snapshot(p)
		change(shot)
		if p.Restore(ctx, shot) == nil {
			s.errorf("Restore takes a snapshot %s", what)
		}
	}
}

// stepFaults: a command that is NaN fails its own rollout, and what cannot be
// simulated is refused.
func (s *suite) stepFaults(drive *driver, sim lockstep.StepSimulator) {
	ctx := context.Background()
	p := drive.reset(sim, drive.jobs)
	defer p.Close()
	drive.through(p, 101)
	before, err := p.Snapshot(ctx)
	if err != nil {
		s.fatalf("Snapshot before step 101: %w", err)
	}
	n := len(drive.jobs)
	commands, lataccels := slices.Repeat([]float64{math.NaN()}, n), make([]float64, n)
	if err := p.Step(ctx, commands, lataccels); err != nil {
		s.fatalf("Step with a command that is NaN: %w", err)
	}
	if p.Err(drive.outside) == nil || p.Running(drive.outside) || lataccels[drive.outside] == lataccels[drive.outside] {
		s.errorf("a rollout whose command was NaN goes on, with lataccel %v and error %v", lataccels[drive.outside], p.Err(drive.outside))
	}
	drive.through(p, 1000)
	for i, r := range drive.results(p) {
		if i == drive.outside {
			if r.Err == nil {
				s.errorf("a rollout whose command was NaN has a result")
			}
		} else if d := resultDifference(r, drive.want[i].result); d != "" {
			s.errorf("job %d beside one that failed: %s", i, d)
		}
	}
	if err := p.Step(ctx, make([]float64, n), lataccels); err == nil {
		s.errorf("Step computes a step after the last")
	}
	s.takenBack(drive, p, before)
	if err := p.Step(ctx, make([]float64, n-1), lataccels); err == nil {
		s.errorf("Step takes %d commands for %d rollouts", n-1, n)
	}
	taught := drive.jobs[1]
	taught.Teacher = &lockstep.Trajectory{Lataccel: make([]float64, 200), Action: make([]float64, 200)}
	for what, jobs := range map[string][]lockstep.Job{
		"no jobs":               nil,
		"a job without a route": {drive.jobs[0], {Policy: lockstep.Zero{}}},
		"one teacher for two":   {drive.jobs[0], taught},
	} {
		if p, err := sim.Reset(ctx, jobs, brief); err == nil {
			p.Close()
			s.errorf("Reset takes %s", what)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	q := drive.reset(sim, drive.jobs)
	defer q.Close()
	if err := q.Step(ended, make([]float64, n), lataccels); !errors.Is(err, context.Canceled) || q.Index() != lockstep.ContextLength {
		s.errorf("Step after the context's end: %v, and the next step is %d", err, q.Index())
	}
	drive.through(q, 30)
}

// takenBack: from a snapshot before a rollout failed all go on.
func (s *suite) takenBack(drive *driver, p lockstep.Stepper, before *lockstep.Snapshot) {
	if err := p.Restore(context.Background(), before); err != nil {
		s.fatalf("Restore of a snapshot from before a rollout failed: %w", err)
	}
	drive.through(p, 1000)
	for i, r := range drive.results(p) {
		if d := resultDifference(r, drive.want[i].result); d != "" {
			s.errorf("job %d, taken back to before one failed: %s", i, d)
		}
	}
}

// failsOnce: so they do where an observer was what failed.
func (s *suite) failsOnce(drive *driver, sim lockstep.StepSimulator) {
	jobs, fails := slices.Clone(drive.jobs), true
	jobs[0].Observe = func(step *lockstep.Step) {
		if fails && step.Index == 102 {
			panic("it fails once")
		}
	}
	p := drive.reset(sim, jobs)
	defer p.Close()
	drive.through(p, 102)
	before, err := p.Snapshot(context.Background())
	if err != nil {
		s.fatalf("Snapshot before step 102: %w", err)
	}
	drive.through(p, 1000)
	if p.Err(0) == nil {
		s.errorf("a rollout whose observer panicked goes on")
	}
	fails = false
	s.takenBack(drive, p, before)
}

// driver steers rollouts, one of them from outside.
type driver struct {
	suite    *suite
	jobs     []lockstep.Job
	outside  int
	commands []float64 // of that one, from step ContextLength on
	want     []*rollout
}

func (d *driver) reset(sim lockstep.StepSimulator, jobs []lockstep.Job) lockstep.Stepper {
	p, err := sim.Reset(context.Background(), jobs, brief)
	if err != nil {
		d.suite.fatalf("Reset: %w", err)
	}
	if p.Index() != lockstep.ContextLength {
		d.suite.fatalf("Index is %d after Reset", p.Index())
	}
	return p
}

// through steps until a step is reached, or all has ended.
func (d *driver) through(p lockstep.Stepper, to int) {
	commands, lataccels := make([]float64, len(d.jobs)), make([]float64, len(d.jobs))
	for p.Index() < to && !p.Done() {
		step := p.Index() - lockstep.ContextLength
		clear(commands)
		if step < len(d.commands) {
			commands[d.outside] = d.commands[step]
		}
		if err := p.Step(context.Background(), commands, lataccels); err != nil {
			d.suite.fatalf("Step %d: %w", lockstep.ContextLength+step, err)
		}
		if next := lockstep.ContextLength + step + 1; p.Index() != next {
			d.suite.fatalf("Index is %d after Step %d, want %d", p.Index(), next-1, next)
		}
		for i, got := range lataccels {
			steps := d.want[i].steps
			want := steps[min(step, len(steps)-1)].Lataccel
			if p.Err(i) != nil {
				want = math.NaN()
			}
			if !same(got, want) || !same(got, p.Lataccel(i)) {
				d.suite.fatalf("job %d, step %d: lataccel %v, Lataccel gives %v, want %v", i, lockstep.ContextLength+step, got, p.Lataccel(i), want)
			}
		}
	}
}

func (d *driver) results(p lockstep.Stepper) []lockstep.Result {
	results, err := p.Results(context.Background())
	if err != nil || len(results) != len(d.jobs) {
		d.suite.fatalf("Results: %d for %d jobs, error %v", len(results), len(d.jobs), err)
	}
	return results
}
