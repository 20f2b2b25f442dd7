package parity

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"lockstep/parity/schema"
	"lockstep/parity/trace"
)

// A Family is what a comparison knows of one kind of simulator.
type Family struct {
	Schema *schema.Schema

	// Explain says why a stage whose soft inputs differ came out otherwise, and whether
	// they are enough to explain it; nil if too little is known. It may be nil itself.
	Explain func(want, got *schema.Step) *Explanation

	// Plot draws what happened around a divergence; if nil, the stages with an effect
	// are drawn. sides are both rollouts without forcing, at the steps that differ.
	Plot func(task *Task, sides [2]*schema.Digests, at [2]*schema.Step) []Chart
}

// A Task is one rollout of a comparison.
type Task struct {
	trace.Rollout

	// Job is what an engine computes the rollout from, of a type that its adapter
	// knows. Between traces a task has none.
	Job any

	// Teacher, if not nil, forces the rollout: each step goes on from what the teacher
	// had, and shows what was computed from that. The rollout ends where its teacher
	// does.
	Teacher *Teacher

	// Until is one past the last step that is asked for; 0 asks for all.
	Until int

	nth int // among the tasks of the same key
}

// A Teacher is a trajectory: the values of the schema's Teach stages at every step.
type Teacher struct {
	schema  *schema.Schema
	columns [][]byte // by stage
	steps   int
}

// NewTeacher is the trajectory of a rollout's steps, nil if they lack something.
func NewTeacher(s *schema.Schema, steps []*schema.Step) *Teacher {
	r := rollout{end: End{found: true}}
	for _, step := range steps {
		r.add(s, step, false)
	}
	return r.teacher(s, len(steps))
}

// Taught are a teacher's values of a stage from the first step on, one array after the
// other if they are arrays; nil without a teacher.
func Taught[T float32 | float64 | int32 | int64 | uint8](t *Teacher, stage string) []T {
	if t == nil {
		return nil
	}
	return schema.Elements[T](t.columns[t.schema.Index(stage)])
}

// Steps is how many steps a trajectory has.
func (t *Teacher) Steps() int { return t.steps }

// Overwrite puts the teacher's arrays of its k-th step in place of those of s, where
// these lie: an engine that shows its own goes on from them.
func (t *Teacher) Overwrite(k int, s *schema.Step) {
	for i, column := range t.columns {
		size := len(column) / t.steps
		copy(s.Data[i], column[k*size:(k+1)*size])
	}
}

// An Engine computes rollouts. An adapter makes one of a simulator.
type Engine interface {
	Info() SideInfo

	// Schema describes the steps that Run shows.
	Schema() *schema.Schema

	// Run computes the rollouts of some tasks. It shows every step of each to observe,
	// in order for each task, possibly of several at once: a schema.Step whose arrays
	// are valid during the call, without digests. It yields each task's index with its
	// end, as they finish.
	Run(ctx context.Context, tasks []Task, observe func(i int, s *schema.Step)) iter.Seq2[int, End]
}

// End is what came of a rollout: its outcome or an error.
type End struct {
	Outcome []float64
	Err     error

	rollout *trace.Rollout // that was recorded
	found   bool
}

func (e *End) String() string {
	switch {
	case !e.found:
		return "no such rollout"
	case e.Err != nil:
		return fmt.Sprintf("the error %q", e.Err)
	}
	return "no error"
}

// A Source is one side of a comparison: Live, or Recorded.
type Source interface {
	Info() SideInfo
	Schema() *schema.Schema

	// digest is the hash of the source's digests, and whether it can have no other;
	// rehash sets it.
	digest() (h schema.Hash, fixed bool)
	rehash(h schema.Hash) error

	// rollouts are those of a recording, in order.
	rollouts() []trace.Rollout

	// play shows every step of the tasks, in order for each of them, possibly of
	// several at once, and returns their ends. Recordings give arrays only if full.
	play(ctx context.Context, tasks []Task, full bool, visit func(i int, s *schema.Step)) ([]End, error)
}

// LiveSource is an engine.
type LiveSource struct {
	Engine

	// Parallel is how many calls of Run share the work, for engines that use one core
	// themselves; 1 if 0. The engine must allow it.
	Parallel int

	hash schema.Hash
}

// Live makes a source of an engine.
func Live(e Engine) *LiveSource { return &LiveSource{Engine: e} }

