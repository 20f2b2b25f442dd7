package stepping

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/simtest"
)

// toy is rollouts whose lataccel is a number of the step and the command, here or elsewhere.
type toy struct {
	jobs             []lockstep.Job
	lataccel, action [][]float64
	fails            map[int]int // at which step a rollout does
	there            bool        // the rollouts are elsewhere, and can roll
	failed           map[int]int // those of which the host may ask
	asked            [][]int     // which rollouts ran, of each Step and Observe
	restored         [][]float64 // what policies remembered
	fetched, closed  int
	unclosed         map[int]error // by rollout
	leak             error
	memory           error // of rollout 1
	fetch            error
	refuses          error // to restore
}

var errToy = errors.New("it breaks")

func (e *toy) put(i, step int, command float64) {
	e.action[i][step] = command
	e.lataccel[i][step] = float64(1000*step) + float64(100*i) + command
}

func (e *toy) Step(step int, running []int, commands []float64, fail func(int, error)) {
	e.asked = append(e.asked, slices.Clone(running))
	for _, i := range running {
		if at, ok := e.fails[i]; ok && at == step {
			fail(i, errToy)
			continue
		}
		e.put(i, step, commands[i])
	}
}

func (e *toy) Observe(_ context.Context, step int, running []int, into []float32) error {
	e.asked = append(e.asked, slices.Clone(running))
	for _, i := range running {
		for k := range lockstep.ObservationSize {
			into[lockstep.ObservationSize*i+k] = float32(step)
		}
	}
	return nil
}

func (e *toy) Histories(i int) (lataccel, action []float64) { return e.lataccel[i], e.action[i] }

func (e *toy) Memory(i int) ([]float64, error) {
	if i == 1 && e.memory != nil {
		return nil, e.memory
	}
	if e.jobs[i].Policy == nil {
		return nil, nil
	}
	return []float64{float64(i), 0.5}, nil
}

// Restore wants of a policy as many numbers as it remembers, asked again or not.
func (e *toy) Restore(i, _ int, lataccel, action, memory []float64) error {
	if now, err := e.Memory(i); err == nil && len(memory) != len(now) {
		return fmt.Errorf("the policy is given %d numbers, want %d", len(memory), len(now))
	}
	if e.refuses != nil {
		return e.refuses
	}
	e.restored = append(e.restored, memory)
	copy(e.lataccel[i], lataccel)
	copy(e.action[i], action)
	return nil
}

func (e *toy) Result(i int) lockstep.Result {
	return lockstep.Result{Costs: lockstep.Costs{Total: float64(i)}}
}

func (e *toy) Cost(i, step int) float64 { return float64(10*step+i) + 0.1 }

func (e *toy) Elsewhere() Elsewhere {
	if e.there {
		return e
	}
	return nil
}

func (e *toy) Close(unclosed func(int, error)) error {
	e.closed++
	for i, err := range e.unclosed {
		unclosed(i, err)
	}
	return e.leak
}

func (e *toy) Fetch(context.Context) error { e.fetched++; return e.fetch }

func (e *toy) Failure(i int) (int, error) {
	if at, ok := e.failed[i]; ok {
		return at, errToy
	}
	return 0, nil
}

func (e *toy) Fork(
	_ context.Context, jobs []lockstep.Job, opts lockstep.Options, shot *lockstep.Snapshot,
	index []int, noise lockstep.Noise,
) (lockstep.Stepper, error) {
	return nil, fmt.Errorf("forked there: %+v, %+v, %+v, %v, %+v", jobs, opts, shot, index, noise)
}

func (e *toy) CanRoll() bool { return true }

// Roll computes rollouts that are over, too: what that makes means nothing.
func (e *toy) Roll(first int, commands, costs, lataccels []float64) error {
	m, longest := len(e.jobs), 0
	for _, one := range e.lataccel {
		longest = max(longest, len(one))
	}
	if end := first + len(commands)/m; end > longest || lataccels != nil &&
		len(lataccels) != len(commands) {
		return fmt.Errorf("to step %d of %d, with %d commands and room for %d lataccels", end,
			longest, len(commands), len(lataccels))
	}
	for h := range len(commands) / m {
		for i := range m {
			step := first + h
			if at, ok := e.fails[i]; ok && at <= step && at < len(e.lataccel[i]) {
				if _, told := e.failed[i]; !told && at == step {
					e.failed[i] = at
				}
				continue
			}
			x := -1.0
			if step < len(e.lataccel[i]) {
				e.put(i, step, commands[h*m+i])
				if x = e.lataccel[i][step]; step >= lockstep.ControlStartIdx &&
					step < lockstep.CostEndIdx {
					costs[i] += e.Cost(i, step)
				}
			}
			if lataccels != nil {
				lataccels[h*m+i] = x
			}
		}
	}
	return nil
}

// source makes steppers of toys.
type source struct {
	lockstep.StepSimulator
	fails map[int]int
	there bool
	last  *toy
	opts  lockstep.Options // of the last

	refuses bool // its steppers restore nothing
}

func (*source) Profile() lockstep.Profile {
	return lockstep.Profile{LayerNorm: lockstep.LayerNorm127}
}

