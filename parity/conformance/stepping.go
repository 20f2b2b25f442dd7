package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"lockstep"
	"lockstep/parity/schema"
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
	want := s.hold(jobs, brief)
	jobs[outside].Policy = nil
	d := &driver{suite: s, sim: sim, jobs: jobs, want: want}

	all, order := observed(jobs)
	p := d.reset(sim, order)
	defer p.Close()
	d.through(p, 1000)
	for i, r := range all {
		for _, fault := range r.faults {
			s.errorf("job %d: %s", i, fault)
		}
		r.result = d.ended(p)[i]
		s.same(r, want[i], "job %d, run step by step", i)
	}
	d.snapshots()
	d.faults()
	d.failsOnce()
	d.refused()
	d.unclosed()
}

// outside is the job that is steered from outside.
const outside = 3

// driver steers rollouts of a simulator, one of them from outside.
type driver struct {
	*suite
	sim  lockstep.StepSimulator
	jobs []lockstep.Job
	want []*rollout
}

func (d *driver) reset(sim lockstep.StepSimulator, jobs []lockstep.Job) lockstep.Stepper {
	p, err := sim.Reset(context.Background(), jobs, brief)
	if err != nil {
		d.fatalf("Reset: %w", err)
	}
	if p.Index() != lockstep.ContextLength {
		d.fatalf("Index is %d after Reset", p.Index())
	}
	return p
}

// through steps until a step is reached, or all has ended.
func (d *driver) through(p lockstep.Stepper, to int) {
	commands, lataccels := make([]float64, len(d.jobs)), make([]float64, len(d.jobs))
	for p.Index() < to && !p.Done() {
		at := p.Index()
		clear(commands)
		if steps := d.want[outside].steps; at < lockstep.ContextLength+len(steps) {
			commands[outside] = steps[at-lockstep.ContextLength].Action
		}
		if err := p.Step(context.Background(), commands, lataccels); err != nil {
			d.fatalf("Step %d: %w", at, err)
		}
		if p.Index() != at+1 {
			d.fatalf("Index is %d after Step %d, want %d", p.Index(), at, at+1)
		}
		for i, got := range lataccels {
			steps := d.want[i].steps
			want := steps[min(at-lockstep.ContextLength, len(steps)-1)].Lataccel
			if p.Err(i) != nil {
				want = math.NaN()
			}
			if !schema.Equal(got, want) || !schema.Equal(got, p.Lataccel(i)) {
				d.fatalf(
					"job %d, step %d: lataccel %v, Lataccel gives %v, want %v", i, at, got,
					p.Lataccel(i), want,
				)
			}
		}
		if next := p.Index(); next >= lockstep.ControlStartIdx && (next <= 106 || next%16 == 0) {
			d.observe(p)
		}
	}
}

// observe holds what networks see at the next step to what the reference makes of the
// histories that the rollouts should have.
func (d *driver) observe(p lockstep.Stepper) {
	const size, steps = lockstep.ObservationSize, lockstep.ExperienceSteps
	ref, ok := d.ref.(lockstep.Collector)
	if !ok {
		return
	}
	n, at := len(d.jobs), p.Index()
	got := slices.Repeat([]float32{7}, n*size)
	if err := p.Observe(context.Background(), got); err != nil {
		d.fatalf("Observe before step %d: %w", at, err)
	}
	jobs := slices.Clone(d.jobs)
	for i := range jobs {
		jobs[i].Policy = &lockstep.Network{} // a stepper's observation is the one of most networks
	}
	e := &lockstep.Experience{
		Jobs: jobs, Results: make([]lockstep.Result, n),
		Lataccel: make([]float64, n*steps), Action: make([]float64, n*steps),
	}
	var places []lockstep.Place
	for i := range d.jobs {
		if !p.Running(i) {
			continue
		}
		places = append(places, lockstep.Place{Rollout: i, Step: at - lockstep.ControlStartIdx})
		const first = lockstep.ControlStartIdx - lockstep.ContextLength
		for k, step := range d.want[i].steps[first : at-lockstep.ContextLength] {
			e.Lataccel[i*steps+k], e.Action[i*steps+k] = step.Lataccel, step.Action
		}
	}
	if len(places) == 0 {
		places = []lockstep.Place{} // and not all
	}
	rows := make([]float32, len(places)*size)
	if err := ref.Observe(e, places, rows); err != nil {
		d.fatalf("the reference's Observe of step %d: %w", at, err)
	}
	want := make([]float32, n*size)
	for k, place := range places {
		copy(want[place.Rollout*size:], rows[k*size:][:size])
	}
	for i := range want {
		if !schema.Equal(got[i], want[i]) {
			d.fatalf("job %d, step %d: %s is %v, want %v",
				i/size, at, lockstep.ObservationElement(i%size), got[i], want[i])
		}
	}
}

func (d *driver) ended(p lockstep.Stepper) []lockstep.Result {
	results, err := p.Results(context.Background())
	if err != nil || len(results) != len(d.jobs) {
		d.fatalf("Results: %d for %d jobs, error %v", len(results), len(d.jobs), err)
	}
	return results
}

