package parity

import (
	"cmp"
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
	Plot func(task *RolloutTask, sides [2]*schema.Digests, at [2]*schema.Step) []Chart

	// Element names a value of an array of a task's rollout, "" if nothing is known of it; if
	// nil, the stage's own names are.
	Element func(task *RolloutTask, stage *schema.Stage, index int) string

	// Branches are those of the specification, and Watch makes what looks for them in a
	// rollout; both may be nil.
	Branches []Branch
	Watch    func(task *RolloutTask) Watcher
}

// A RolloutTask is one rollout of a comparison.
type RolloutTask struct {
	trace.Rollout

	// Job is what an engine computes the rollout from, of a type that its adapter
	// knows. Between traces a task has none.
	Job any

	// Teacher, if not nil, forces the rollout: each step goes on from what the teacher
	// had, and shows what was computed from that. The rollout ends where its teacher
	// does.
	Teacher *Teacher

	nth int // among the tasks of the same key
}

// An Adapter has a simulator compute the rollouts of a comparison, and shows their steps.
type Adapter interface {
	Info() SideInfo

	// Schema describes the steps that Run shows.
	Schema() *schema.Schema

	// Run computes the rollouts of some tasks. It shows every step of each to observe,
	// in order for each task, possibly of several at once: a schema.Step whose arrays
	// are valid during the call, without digests. It yields each task's index with its
	// end, as they finish.
	Run(
		ctx context.Context,
		tasks []RolloutTask,
		observe func(i int, s *schema.Step),
	) iter.Seq2[int, End]
}

// End is what came of a rollout: its outcome or an error.
type End struct {
	Outcome []float64
	Err     error

	of *trace.Rollout // that was recorded or computed; nil if there is none
}

func (e *End) String() string {
	switch {
	case e.of == nil:
		return "no such rollout"
	case e.Err != nil:
		return fmt.Sprintf("the error %q", e.Err)
	}
	return "no error"
}

// A Side is one side of a comparison: Live, or Recorded.
type Side interface {
	Info() SideInfo
	Schema() *schema.Schema

	// play shows every step of the tasks, in order for each of them, possibly of
	// several at once, and returns their ends. Live engines' digests are of hash h;
	// recordings have their own, and give arrays only if full.
	play(
		ctx context.Context, tasks []RolloutTask, h schema.Hash, full bool,
		visit func(i int, s *schema.Step),
	) ([]End, error)
}

// LiveSource is an engine.
type LiveSource struct {
	Adapter

	// Parallel is how many calls of Run share the work, for engines that use one core
	// themselves; 1 if 0. The engine must allow it.
	Parallel int
}

// Live makes a source of an engine.
func Live(e Adapter) *LiveSource { return &LiveSource{Adapter: e} }

// Info names the engine.
func (l *LiveSource) Info() SideInfo {
	info := l.Adapter.Info()
	info.Live = true
	return info
}

func (l *LiveSource) play(
	ctx context.Context,
	tasks []RolloutTask,
	h schema.Hash,
	_ bool,
	visit func(i int, s *schema.Step),
) ([]End, error) {
	ends, errs := make([]End, len(tasks)), make([]error, len(tasks))
	share := max(l.Parallel, 1)
	size := (len(tasks) + share - 1) / share
	var calls sync.WaitGroup
	for from := 0; from < len(tasks); from += size {
		own := tasks[from:min(from+size, len(tasks))]
		calls.Go(func() {
			observe := func(i int, s *schema.Step) {
				s.Sum(h)
				visit(from+i, s)
			}
			for i, end := range l.Run(ctx, own, observe) {
				if i < 0 || i >= len(own) {
					errs[from] = fmt.Errorf(
						"%s: a result of rollout %d, there are %d", l.Info().Name, i, len(own),
					)
					return
				}
				if ends[from+i].of != nil {
					errs[from] = fmt.Errorf("%s: rollout %d has two results", l.Info().Name, i)
					return
				}
				end.of = &own[i].Rollout
				ends[from+i] = end
			}
		})
	}
	calls.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for i := range ends {
		if ends[i].of == nil {
			ends[i] = End{of: &tasks[i].Rollout, Err: errors.New("the engine gave no result")}
		}
	}
	return ends, errors.Join(errs...)
}

// A RecordedSide holds rollouts that were recorded with digests of one kind.
type RecordedSide interface {
	Info() SideInfo
	Schema() *schema.Schema
	Digest() schema.Hash

	// Rehash makes digests of another kind. Where they cannot be had, the error is a
	// trace.ErrHashed.
	Rehash(h schema.Hash) error

	// Rollouts are those that there are, in order.
	Rollouts() []trace.Rollout

	// Read shows the steps of the n-th rollout, with the digests of all arrays and, if
	// full, those in full that are known so. It returns what is known of the rollout and
	// what it came to.
	Read(n int, full bool, show func(s *schema.Step)) (trace.Rollout, End, error)
}

