package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/defaults"
	"lockstep/internal/guard"
	"lockstep/internal/simtest"
	"lockstep/reference"
)

// faulty is a step simulator with a fault in its Steppers.
type faulty struct {
	lockstep.StepSimulator
	fault stepFault
	left  *int // how many Steppers are not closed
}

func (f faulty) Reset(
	ctx ctxt, jobs []lockstep.Job, opts lockstep.Options,
) (lockstep.Stepper, error) {
	stepper := f.fault
	if f.fault.takes != nil && f.fault.takes(jobs) {
		stepper.open = true
		return &stepper, nil
	}
	if f.fault.observer != nil {
		jobs = slices.Clone(jobs)
		for i := range jobs {
			if observe := jobs[i].Observe; observe != nil {
				jobs[i].Observe = func(s *lockstep.Step) { f.fault.observer(s, observe) }
			}
		}
	}
	p, err := f.StepSimulator.Reset(ctx, jobs, opts)
	if err == nil {
		err = f.fault.refusing
	}
	if err != nil {
		return nil, err
	}
	stepper.Stepper, stepper.left = p, f.left
	*f.left++
	return &stepper, nil
}

type stepFault struct {
	lockstep.Stepper
	takes    func([]lockstep.Job) bool // what Reset should refuse
	refusing error                     // of Reset
	observer func(s *lockstep.Step, observe func(*lockstep.Step))
	late     int // what Index adds
	step     func(p lockstep.Stepper, ctx ctxt, commands, lataccels []float64) error
	snapshot func(*lockstep.Snapshot) error
	restore  func(p lockstep.Stepper, ctx ctxt, s *lockstep.Snapshot) error
	observe  func(p lockstep.Stepper, into []float32) error
	results  func(p lockstep.Stepper, all []lockstep.Result) []lockstep.Result
	open     bool // Close does nothing
	closing  func(error) error
	left     *int
	closed   bool
}

func (f *stepFault) Index() int { return f.Stepper.Index() + f.late }

func (f *stepFault) Close() error {
	if f.open {
		return nil
	}
	if !f.closed {
		*f.left--
	}
	f.closed = true
	err := f.Stepper.Close()
	if f.closing == nil {
		return err
	}
	return f.closing(err)
}

func (f *stepFault) Step(ctx ctxt, commands, lataccels []float64) error {
	if f.step == nil {
		return f.Stepper.Step(ctx, commands, lataccels)
	}
	return f.step(f.Stepper, ctx, commands, lataccels)
}

func (f *stepFault) Observe(ctx ctxt, into []float32) error {
	err := f.Stepper.Observe(ctx, into)
	if err == nil && f.observe != nil {
		err = f.observe(f.Stepper, into)
	}
	return err
}

func (f *stepFault) Results(ctx ctxt) ([]lockstep.Result, error) {
	all, err := f.Stepper.Results(ctx)
	if err == nil && f.results != nil {
		all = f.results(f.Stepper, all)
	}
	return all, err
}

func (f *stepFault) Snapshot(ctx ctxt) (*lockstep.Snapshot, error) {
	s, err := f.Stepper.Snapshot(ctx)
	if err == nil && f.snapshot != nil {
		err = f.snapshot(s)
	}
	return s, err
}

func (f *stepFault) Restore(ctx ctxt, s *lockstep.Snapshot) error {
	if f.restore == nil {
		return f.Stepper.Restore(ctx, s)
	}
	return f.restore(f.Stepper, ctx, s)
}

var errNo = errors.New("no")