func (s *source) Reset(
	_ context.Context, jobs []lockstep.Job, opts lockstep.Options,
) (lockstep.Stepper, error) {
	if err := Check(jobs, opts); err != nil {
		return nil, err
	}
	e := &toy{jobs: slices.Clone(jobs), fails: s.fails, there: s.there, failed: map[int]int{}}
	for i := range jobs {
		n := jobs[i].End(opts.Shortcuts)
		e.lataccel = append(e.lataccel, make([]float64, n))
		e.action = append(e.action, make([]float64, n))
	}
	if s.refuses {
		e.refuses = errToy
	}
	s.last, s.opts = e, opts
	return New(e, s, "model", jobs, opts), nil
}

func (s *source) reset(t *testing.T, jobs []lockstep.Job) *Stepper {
	t.Helper()
	stepper, err := s.Reset(t.Context(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly})
	if err != nil {
		t.Fatal(err)
	}
	return stepper.(*Stepper)
}

// jobsOf are jobs of routes of so many rows, every second of which has a policy.
func jobsOf(rows ...int) (jobs []lockstep.Job) {
	for i, n := range rows {
		r := &lockstep.Route{Name: fmt.Sprint("r", i)}
		for _, column := range r.Columns() {
			*column = make([]float64, n)
		}
		jobs = append(jobs, lockstep.Job{Route: r})
		if i%2 == 1 {
			jobs[i].Policy = lockstep.Zero{}
		}
	}
	return jobs
}

// TestCheck: jobs that no stepper can hold are refused, by the first that is wrong.
func TestCheck(t *testing.T) {
	const either = "either all jobs have a teacher or none has"
	teacher := &lockstep.Trajectory{Lataccel: make([]float64, 600), Action: make([]float64, 600)}
	for want, change := range map[string]func(jobs []lockstep.Job) []lockstep.Job{
		"":        func(jobs []lockstep.Job) []lockstep.Job { return jobs },
		"no jobs": func(jobs []lockstep.Job) []lockstep.Job { return jobs[:0] },
		"job 1: route r1, controller zero, step 0: " + either: func(
			jobs []lockstep.Job,
		) []lockstep.Job {
			jobs[0].Teacher, jobs[2].Teacher = teacher, teacher
			return jobs
		},
		"job 2: route r2, step 0: " + either: func(
			jobs []lockstep.Job,
		) []lockstep.Job {
			jobs[2].Teacher = teacher
			return jobs
		},
		"job 2: route , step 0: no route": func(jobs []lockstep.Job) []lockstep.Job {
			jobs[2].Route = nil
			return jobs
		},
	} {
		err := Check(change(jobsOf(110, 110, 110)), lockstep.Options{})
		if text := fmt.Sprint(err); text != want && !(want == "" && err == nil) {
			t.Errorf("%s, want %q", text, want)
		}
	}
	jobs := jobsOf(110, 110)
	jobs[0].Teacher, jobs[1].Teacher = teacher, teacher
	if err := Check(jobs, lockstep.Options{}); err != nil {
		t.Errorf("all jobs have a teacher: %v", err)
	}
}

// TestBooks steps rollouts that end at different steps, and two that fail: at each step the books
// say what runs, what was reached, what it cost, and what a snapshot holds.
func TestBooks(t *testing.T) {
	jobs := jobsOf(104, 106, 102, 102)
	src := &source{fails: map[int]int{3: 22}}
	s := src.reset(t, jobs)
	const nan = 30 // rollout 2's command is none there
	ends := []int{104, 106, nan, 22}
	now := make([]float64, 4)
	for step := lockstep.ContextLength; step < 106; step++ {
		if s.Index() != step || s.Done() {
			t.Fatalf("step %d: at %d, done is %v", step, s.Index(), s.Done())
		}
		commands := []float64{1, math.NaN(), 2, 3} // that of a policy is ignored
		if step == nan {
			commands[2] = math.NaN()
		}
		if err := s.Step(t.Context(), commands, now); err != nil {
			t.Fatal(err)
		}
		var asked []int
		for i := range jobs {
			want := bookedAt(step, i, ends[i], commands[i])
			if want.asked {
				asked = append(asked, i)
			}
			holdBooks(t, s, step, i, now[i], want)
		}
		if got := src.last.asked[len(src.last.asked)-1]; !slices.Equal(got, asked) {
			t.Errorf("step %d: rollouts %v are asked, want %v", step, got, asked)
		}
		holdKept(t, s, step, jobs, ends)
		holdResults(t, s, step, ends)
	}
	for i, want := range []string{
		"<nil>", "<nil>", "route r2, step 30: the command is NaN",
		"route r3, controller zero, step 22: it breaks",
	} {
		if got := fmt.Sprint(s.Err(i)); got != want {
			t.Errorf("rollout %d: %s, want %s", i, got, want)
		}
	}
	const over = "step 106: all rollouts have ended or failed"
	if err := s.Step(t.Context(), now, now); err == nil || err.Error() != over || !s.Done() {
		t.Errorf("%v, want %s", err, over)
	}
	if err := s.StepUnseen(nil); err == nil || err.Error() != over {
		t.Errorf("unseen: %v, want %s", err, over)
	}
}

// booked is what the books should say of a rollout after a step.
type booked struct {
	lataccel, cost      float64
	asked, failed, runs bool
}

// bookedAt: rollouts from 2 on fail at their end, where 3 runs, and 2 is not asked.
func bookedAt(step, i, end int, command float64) booked {
	over := step >= end
	want := booked{
		lataccel: float64(1000*min(step, end-1)) + float64(100*i) + command,
		asked:    !over || step == end && i == 3,
		failed:   over && i > 1,
		runs:     step+1 < end || step < end && i > 1, // a step that fails is begun
	}
	switch {
	case want.failed:
		want.lataccel, want.cost = math.NaN(), math.NaN()
	case step >= lockstep.ControlStartIdx && !over:
		want.cost = float64(10*step+i) + 0.1
	}
	return want
}