// finish steps to the end, where all but some job must have the results that they have
// if they run through.
func (d *driver) finish(p lockstep.Stepper, but int, how string) []lockstep.Result {
	d.through(p, 1000)
	results := d.ended(p)
	for i, r := range results {
		if err := differs(&rollout{result: r}, &rollout{result: d.want[i].result}); err != nil &&
			i != but {
			d.errorf("job %d, %s: %w", i, how, err)
		}
	}
	return results
}

// snapshot steps until a step is reached, and takes a snapshot.
func (d *driver) snapshot(p lockstep.Stepper, at int) *lockstep.Snapshot {
	d.through(p, at)
	shot, err := p.Snapshot(context.Background())
	if err != nil {
		d.fatalf("Snapshot before step %d: %w", p.Index(), err)
	}
	return shot
}

func (d *driver) restore(p lockstep.Stepper, shot *lockstep.Snapshot) {
	if err := p.Restore(context.Background(), shot); err != nil {
		d.fatalf("Restore of a snapshot before step %d: %w", shot.Step, err)
	}
	if p.Index() != shot.Step {
		d.fatalf("Index is %d after the Restore of a snapshot before step %d", p.Index(), shot.Step)
	}
}

// snapshots goes back to snapshots before, at and after the ends of rollouts.
func (d *driver) snapshots() {
	steppers := []lockstep.Stepper{d.reset(d.sim, d.jobs), d.reset(d.sim, d.jobs)}
	if ref, ok := d.ref.(lockstep.StepSimulator); ok && !d.contractOnly {
		steppers = append(steppers, d.reset(ref, d.jobs))
	}
	for _, p := range steppers {
		defer p.Close()
	}
	p := steppers[0]
	begin := d.snapshot(p, lockstep.ContextLength)
	for _, at := range []int{60, 102} {
		for _, from := range steppers {
			d.restore(from, begin)
			shot := d.snapshot(from, at)
			d.through(from, 1000)
			for _, to := range slices.Concat(steppers, steppers) {
				d.restore(to, shot)
				d.finish(to, -1, fmt.Sprintf("from a snapshot before step %d", at))
			}
		}
	}
	d.keeps(p, begin)
	for _, wrong := range []struct {
		what   string
		change func(*lockstep.Snapshot)
	}{
		{"of another profile", func(s *lockstep.Snapshot) {
			s.Profile.Exp = lockstep.ExpF - s.Profile.Exp + lockstep.ExpU
		}},
		{"of another model", func(s *lockstep.Snapshot) { s.Model = "another" }},
		{"with a rollout too few", func(s *lockstep.Snapshot) { s.Rollouts = s.Rollouts[1:] }},
		{"of another route", func(s *lockstep.Snapshot) { s.Rollouts[1].Route = "elsewhere" }},
		{"with a lataccel too few", func(s *lockstep.Snapshot) {
			s.Rollouts[1].Lataccel = s.Rollouts[1].Lataccel[1:]
		}},
		{"without a PID's memory", func(s *lockstep.Snapshot) { s.Rollouts[0].Policy = nil }},
	} {
		shot := d.snapshot(p, 0)
		if wrong.change(shot); p.Restore(context.Background(), shot) == nil {
			d.errorf("Restore takes a snapshot %s", wrong.what)
		}
	}
}

// keeps: results that were given stay as they are when the rollouts go back, and on otherwise.
func (d *driver) keeps(p lockstep.Stepper, begin *lockstep.Snapshot) {
	given := d.ended(p)
	d.restore(p, begin)
	for !p.Done() {
		none, lataccels := make([]float64, len(d.jobs)), make([]float64, len(d.jobs))
		if err := p.Step(context.Background(), none, lataccels); err != nil {
			d.fatalf("Step %d: %w", p.Index(), err)
		}
	}
	d.ended(p)
	for i, want := range d.want {
		if err := trajectoryDiffers(given[i].Trajectory, want.result.Trajectory); err != nil {
			d.errorf("job %d, when it went on otherwise: %w", i, err)
		}
	}
}

