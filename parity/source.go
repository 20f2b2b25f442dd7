package parity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"lockstep"
	"lockstep/golden"
	"lockstep/parity/trace"
)

// A Source is one side of a comparison: Live, Recorded or Golden.
type Source interface {
	info() SideInfo

	// digest is the hash of the source's digests, and whether it can have no other;
	// rehash sets it.
	digest() (h trace.Hash, fixed bool)
	rehash(h trace.Hash) error

	// keys are the rollouts of a recording, in order.
	keys() []trace.Rollout

	// play shows every step of the tasks, in order for each of them, possibly of
	// several at once, and returns their ends. Recordings give arrays only if full.
	play(ctx context.Context, tasks []task, opts lockstep.Options, full bool, visit func(i int, s *trace.Step)) ([]end, error)
}

// A task is one job of a comparison. Between recordings a job has no route.
type task struct {
	job lockstep.Job
	key string
	nth int // among the tasks of the same key

	about trace.Rollout
	until int // step after which a live source may stop; 0 is none
}

// end is what came of a task.
type end struct {
	found bool
	about *trace.Rollout // of a recording
	costs *lockstep.Costs
	err   error
}

func (e end) String() string {
	switch {
	case !e.found:
		return "no such rollout"
	case e.err != nil:
		return fmt.Sprintf("the error %q", e.err)
	}
	return "no error"
}

// LiveSource is a simulator.
type LiveSource struct {
	Simulator lockstep.Simulator

	// Parallel is how many calls of Simulate share the work, for simulators that use
	// one core themselves; 1 if 0. The simulator must allow it.
	Parallel int

	hash trace.Hash
}

// Live makes a source of a simulator. The reference, which uses one core, is called
// from all of them.
func Live(sim lockstep.Simulator) *LiveSource {
	l := &LiveSource{Simulator: sim}
	// Not so what is wrapped around it, which need not allow it and lacks this method.
	if _, ok := sim.(interface{ Kernels() string }); ok && sim.Name() == "reference" {
		l.Parallel = runtime.GOMAXPROCS(0)
	}
	return l
}

func (l *LiveSource) info() SideInfo {
	return SideInfo{Name: l.Simulator.Name(), Profile: l.Simulator.Profile().String(), Live: true}
}
func (l *LiveSource) digest() (trace.Hash, bool) { return l.hash, false }
func (l *LiveSource) rehash(h trace.Hash) error  { l.hash = h; return nil }
func (l *LiveSource) keys() []trace.Rollout      { return nil }

// errStop ends a rollout of which enough was seen.
var errStop = errors.New("enough was seen")

func (l *LiveSource) play(ctx context.Context, tasks []task, opts lockstep.Options, _ bool, visit func(i int, s *trace.Step)) ([]end, error) {
	ends := make([]end, len(tasks))
	share := min(max(l.Parallel, 1), len(tasks))
	errs := make([]error, share)
	var calls sync.WaitGroup
	for k := range share {
		calls.Go(func() {
			var own []int // of the tasks
			for i := k; i < len(tasks); i += share {
				own = append(own, i)
			}
			errs[k] = l.simulate(ctx, tasks, own, opts, visit, ends)
		})
	}
	calls.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return ends, errors.Join(errs...)
}

// simulate runs those tasks in one call.
func (l *LiveSource) simulate(ctx context.Context, tasks []task, own []int, opts lockstep.Options, visit func(i int, s *trace.Step), ends []end) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	jobs := make([]lockstep.Job, len(own))
	for k, i := range own {
		t := &tasks[i]
		var step trace.Step
		jobs[k] = t.job
		jobs[k].Observe = func(s *lockstep.Step) {
			step.Of(s, l.hash)
			visit(i, &step)
			if t.until > 0 && s.Index >= t.until {
				cancel(errStop)
			}
		}
	}
	for k, result := range l.Simulator.Simulate(ctx, jobs, opts) {
		if k < 0 || k >= len(own) {
			return fmt.Errorf("%s: a result of job %d, there are %d", l.Simulator.Name(), k, len(own))
		}
		if ends[own[k]].found {
			return fmt.Errorf("%s: job %d has two results", l.Simulator.Name(), k)
		}
		ends[own[k]] = end{found: true, err: result.Err}
		if costs := result.Costs; result.Err == nil {
			ends[own[k]].costs = &costs
		}
	}
	for _, i := range own {
		if !ends[i].found {
			ends[i] = end{found: true, err: errors.New("the engine gave no result")}
		}
	}
	return nil
}