// stepFaults are Steppers with one fault each, and what the check of step mode says of it.
var stepFaults = []struct {
	name, want string
	fault      stepFault
}{
	{"none", "<nil>", stepFault{}},
	{"commands of the step before", "job 3, step 101: observation[9] (last action)",
		stepFault{step: func() func(lockstep.Stepper, ctxt, []float64, []float64) error {
			last := map[lockstep.Stepper]float64{}
			return func(p lockstep.Stepper, ctx ctxt, commands, lataccels []float64) error {
				late := append([]float64(nil), commands...)
				late[3] = last[p]
				last[p] = commands[3]
				return p.Step(ctx, late, lataccels)
			}
		}()}},
	{"a bit of an observation", "job 1, step 106: observation[13] (action change) is 1e-45, want 0",
		stepFault{
			observe: func(p lockstep.Stepper, into []float32) error {
				if x := &into[lockstep.ObservationSize+13]; p.Index() == 106 {
					*x = math.Float32frombits(math.Float32bits(*x) ^ 1)
				}
				return nil
			},
		}},
	{"a bit of the first observation",
		"job 2, step 100: observation[6] (v ego) is 0.646273, want 0.6462731", stepFault{
			observe: func(p lockstep.Stepper, into []float32) error {
				if x := &into[2*lockstep.ObservationSize+6]; p.Index() == 100 {
					*x = math.Float32frombits(math.Float32bits(*x) ^ 1)
				}
				return nil
			},
		}},
	{"takes fewer commands", "Step takes 3 commands for 4 rollouts",
		stepFault{step: func(p lockstep.Stepper, ctx ctxt, commands,
			lataccels []float64) error {
			if len(commands) < len(lataccels) {
				return nil
			}
			return p.Step(ctx, commands, lataccels)
		}}},
	{"forgets what another has cost when it goes on after a failure",
		"job 1, taken back to before its observer failed: ", func() stepFault {
			back := map[lockstep.Stepper]bool{}
			return stepFault{
				restore: func(p lockstep.Stepper, ctx ctxt, s *lockstep.Snapshot) error {
					back[p] = p.Err(0) != nil
					return p.Restore(ctx, s)
				},
				results: func(p lockstep.Stepper, all []lockstep.Result) []lockstep.Result {
					if back[p] {
						all[1].Costs.Total = 0
					}
					return all
				},
			}
		}()},
	{"observations of what has ended",
		"job 0, step 104: observation[6] (v ego) is 0.5, want 0", stepFault{
			observe: func(p lockstep.Stepper, into []float32) error {
				if !p.Running(0) {
					into[6] = 0.5
				}
				return nil
			},
		}},
	{"NaN is 0", "whose command was NaN goes on",
		stepFault{step: func(p lockstep.Stepper, ctx ctxt, commands,
			lataccels []float64) error {
			clean := append([]float64(nil), commands...)
			for i, x := range clean {
				if math.IsNaN(x) {
					clean[i] = 0
				}
			}
			return p.Step(ctx, clean, lataccels)
		}}},
	{"lataccels of float32", "lataccel",
		stepFault{step: func(p lockstep.Stepper, ctx ctxt, commands,
			lataccels []float64) error {
			err := p.Step(ctx, commands, lataccels)
			for i, x := range lataccels {
				lataccels[i] = float64(float32(x))
			}
			return err
		}}},
	{"the policy's memory is lost", "job 0, step 100: lataccel",
		stepFault{snapshot: func(s *lockstep.Snapshot) error {
			clear(s.Rollouts[0].Policy)
			return nil
		}}},
	{"an action is lost", "job 0, step 102: lataccel",
		stepFault{snapshot: func(s *lockstep.Snapshot) error {
			for i := range s.Rollouts {
				if n := len(s.Rollouts[i].Action); n > 100 {
					s.Rollouts[i].Action[n-1] = 0
				}
			}
			return nil
		}}},
	{"restores anything", "Restore takes a snapshot of another profile\n" +
		"Restore takes a snapshot of another model\n" +
		"Restore takes a snapshot with a rollout too few\n" +
		"Restore takes a snapshot of another route\n" +
		"Restore takes a snapshot with a lataccel too few\n" +
		"Restore takes a snapshot without a PID's memory",
		stepFault{restore: func(p lockstep.Stepper, ctx ctxt, s *lockstep.Snapshot) error {
			p.Restore(ctx, s)
			return nil
		}}},
	{"asks no context", "Restore in a context that has ended: error <nil>",
		stepFault{restore: func(p lockstep.Stepper, _ ctxt, s *lockstep.Snapshot) error {
			return p.Restore(context.Background(), s)
		}}},
	{"works in a context that has ended", "Index is 102 after calls in a context that has ended",
		stepFault{step: func(p lockstep.Stepper, ctx ctxt, commands, lataccels []float64) error {
			err := p.Step(context.WithoutCancel(ctx), commands, lataccels)
			return cmp.Or(err, ctx.Err())
		}}},
	{"is never closed", "Fork after Close gives no error\n" +
		"Observe after Close gives no error\nRestore after Close gives no error\n" +
		"Results after Close gives no error\nRoll after Close gives no error\n" +
		"Snapshot after Close gives no error\nStep after Close gives no error",
		stepFault{open: true}},
	{"closes without a word", `Close says "<nil>" of controllers stuck, well and stuck`,
		stepFault{closing: func(error) error { return nil }}},
	{"says what does not close twice", "want that stuck, once, is out of fuel",
		stepFault{closing: func(err error) error { return errors.Join(err, err) }}},
	{"stands still", "Index is 20 after Step 20, want 21",
		stepFault{step: func(lockstep.Stepper, ctxt, []float64, []float64) error {
			return nil
		}}},
	{"cannot begin", "Reset: no", stepFault{refusing: errNo}},
	{"begins late", "Index is 21 after Reset", stepFault{late: 1}},
	{"takes no jobs", "Reset takes no jobs",
		stepFault{takes: func(jobs []lockstep.Job) bool { return len(jobs) == 0 }}},
	{"takes a job without a route", "Reset takes a job without a route",
		stepFault{takes: func(jobs []lockstep.Job) bool {
			return slices.ContainsFunc(jobs, func(j lockstep.Job) bool { return j.Route == nil })
		}}},
	{"takes one teacher for two", "Reset takes one teacher for two",
		stepFault{takes: func(jobs []lockstep.Job) bool {
			taught := func(j lockstep.Job) bool { return j.Teacher != nil }
			return slices.ContainsFunc(jobs, taught) && !taught(jobs[0])
		}}},
	{"shows each step twice", "Observe is called for step 20, want step 21 next",
		stepFault{observer: func(s *lockstep.Step, observe func(*lockstep.Step)) {
			observe(s)
			observe(s)
		}}},
	{"shows a last step twice", "job 0: Observe is called for step 103, want step 104 next",
		stepFault{observer: func(s *lockstep.Step, observe func(*lockstep.Step)) {
			if observe(s); s.Index == 103 {
				observe(s)
			}
		}}},
	{"takes no snapshot of others", "Restore of a snapshot before step 60: no", func() stepFault {
		own := map[*lockstep.Snapshot]bool{}
		return stepFault{
			snapshot: func(s *lockstep.Snapshot) error { own[s] = true; return nil },
			restore: func(p lockstep.Stepper, ctx ctxt, s *lockstep.Snapshot) error {
				if !own[s] {
					return errNo
				}
				return p.Restore(ctx, s)
			},
		}
	}()},
	{"observers may panic", "a rollout whose observer panicked goes on",
		stepFault{observer: func(s *lockstep.Step, observe func(*lockstep.Step)) {
			defer func() { _ = recover() }()
			observe(s)
		}}},
	{"cannot step", "Step 20: no",
		stepFault{step: func(lockstep.Stepper, ctxt, []float64, []float64) error {
			return errNo
		}}},
	{"cannot step on other commands", "Step 100: no",
		stepFault{step: func(p lockstep.Stepper, ctx ctxt, commands,
			lataccels []float64) error {
			if commands[outside] == 0 && p.Index() == lockstep.ControlStartIdx {
				return errNo
			}
			return p.Step(ctx, commands, lataccels)
		}}},
	{"NaN fails all", "Step with a command that is NaN: no",
		stepFault{step: func(p lockstep.Stepper, ctx ctxt, commands,
			lataccels []float64) error {
			if slices.ContainsFunc(commands, math.IsNaN) {
				return errNo
			}
			return p.Step(ctx, commands, lataccels)
		}}},
	{"steps behind the last", "Step computes a step after the last",
		stepFault{step: func(p lockstep.Stepper, ctx ctxt, commands,
			lataccels []float64) error {
			if p.Done() {
				return nil
			}
			return p.Step(ctx, commands, lataccels)
		}}},
	{"steps though nobody waits",
		"Step after the context's end: <nil>, and the next step is 21",
		stepFault{step: func(p lockstep.Stepper, _ ctxt, commands, lataccels []float64) error {
			return p.Step(context.Background(), commands, lataccels)
		}}},
	{"cannot observe", "Observe before step 100: no",
		stepFault{observe: func(lockstep.Stepper, []float32) error { return errNo }}},
	{"a result too few", "Results: 3 for 4 jobs",
		stepFault{results: func(_ lockstep.Stepper, all []lockstep.Result) []lockstep.Result {
			return all[1:]
		}}},
	{"what failed has a result", "a rollout whose command was NaN has a result",
		stepFault{results: func(_ lockstep.Stepper, all []lockstep.Result) []lockstep.Result {
			all[outside].Err = nil
			return all
		}}},
	{"results in one place", ", when it went on otherwise: ", func() stepFault {
		rooms := map[lockstep.Stepper][]float64{}
		return stepFault{
			results: func(p lockstep.Stepper, all []lockstep.Result) []lockstep.Result {
				t := all[outside].Trajectory
				if t == nil {
					return all
				}
				rooms[p] = append(rooms[p][:0], t.Lataccel...)
				t.Lataccel = rooms[p]
				return all
			},
		}
	}()},
	{"cannot take a snapshot", "Snapshot before step 20: no",
		stepFault{snapshot: func(*lockstep.Snapshot) error { return errNo }}},
	{"stays where it is", "Index is 107 after the Restore of a snapshot before step 60",
		stepFault{restore: func(lockstep.Stepper, ctxt, *lockstep.Snapshot) error {
			return nil
		}}},
	{"cannot close", "Close, once: no",
		stepFault{closing: func(err error) error { return cmp.Or(err, errNo) }}},
	{"cannot close twice", "Close, again: no", func() stepFault {
		closed := false
		return stepFault{closing: func(err error) error {
			if closed {
				return errNo
			}
			closed = err == nil
			return err
		}}
	}()},
	{"says that all do not close", `want that stuck, once, is out of fuel`,
		stepFault{closing: func(err error) error {
			if err != nil {
				err = fmt.Errorf("%w, and neither does well", err)
			}
			return err
		}}},
	{"other costs step by step", "job 0, run step by step: stage costs, index 1 (jerk)\n" +
		"job 3, run step by step: stage costs, index 1 (jerk)",
		stepFault{results: func(_ lockstep.Stepper, all []lockstep.Result) []lockstep.Result {
			for i := range all {
				all[i].Costs.Jerk++
				all[i].Costs.Total++
			}
			return all
		}}},
	{"other costs from a late snapshot",
		"job 2, from a snapshot before step 102: stage costs, index 1 (jerk)",
		changed(func(_ lockstep.Stepper, s *lockstep.Snapshot) bool { return s.Step == 102 }, 2)},
	{"other costs from an early snapshot",
		"job 3, from a snapshot before step 60: stage costs, index 1 (jerk)",
		changed(func(_ lockstep.Stepper, s *lockstep.Snapshot) bool { return s.Step == 60 }, 3)},
	{"what failed is not quite taken back",
		"job 3, taken back to before one failed: stage costs, index 1 (jerk)",
		changed(func(p lockstep.Stepper, s *lockstep.Snapshot) bool {
			return p.Err(outside) != nil && s.Step == 101
		}, 3)},
	{"goes on otherwise after the context's end", "job 0, step 20: lataccel ", func() stepFault {
		ended := map[lockstep.Stepper]bool{}
		return stepFault{
			step: func(p lockstep.Stepper, ctx ctxt, commands, lataccels []float64) error {
				err := p.Step(ctx, commands, lataccels)
				if ended[p] = ended[p] || ctx.Err() != nil; ended[p] {
					lataccels[0]++
				}
				return err
			},
		}
	}()},
	{"cannot restore", "Restore of a snapshot",
		stepFault{restore: func(lockstep.Stepper, ctxt, *lockstep.Snapshot) error {
			return errNo
		}}},
}