// faults: a command that is NaN fails its own rollout until it is taken back, and what
// cannot be simulated is refused.
func (d *driver) faults() {
	ctx := context.Background()
	p := d.reset(d.sim, d.jobs)
	defer p.Close()
	before := d.snapshot(p, 101)
	n := len(d.jobs)
	commands, lataccels := slices.Repeat([]float64{math.NaN()}, n), make([]float64, n)
	if err := p.Step(ctx, commands, lataccels); err != nil {
		d.fatalf("Step with a command that is NaN: %w", err)
	}
	if p.Err(outside) == nil || p.Running(outside) || lataccels[outside] == lataccels[outside] {
		d.errorf(
			"a rollout whose command was NaN goes on, with lataccel %v and error %v",
			lataccels[outside], p.Err(outside),
		)
	}
	if r := d.finish(p, outside, "beside one that failed"); r[outside].Err == nil {
		d.errorf("a rollout whose command was NaN has a result")
	}
	if err := p.Step(ctx, make([]float64, n), lataccels); err == nil {
		d.errorf("Step computes a step after the last")
	}
	d.restore(p, before)
	d.finish(p, -1, "taken back to before one failed")
	if err := p.Step(ctx, make([]float64, n-1), lataccels); err == nil {
		d.errorf("Step takes %d commands for %d rollouts", n-1, n)
	}
	forced := d.jobs[1]
	forced.Teacher = taught(200, 200)
	for what, jobs := range map[string][]lockstep.Job{
		"no jobs":               nil,
		"a job without a route": {d.jobs[0], {Policy: lockstep.Zero{}}},
		"one teacher for two":   {d.jobs[0], forced},
	} {
		if p, err := d.sim.Reset(ctx, jobs, brief); err == nil {
			p.Close()
			d.errorf("Reset takes %s", what)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	q := d.reset(d.sim, d.jobs)
	defer q.Close()
	if err := q.Step(ended, make([]float64, n), lataccels); !errors.Is(err, context.Canceled) ||
		q.Index() != lockstep.ContextLength {
		d.errorf("Step after the context's end: %v, and the next step is %d", err, q.Index())
	}
	d.through(q, 30)
}

// failsOnce: from a snapshot before an observer failed all go on, too.
func (d *driver) failsOnce() {
	jobs, fails := slices.Clone(d.jobs), true
	jobs[0].Observe = func(step *lockstep.Step) {
		if fails && step.Index == 102 {
			panic("it fails once")
		}
	}
	p := d.reset(d.sim, jobs)
	defer p.Close()
	before := d.snapshot(p, 102)
	d.through(p, 1000)
	if p.Err(0) == nil {
		d.errorf("a rollout whose observer panicked goes on")
	}
	fails = false
	d.restore(p, before)
	d.finish(p, -1, "taken back to before its observer failed")
}

// unclosed: what Close returns names each policy with a controller that does not close, once.
func (d *driver) unclosed() {
	jobs := slices.Clone(d.jobs[:3])
	for i := range jobs {
		name := []string{"stuck", "well", "stuck"}[i]
		jobs[i].Policy = &lockstep.Batch{
			Name: name,
			New: func([]*lockstep.Route) (lockstep.BatchController, error) {
				if name == "well" {
					return broken(func(*lockstep.BatchStep) error { return nil }), nil
				}
				return unclosing{}, nil
			},
		}
	}
	err := d.reset(d.sim, jobs).Close()
	said := fmt.Sprint(err)
	if !errors.Is(err, errOutOfFuel) || strings.Count(said, "stuck") != 1 ||
		strings.Contains(said, "well") {
		d.errorf("Close says %q of controllers stuck, well and stuck, want that stuck, once, is %w",
			said, errOutOfFuel)
	}
}

// unclosing is a batch controller that does not close.
type unclosing struct{ broken }

func (unclosing) Close() error { return errOutOfFuel }

// refused: what needs the rollouts of a Stepper is refused in a context that has ended, and once
// the Stepper is closed.
func (d *driver) refused() {
	p := d.reset(d.sim, d.jobs)
	const at = lockstep.ControlStartIdx + 1 // from where on there are observations
	asked := d.asked(p, d.snapshot(p, at))
	late, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	for _, what := range slices.Sorted(maps.Keys(asked)) {
		if err := asked[what](late); !errors.Is(err, context.DeadlineExceeded) {
			d.errorf("%s in a context that has ended: error %v, want context.DeadlineExceeded",
				what, err)
		}
	}
	if p.Index() != at {
		d.errorf("Index is %d after calls in a context that has ended, want %d", p.Index(), at)
	}
	for _, when := range []string{"once", "again"} {
		if err := p.Close(); err != nil {
			d.errorf("Close, %s: %w", when, err)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(asked)) {
		if asked[what](context.Background()) == nil {
			d.errorf("%s after Close gives no error", what)
		}
	}
}

// asked is all that needs a Stepper's rollouts.
func (d *driver) asked(
	p lockstep.Stepper, shot *lockstep.Snapshot,
) map[string]func(context.Context) error {
	n := len(d.jobs)
	numbers := func() []float64 { return make([]float64, n) }
	return map[string]func(context.Context) error{
		"Step": func(ctx context.Context) error { return p.Step(ctx, numbers(), numbers()) },
		"Observe": func(ctx context.Context) error {
			return p.Observe(ctx, make([]float32, n*lockstep.ObservationSize))
		},
		"Results":  func(ctx context.Context) error { _, err := p.Results(ctx); return err },
		"Snapshot": func(ctx context.Context) error { _, err := p.Snapshot(ctx); return err },
		"Restore":  func(ctx context.Context) error { return p.Restore(ctx, shot) },
		"Roll": func(ctx context.Context) error {
			return p.Roll(ctx, numbers(), numbers(), nil)
		},
		"Fork": func(ctx context.Context) error {
			_, err := p.Fork(ctx, shot, []int{0}, lockstep.Noise{Kind: lockstep.RouteNoise})
			return err
		},
	}
}