// Recorded makes a source of a recording. Rollouts are found by their keys, those of the
// same key in their order.
func Recorded(r RecordedSide) Side {
	s := recorded{r, map[string][]int{}}
	for i, about := range r.Rollouts() {
		s.named[about.Name()] = append(s.named[about.Name()], i)
	}
	return s
}

type recorded struct {
	RecordedSide
	named map[string][]int
}

func (r recorded) rehash(h schema.Hash) error {
	if h == r.Digest() {
		return nil
	}
	return r.RecordedSide.Rehash(h)
}

func (r recorded) play(
	ctx context.Context,
	tasks []RolloutTask,
	_ schema.Hash,
	full bool,
	visit func(i int, s *schema.Step),
) ([]End, error) {
	ends := make([]End, len(tasks))
	for i, t := range tasks {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		known := r.named[t.Name()]
		if t.nth >= len(known) {
			continue
		}
		about, end, err := r.Read(known[t.nth], full, func(s *schema.Step) { visit(i, s) })
		if err != nil {
			return nil, err
		}
		end.of = &about
		ends[i] = end
	}
	return ends, nil
}

// Traced makes a source of a trace.
func Traced(f *trace.File) Side { return Recorded(traced{f}) }

type traced struct{ *trace.File }

func (t traced) Info() SideInfo         { return SideInfo{Name: t.Name, Profile: t.Header.Profile} }
func (t traced) Schema() *schema.Schema { return &t.Header.Schema }

func (t traced) Rollouts() (all []trace.Rollout) {
	for _, run := range t.File.Rollouts {
		all = append(all, run.Rollout)
	}
	return all
}

func (t traced) Read(n int, full bool, show func(s *schema.Step)) (trace.Rollout, End, error) {
	run := t.File.Rollouts[n]
	for k := range run.Digests.Len() {
		s := run.Digests.At(k)
		if full {
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
func pairUp(recordings []recorded, tasks []RolloutTask) ([]RolloutTask, error) {
	tasks = slices.Clone(tasks)
	if tasks == nil {
		if len(recordings) < 2 {
			return nil, errors.New("a live engine is compared on jobs, and none are given")
		}
		for side, r := range recordings {
			seen := map[string]int{}
			for _, about := range r.Rollouts() {
				name := about.Name()
				if seen[name]++; side == wanted ||
					seen[name] > len(recordings[wanted].named[name]) {
					tasks = append(tasks, RolloutTask{Rollout: about})
				}
			}
		}
	}
	seen := map[string]int{}
	for i := range tasks {
		tasks[i].Teacher, tasks[i].nth = nil, seen[tasks[i].Name()]
		seen[tasks[i].Name()]++
	}
	return tasks, nil
}

// agree makes recordings hash alike, and returns the hash: it tries the hash of each
// recording in turn, and picks the first that every recording supports.
func agree(recordings []recorded) (h schema.Hash, err error) {
	for _, r := range recordings {
		h = r.Digest()
		var failed error
		for _, other := range recordings {
			failed = cmp.Or(failed, other.rehash(h))
		}
		if !errors.Is(failed, trace.ErrHashed) {
			return h, failed
		}
		err = cmp.Or(err, failed)
	}
	return h, err
}

// arrange makes a source's steps those of a schema.
func arrange(s Side, to *schema.Schema) (func(*schema.Step) *schema.Step, error) {
	from := s.Schema()
	if err := schema.Agree(to, from); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Info().Name, err)
	}
	if slices.EqualFunc(
		to.Stages, from.Stages, func(a, b schema.Stage) bool { return a.Name == b.Name },
	) {
		return func(s *schema.Step) *schema.Step { return s }, nil
	}
	return func(s *schema.Step) *schema.Step {
		own := to.NewStep()
		own.Index = s.Index
		for i := range to.Stages {
			if at := from.Index(to.Stages[i].Name); at >= 0 && s.Has.Has(at) {
				own.Has |= 1 << i
				own.Bits[i], own.Data[i] = s.Bits[at], s.Data[at]
			}
		}
		return own
	}, nil
}

// Record runs tasks on an engine and writes a trace of them, with its name, profile and
// schema entered into the header. Rollouts that fail are recorded with their errors; the
// error returned is the file's or the context's.
func Record(
	ctx context.Context,
	e Adapter,
	tasks []RolloutTask,
	h trace.Header,
	full schema.StageSet,
	path string,
) error {
	h.Engine, h.Profile, h.Schema = e.Info().Name, e.Info().Profile, *e.Schema()
	return trace.WriteFile(path, h, full, func(w *trace.Writer) error {
		writers := make([]*trace.RolloutWriter, len(tasks))
		for i := range tasks {
			writers[i] = w.Begin(tasks[i].Rollout)
		}
		for i, end := range e.Run(
			ctx, tasks, func(i int, s *schema.Step) { writers[i].Observe(s) },
		) {
			writers[i].End(end.Outcome, end.Err)
		}
		return ctx.Err()
	})
}