func holdBooks(t *testing.T, s *Stepper, step, i int, lataccel float64, want booked) {
	t.Helper()
	if i != 1 && math.Float64bits(lataccel) != math.Float64bits(want.lataccel) {
		t.Errorf("step %d, rollout %d: %v, want %v", step, i, lataccel, want.lataccel)
	}
	if got := s.Cost(i); got != want.cost && !(got != got && want.cost != want.cost) {
		t.Errorf("step %d, rollout %d: a cost of %v, want %v", step, i, got, want.cost)
	}
	if (s.Err(i) != nil) != want.failed || s.Running(i) != want.runs {
		t.Errorf("step %d, rollout %d: running is %v, %v", step, i, s.Running(i), s.Err(i))
	}
}

// holdKept: a snapshot has of each rollout what was reached, and what its policy remembers.
func holdKept(t *testing.T, s *Stepper, step int, jobs []lockstep.Job, ends []int) {
	t.Helper()
	shot, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range shot.Rollouts {
		n := min(step+1, ends[i])
		if len(r.Lataccel) != n || len(r.Action) != n || (r.Err != "") != (s.Err(i) != nil) ||
			r.Route != jobs[i].Route.Name || len(r.Policy) != 2*(i%2) && r.Err == "" {
			t.Errorf("step %d, rollout %d: %d and %d are kept, want %d; %+v", step, i,
				len(r.Lataccel), len(r.Action), n, r)
		}
	}
}

// holdResults: a rollout that has failed has its error, one that has ended its costs, and one that
// goes on says how far.
func holdResults(t *testing.T, s *Stepper, step int, ends []int) {
	t.Helper()
	results, err := s.Results(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		goes := fmt.Sprintf("step %d: the rollout goes on to step %d", step+1, ends[i]-1)
		switch {
		case s.Err(i) != nil:
			if r.Err != s.Err(i) {
				t.Errorf("rollout %d: %v, want %v", i, r.Err, s.Err(i))
			}
		case !s.Running(i):
			if r.Err != nil || r.Costs.Total != float64(i) {
				t.Errorf("rollout %d: %+v", i, r)
			}
		case !strings.HasSuffix(fmt.Sprint(r.Err), goes) && i < 2:
			t.Errorf("rollout %d goes on to %d: %v", i, ends[i]-1, r.Err)
		}
	}
}

// TestNobodyRuns: a step at which all rollouts fail is no step of the engine's.
func TestNobodyRuns(t *testing.T) {
	src := &source{}
	s := src.reset(t, jobsOf(110))
	now := []float64{math.NaN()}
	if err := s.Step(t.Context(), now, now); err != nil || s.Err(0) == nil || !s.Done() ||
		s.Index() != 21 || len(src.last.asked) != 0 {
		t.Errorf("%v, %v, at step %d, and the engine is asked for %v", err, s.Err(0), s.Index(),
			src.last.asked)
	}
}