// RecordedSource is a trace.
type RecordedSource struct {
	file  *trace.File
	named map[string][]*trace.Recording
}

// Recorded makes a source of a trace. Rollouts are found by the names of route and
// controller, those of the same names in their order.
func Recorded(f *trace.File) *RecordedSource {
	r := &RecordedSource{file: f, named: map[string][]*trace.Recording{}}
	r.index()
	return r
}

func (r *RecordedSource) index() {
	clear(r.named)
	for _, run := range r.file.Rollouts {
		r.named[run.Key()] = append(r.named[run.Key()], run)
	}
}

func (r *RecordedSource) info() SideInfo {
	return SideInfo{Name: r.file.Name, Profile: r.file.Header.Profile}
}

func (r *RecordedSource) digest() (trace.Hash, bool) { return r.file.Digest(), r.file.Hashed != 0 }

func (r *RecordedSource) rehash(h trace.Hash) error {
	err := r.file.Rehash(h)
	r.index()
	return err
}

func (r *RecordedSource) keys() []trace.Rollout {
	var keys []trace.Rollout
	for _, run := range r.file.Rollouts {
		keys = append(keys, run.Rollout)
	}
	return keys
}

func (r *RecordedSource) play(ctx context.Context, tasks []task, _ lockstep.Options, full bool, visit func(i int, s *trace.Step)) ([]end, error) {
	ends := make([]end, len(tasks))
	for i, t := range tasks {
		runs := r.named[t.key]
		if t.nth >= len(runs) {
			continue
		}
		run := runs[t.nth]
		ends[i] = end{found: true, about: &run.Rollout, costs: run.End.Costs}
		if run.End.Error != "" {
			ends[i].err = errors.New(run.End.Error)
		}
		for k := range run.Digests {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			s := &trace.Step{Digest: run.Digests[k]}
			if full && (t.until == 0 || int(s.Index) == t.until) {
				var err error
				if s, err = r.file.Step(run, k); err != nil {
					return nil, err
				}
			}
			visit(i, s)
		}
	}
	return ends, nil
}

// GoldenSource is recordings of the Python program.
type GoldenSource struct {
	set     *golden.Set
	entries map[string]golden.Entry
	order   []trace.Rollout
}

// Golden makes a source of a set of recordings.
func Golden(set *golden.Set) (*GoldenSource, error) {
	g := &GoldenSource{set: set, entries: map[string]golden.Entry{}}
	for _, e := range set.Recordings {
		policy, err := e.Policy()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", set.Dir, err)
		}
		about := trace.Rollout{Route: e.Route, Policy: policy.String(), Rows: e.Rows, Seed: &e.Seed}
		if _, twice := g.entries[about.Key()]; twice {
			return nil, fmt.Errorf("%s: two recordings of %s", set.Dir, about.Key())
		}
		g.entries[about.Key()] = e
		g.order = append(g.order, about)
	}
	return g, nil
}

// Jobs are the jobs that were recorded, on routes that load gives by their names.
func (g *GoldenSource) Jobs(load func(route string) (*lockstep.Route, error)) ([]lockstep.Job, error) {
	routes := map[string]*lockstep.Route{}
	var jobs []lockstep.Job
	for _, e := range g.set.Recordings {
		route := routes[e.Route]
		if route == nil {
			var err error
			if route, err = load(e.Route); err != nil {
				return nil, err
			}
			routes[e.Route] = route
		}
		policy, err := e.Policy()
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, lockstep.Job{Route: route, Policy: policy})
	}
	return jobs, nil
}

func (g *GoldenSource) info() SideInfo {
	return SideInfo{Name: "golden " + filepath.Base(g.set.Dir), Profile: g.set.Profile.String()}
}
func (g *GoldenSource) digest() (trace.Hash, bool) { return trace.SHA256, true }
func (g *GoldenSource) rehash(h trace.Hash) error {
	if h != trace.SHA256 {
		return fmt.Errorf("goldens hold digests of kind %s, not %s", trace.SHA256, h)
	}
	return nil
}
func (g *GoldenSource) keys() []trace.Rollout { return g.order }