// changed has a job cost more once the Stepper went back to such a snapshot.
func changed(is func(p lockstep.Stepper, s *lockstep.Snapshot) bool, job int) stepFault {
	back := map[lockstep.Stepper]bool{}
	return stepFault{
		restore: func(p lockstep.Stepper, ctx ctxt, s *lockstep.Snapshot) error {
			back[p] = is(p, s)
			return p.Restore(ctx, s)
		},
		results: func(p lockstep.Stepper, all []lockstep.Result) []lockstep.Result {
			if back[p] {
				all[job].Costs.Jerk++
				all[job].Costs.Total++
			}
			return all
		},
	}
}

// TestStepMutants: the check of step mode finds what is wrong with it.
func TestStepMutants(t *testing.T) {
	t.Parallel()
	model, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sim, err := reference.New(model, reference.HostProfile())
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSuite(sim, nil)
	if err != nil {
		t.Fatal(err)
	}
	stepping := check{name: "stepping", check: (*suite).stepping}
	for _, c := range stepFaults {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			mutant, left := *s, 0
			mutant.sim = faulty{sim, c.fault, &left}
			errs, note := mutant.perform(stepping)
			said := fmt.Sprint(errors.Join(errs...))
			if lacks(said, c.want) != "" || note != "" {
				t.Errorf("it says\n%s%s\nwant %q", said, note, lacks(said, c.want))
			}
			if left > 0 && c.want == "<nil>" {
				t.Errorf("%d Steppers are not closed", left)
			}
		})
	}
}