func (l *LiveSource) digest() (schema.Hash, bool) { return l.hash, false }
func (l *LiveSource) rehash(h schema.Hash) error  { l.hash = h; return nil }
func (l *LiveSource) rollouts() []trace.Rollout   { return nil }

// Info names the engine.
func (l *LiveSource) Info() SideInfo {
	info := l.Engine.Info()
	info.Live = true
	return info
}

// errStop ends a rollout of which enough was seen.
var errStop = errors.New("enough was seen")

func (l *LiveSource) play(ctx context.Context, tasks []Task, _ bool, visit func(i int, s *schema.Step)) ([]End, error) {
	ends := make([]End, len(tasks))
	share := min(max(l.Parallel, 1), len(tasks))
	errs := make([]error, share)
	var calls sync.WaitGroup
	for k := range share {
		calls.Go(func() {
			var own []int // of the tasks
			for i := k; i < len(tasks); i += share {
				own = append(own, i)
			}
			errs[k] = l.run(ctx, tasks, own, visit, ends)
		})
	}
	calls.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return ends, errors.Join(errs...)
}

// run runs those tasks in one call.
func (l *LiveSource) run(ctx context.Context, tasks []Task, own []int, visit func(i int, s *schema.Step), ends []End) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	some := make([]Task, len(own))
	for k, i := range own {
		some[k] = tasks[i]
	}
	observe := func(k int, s *schema.Step) {
		s.Sum(l.hash)
		visit(own[k], s)
		if until := some[k].Until; until > 0 && s.Index >= until-1 {
			cancel(errStop)
		}
	}
	for k, end := range l.Run(ctx, some, observe) {
		if k < 0 || k >= len(own) {
			return fmt.Errorf("%s: a result of rollout %d, there are %d", l.Info().Name, k, len(own))
		}
		if ends[own[k]].found {
			return fmt.Errorf("%s: rollout %d has two results", l.Info().Name, k)
		}
		end.found = true
		ends[own[k]] = end
	}
	for _, i := range own {
		if !ends[i].found {
			ends[i] = End{found: true, Err: errors.New("the engine gave no result")}
		}
	}
	return nil
}

// A Recording holds rollouts that were recorded with digests of one kind. One that can
// have others has a method Rehash(schema.Hash) error.
type Recording interface {
	Info() SideInfo
	Schema() *schema.Schema
	Digest() schema.Hash

	// Rollouts are those that there are, in order.
	Rollouts() []trace.Rollout

	// Read shows the steps of the n-th rollout, with the digests of all arrays, and in
	// full those that are known so of the steps for which full says it. It returns what
	// is known of the rollout and what it came to.
	Read(n int, full func(step int) bool, show func(s *schema.Step)) (trace.Rollout, End, error)
}

// Recorded makes a source of a recording. Rollouts are found by their keys, those of the
// same key in their order.
func Recorded(r Recording) Source {
	s := recorded{r, map[string][]int{}}
	for i, about := range r.Rollouts() {
		s.named[about.Name()] = append(s.named[about.Name()], i)
	}
	return s
}

type recorded struct {
	Recording
	named map[string][]int
}

type rehasher interface{ Rehash(schema.Hash) error }

func (r recorded) digest() (h schema.Hash, fixed bool) {
	_, can := r.Recording.(rehasher)
	f, ok := r.Recording.(traced)
	return r.Digest(), !can || ok && f.Hashed != 0
}

func (r recorded) rehash(h schema.Hash) error {
	if h == r.Digest() {
		return nil
	}
	if f, ok := r.Recording.(rehasher); ok {
		return f.Rehash(h)
	}
	return fmt.Errorf("%s holds digests of kind %s, not %s", r.Info().Name, r.Digest(), h)
}

func (r recorded) rollouts() []trace.Rollout { return r.Rollouts() }

func (r recorded) play(ctx context.Context, tasks []Task, full bool, visit func(i int, s *schema.Step)) ([]End, error) {
	ends := make([]End, len(tasks))
	for i, t := range tasks {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		known := r.named[t.Name()]
		if t.nth >= len(known) {
			continue
		}
		asked := func(step int) bool { return full && (t.Until == 0 || step == t.Until-1) }
		about, end, err := r.Read(known[t.nth], asked, func(s *schema.Step) { visit(i, s) })
		if err != nil {
			return nil, err
		}
		end.found, end.rollout = true, &about
		ends[i] = end
	}
	return ends, nil
}

// Traced makes a source of a trace.
func Traced(f *trace.File) Source { return Recorded(traced{f}) }

type traced struct{ *trace.File }