func (g *GoldenSource) play(ctx context.Context, tasks []task, _ lockstep.Options, _ bool, visit func(i int, s *trace.Step)) ([]end, error) {
	ends := make([]end, len(tasks))
	for i, t := range tasks {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		entry, ok := g.entries[t.key]
		if !ok || t.nth > 0 {
			continue
		}
		recording, err := g.set.Read(entry)
		if err != nil {
			return nil, err
		}
		about := trace.Rollout{Route: entry.Route, Policy: t.about.Policy, Rows: entry.Rows, Seed: &entry.Seed, Columns: columns(recording.RouteHash)}
		ends[i] = end{found: true, about: &about, costs: &recording.Costs}
		for k := range recording.Steps() {
			visit(i, recorded(recording, k))
		}
	}
	return ends, nil
}

func columns(hashes [5]uint64) []trace.Hex {
	var out []trace.Hex
	for _, h := range hashes {
		out = append(out, trace.Hex(h))
	}
	return out
}

// recorded is the i-th step of a recording.
func recorded(r *golden.Recording, i int) *trace.Step {
	const n, m = lockstep.ContextLength, 4 * lockstep.ContextLength
	s := &trace.Step{
		Digest: trace.Digest{
			Index:  int32(lockstep.ContextLength + i),
			Action: r.Action[i], Draw: r.Draw[i], Sample: r.Sample[i], Prediction: r.Prediction[i], Lataccel: r.Lataccel[i],
			Has: trace.Set(Action, Draw, Sample, Prediction, Lataccel),
		},
		Tokens: r.Tokens[i*n : (i+1)*n], States: r.States[i*m : (i+1)*m],
	}
	s.Sum(trace.SHA256)
	s.Digest.Logits, s.Digest.Probs, s.Digest.CDF = r.LogitsHash[i], r.ProbsHash[i], r.CDFHash[i]
	s.Has |= trace.Set(Logits, Probs, CDF)
	if logits, probs, ok := r.Full(int(s.Index)); ok {
		s.Logits, s.Probs = logits, probs
	}
	return s
}

// makeTasks pairs up what is compared: the jobs, or without jobs all rollouts of both
// recordings.
func makeTasks(want, got Source, jobs []lockstep.Job) ([]task, error) {
	var tasks []task
	add := func(job lockstep.Job, about trace.Rollout) {
		tasks = append(tasks, task{job: job, key: about.Key(), about: about})
	}
	if jobs == nil {
		if want.info().Live || got.info().Live {
			return nil, errors.New("a live engine is compared on jobs, and none are given")
		}
		counts := map[string]int{}
		for _, about := range want.keys() {
			add(lockstep.Job{}, about)
			counts[about.Key()]++
		}
		for _, about := range got.keys() {
			if counts[about.Key()]--; counts[about.Key()] < 0 {
				add(lockstep.Job{}, about)
			}
		}
	}
	for _, job := range jobs {
		if job.Route == nil {
			return nil, errors.New("a job without a route")
		}
		if len(job.Route.SteerCommand) < lockstep.ControlStartIdx {
			return nil, fmt.Errorf("route %s: %d steer commands, want %d at least", job.Route.Name, len(job.Route.SteerCommand), lockstep.ControlStartIdx)
		}
		job.Observe, job.Teacher = nil, nil
		add(job, trace.Of(job))
	}
	seen := map[string]int{}
	for i := range tasks {
		tasks[i].nth = seen[tasks[i].key]
		seen[tasks[i].key]++
	}
	return tasks, nil
}

// agree makes both sources hash alike.
func agree(want, got Source) error {
	type kind struct {
		h     trace.Hash
		fixed bool
		live  bool
	}
	var kinds []kind
	for _, s := range []Source{want, got} {
		h, fixed := s.digest()
		kinds = append(kinds, kind{h, fixed, s.info().Live})
	}
	// Those that cannot change decide, then recordings, whose change takes time.
	best := slices.MinFunc(kinds, func(a, b kind) int {
		rank := func(k kind) int {
			switch {
			case k.fixed:
				return 0
			case !k.live:
				return 1
			}
			return 2
		}
		return cmp.Compare(rank(a), rank(b))
	})
	h := best.h
	if kinds[0].live && kinds[1].live {
		h = trace.XXH64
	}
	if err := want.rehash(h); err != nil {
		return err
	}
	return got.rehash(h)
}