// TestCopied: a route that a check changes shares no array with that of others.
func TestCopied(t *testing.T) {
	r := &lockstep.Route{Name: "r", Draws: []float64{0.5}}
	for _, column := range r.Columns() {
		*column = []float64{1, 2}
	}
	c := copied(r)
	if !reflect.DeepEqual(c, r) {
		t.Errorf("%+v, want %+v", c, r)
	}
	ours, theirs := c.Columns(), r.Columns()
	for _, column := range append(ours[:], &c.Draws) {
		(*column)[0] = 7
	}
	for _, column := range append(theirs[:], &r.Draws) {
		if (*column)[0] == 7 {
			t.Errorf("%+v shares an array with its copy", r)
		}
	}
}

// TestTwoAtOnce: an observer that is called while it runs panics, and no longer when it has ended.
func TestTwoAtOnce(t *testing.T) {
	r, s := &rollout{}, &lockstep.Step{Index: lockstep.ContextLength}
	r.job.Observe = func(s *lockstep.Step) { r.observe(s) }
	simtest.Refused(t, "a call in a call", guard.Do(func() { r.observe(s) }),
		"Observe is called for one job by two goroutines at once")
	r.job.Observe = nil
	s.Index++
	if err := guard.Do(func() { r.observe(s) }); err != nil || len(r.faults) > 0 {
		t.Errorf("after it: %v, %q", err, r.faults)
	}
}

// TestClone: a step that is kept shares no array with the engine's.
func TestClone(t *testing.T) {
	s := &lockstep.Step{Index: 7, Lataccel: 0.5}
	of := reflect.ValueOf(s).Elem()
	arrays := 0
	for i := range of.NumField() {
		if f := of.Field(i); f.Kind() == reflect.Slice {
			f.Set(reflect.MakeSlice(f.Type(), i+1, i+1))
			arrays++
		}
	}
	kept := reflect.ValueOf(clone(s)).Elem()
	for i := range of.NumField() {
		name, f := of.Type().Field(i).Name, of.Field(i)
		if !reflect.DeepEqual(f.Interface(), kept.Field(i).Interface()) {
			t.Errorf("%s is %v, want %v", name, kept.Field(i), f)
		}
		if f.Kind() == reflect.Slice && f.Pointer() == kept.Field(i).Pointer() {
			t.Errorf("%s is the engine's own", name)
		}
	}
	if arrays < 7 {
		t.Errorf("a step has %d arrays", arrays)
	}
}