func (t traced) Info() SideInfo         { return SideInfo{Name: t.Name, Profile: t.Header.Profile} }
func (t traced) Schema() *schema.Schema { return &t.Header.Schema }

func (t traced) Rollouts() (all []trace.Rollout) {
	for _, run := range t.File.Rollouts {
		all = append(all, run.Rollout)
	}
	return all
}

func (t traced) Read(n int, full func(step int) bool, show func(s *schema.Step)) (trace.Rollout, End, error) {
	run := t.File.Rollouts[n]
	for k := range run.Digests.Len() {
		s := run.Digests.At(k)
		if full(s.Index) {
			var err error
			if s, err = t.Step(run, k); err != nil {
				return run.Rollout, End{}, err
			}
		}
		show(s)
	}
	end := End{Outcome: run.End.Outcome}
	if run.End.Error != "" {
		end.Err = errors.New(run.End.Error)
	}
	return run.Rollout, end, nil
}

// pairUp completes the tasks, or without any makes those of all rollouts of both
// recordings.
func pairUp(want, got Source, tasks []Task) ([]Task, error) {
	tasks = slices.Clone(tasks)
	if tasks == nil {
		if want.Info().Live || got.Info().Live {
			return nil, errors.New("a live engine is compared on jobs, and none are given")
		}
		counts := map[string]int{}
		for _, r := range want.rollouts() {
			tasks = append(tasks, Task{Rollout: r})
			counts[r.Name()]++
		}
		for _, r := range got.rollouts() {
			if counts[r.Name()]--; counts[r.Name()] < 0 {
				tasks = append(tasks, Task{Rollout: r})
			}
		}
	}
	seen := map[string]int{}
	for i := range tasks {
		tasks[i].Teacher, tasks[i].Until, tasks[i].nth = nil, 0, seen[tasks[i].Name()]
		seen[tasks[i].Name()]++
	}
	return tasks, nil
}

// agree makes both sources hash alike, and returns the hash: that of one which cannot
// change, else of a recording, whose change takes time.
func agree(want, got Source) (schema.Hash, error) {
	h := schema.XXH64
	for _, decides := range []bool{false, true} {
		for _, s := range []Source{got, want} {
			if own, fixed := s.digest(); !s.Info().Live && fixed == decides {
				h = own
			}
		}
	}
	if err := want.rehash(h); err != nil {
		return h, err
	}
	return h, got.rehash(h)
}

// arranged shows a source's steps in the order of another schema.
type arranged struct {
	Source
	to *schema.Schema
	at []int // stage of the source for each, or -1
}

// arrange makes a source show steps of a schema.
func arrange(s Source, to *schema.Schema) (Source, error) {
	from := s.Schema()
	if err := schema.Agree(to, from); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Info().Name, err)
	}
	a := &arranged{Source: s, to: to}
	same := len(from.Stages) == len(to.Stages)
	for i := range to.Stages {
		k := from.Index(to.Stages[i].Name)
		a.at = append(a.at, k)
		same = same && k == i
	}
	if same {
		return s, nil
	}
	return a, nil
}

func (a *arranged) play(ctx context.Context, tasks []Task, full bool, visit func(i int, s *schema.Step)) ([]End, error) {
	return a.Source.play(ctx, tasks, full, func(i int, s *schema.Step) {
		own := a.to.NewStep()
		own.Index = s.Index
		for to, from := range a.at {
			if from >= 0 && s.Has.Has(from) {
				own.Has |= 1 << to
				own.Bits[to], own.Data[to] = s.Bits[from], s.Data[from]
			}
		}
		visit(i, own)
	})
}

// Record runs tasks on an engine and writes a trace of them, with its name, profile and
// schema entered into the header. Rollouts that fail are recorded with their errors; the
// error returned is the file's or the context's.
func Record(ctx context.Context, e Engine, tasks []Task, h trace.Header, full schema.Set, path string) error {
	h.Engine, h.Profile, h.Schema = e.Info().Name, e.Info().Profile, *e.Schema()
	return trace.WriteFile(path, h, full, func(w *trace.Writer) error {
		writers := make([]*trace.RolloutWriter, len(tasks))
		for i := range tasks {
			writers[i] = w.Begin(tasks[i].Rollout)
		}
		for i, end := range e.Run(ctx, tasks, func(i int, s *schema.Step) { writers[i].Observe(s) }) {
			writers[i].End(end.Outcome, end.Err)
		}
		return ctx.Err()
	})
}