// TestSizes: calls with too little or too much room name the numbers.
func TestSizes(t *testing.T) {
	s := (&source{}).reset(t, jobsOf(110, 110))
	room := func(n int) []float64 { return make([]float64, n) }
	step := func(commands, lataccels int) error {
		return s.Step(t.Context(), room(commands), room(lataccels))
	}
	roll := func(commands, costs int, lataccels []float64) error {
		return s.Roll(t.Context(), room(commands), room(costs), lataccels)
	}
	for want, got := range map[string]error{
		"1 commands and 2 lataccels for 2 rollouts":          step(1, 2),
		"2 commands and 3 lataccels for 2 rollouts":          step(2, 3),
		"3 commands, 2 costs and 0 lataccels for 2 rollouts": roll(3, 2, nil),
		"4 commands, 1 costs and 0 lataccels for 2 rollouts": roll(4, 1, nil),
		"4 commands, 2 costs and 2 lataccels for 2 rollouts": roll(4, 2, room(2)),
		"step 20: there are observations from step 100 on":   s.Observe(t.Context(), nil),
	} {
		if got == nil || got.Error() != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
	if s.Index() != lockstep.ContextLength {
		t.Errorf("what was refused has stepped to %d", s.Index())
	}
}

// TestObserve: the rows of rollouts that run are the engine's, the others' are 0; where none runs
// the engine is not asked.
func TestObserve(t *testing.T) {
	const size = lockstep.ObservationSize
	src := &source{fails: map[int]int{1: 100}}
	s := src.reset(t, jobsOf(103, 103, 102))
	if err := s.Roll(t.Context(), make([]float64, 3*80), make([]float64, 3), nil); err != nil {
		t.Fatal(err)
	}
	for step, running := range map[int][]int{100: {0, 1, 2}} {
		hold(t, s, src.last, step, running)
	}
	for step, running := range [][]int{101: {0, 2}, 102: {0}, 103: nil} {
		if step > 100 {
			if err := s.Step(t.Context(), make([]float64, 3), make([]float64, 3)); err != nil {
				t.Fatal(err)
			}
			hold(t, s, src.last, step, running)
		}
	}
	for _, n := range []int{3*size - 1, 3*size + 1, 0} {
		want := fmt.Sprintf(
			"room for %d numbers of observations, want %d for each of 3 rollouts", n, size)
		if err := s.Observe(t.Context(), make([]float32, n)); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func hold(t *testing.T, s *Stepper, e *toy, step int, running []int) {
	t.Helper()
	const size = lockstep.ObservationSize
	into, before := slices.Repeat([]float32{-1}, 3*size), len(e.asked)
	if err := s.Observe(t.Context(), into); err != nil {
		t.Fatal(err)
	}
	if running == nil && len(e.asked) != before ||
		running != nil && !slices.Equal(e.asked[len(e.asked)-1], running) {
		t.Errorf("step %d: %v are observed, want %v", step, e.asked[before:], running)
	}
	for i := range 3 {
		want := float32(0)
		if slices.Contains(running, i) {
			want = float32(step)
		}
		row := into[size*i:][:size]
		if slices.Max(row) != want || slices.Min(row) != want {
			t.Errorf("step %d: rollout %d sees %v to %v, want %v", step, i, slices.Min(row),
				slices.Max(row), want)
		}
	}
}

// TestFits: a snapshot that is not of these rollouts is refused by Restore and Fork, for what it
// is, and changes nothing; one of the same rollouts fits, those that have failed, too.
func TestFits(t *testing.T) {
	src := &source{fails: map[int]int{2: 30}}
	s := src.reset(t, jobsOf(104, 106, 110))
	begin := shotOf(t, s)
	rollOn(t, s, 85)
	misfit(t, s, nil, "there is none")
	for _, c := range []struct {
		why    string
		change func(x *lockstep.Snapshot)
	}{
		{
			"it is of profile ort1.27-avx2-expU-sinfma-csv2, want ort1.27-avx512-expU-sinfma-csv2",
			func(x *lockstep.Snapshot) { x.Profile.Softmax = lockstep.SoftmaxAVX2 },
		},
		{
			"it is of the model other…, want model…",
			func(x *lockstep.Snapshot) { x.Model = "other" },
		},
		{
			"it has 2 rollouts, want 3",
			func(x *lockstep.Snapshot) { x.Rollouts = x.Rollouts[:2] },
		},
		{
			"it has 4 rollouts, want 3",
			func(x *lockstep.Snapshot) { x.Rollouts = append(x.Rollouts, x.Rollouts[0]) },
		},
		{
			"it is of step 19, want 20 at least",
			func(x *lockstep.Snapshot) { x.Step = 19 },
		},
		{
			`rollout 1 is of route "r9", want r1`,
			func(x *lockstep.Snapshot) { x.Rollouts[1].Route = "r9" },
		},
		{
			"rollout 1 is of another route that is called r1, too: its columns have SHA-256 " +
				"0123456789ab…, want " + s.jobs[1].Route.SHA256()[:12] + "…",
			func(x *lockstep.Snapshot) { x.Rollouts[1].RouteSHA256 = "0123456789abcdef" },
		},
		{
			"rollout 0 has 103 lataccels and 104 actions, want 104 of each",
			func(x *lockstep.Snapshot) { x.Rollouts[0].Lataccel = x.Rollouts[0].Lataccel[:103] },
		},
		{
			"rollout 0 has 104 lataccels and 105 actions, want 104 of each",
			func(x *lockstep.Snapshot) { x.Rollouts[0].Action = make([]float64, 105) },
		},
		{
			"rollout 1 has 104 lataccels and 104 actions, want 105 of each",
			func(x *lockstep.Snapshot) {
				r := &x.Rollouts[1]
				r.Lataccel, r.Action = r.Lataccel[:104], r.Action[:104]
			},
		},
		{
			"rollout 2 has 19 lataccels and 19 actions, want 105 of each",
			func(x *lockstep.Snapshot) {
				r := &x.Rollouts[2]
				r.Lataccel, r.Action = r.Lataccel[:19], r.Action[:19]
			},
		},
		{
			"rollout 2 has 106 lataccels and 106 actions, want 105 of each",
			func(x *lockstep.Snapshot) {
				r := &x.Rollouts[2]
				r.Lataccel, r.Action = make([]float64, 106), make([]float64, 106)
			},
		},
		{
			"rollout 1, controller zero: the policy remembers 1 numbers, want 2",
			func(x *lockstep.Snapshot) { x.Rollouts[1].Policy = x.Rollouts[1].Policy[:1] },
		},
		{
			"rollout 0, controller <nil>: the policy remembers 1 numbers, want 0",
			func(x *lockstep.Snapshot) { x.Rollouts[0].Policy = []float64{1} },
		},
	} {
		other := shotOf(t, s)
		c.change(other)
		misfit(t, s, other, c.why)
	}
	restoredMemory(t, s, src.last, begin)
	for _, n := range []int{20, 25, 105} { // how much the failed one has
		there := shotOf(t, s)
		r := &there.Rollouts[2]
		r.Lataccel, r.Action = make([]float64, n), make([]float64, n)
		if err := s.Restore(t.Context(), there); err != nil || s.failed[2] != n {
			t.Errorf("a rollout that failed at step %d: %v, at %d", n, err, s.failed[2])
		}
	}
	if err := s.Restore(t.Context(), begin); err != nil || s.Index() != 20 || s.Err(2) != nil {
		t.Errorf("back to the beginning: %v, at %d, %v", err, s.Index(), s.Err(2))
	}
	rollOn(t, s, 85)
	noise := lockstep.Noise{Kind: lockstep.RouteNoise}
	fork, err := s.Fork(t.Context(), shotOf(t, s), []int{1, 0, 1}, noise)
	if err != nil {
		t.Fatal(err)
	}
	again, err := fork.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for k, i := range []int{1, 0, 1} {
		r := again.Rollouts[k]
		err := simtest.Same("lataccels", r.Lataccel, shotOf(t, s).Rollouts[i].Lataccel)
		if err != nil || r.Route != fmt.Sprint("r", i) || r.Policy != nil {
			t.Errorf("candidate %d: %v, of %s, with %v", k, err, r.Route, r.Policy)
		}
	}
}

func shotOf(t *testing.T, s lockstep.Stepper) *lockstep.Snapshot {
	t.Helper()
	shot, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return shot
}

// rollOn goes on with three rollouts, and commands of 0.
func rollOn(t *testing.T, s *Stepper, steps int) {
	t.Helper()
	err := s.Roll(t.Context(), make([]float64, 3*steps), make([]float64, 3), nil)
	if err != nil {
		t.Fatal(err)
	}
}

// TestHandedOn: what a stepper was given, its snapshots and its forks have, and a fork's jobs the
// noise of their candidate; before the first step a rollout is where its route begins.
func TestHandedOn(t *testing.T) {
	src := &source{}
	jobs := jobsOf(110, 120)
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	s, err := src.Reset(t.Context(), jobs, opts)
	if err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		for step := range src.last.lataccel[i] {
			src.last.put(i, step, 0.25)
		}
		if got, want := s.Lataccel(i), float64(19000+100*i)+0.25; got != want {
			t.Errorf("rollout %d begins at %v, want %v", i, got, want)
		}
	}
	shot := shotOf(t, s)
	if shot.Profile != src.Profile() || shot.Model != "model" || shot.Step != 20 {
		t.Errorf("a snapshot of %v, model %s, step %d", shot.Profile, shot.Model, shot.Step)
	}
	noise := lockstep.Noise{Kind: lockstep.SeededNoise, Seeds: []uint32{7, 8, 9}}
	src.opts = lockstep.Options{}
	src.refuses = true
	if p, err := s.Fork(t.Context(), shot, []int{1}, lockstep.Noise{
		Kind: lockstep.RouteNoise,
	}); p != nil || !errors.Is(err, errToy) || src.last.closed != 1 {
		t.Errorf("a fork that cannot begin where its snapshot is: %v, closed %d times", err,
			src.last.closed)
	}
	src.refuses = false
	if _, err := s.Fork(t.Context(), shot, []int{1, 0, 1}, noise); err != nil || src.opts != opts {
		t.Errorf("a fork has the options %+v, want %+v (%v)", src.opts, opts, err)
	}
	for k, j := range src.last.jobs {
		want := lockstep.Draws(noise.Seeds[k], 110+10*(1-k%2)-20)
		if err := simtest.Same("draws", j.Draws, want); err != nil {
			t.Errorf("candidate %d: %v", k, err)
		}
	}
}

// TestOwn: who called may write to the jobs and the snapshots that a stepper was given or gave, and
// it goes on with its own; and so do the others that have a snapshot of it.
func TestOwn(t *testing.T) {
	src := &source{}
	jobs := jobsOf(110, 120, 115)
	s := src.reset(t, jobs)
	rollOn(t, s, 85)
	first, again := shotOf(t, s), shotOf(t, s)
	want := fmt.Sprintf("%+v", again)
	for i := range jobs {
		jobs[i].Route, jobs[i].Policy = &lockstep.Route{Name: "another"}, lockstep.DefaultPID()
		r := &first.Rollouts[i]
		for k := range r.Lataccel {
			r.Lataccel[k], r.Action[k] = -1, -2
		}
		r.Route, r.Err = "another", "no"
		clear(r.Policy)
	}
	if got := fmt.Sprintf("%+v", again); got != want {
		t.Errorf("a snapshot beside the one that was written to is %s, want %s", got, want)
	}
	if got := fmt.Sprintf("%+v", shotOf(t, s)); got != want {
		t.Errorf("a snapshot after that is %s, want %s", got, want)
	}
	rollOn(t, s, 3)
	if got := fmt.Sprintf("%+v", again); got != want {
		t.Errorf("after three steps the snapshot before them is %s, want %s", got, want)
	}
	if err := s.Restore(t.Context(), again); err != nil || s.Index() != 105 {
		t.Errorf("back at step %d: %v", s.Index(), err)
	}
	for i, r := range again.Rollouts { // what is told is of where it has gone back to
		last := len(r.Lataccel) - 1
		if got := s.Lataccel(i); got != r.Lataccel[last] {
			t.Errorf("rollout %d is back at lataccel %v, want %v", i, got, r.Lataccel[last])
		}
		if got, want := s.Cost(i), float64(10*last+i)+0.1; got != want {
			t.Errorf("rollout %d is back where a step cost %v, want %v", i, got, want)
		}
	}
	rollOn(t, s, 1)
	if got := fmt.Sprintf("%+v", again); got != want {
		t.Errorf("after a step from there the snapshot is %s, want %s", got, want)
	}
	if err := s.Step(t.Context(), []float64{math.NaN(), 0, 0}, make([]float64, 3)); err != nil ||
		s.Err(0).Error() != "route r0, step 106: the command is NaN" {
		t.Errorf("%v, %v", err, s.Err(0))
	}
}

// TestNamesakes: of two routes of one name each rollout has its own hash, and neither has the
// other's snapshot.
func TestNamesakes(t *testing.T) {
	jobs := jobsOf(110, 110, 110)
	for i := range jobs {
		jobs[i].Route.Name = "r"
		jobs[i].Route.VEgo[i] = 1
	}
	jobs[2].Route = jobs[0].Route
	s := (&source{}).reset(t, jobs)
	shot := shotOf(t, s)
	for i, r := range shot.Rollouts {
		if want := jobs[i].Route.SHA256(); r.RouteSHA256 != want {
			t.Errorf("rollout %d: route %s, want %s", i, r.RouteSHA256, want)
		}
	}
	if err := s.Restore(t.Context(), shot); err != nil {
		t.Error(err)
	}
	sums := []string{shot.Rollouts[0].RouteSHA256, shot.Rollouts[1].RouteSHA256}
	for i := range jobs {
		other := shotOf(t, s)
		other.Rollouts[i].RouteSHA256 = sums[1-i%2]
		if err := s.Restore(t.Context(), other); err == nil ||
			!strings.Contains(err.Error(), fmt.Sprintf("rollout %d is of another route", i)) {
			t.Errorf("a snapshot of rollout %d's namesake: %v", i, err)
		}
		other.Rollouts[i].RouteSHA256 = "" // of before there were hashes
		if err := s.Restore(t.Context(), other); err != nil {
			t.Errorf("a snapshot without rollout %d's hash: %v", i, err)
		}
	}
}

// TestFailedRestored: a snapshot has no memory of a policy whose rollout has failed, and can be
// restored.
func TestFailedRestored(t *testing.T) {
	// Whichever has failed: restored from before, it goes on, and its neighbour has no error of it.
	for which := range 3 {
		src := &source{fails: map[int]int{which: 22}}
		s := src.reset(t, jobsOf(110, 110, 110))
		begin := shotOf(t, s)
		for s.Err(which) == nil {
			now := make([]float64, 3)
			if err := s.Step(t.Context(), now, now); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Restore(t.Context(), begin); err != nil || s.failed[which] != 0 {
			t.Errorf("rollout %d: %v, and failed at %d", which, err, s.failed[which])
		}
		results, err := s.Results(t.Context())
		for i, r := range results {
			name := fmt.Sprintf("route r%d,", i)
			if s.Err(i) != nil || !strings.HasPrefix(fmt.Sprint(r.Err), name) {
				t.Errorf("rollout %d has failed with %v, and its result is %+v (%v)", i, s.Err(i),
					r, err)
			}
		}
	}
	src := &source{fails: map[int]int{1: 22}}
	s := src.reset(t, jobsOf(110, 110))
	err := s.Roll(t.Context(), make([]float64, 2*5), make([]float64, 2), nil)
	if err != nil || s.Err(1) == nil {
		t.Fatalf("%v, and rollout 1 has %v", err, s.Err(1))
	}
	shot := shotOf(t, s)
	err = s.Restore(t.Context(), shot)
	if err != nil || shot.Rollouts[1].Policy != nil || s.Err(1) == nil {
		t.Errorf("%v; the snapshot has %v, and then the rollout %v", err,
			shot.Rollouts[1].Policy, s.Err(1))
	}
}

// TestCostWindow: of a rollout that goes on behind it, the steps of the window cost, and no others.
func TestCostWindow(t *testing.T) {
	src := &source{}
	jobs := jobsOf(lockstep.CostEndIdx + 20)
	stepper, err := src.Reset(t.Context(), jobs, lockstep.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := stepper.(*Stepper)
	for step := lockstep.ContextLength; !s.Done(); step++ {
		now := []float64{0}
		if err := s.Step(t.Context(), now, now); err != nil {
			t.Fatal(err)
		}
		want := float64(10*step) + 0.1
		if step < 100 || step >= 500 {
			want = 0
		}
		if got := s.Cost(0); got != want {
			t.Errorf("step %d costs %v, want %v", step, got, want)
		}
	}
	if s.Index() != lockstep.CostEndIdx+20 {
		t.Errorf("it ends at step %d", s.Index())
	}
}

// misfit: a snapshot is neither restored nor forked, and the rollouts are where they were.
func misfit(t *testing.T, s *Stepper, other *lockstep.Snapshot, why string) {
	t.Helper()
	want := "the snapshot does not fit: " + why
	if err := s.Restore(t.Context(), other); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	noise := lockstep.Noise{Kind: lockstep.RouteNoise}
	_, err := s.Fork(t.Context(), other, []int{0}, noise)
	if err == nil || err.Error() != want {
		t.Errorf("forked: %v, want %s", err, want)
	}
	if s.Index() != 105 {
		t.Fatalf("%s: and is at step %d", want, s.Index())
	}
}

// restoredMemory: what a policy remembers is given back to it, and a policy that cannot say is an
// error of its rollout.
func restoredMemory(t *testing.T, s *Stepper, e *toy, begin *lockstep.Snapshot) {
	t.Helper()
	e.memory = errToy
	const forgets = "the snapshot does not fit: rollout 1, controller zero: it breaks"
	if err := s.Restore(t.Context(), begin); err == nil || err.Error() != forgets {
		t.Errorf("%v, want %s", err, forgets)
	}
	const asked = "route r1, controller zero, step 105: it breaks"
	if _, err := s.Snapshot(t.Context()); err == nil || err.Error() != asked {
		t.Errorf("%v, want %s", err, asked)
	}
	e.memory = nil
	e.restored = nil
	other := shotOf(t, s)
	other.Rollouts[1].Policy = []float64{7, 8}
	if err := s.Restore(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(e.restored); got != "[[] [7 8] []]" {
		t.Errorf("policies remember %s, want [[] [7 8] []]", got)
	}
}

// TestRoll: whatever ends, fails, or is commanded nothing, rollouts elsewhere come to what those
// here do, in one roll or in several, beyond the end, too.
func TestRoll(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		rows := make([]int, 1+random.IntN(4))
		fails := map[int]int{}
		for i := range rows {
			rows[i] = lockstep.MinRows + random.IntN(6)
			if random.IntN(4) == 0 {
				fails[i] = 96 + random.IntN(10)
			}
		}
		m := len(rows)
		here, there := &source{fails: fails}, &source{fails: fails, there: true}
		var steppers [2]*Stepper
		for k, src := range []*source{here, there} {
			steppers[k] = src.reset(t, jobsOf(rows...))
			if err := steppers[k].Roll(t.Context(), make([]float64, m*75), make([]float64, m),
				nil); err != nil {
				t.Fatal(err)
			}
		}
		for !steppers[0].Done() {
			steps := random.IntN(6)
			commands := make([]float64, steps*m)
			for k := range commands {
				if commands[k] = random.NormFloat64(); random.IntN(40) == 0 {
					commands[k] = math.NaN()
				}
			}
			var errs [2]error
			var costs, lataccels [2][]float64
			first := steppers[0].Index()
			for k, s := range steppers {
				costs[k], lataccels[k] = make([]float64, m), make([]float64, len(commands))
				if n%3 == 0 {
					lataccels[k] = nil
				}
				errs[k] = s.Roll(t.Context(), commands, costs[k], lataccels[k])
				if n%3 != 0 { // behind where all have failed they mean nothing
					lataccels[k] = lataccels[k][:m*(s.Index()-first)]
				}
			}
			if err := errors.Join(simtest.Same("costs", costs[1], costs[0]),
				simtest.Same("lataccels", lataccels[1], lataccels[0])); err != nil ||
				fmt.Sprint(errs[0]) != fmt.Sprint(errs[1]) ||
				steppers[0].Index() != steppers[1].Index() {
				t.Fatalf(
					"case %d, rows %v, failing %v, at step %d and %d: %v; here %v, there %v",
					n, rows, fails, steppers[0].Index(), steppers[1].Index(), err, errs[0], errs[1])
			}
			for i := range m {
				a, b := steppers[0], steppers[1]
				if fmt.Sprint(a.Err(i)) != fmt.Sprint(b.Err(i)) || a.failed[i] != b.failed[i] ||
					a.Running(i) != b.Running(i) {
					t.Fatalf("case %d, rollout %d: here %v, there %v", n, i, a.Err(i), b.Err(i))
				}
			}
		}
	}
}

// TestUnseen: of steps that the host has not seen it asks before it tells, once.
func TestUnseen(t *testing.T) {
	src := &source{there: true}
	s := src.reset(t, jobsOf(110, 110))
	e := src.last
	if err := s.StepUnseen(func(int) error { return errToy }); err != errToy || s.Index() != 20 {
		t.Errorf("a step that is not begun: %v, at %d", err, s.Index())
	}
	now, costs := make([]float64, 2), make([]float64, 2)
	for what, ask := range map[string]func() error{
		"step": func() error { return s.Step(t.Context(), now, now) },
		"roll": func() error { return s.Roll(t.Context(), now, costs, nil) },
	} {
		stepUnseen(t, s, e, 2)
		asksOnce(t, s, e, what, ask)
	}
	stepUnseen(t, s, e, 80)
	e.failed[1] = 50
	observesOnce(t, s, e)
	e.failed[1] = 60 // it has failed once and for all
	stepUnseen(t, s, e, 1)
	if err := s.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = "route r1, controller zero, step 50: it breaks"
	if err := s.Err(1); err == nil || err.Error() != want || s.failed[1] != 50 || s.Err(0) != nil {
		t.Errorf("%v, want %s", err, want)
	}
	noise := lockstep.Noise{Kind: lockstep.SeededNoise, Seeds: []uint32{7, 8, 9}}
	shot, index := shotOf(t, s), []int{1, 0, 1} // of which each knows its own
	jobs := []lockstep.Job{{Route: e.jobs[1].Route}, {Route: e.jobs[0].Route}}
	_, told := e.Fork(t.Context(), append(jobs, jobs[0]), s.opts, shot, index, noise)
	if _, err := s.Fork(t.Context(), shot, index, noise); err == nil ||
		err.Error() != told.Error() {
		t.Errorf("a fork elsewhere: %v, want %v", err, told)
	}
}

// TestUnseenCommand: what failed in a step that the host has not seen is said to be a command that
// was none where commands count: not a route's own, a policy's or a teacher's.
func TestUnseenCommand(t *testing.T) {
	const breaks, none = "it breaks", "the command is NaN"
	for _, c := range []struct {
		rollout, at int
		taught      bool
		action      float64
		want        string
	}{
		{0, 100, false, math.NaN(), none}, {0, 99, false, math.NaN(), breaks},
		{1, 100, false, math.NaN(), breaks}, {0, 100, true, math.NaN(), breaks},
		{0, 100, false, 0, breaks},
	} {
		src, jobs := &source{there: true}, jobsOf(110, 110)
		for i := range jobs {
			if c.taught {
				row := make([]float64, 110)
				jobs[i].Teacher = &lockstep.Trajectory{Lataccel: row, Action: row}
			}
		}
		s := src.reset(t, jobs)
		stepUnseen(t, s, src.last, 81)
		src.last.failed[c.rollout] = c.at
		src.last.action[c.rollout][c.at] = c.action
		if err := s.Fetch(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := jobs[c.rollout].Failed(c.at, errors.New(c.want))
		if err := s.Err(c.rollout); err == nil || err.Error() != want.Error() {
			t.Errorf("%+v: %v, want %v", c, err, want)
		}
	}
}

// stepUnseen steps elsewhere, where the host does not see it.
func stepUnseen(t *testing.T, s *Stepper, e *toy, steps int) {
	t.Helper()
	for range steps {
		if err := s.StepUnseen(func(step int) error {
			e.put(0, step, 1)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// asksOnce: what the host has not seen is fetched before the next step, again after an error, and
// no more when it is known.
func asksOnce(t *testing.T, s *Stepper, e *toy, what string, ask func() error) {
	t.Helper()
	before := e.fetched
	known := s.known
	if got := s.Lataccel(0); got != e.lataccel[0][known-1] {
		t.Errorf("before it asks, %v is known, want step %d's", got, known-1)
	}
	e.fetch = errToy
	if err := ask(); err != errToy {
		t.Errorf("%s: what cannot be fetched is %v", what, err)
	}
	e.fetch = nil
	if err := ask(); err != nil || e.fetched != before+2 || s.known != s.step {
		t.Errorf("%s: %v, fetched %d times, known to %d of %d", what, err, e.fetched-before,
			s.known, s.step)
	}
	if err := ask(); err != nil || e.fetched != before+2 {
		t.Errorf("%s: %v, and what is known is fetched: %d times", what, err, e.fetched-before)
	}
}

// observesOnce: the same of observations.
func observesOnce(t *testing.T, s *Stepper, e *toy) {
	t.Helper()
	e.fetch = errToy
	into := make([]float32, 2*lockstep.ObservationSize)
	if err := s.Observe(t.Context(), into); err != errToy {
		t.Errorf("observations of what cannot be fetched: %v", err)
	}
	e.fetch = nil
	before := e.fetched
	for range 2 {
		if err := s.Observe(t.Context(), into); err != nil || e.fetched != before+1 {
			t.Errorf("%v, fetched %d times, want once", err, e.fetched-before)
		}
	}
}

// TestUnclosed: what a policy's controllers say that do not close is told once for each policy, in
// the order of the rollouts, beside what the engine itself says.
func TestUnclosed(t *testing.T) {
	src := &source{}
	jobs := jobsOf(110, 110, 110, 110)
	for i, name := range []string{"b", "a", "b", "c"} {
		jobs[i].Policy = &lockstep.Batch{Name: name}
	}
	s := src.reset(t, jobs)
	src.last.leak = errToy
	src.last.unclosed = map[int]error{}
	for i := range 4 {
		src.last.unclosed[i] = fmt.Errorf("stuck %d", i)
	}
	err := s.Close()
	want := errToy.Error() + "\ncontroller b does not close: stuck 0" +
		"\ncontroller a does not close: stuck 1\ncontroller c does not close: stuck 3"
	if err == nil || err.Error() != want || !errors.Is(err, src.last.unclosed[1]) {
		t.Errorf("%v, want %s", err, want)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// TestClosed: a closed stepper refuses all that needs its rollouts, and closes them once; so does
// a context that has ended what computes.
func TestClosed(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, there := range []bool{false, true} {
		src := &source{there: there}
		s := src.reset(t, jobsOf(110, 110))
		shot, err := s.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		now := make([]float64, 2)
		calls := map[string]func(ctx context.Context) error{
			"Step":    func(ctx context.Context) error { return s.Step(ctx, now, now) },
			"Roll":    func(ctx context.Context) error { return s.Roll(ctx, now, now, nil) },
			"Observe": func(ctx context.Context) error { return s.Observe(ctx, nil) },
		}
		for name, call := range calls {
			if err := call(ended); err != context.Canceled {
				t.Errorf("%s with a context that has ended: %v", name, err)
			}
		}
		calls["Restore"] = func(ctx context.Context) error { return s.Restore(ctx, shot) }
		calls["Fetch"] = s.Fetch
		calls["StepUnseen"] = func(context.Context) error { return s.StepUnseen(nil) }
		calls["Snapshot"] = func(ctx context.Context) error {
			_, err := s.Snapshot(ctx)
			return err
		}
		calls["Results"] = func(ctx context.Context) error {
			_, err := s.Results(ctx)
			return err
		}
		calls["Fork"] = func(ctx context.Context) error {
			_, err := s.Fork(ctx, shot, []int{0}, lockstep.Noise{Kind: lockstep.RouteNoise})
			return err
		}
		for range 2 {
			if err := s.Close(); err != nil || src.last.closed != 1 {
				t.Errorf("closed %d times: %v", src.last.closed, err)
			}
		}
		for name, call := range calls {
			if err := call(t.Context()); err != ErrClosed {
				t.Errorf("%s after Close: %v", name, err)
			}
		}
	}
}
