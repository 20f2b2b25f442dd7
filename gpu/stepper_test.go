package gpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep"
	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/driver/emulated"
	"lockstep/internal/simtest"
	"lockstep/internal/stepping"
	"lockstep/snapshotfile"
)

// TestStepper drives rollouts by hand, with a snapshot on the way that goes to other
// rollouts of the same jobs, and holds all to the reference.
func TestStepper(t *testing.T) {
	s := newSimulator(t, Config{})
	ref := newReference(t, s.Profile())
	ctx := context.Background()
	jobs := []lockstep.Job{
		{Route: shorten(routes()[0], 107), Policy: weavePolicy},
		{Route: shorten(routes()[1], 103), Policy: lockstep.DefaultPID()},
		{Route: shorten(routes()[2], 105), Draws: make([]float64, 105-lockstep.ContextLength)},
		{Route: shorten(routes()[3], 102), Policy: weavesPolicy},
		{Route: shorten(routes()[0], 104), Policy: weavesPolicy},
		{Route: shorten(routes()[1], 106), Policy: weavePolicy},
	}
	for k := range jobs[2].Draws { // the others draw by themselves
		jobs[2].Draws[k] = float64(k%9) / 9
	}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	asReference := append([]lockstep.Job(nil), jobs...)
	asReference[2].Policy = lockstep.Zero{}
	want := traces(t, ref, asReference, opts)
	given := slices.Clone(jobs)
	p := reset(t, s, given, opts)
	clear(given) // it is the caller's
	none := math.NaN()
	commands, lataccels := []float64{none, none, 0, none, none, none}, make([]float64, 6)
	for !p.Done() {
		step := p.Index()
		var running []bool
		for j := range jobs {
			running = append(running, p.Running(j))
		}
		before := slices.Clone(lataccels)
		if err := p.Step(ctx, commands, lataccels); err != nil {
			t.Fatal(err)
		}
		for j := range jobs {
			if running[j] &&
				!same64(lataccels[j], want[j].steps[step-lockstep.ContextLength].Lataccel) {
				t.Fatalf(
					"job %d, step %d: lataccel %v, want %v", j, step, lataccels[j],
					want[j].steps[step-lockstep.ContextLength].Lataccel,
				)
			}
			if !running[j] && !same64(lataccels[j], before[j]) {
				t.Errorf(
					"job %d, step %d: lataccel %v after the end, want %v", j, step, lataccels[j],
					before[j],
				)
			}
		}
	}
	for range 2 { // what was answered is the caller's, too
		got, err := p.Results(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for j := range jobs {
			if d := resultDifference(got[j], want[j].result); d != "" {
				t.Errorf("job %d: %s", j, d)
			}
			for _, all := range [][]float64{
				got[j].Trajectory.Target, got[j].Trajectory.Lataccel, got[j].Trajectory.Action,
			} {
				clear(all)
			}
		}
	}
	if err := p.Step(ctx, commands, lataccels); !contains(err, "all rollouts have ended") {
		t.Errorf("a step after the end: %v", err)
	}
	givenAlone(t, s, jobs[2:3], want[2].steps)
}

// givenAlone steps a rollout whose draws are given, alone, and then candidates of it: they go as it
// went before, by commands of 0.
func givenAlone(t *testing.T, s *Simulator, jobs []lockstep.Job, steps []lockstep.Step) {
	t.Helper()
	ctx, now := t.Context(), make([]float64, 2)
	alone := reset(t, s, jobs, lockstep.Options{Shortcuts: lockstep.CostOnly})
	for alone.Index() < 102 {
		step := steps[alone.Index()-lockstep.ContextLength]
		if err := alone.Step(ctx, []float64{0}, now[:1]); err != nil ||
			!same64(now[0], step.Lataccel) {
			t.Fatalf("step %d: lataccel %v, want %v; %v", step.Index, now[0], step.Lataccel, err)
		}
	}
	shot, err := alone.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	f, err := alone.Fork(ctx, shot, []int{0, 0}, lockstep.Noise{Kind: lockstep.RouteNoise})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	next := steps[102-lockstep.ContextLength].Lataccel
	if err := f.Step(ctx, []float64{0, 0}, now); err != nil || !same64(now[0], next) ||
		!same64(now[1], next) {
		t.Errorf("candidates: lataccels %v, want %v; %v", now, next, err)
	}
}

// TestTaught: rollouts in step that a teacher leads, one of them by draws that are given, are the
// reference's, and so are rollouts that are computed at once.
func TestTaught(t *testing.T) {
	s := newSimulator(t, Config{})
	ref := newReference(t, s.Profile())
	random := rand.New(rand.NewPCG(5, 6))
	numbers := func(n int, scale float64) (all []float64) {
		for range n {
			all = append(all, scale*(random.Float64()-0.5))
		}
		return all
	}
	var jobs []lockstep.Job
	for i, rows := range []int{103, 101, 102} {
		jobs = append(jobs, lockstep.Job{
			Route: shorten(routes()[i], rows), Policy: lockstep.DefaultPID(),
			Teacher: &lockstep.Trajectory{
				Lataccel: numbers(rows, 8), Action: numbers(rows, 4),
			},
		})
	}
	jobs[1].Draws = make([]float64, 101-lockstep.ContextLength)
	for k := range jobs[1].Draws {
		jobs[1].Draws[k] = random.Float64()
	}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	want := traces(t, ref, jobs, opts)
	observed, seen := slices.Clone(jobs), &trace{}
	observed[1].Observe = seen.observe
	p := reset(t, s, observed, opts)
	q, err := ref.Reset(t.Context(), jobs, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	none := []float64{math.NaN(), math.NaN(), math.NaN()}
	got, led := make([]float64, 3), make([]float64, 3)
	for !p.Done() {
		if err := errors.Join(
			p.Step(t.Context(), none, got), q.Step(t.Context(), none, led),
			simtest.SameBits(fmt.Sprintf("step %d", p.Index()-1), got, led),
		); err != nil {
			t.Fatal(err)
		}
	}
	inStep, err := p.Results(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if seen.result = inStep[1]; seen.difference(want[1]) != "" {
		t.Errorf("what is observed of each step: %s", seen.difference(want[1]))
	}
	for j, got := range results(t, s, t.Context(), jobs, opts) {
		for _, r := range []lockstep.Result{got, inStep[j]} {
			if d := resultDifference(r, want[j].result); d != "" {
				t.Errorf("job %d: %s", j, d)
			}
		}
	}
}

// reset makes a Stepper that ends with the test.
func reset(
	t *testing.T, s *Simulator, jobs []lockstep.Job, opts lockstep.Options,
) lockstep.Stepper {
	t.Helper()
	p, err := s.Reset(context.Background(), jobs, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestSnapshot goes back to snapshots before the control, in it, where one rollout
// has ended, and at the end, in these rollouts and in others that are fresh: what
// follows is what followed before, and costs of what had ended are there.
func TestSnapshot(t *testing.T) {
	s := newSimulator(t, Config{})
	ctx := context.Background()
	jobs := []lockstep.Job{
		{Route: shorten(routes()[0], 105), Policy: lockstep.DefaultPID()},
		{Route: shorten(routes()[1], 102)},
		{Route: shorten(routes()[2], 104), Policy: lockstep.PID{P: 0.3, I: 0.05, D: -0.1}},
	} // the last ends before the first does
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	command := func(step, run int) []float64 {
		return []float64{0, math.Sin(float64(step)*0.7 + float64(run)), 0}
	}
	through := func(t *testing.T, p lockstep.Stepper, to, run int) {
		lataccels := make([]float64, 3)
		for p.Index() < to && !p.Done() {
			at := p.Index()
			if err := p.Step(ctx, command(at, run), lataccels); err != nil || p.Index() != at+1 {
				t.Fatalf("step %d: %v, and the next step is %d", at, err, p.Index())
			}
		}
	}
	p := reset(t, s, jobs, opts)
	shots := map[int]*lockstep.Snapshot{}
	for _, at := range []int{20, 60, 101, 103, 105} {
		through(t, p, at, 0)
		shot, err := p.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		shots[at] = shot
	}
	shotAtFirst(t, shots[20], jobs)
	want, err := p.Results(ctx)
	if err != nil || len(want) != 3 || want[0].Err != nil || want[1].Err != nil {
		t.Fatal(err, want)
	}
	answered := fmt.Sprint(*want[1].Trajectory)
	for at, shot := range shots {
		for name, q := range map[string]lockstep.Stepper{
			"the same": p,
			"fresh":    reset(t, s, jobs, opts),
		} {
			t.Run(fmt.Sprintf("%s, step %d", name, at), func(t *testing.T) {
				for run := range 2 { // a detour first
					if err := q.Restore(ctx, shot); err != nil {
						t.Fatal(err)
					}
					if run == 0 {
						shotAgain(t, s, q, shot)
					}
					through(t, q, 1000, 1-run)
					askedAgain(t, q, want[1].Trajectory, answered)
				}
				got, err := q.Results(ctx)
				if err != nil || len(got) != len(want) {
					t.Fatalf("%d results, want %d: %v", len(got), len(want), err)
				}
				for j := range got {
					if d := resultDifference(got[j], want[j]); d != "" {
						t.Errorf("job %d: %s", j, d)
					}
				}
			})
		}
	}
}

// shotAtFirst: before the first step there are the routes' own histories.
func shotAtFirst(t *testing.T, shot *lockstep.Snapshot, jobs []lockstep.Job) {
	t.Helper()
	for j, r := range shot.Rollouts {
		if err := errors.Join(
			simtest.Same("lataccels at first", r.Lataccel, jobs[j].Route.TargetLataccel[:20]),
			simtest.Same("actions at first", r.Action, jobs[j].Route.SteerCommand[:20]),
		); err != nil {
			t.Error(err)
		}
	}
}

// shotAgain: what has been restored is what is there, and the device is asked for it once.
func shotAgain(t *testing.T, s *Simulator, q lockstep.Stepper, shot *lockstep.Snapshot) {
	t.Helper()
	want, _ := snapshotfile.Marshal(shot)
	for j, r := range shot.Rollouts {
		if now := r.Lataccel[len(r.Lataccel)-1]; !same64(q.Lataccel(j), now) {
			t.Errorf("job %d: lataccel %v, want %v", j, q.Lataccel(j), now)
		}
	}
	before := s.Stats()
	for range 2 {
		again, err := q.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, _ := snapshotfile.Marshal(again)
		if err := simtest.Same("the snapshot's bytes", got, want); err != nil {
			t.Error(err)
		}
	}
	if d := s.Stats().Sub(before); d.Launches != 1 || d.Uploads != 1 || d.Downloads != 3 {
		t.Errorf("%+v for two snapshots, want one launch", d.Counts)
	}
}

// askedAgain: what was answered of a rollout stays what it was when a Stepper is asked again.
func askedAgain(t *testing.T, q lockstep.Stepper, answer *lockstep.Trajectory, was string) {
	t.Helper()
	if _, err := q.Results(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := fmt.Sprint(*answer); now != was {
		t.Errorf("what was answered is %s now, and was %s", now, was)
	}
}

// TestStepOnDevice steps with commands and lataccels in the device's memory: nothing
// passes through the host, and the bits are those of steps with both on the host.
func TestStepOnDevice(t *testing.T) {
	s := newSimulator(t, Config{Open: sharedDevice(t)})
	jobs := []lockstep.Job{
		{Route: shorten(routes()[0], 107)},
		{Route: shorten(routes()[1], 103), Policy: lockstep.DefaultPID()},
		{Route: shorten(routes()[2], 105)},
	}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	const steps, bad = 107 - lockstep.ContextLength, 102 // job 2 is given NaN there
	commands := make([]float64, 3*steps)
	for i := range commands {
		commands[i] = math.Sin(0.7 * float64(i))
	}
	commands[3*(bad-lockstep.ContextLength)+2] = math.NaN()
	want := make([]float64, 3*steps)
	onHost := reset(t, s, jobs, opts)
	for k := range steps {
		if err := onHost.Step(t.Context(), commands[3*k:3*k+3], want[3*k:3*k+3]); err != nil {
			t.Fatal(err)
		}
	}

	p := reset(t, s, jobs, opts).(lockstep.DeviceStepper)
	given, got := steppedOnDevice(t, s, p, commands)
	for i := range want {
		if !same64(got[i], want[i]) && !(math.IsNaN(got[i]) && math.IsNaN(want[i])) {
			t.Fatalf(
				"step %d, job %d: lataccel %v, want %v", lockstep.ContextLength+i/3, i%3, got[i],
				want[i],
			)
		}
	}
	sameEnds(t, p, onHost, 3)
	if p.Err(2) == nil {
		t.Error("a command that is NaN fails nothing")
	}
	compareEnds(t, p, onHost)

	stepsFromSnapshot(t, s.connection, p, onHost, given, commands[3*81:3*82])
	if err := p.StepOnDevice(uintptr(given), 0); !contains(err, "all rollouts have ended") {
		t.Errorf("a step after the end: %v", err)
	}
	for _, job := range []lockstep.Job{
		jobs[0],
		{Route: jobs[0].Route, Policy: weavePolicy},
		{Route: jobs[0].Route, Observe: func(*lockstep.Step) {}},
	} {
		q := reset(t, s, []lockstep.Job{job}, opts).(lockstep.DeviceStepper)
		onHost := job.Policy != nil || job.Observe != nil
		if err := q.StepOnDevice(uintptr(given), 0); contains(err, "on the host") != onHost ||
			onHost && q.Index() != lockstep.ContextLength {
			t.Errorf("with %v on the host: %v", job.Policy, err)
		}
		q.Close()
		if err := q.StepOnDevice(uintptr(given), 0); !errors.Is(err, stepping.ErrClosed) {
			t.Errorf("with %v, closed: %v", job.Policy, err)
		}
	}
}

// steppedOnDevice steps three jobs to their end with commands that it puts on the device, and
// returns where they are and the lataccels. Nothing passes through the host before Sync, and what
// it would tell is not known.
func steppedOnDevice(
	t *testing.T, s *Simulator, p lockstep.DeviceStepper, commands []float64,
) (given driver.Pointer, lataccels []float64) {
	t.Helper()
	c, steps := s.connection, len(commands)/3
	given, err := c.Allocate(int64(8 * len(commands)))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := c.Allocate(int64(8 * len(commands)))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Upload(given, viewBytes(commands)),
		c.Fill(kept, 0, int64(8*len(commands))), c.Synchronize(t.Context())); err != nil {
		t.Fatal(err)
	}
	before := s.Stats()
	for k := range steps {
		if err := p.StepOnDevice(uintptr(given)+uintptr(24*k),
			uintptr(kept)+uintptr(24*k)); err != nil {
			t.Fatal(err)
		}
	}
	if d := s.Stats().Sub(before); d.Launches != int64(steps) ||
		d.Uploads+d.Downloads+d.Copies+d.Synchronisations != 0 {
		t.Errorf(
			"%d steps were %+v, want a launch for each and nothing through the host", steps,
			d.Counts,
		)
	}
	if p.Err(2) != nil || p.Index() != 107 || !p.Done() {
		t.Errorf("before Sync: error %v, step %d", p.Err(2), p.Index())
	}
	lataccels = make([]float64, len(commands))
	err = errors.Join(c.Download(viewBytes(lataccels), kept), p.Sync(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if d := s.Stats().Sub(before); d.Launches != int64(steps) {
		t.Errorf("%d launches with Sync, want %d", d.Launches, steps)
	}
	return given, lataccels
}

// sameEnds holds errors and last lataccels of jobs on the device to those on the host. Job 2 has
// failed.
func sameEnds(t *testing.T, p, onHost lockstep.Stepper, jobs int) {
	t.Helper()
	for j := range jobs {
		if g, w := fmt.Sprint(p.Err(j)), fmt.Sprint(onHost.Err(j)); g != w {
			t.Errorf("job %d: error %s, want %s", j, g, w)
		}
		if !same64(p.Lataccel(j), onHost.Lataccel(j)) && j != 2 {
			t.Errorf("job %d: lataccel %v, want %v", j, p.Lataccel(j), onHost.Lataccel(j))
		}
	}
}

// stepsFromSnapshot goes on from a snapshot, with the rollouts' own array and the commands given
// for each step, which the device has at byte 24*81 of given; one step has all on the host.
func stepsFromSnapshot(t *testing.T, c *connection, p lockstep.DeviceStepper,
	onHost lockstep.Stepper, given driver.Pointer, alone []float64) {
	t.Helper()
	ctx := context.Background()
	shot, err := onHost.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range shot.Rollouts {
		r := &shot.Rollouts[i]
		r.Lataccel, r.Action, r.Err = r.Lataccel[:101], r.Action[:101], ""
	}
	shot.Step = 101
	shot.Rollouts[1].Policy = []float64{0.25, -0.5}
	for _, q := range []lockstep.Stepper{p, onHost} {
		if err := q.Restore(ctx, shot); err != nil {
			t.Fatal(err)
		}
	}
	now, got := make([]float64, 3), make([]float64, 3)
	for step := 101; step < 107; step++ {
		if err := onHost.Step(ctx, alone, now); err != nil {
			t.Fatal(err)
		}
		own := driver.Pointer(p.DeviceLataccels())
		switch step {
		case 103: // in the place of the commands
			err = errors.Join(
				c.Copy(own, given+24*81, 24), p.StepOnDevice(uintptr(own), 0),
				c.Download(viewBytes(got), own), c.Synchronize(ctx),
			)
		case 104:
			err = p.Step(ctx, alone, got)
		default:
			err = errors.Join(
				p.StepOnDevice(uintptr(given)+24*81, 0), c.Download(viewBytes(got), own),
				c.Synchronize(ctx),
			)
		}
		if err != nil || !slices.EqualFunc(got, now, same64) {
			t.Fatalf("step %d from a snapshot: lataccels %v, want %v; %v", step, got, now, err)
		}
	}
	compareEnds(t, p, onHost)
}

// TestObserveOnDevice observes rollouts in step in the device's memory: nothing passes
// through the host, and the bits are those of observations made from the histories.
func TestObserveOnDevice(t *testing.T) {
	s := newSimulator(t, Config{Open: sharedDevice(t)})
	ctx := context.Background()
	jobs := []lockstep.Job{ // the second is given NaN, the third ends early
		{
			Route: shorten(routes()[0], 106),
		}, {Route: shorten(routes()[1], 106)}, {Route: shorten(routes()[2], 104)},
		{
			Route:  routes()[1],
			Policy: lockstep.DefaultPID(),
		}, // its plan goes on behind the last step
	}
	const n, size, from, to, bad = 4, lockstep.ObservationSize, lockstep.ControlStartIdx, 106, 102
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly}
	onHost := reset(t, s, jobs, opts)
	p := reset(t, s, jobs, opts).(lockstep.DeviceStepper)
	if at, err := p.ObserveOnDevice(0); at != 0 || !contains(
		err, "step 20: there are observations from step 100 on",
	) {
		t.Errorf("before there are any: %v", err)
	}
	// The yardstick's rollouts are a network's: those of others have no observations there.
	seen := slices.Clone(jobs)
	for i := range seen {
		seen[i].Policy = network(8)
	}
	e := &lockstep.Experience{
		Jobs:     seen,
		Results:  make([]lockstep.Result, n),
		Lataccel: make([]float64, n*lockstep.ExperienceSteps),
		Action:   make([]float64, n*lockstep.ExperienceSteps),
	}
	c := s.connection
	var given, into driver.Pointer
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	given, err = c.Allocate(8 * n)
	must(err)
	into, err = c.Allocate(4 * n * size)
	must(err)
	for step := lockstep.ContextLength; step < to; step++ {
		commands := make([]float64, n)
		for i := range commands {
			commands[i] = math.Sin(0.7 * float64(n*step+i))
		}
		if step == bad {
			commands[1] = math.NaN()
		}
		if step >= from {
			shot, err := onHost.Snapshot(ctx)
			must(err)
			want := make([]float32, n*size)
			for i, r := range shot.Rollouts {
				copy(e.Lataccel[i*lockstep.ExperienceSteps:], r.Lataccel[from:])
				copy(e.Action[i*lockstep.ExperienceSteps:], r.Action[from:])
				if onHost.Running(i) {
					must(s.Observe(
						e, []lockstep.Place{{Rollout: i, Step: step - from}}, want[i*size:][:size],
					))
				}
			}
			must(c.Fill(into, 0xff, 4*n*size), c.Synchronize(ctx))
			before := s.Stats()
			at, err := p.ObserveOnDevice(uintptr(into))
			own, failed := p.ObserveOnDevice(0)
			must(err, failed)
			if d := s.Stats().Sub(before); at != uintptr(into) || d.Launches != 2 ||
				d.Uploads+d.Downloads+d.Copies+d.Synchronisations != 0 {
				t.Errorf(
					"step %d: %+v, want two launches and nothing through the host", step, d.Counts,
				)
			}
			same(t, s, fmt.Sprintf("step %d", step), at, want)
			same(t, s, fmt.Sprintf("step %d, in its own array", step), own, want)
		}
		must(
			onHost.Step(ctx, commands, make([]float64, n)), c.Upload(given, viewBytes(commands)),
			c.Synchronize(ctx),
		)
		if step == from+1 { // of this one the host knows
			must(p.Step(ctx, commands, make([]float64, n)))
		} else {
			must(p.StepOnDevice(uintptr(given), 0))
		}
	}
	if onHost.Running(1) || onHost.Running(2) || !onHost.Running(3) {
		t.Error("want a rollout that failed, one that ended, and one that goes on")
	}
}

// TestObserveOnDeviceAtEnds: a rollout that has ended is not observed, and what ends it is its
// route's last row or, if the shortcuts have it so, the last step that costs. The plan goes on
// behind that step in either case, as the reference has it.
func TestObserveOnDeviceAtEnds(t *testing.T) {
	s := newSimulator(t, Config{Open: sharedDevice(t)})
	ref := newReference(t, s.Profile())
	ctx := context.Background()
	jobs := []lockstep.Job{ // the second and last have failed, the third ends before both steps
		{Route: shorten(routes()[0], 502)}, {Route: shorten(routes()[3], 502)},
		{Route: shorten(routes()[2], 498)}, {Route: shorten(routes()[1], 501)},
		{Route: shorten(routes()[4], 502)},
	}
	const n, size = 5, lockstep.ObservationSize
	for _, shortcuts := range []lockstep.Shortcuts{
		lockstep.CostOnly, lockstep.SkipWarmup, lockstep.StopAtCostEnd, lockstep.FullTrajectory,
	} {
		p := reset(t, s, jobs, lockstep.Options{Shortcuts: shortcuts}).(lockstep.DeviceStepper)
		shot, err := p.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		shot.Step = lockstep.CostEndIdx - 1
		for i := range jobs { // as if it had followed its target by itself
			end := min(shot.Step, jobs[i].Route.Len())
			r := &shot.Rollouts[i]
			r.Lataccel, r.Action = jobs[i].Route.TargetLataccel[:end], make([]float64, end)
		}
		for _, i := range []int{1, 4} {
			shot.Rollouts[i].Err = "out of fuel" // of which the device does not know
		}
		specified, err := ref.Reset(ctx, jobs, lockstep.Options{Shortcuts: shortcuts})
		if err != nil {
			t.Fatal(err)
		}
		defer specified.Close()
		got, plan := make([]float32, n*size), make([]float32, n*size)
		if err := errors.Join(
			p.Restore(ctx, shot), specified.Restore(ctx, shot), p.Observe(ctx, got),
			specified.Observe(ctx, plan),
			simtest.Same(fmt.Sprintf("shortcuts %v, the last step to cost", shortcuts), got, plan),
		); err != nil {
			t.Fatal(err)
		}
		for p.Index() < lockstep.CostEndIdx+1 {
			if err := p.Step(ctx, make([]float64, n), make([]float64, n)); err != nil {
				t.Fatal(err)
			}
			want := make([]float32, n*size)
			if err := p.Observe(ctx, want); err != nil {
				t.Fatal(err)
			}
			what := fmt.Sprintf("shortcuts %v, step %d", shortcuts, p.Index())
			for i := range jobs {
				seen := slices.ContainsFunc(want[i*size:][:size],
					func(x float32) bool { return x != 0 })
				if seen != p.Running(i) {
					t.Errorf("%s, rollout %d: observed %v, running %v", what, i, seen, p.Running(i))
				}
			}
			at, err := p.ObserveOnDevice(0)
			if err != nil {
				t.Fatal(err)
			}
			same(t, s, what, at, want)
			if p.Done() {
				break
			}
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if at, err := p.ObserveOnDevice(0); err == nil || at != 0 {
			t.Errorf("a Stepper that is closed observes at %x", at)
		}
	}
}

// TestObserving: what the device observes rollouts in step from is what they are rolled out from,
// wherever that lies and however much it is.
func TestObserving(t *testing.T) {
	const far = 1 << 40
	for shortcuts, end := range map[lockstep.Shortcuts]int64{
		lockstep.CostOnly: 500, lockstep.StopAtCostEnd: 500, lockstep.SkipWarmup: math.MaxInt64,
		lockstep.FullTrajectory: math.MaxInt64,
	} {
		h := newHollow()
		l := launchBlock{
			Job: far + 1, Status: far + 2, Routes: far + 3, RollLataccel: far + 4, VEgo: far + 5,
			AEgo: far + 6, Target: far + 7, Lataccel: far + 8, Action: far + 9, Stride: far + 10,
			Shortcuts: int64(shortcuts),
		}
		r := &rollouts{batch: &batch{block: l}, tasks: make([]*task, 3)}
		into := driver.Pointer(far + 11)
		want := observingBlock{
			Job: far + 1, Status: far + 2, Routes: far + 3, RollLataccel: far + 4, VEgo: far + 5,
			AEgo: far + 6, Target: far + 7, Lataccel: far + 8 + 800, Action: far + 9 + 800,
			Stride: far + 10, Step: 123, End: end, Inputs: 256, Out: into,
		}
		c := &connection{Ledger: &driver.Ledger{Device: h}}
		if err := r.observe(c, 123, &into); err != nil || h.observed != want {
			t.Errorf("%+v, want %+v; %v", h.observed, want, err)
		}
	}
}

// TestUnmade: of jobs whose controllers are not made each has that reason, at step 0,
// whichever of a launch they are; nothing of them is observed, and the others go on.
func TestUnmade(t *testing.T) {
	h := newHollow()
	s := onHollow(func() (driver.Device, error) { return h, nil })
	for bad := 1; bad < 8; bad++ {
		var jobs []lockstep.Job
		var seen [3]int
		for j := range 3 {
			name := fmt.Sprint("c", j)
			job := lockstep.Job{
				Route: shorten(routes()[j], 101), Observe: func(*lockstep.Step) { seen[j]++ },
				Policy: lockstep.Custom{Name: name, New: func() lockstep.Controller {
					if bad>>j&1 != 0 {
						panic("not today " + name)
					}
					return &weave{}
				}},
			}
			jobs = append(jobs, job)
		}
		for j, r := range results(t, s, t.Context(), jobs, lockstep.Options{}) {
			unmade := bad>>j&1 != 0
			want := fmt.Sprintf("route %s, controller c%d, step 0: panic: not today c%d",
				jobs[j].Route.Name, j, j)
			if (r.Err != nil) != unmade || unmade && !strings.HasPrefix(r.Err.Error(), want) {
				t.Errorf("of %03b that are not made job %d: %v", bad, j, r.Err)
			}
			if want := map[bool]int{false: 81, true: 0}[unmade]; seen[j] != want {
				t.Errorf("of %03b that are not made %d steps of job %d are seen, want %d", bad,
					seen[j], j, want)
			}
		}
		if _, err := s.Reset(t.Context(), jobs, lockstep.Options{}); !contains(err, "not today") {
			t.Errorf("of %03b that are not made: %v", bad, err)
		}
	}
}

// TestCandidates: what the device is told of candidates and of their own candidates: each one's
// origin, whose draws it goes by, and whether they are expected values.
func TestCandidates(t *testing.T) {
	h := newHollow()
	s := onHollow(func() (driver.Device, error) { return h, nil })
	const rows = 120
	a, b := shorten(routes()[0], rows), shorten(routes()[1], rows-7)
	p := reset(t, s, []lockstep.Job{
		{Route: a}, {Route: b, Draws: make([]float64, rows-7-lockstep.ContextLength)},
		{Route: b, Expected: true},
	}, lockstep.Options{Shortcuts: lockstep.FullTrajectory})
	own := func(r *lockstep.Route) int64 { return int64(r.Seed) }
	type told struct{ origin, noise, expected int64 }
	route := lockstep.Noise{Kind: lockstep.RouteNoise}
	expected := lockstep.Noise{Kind: lockstep.ExpectedNoise}
	seeded := lockstep.Noise{Kind: lockstep.SeededNoise, Seeds: []uint32{7, math.MaxUint32, 9, 10}}
	index := []int{2, 0, 1, 0}
	for _, c := range []struct {
		noise []lockstep.Noise // of a fork, and of one of it
		want  []told
	}{
		{[]lockstep.Noise{route}, []told{
			{2, own(b), 1}, {0, own(a), 0}, {1, givenDraws, 0}, {0, own(a), 0}}},
		{[]lockstep.Noise{seeded}, []told{
			{2, 7, 0}, {0, math.MaxUint32, 0}, {1, 9, 0}, {0, 10, 0}}},
		{[]lockstep.Noise{expected}, []told{
			{2, own(b), 1}, {0, own(a), 1}, {1, givenDraws, 1}, {0, own(a), 1}}},
		{[]lockstep.Noise{seeded, route}, []told{
			{2, 9, 0}, {0, 7, 0}, {1, math.MaxUint32, 0}, {0, 7, 0}}},
		{[]lockstep.Noise{seeded, expected}, []told{
			{2, 9, 1}, {0, 7, 1}, {1, math.MaxUint32, 1}, {0, 7, 1}}},
		{[]lockstep.Noise{expected, route}, []told{
			{2, givenDraws, 1}, {0, own(b), 1}, {1, own(a), 1}, {0, own(b), 1}}},
		{[]lockstep.Noise{route, seeded}, []told{
			{2, 7, 0}, {0, math.MaxUint32, 0}, {1, 9, 0}, {0, 10, 0}}},
	} {
		q := p
		for _, noise := range c.noise {
			shot, err := q.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if q, err = q.Fork(t.Context(), shot, index, noise); err != nil {
				t.Fatal(err)
			}
			defer q.Close()
		}
		f, ok := q.(*stepper)
		if !ok {
			t.Fatalf("%T", q)
		}
		batch := f.engine.batch
		for k, j := range up[jobBlock](batch, batch.at.job, len(index)) {
			if got := (told{j.Origin, j.Noise, j.Expected}); got != c.want[k] {
				t.Errorf("%v: candidate %d is told %+v, want %+v", c.noise, k, got, c.want[k])
			}
		}
		given := slices.ContainsFunc(c.want, func(w told) bool { return w.noise == givenDraws })
		if k := batch.shape.kind; k.draws != given || k.past == nil || k.trajectory {
			t.Errorf("%v: %+v", c.noise, k)
		}
	}
}

// TestOneCandidate: of many rollouts that a snapshot has all go up, and one goes on from its own;
// what goes on from one that has failed has failed, too, and nothing else has.
func TestOneCandidate(t *testing.T) {
	const rollouts, step = 12, 100
	h := newHollow()
	s := onHollow(func() (driver.Device, error) { return h, nil })
	p := reset(t, s, slices.Repeat([]lockstep.Job{{Route: shorten(routes()[0], 101)}}, rollouts),
		lockstep.Options{})
	shot, err := p.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shot.Step = step
	var lataccels, actions []float64
	for i := range shot.Rollouts {
		r := &shot.Rollouts[i]
		r.Lataccel, r.Action = make([]float64, step), make([]float64, step)
		for k := range step {
			r.Lataccel[k], r.Action[k] = float64(1000*i+k), -float64(1000*i+k)
		}
		lataccels, actions = append(lataccels, r.Lataccel...), append(actions, r.Action...)
	}
	f, err := p.Fork(t.Context(), shot, []int{7}, lockstep.Noise{Kind: lockstep.RouteNoise})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	shot.Rollouts[3].Err = "out of fuel"
	several, err := p.Fork(t.Context(), shot, []int{7, 3, 0, 3},
		lockstep.Noise{Kind: lockstep.RouteNoise})
	if err != nil {
		t.Fatal(err)
	}
	defer several.Close()
	for k := range 4 {
		if failed := k%2 == 1; contains(several.Err(k), "out of fuel") != failed ||
			several.Running(k) == failed {
			t.Errorf("candidate %d: %v", k, several.Err(k))
		}
	}
	if got := f.Lataccel(0); got != 7000+step-1 {
		t.Errorf("it goes on from lataccel %v", got)
	}
	b := f.(*stepper).engine.batch
	of := func(p driver.Pointer) []float64 {
		return view[float64](b.buffer.host[p-b.buffer.device:], rollouts*step)
	}
	if err := errors.Join(
		simtest.Same("lataccels", of(b.block.PastLataccel), lataccels),
		simtest.Same("actions", of(b.block.PastAction), actions),
	); err != nil {
		t.Error(err)
	}
}

// TestNeeds: rollouts in step need of the kernels what any of their jobs does.
func TestNeeds(t *testing.T) {
	h := newHollow()
	s := onHollow(func() (driver.Device, error) { return h, nil })
	route := shorten(routes()[0], 101)
	taught := &lockstep.Trajectory{Lataccel: make([]float64, 101), Action: make([]float64, 101)}
	plain := lockstep.Job{Route: route, Policy: lockstep.Zero{}}
	for _, c := range []struct {
		edit func(*lockstep.Job)
		want kind
	}{
		{func(*lockstep.Job) {}, kind{commands: true}},
		{func(j *lockstep.Job) { j.Policy = lockstep.PIDFF{} },
			kind{commands: true, policies: true}},
		{func(j *lockstep.Job) { j.Expected = true }, kind{commands: true, policies: true}},
		{func(j *lockstep.Job) { j.Draws = make([]float64, 81) },
			kind{commands: true, draws: true}},
		{func(j *lockstep.Job) { j.Observe = func(*lockstep.Step) {} },
			kind{commands: true, traced: true}},
	} {
		for at := range 3 {
			jobs := slices.Repeat([]lockstep.Job{plain}, 3)
			c.edit(&jobs[at])
			p := reset(t, s, jobs, lockstep.Options{})
			if got := p.(*stepper).engine.batch.shape.kind; got != c.want {
				t.Errorf("job %d alone: %+v, want %+v", at, got, c.want)
			}
		}
	}
	plain.Teacher = taught
	p := reset(t, s, slices.Repeat([]lockstep.Job{plain}, 3), lockstep.Options{Trajectory: true})
	want := kind{commands: true, teacher: true, trajectory: true}
	if got := p.(*stepper).engine.batch.shape.kind; got != want {
		t.Errorf("all taught: %+v, want %+v", got, want)
	}
}

// TestControllers: jobs of one Batch share a controller, which is made for their routes in their
// order; every other job of a controller has its own, and one that is not made leaves its jobs the
// reason and the others theirs.
func TestControllers(t *testing.T) {
	all := routes()
	var made []string
	batch := func(name string, fails error) *lockstep.Batch {
		return &lockstep.Batch{
			Name: name, New: func(routes []*lockstep.Route) (lockstep.BatchController, error) {
				for _, r := range routes {
					name += " " + r.Name
				}
				made = append(made, name)
				return &weaves{make([]weave, len(routes))}, fails
			},
		}
	}
	a, b, none := batch("a", nil), batch("b", nil), batch("none", errPlanted)
	var r rollouts
	for i, policy := range []lockstep.Policy{
		a, weavePolicy, nil, none, b, a, lockstep.Zero{}, weavePolicy, none, a,
	} {
		r.tasks = append(r.tasks, &task{job: &lockstep.Job{Route: all[i%3], Policy: policy}})
	}
	var jobs [][]int
	for _, c := range r.makeControllers() {
		jobs = append(jobs, c.jobs)
	}
	slices.Sort(made) // whichever is made first
	if want := []string{
		"a g00000 g00002 g00000", "b g00001", "none g00000 g00002",
	}; !slices.Equal(made, want) {
		t.Errorf("made are %q, want %q", made, want)
	}
	if got := fmt.Sprint(jobs); got != "[[0 5 9] [1] [4] [7]]" {
		t.Errorf("controllers steer %s", got)
	}
	for j := range r.tasks {
		if unmade := j == 3 || j == 8; errors.Is(r.unmade[j], errPlanted) != unmade {
			t.Errorf("job %d: %v", j, r.unmade[j])
		}
	}
}

// TestNotObserved: of rollouts in step that cannot be observed the element is named that the
// reference names, the first one, too.
func TestNotObserved(t *testing.T) {
	s := newSimulator(t, Config{Open: sharedDevice(t)})
	ref := newReference(t, s.Profile())
	for _, c := range []struct{ column, row int }{
		{0, 100}, {1, 100}, {2, 100}, {3, 100}, {0, 130}, {1, 131}, {2, 132}, {3, 149},
	} {
		route := *shorten(routes()[0], 160)
		column := []*[]float64{
			&route.TargetLataccel, &route.RollLataccel, &route.VEgo, &route.AEgo,
		}[c.column]
		*column = slices.Clone(*column)
		(*column)[c.row] = math.NaN()
		jobs := []lockstep.Job{{Route: shorten(routes()[1], 160)}, {Route: &route}}
		var said [2]string
		for i, s := range []lockstep.StepSimulator{s, ref} {
			p, err := s.Reset(t.Context(), jobs, lockstep.Options{Shortcuts: lockstep.SkipWarmup})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Roll(t.Context(), make([]float64, 2*80), make([]float64, 2),
				nil); err != nil {
				t.Fatal(err)
			}
			into := make([]float32, 2*lockstep.ObservationSize)
			said[i] = fmt.Sprint(errors.Join(p.Observe(t.Context(), into), p.Close()))
		}
		if said[0] != said[1] || said[1] == "<nil>" {
			t.Errorf("without a number at row %d of column %d: %s, want %s", c.row, c.column,
				said[0], said[1])
		}
	}
}

// TestRolledFailure: a rollout that is rolled, or steps on the device, fails at the step and for
// the reason for which it fails in the reference: where the route's own command is none, which
// nobody has given, and where its acceleration or a teacher's action is none. That is so again
// behind a timeline in which a command was none there.
func TestRolledFailure(t *testing.T) {
	s := newSimulator(t, Config{Open: sharedDevice(t)})
	yardstick := newReference(t, s.Profile())
	const end, late, never = 103, 101, 1000
	for _, c := range []struct{ steer, acceleration, taught int }{ // where there is none, or 0
		{steer: lockstep.ContextLength - 1}, {steer: lockstep.ContextLength}, {steer: 22},
		{acceleration: late}, {taught: late},
	} {
		route := *shorten(routes()[0], end)
		route.SteerCommand, route.AEgo = slices.Clone(route.SteerCommand), slices.Clone(route.AEgo)
		jobs, opts := []lockstep.Job{{Route: &route}}, lockstep.Options{}
		if none := math.NaN(); c.steer > 0 {
			route.SteerCommand[c.steer] = none
		} else if opts.Shortcuts = lockstep.SkipWarmup; c.acceleration > 0 {
			route.AEgo[c.acceleration] = none
		} else {
			jobs[0].Teacher = &lockstep.Trajectory{
				Lataccel: make([]float64, end), Action: make([]float64, end),
			}
			jobs[0].Teacher.Action[c.taught] = none
		}
		ref, err := yardstick.Reset(t.Context(), jobs, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer ref.Close()
		for !ref.Done() {
			if err := ref.Step(t.Context(), []float64{0}, []float64{0}); err != nil {
				t.Fatal(err)
			}
		}
		want := fmt.Sprint(ref.Err(0))
		for _, steps := range []int{0, 1, 4} { // 0: on the device
			p := reset(t, s, jobs, opts).(lockstep.DeviceStepper)
			if c.steer == 0 {
				p.Roll(t.Context(), make([]float64, 77), make([]float64, 1), nil)
			}
			begin, err := p.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, bad := range []int{late, never} {
				if err := p.Restore(t.Context(), begin); err != nil {
					t.Fatal(err)
				}
				told := want
				// On the device a command does not count beside a teacher's action.
				if bad == late && (c.acceleration > 0 || c.taught > 0 && steps > 0) {
					told = fmt.Sprint(jobs[0].Failed(late, errors.New("the command is NaN")))
				}
				got := failedBy(t, s, p, steps, bad)
				if got != told || got == "<nil>" {
					t.Errorf("%+v, %d steps at once, NaN from step %d on: %s, want %s", c, steps,
						bad, got, told)
				}
			}
		}
	}
	failedOtherwise(t, s)
}

// failedOtherwise: a rollout that has failed for want of a command, and from before that fails at
// the same step for another reason, says so.
func failedOtherwise(t *testing.T, s *Simulator) {
	t.Helper()
	route := *shorten(routes()[0], 103)
	route.VEgo = slices.Clone(route.VEgo)
	route.VEgo[101] = math.NaN()
	p := reset(t, s, []lockstep.Job{{Route: &route}},
		lockstep.Options{Shortcuts: lockstep.SkipWarmup}).(lockstep.DeviceStepper)
	if err := p.Roll(t.Context(), make([]float64, 80), make([]float64, 1), nil); err != nil {
		t.Fatal(err)
	}
	shot, err := p.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"step 101: the command is NaN",
		"step 101: probabilities contain NaN"} {
		commands := []float64{0, math.NaN(), 0}
		if strings.Contains(want, "probabilities") {
			clear(commands)
		}
		p.Roll(t.Context(), commands, make([]float64, 1), nil) // no step is left behind
		if _, err := p.Results(t.Context()); err != nil || !contains(p.Err(0), want) {
			t.Errorf("%v, want %s; %v", p.Err(0), want, err)
		}
		if err := p.Restore(t.Context(), shot); err != nil {
			t.Fatal(err)
		}
	}
}

// failedBy is why a rollout fails by commands of 0, and of NaN from a step on, in rolls of so many
// steps or, if these are 0, on the device. All that it came to has been fetched.
func failedBy(t *testing.T, s *Simulator, p lockstep.DeviceStepper, steps, bad int) string {
	t.Helper()
	given, err := s.connection.Allocate(8)
	if err != nil {
		t.Fatal(err)
	}
	for !p.Done() {
		commands := make([]float64, max(steps, 1))
		for i := range commands {
			if p.Index()+i >= bad {
				commands[i] = math.NaN()
			}
		}
		if steps > 0 { // more than there are is an error, which is not asked about
			p.Roll(t.Context(), commands, make([]float64, 1), nil)
			continue
		}
		if err := errors.Join(
			s.connection.Upload(given, viewBytes(commands)), p.StepOnDevice(uintptr(given), 0),
			s.connection.Synchronize(t.Context()),
		); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Results(t.Context()); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(p.Err(0))
}

// compareEnds holds results and snapshots to one another.
func compareEnds(t *testing.T, got, want lockstep.Stepper) {
	t.Helper()
	var results [2][]lockstep.Result
	var shots [2]*lockstep.Snapshot
	for i, p := range []lockstep.Stepper{got, want} {
		var err, failed error
		results[i], err = p.Results(context.Background())
		shots[i], failed = p.Snapshot(context.Background())
		if err := errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
	}
	for j := range results[0] {
		if d := resultDifference(results[0][j], results[1][j]); d != "" {
			t.Errorf("job %d: %s", j, d)
		}
	}
	a, _ := snapshotfile.Marshal(shots[0])
	b, _ := snapshotfile.Marshal(shots[1])
	if err := simtest.Same("the snapshot's bytes", a, b); err != nil {
		t.Error(err)
	}
}

// sharedDevice opens the GPU on its default stream, in the context that others share,
// or the kernels on the CPU.
func sharedDevice(t *testing.T) func() (driver.Device, error) {
	open := device(t, emulated.Options{})
	if Available() != nil {
		return open
	}
	return func() (driver.Device, error) { return OpenDeviceOn(new(uintptr)) }
}

// TestStepperFaults uses a Stepper as it must not be used.
func TestStepperFaults(t *testing.T) {
	s := newSimulator(t, Config{})
	ctx := context.Background()
	route := shorten(routes()[0], 102)
	taught := &lockstep.Trajectory{Lataccel: make([]float64, 102), Action: make([]float64, 102)}
	for _, c := range []struct {
		jobs []lockstep.Job
		want string
	}{
		{nil, "no jobs"},
		{[]lockstep.Job{{Route: route}, {}}, "job 1: route , step 0: no route"},
		{[]lockstep.Job{{Route: route}, {Route: route, Teacher: taught}}, "either all jobs have " +
			"a teacher or none has"},
		{[]lockstep.Job{{Route: route, Draws: make([]float64, 2)}}, "2 draws are given, want 82"},
		{
			[]lockstep.Job{{Route: route}, {Route: route, Policy: lockstep.Custom{
				Name: "bad", New: func() lockstep.Controller { return nil },
			}}}, "job 1: route g00000[:102], controller bad, step 0: the policy made no controller",
		},
	} {
		if _, err := s.Reset(ctx, c.jobs, lockstep.Options{}); !contains(err, c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want one line with %q", err, c.want)
		}
	}
	s.config.MemoryLimit = 24 << 10
	many := make([]lockstep.Job, 20)
	for i := range many {
		many[i] = lockstep.Job{Route: route}
	}
	if _, err := s.Reset(ctx, many, lockstep.Options{}); !errors.Is(err, driver.ErrOutOfMemory) ||
		!contains(err, "of 20 rollouts fit") {
		t.Errorf("too many rollouts: %v", err)
	}
	s.config.MemoryLimit = 0

	seen := 0
	p := reset(
		t, s,
		[]lockstep.Job{{Route: route}, {Route: route, Observe: func(step *lockstep.Step) {
			seen = step.Index
			if step.Index == 30 {
				panic("seen enough")
			}
		}}},
		lockstep.Options{Shortcuts: lockstep.SkipWarmup},
	)
	lataccels := make([]float64, 2)
	for p.Index() < 33 {
		if err := p.Step(ctx, []float64{0, 0}, lataccels); err != nil {
			t.Fatal(err)
		}
		if step := p.Index() - 1; math.IsNaN(lataccels[1]) != (step >= 30) ||
			math.IsNaN(lataccels[0]) {
			t.Errorf("step %d: lataccels %v", step, lataccels)
		}
	}
	if err := p.Err(1); !contains(err, "step 30: panic: seen enough") || seen != 30 {
		t.Errorf("job 1: error %v; its observer last saw step %d", err, seen)
	}
	results, err := p.Results(ctx)
	if err != nil || !contains(results[0].Err, "the rollout goes on to step 101") ||
		!contains(results[1].Err, "seen enough") {
		t.Errorf("results %v, %v", results, err)
	}
}

// unclosing is a controller that does not close.
type unclosing struct{ weaves }

func (*unclosing) Close() error { return errors.New("the door is stuck") }

// TestUnclosed: a controller that does not close is told of, and one that does is not.
func TestUnclosed(t *testing.T) {
	s := newSimulator(t, Config{})
	route := shorten(routes()[0], 101)
	stuck := &lockstep.Batch{
		Name: "stuck",
		New: func([]*lockstep.Route) (lockstep.BatchController, error) {
			return &unclosing{}, nil
		},
	}
	for _, c := range []struct {
		policy lockstep.Policy
		want   string
	}{{weavesPolicy, "<nil>"}, {stuck, "controller stuck does not close: the door is stuck"}} {
		p, err := s.Reset(t.Context(), []lockstep.Job{{Route: route}, {
			Route: route, Policy: c.policy,
		}}, lockstep.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); fmt.Sprint(err) != c.want {
			t.Errorf("%v: %v, want %s", c.policy, err, c.want)
		}
	}
}

// TestDeclared: what is declared is that of the first job's network, if there is one, and what has
// no number is named as the network names it, or as an observation that is not declared.
func TestDeclared(t *testing.T) {
	sees, err := lockstep.ParseSees([]string{"target[1]", "v[0]"})
	if err != nil {
		t.Fatal(err)
	}
	n, err := lockstep.NewSeeing(sees, []lockstep.Layer{{
		Inputs: 2, Outputs: 2, Weights: make([]float32, 4), Bias: make([]float32, 2),
	}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		jobs []lockstep.Job
		want int
	}{
		{nil, 0}, {[]lockstep.Job{{}}, 0}, {[]lockstep.Job{{Policy: lockstep.Zero{}}}, 0},
		{[]lockstep.Job{{Policy: (*lockstep.Network)(nil)}}, 0},
		{[]lockstep.Job{{Policy: network(8)}}, 0},
		{[]lockstep.Job{{Policy: n}, {}}, 2},
	} {
		if got := declaredBy(&lockstep.Experience{Jobs: c.jobs}); len(got) != c.want {
			t.Errorf("%+v: %v is declared, want %d", c.jobs, got, c.want)
		}
	}
	for element, want := range map[int]string{
		0: "observation[0] (target[1])", 1: "observation[1] (v[0])",
		lockstep.MaxWidth:     lockstep.ObservationElement(0),
		lockstep.MaxWidth + 7: lockstep.ObservationElement(7),
	} {
		if err := notObserved(n, element); fmt.Sprint(err) != want+" is NaN" {
			t.Errorf("element %d: %v, want %s", element, err, want)
		}
	}
	if err := notObserved(nil, 1); fmt.Sprint(err) != lockstep.ObservationElement(1)+" is NaN" {
		t.Error(err)
	}
}

// TestObserveParts: of more places than are looked at together each has its own observation.
func TestObserveParts(t *testing.T) {
	s := newSimulator(t, Config{Open: sharedDevice(t)})
	sees, err := lockstep.ParseSees([]string{"observation[0]", "observation[56]", "target[1]"})
	if err != nil {
		t.Fatal(err)
	}
	n, err := lockstep.NewSeeing(sees, []lockstep.Layer{{
		Inputs: 3, Outputs: 2, Weights: make([]float32, 6), Bias: make([]float32, 2),
	}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	e, err := lockstep.NewExperience([]lockstep.Job{{Route: shorten(routes()[0], 110), Policy: n}})
	if err != nil {
		t.Fatal(err)
	}
	few := make([]lockstep.Place, e.Steps(0))
	for k := range few {
		few[k].Step = k
	}
	each := make([]float32, 3*len(few))
	if err := s.Observe(e, few, each); err != nil {
		t.Fatal(err)
	}
	places := make([]lockstep.Place, wholeAtOnce+7)
	want := make([]float32, 0, 3*len(places))
	for k := range places {
		places[k] = few[k%len(few)]
		want = append(want, each[k%len(few)*3:][:3]...)
	}
	got := make([]float32, 3*len(places))
	if err := s.Observe(e, places, got); err != nil {
		t.Fatal(err)
	}
	if err := simtest.Same("observations", got, want); err != nil {
		t.Error(err)
	}
}

// TestObserveNaN: of places that cannot be observed the one is named that the reference names,
// whether what is declared has no number there or the observation that is not, in whichever order
// they are asked for and however many fit the memory at once.
func TestObserveNaN(t *testing.T) {
	s := newSimulator(t, Config{})
	ref := newReference(t, s.Profile())
	sees, err := lockstep.ParseSees([]string{"observation[0]", "a[-80]", "target[1]"})
	if err != nil {
		t.Fatal(err)
	}
	seeing, err := lockstep.NewSeeing(sees, []lockstep.Layer{{
		Inputs: 3, Outputs: 2, Weights: make([]float32, 6), Bias: make([]float32, 2),
	}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	plain, random := network(8), rand.New(rand.NewPCG(7, 8))
	failed := 0
	for range 32 {
		policy := []*lockstep.Network{seeing, seeing, plain}[random.IntN(3)]
		var jobs []lockstep.Job
		for i := range 2 {
			route := shorten(routes()[i], 106)
			route.AEgo = slices.Clone(route.AEgo)
			route.AEgo[20+random.IntN(10)] = math.NaN() // seen 80 steps later
			jobs = append(jobs, lockstep.Job{Route: route, Policy: policy})
		}
		e, err := lockstep.NewExperience(jobs)
		if err != nil {
			t.Fatal(err)
		}
		for range random.IntN(4) {
			e.Lataccel[random.IntN(2)*lockstep.ExperienceSteps+random.IntN(6)] = math.NaN()
		}
		places := make([]lockstep.Place, 9)
		for k := range places {
			places[k] = lockstep.Place{Rollout: random.IntN(2), Step: random.IntN(6)}
		}
		s.config.MemoryLimit = []int64{0, 24 << 10}[random.IntN(2)]
		into, want := make([]float32, 9*e.Inputs()), make([]float32, 9*e.Inputs())
		got, said := s.Observe(e, places, into), ref.Observe(e, places, want)
		if fmt.Sprint(got) != fmt.Sprint(said) {
			t.Errorf("%v at %v: %v, want %v", policy.Sees, places, got, said)
		}
		if said != nil {
			failed++
		} else if err := simtest.Same("observations", into, want); err != nil {
			t.Error(err)
		}
	}
	if failed < 16 || failed > 30 {
		t.Errorf("%d of 32 are refused", failed)
	}
}

// TestStatsText: what passed, and how long the device was idle meanwhile.
func TestStatsText(t *testing.T) {
	s := Stats{Wall: 100 * time.Millisecond}
	const many = 1 << 40 // more than 32 bits count
	s.Uploads, s.UploadBytes, s.Upload = many+2, many+30, 4*time.Millisecond
	s.Launches, s.Kernel = many+5, 60*time.Millisecond
	s.Downloads, s.DownloadBytes, s.Download = many+7, many+80, 9*time.Millisecond
	s.Synchronisations = 11
	s.Sampled, s.Serial = 3*many, 2*many
	less := Stats{Sampled: 3, Serial: 2, Wall: time.Millisecond}
	if d := s.Sub(less); d.Sampled != 3*many-3 || d.Serial != 2*many-2 ||
		d.Wall != s.Wall-less.Wall || d.Counts != s.Counts {
		t.Errorf("%+v less %+v is %+v", s, less, d)
	}
	counting := &Simulator{past: s.Counts}
	counting.tally(statusBlock{Sampled: 5, Serial: 3})
	counting.tally(statusBlock{Sampled: s.Sampled - 5, Serial: s.Serial - 3})
	if counting.wall = s.Wall; counting.Stats() != s {
		t.Errorf("what was %+v is %+v", s, counting.Stats())
	}
	var b strings.Builder
	if err := s.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	const want = `
                    times          bytes      ms
    upload  1099511627778  1099511627806   4.000
    kernel  1099511627781              0  60.000
  download  1099511627783  1099511627856   9.000
      host                                27.000
11 synchronisations
`
	if b.String() != want {
		t.Errorf("%s, want %s", b.String(), want)
	}
}

// TestCallersArrays: of arrays on the device that a step was given nothing is read and nothing
// written by any later call, and it goes on like rollouts that were stepped from the host.
func TestCallersArrays(t *testing.T) {
	s := newSimulator(t, Config{Open: sharedDevice(t)})
	jobs := []lockstep.Job{{Route: shorten(routes()[0], 112)}, {Route: shorten(routes()[1], 111)}}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	p, onHost := reset(t, s, jobs, opts).(lockstep.DeviceStepper), reset(t, s, jobs, opts)
	ctx, commands := t.Context(), []float64{0.75, -0.5}
	host := func(p lockstep.Stepper, steps int) {
		t.Helper()
		for range steps {
			if err := p.Step(ctx, commands, make([]float64, 2)); err != nil {
				t.Fatal(err)
			}
		}
	}
	roll := func(p lockstep.Stepper) {
		t.Helper()
		err := p.Roll(ctx, slices.Repeat(commands, 2), make([]float64, 2), make([]float64, 4))
		if err != nil {
			t.Fatal(err)
		}
	}
	host(p, 80)
	host(onHost, 80)
	c := s.connection
	var arrays [2]driver.Pointer // commands, and lataccels
	for i := range arrays {
		var err error
		if arrays[i], err = c.Allocate(16); err != nil {
			t.Fatal(err)
		}
		if err := c.Upload(arrays[i], viewBytes([]float64{-1, 1})); err != nil {
			t.Fatal(err)
		}
	}
	given := func() {
		t.Helper()
		if err := p.StepOnDevice(uintptr(arrays[0]), uintptr(arrays[1])); err != nil {
			t.Fatal(err)
		}
		if err := p.Sync(ctx); err != nil {
			t.Fatal(err)
		}
		if err := onHost.Step(ctx, []float64{-1, 1}, make([]float64, 2)); err != nil {
			t.Fatal(err)
		}
		for i := range arrays { // another number than any
			if err := c.Upload(arrays[i], viewBytes([]float64{7, 7})); err != nil {
				t.Fatal(err)
			}
		}
	}
	for what, call := range map[string]func(p lockstep.Stepper){
		"a step": func(p lockstep.Stepper) { host(p, 1) },
		"a roll": roll, "a roll and a step": func(p lockstep.Stepper) { roll(p); host(p, 1) },
	} {
		given()
		call(p)
		call(onHost)
		for i := range arrays {
			now := make([]float64, 2)
			if err := c.Download(viewBytes(now), arrays[i]); err != nil {
				t.Fatal(err)
			}
			if err := c.Synchronize(ctx); err != nil {
				t.Fatal(err)
			}
			if now[0] != 7 || now[1] != 7 {
				t.Errorf("behind %s array %d of the caller's holds %v", what, i, now)
			}
			if err := c.Upload(arrays[i], viewBytes([]float64{-1, 1})); err != nil {
				t.Fatal(err)
			}
		}
		compareHistories(t, "behind "+what, p, onHost)
	}
}

// compareHistories holds the state of rollouts to that of others.
func compareHistories(t *testing.T, what string, p, want lockstep.Stepper) {
	t.Helper()
	a, err := p.Snapshot(t.Context())
	b, err2 := want.Snapshot(t.Context())
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	for i := range b.Rollouts {
		x, y := &a.Rollouts[i], &b.Rollouts[i]
		if err := errors.Join(simtest.SameBits("lataccels", x.Lataccel, y.Lataccel),
			simtest.SameBits("actions", x.Action, y.Action)); err != nil {
			t.Errorf("%s: rollout %d: %v", what, i, err)
		}
	}
}
