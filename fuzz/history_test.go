package fuzz

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/internal/arbitrary"
	"lockstep/internal/policytest"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
	"lockstep/parity/schema"
	"lockstep/snapshotfile"
)

// manyHistories is how many make sure that every call has come after every other. Each is of
// longCalls at least then.
const (
	manyHistories = 1000
	longCalls     = 20
)

// areMany reports whether so many histories were asked for.
func areMany() bool {
	n, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	return err == nil && n >= manyHistories
}

// length is how many calls a history has.
func length(most int) *rapid.Generator[int] {
	if areMany() {
		return rapid.IntRange(longCalls, most)
	}
	return rapid.IntRange(1, most)
}

// checkHistories runs a property of histories of calls on a part of the cases, or on all if
// there are many. It is told of each call and the one before it, which come in every order if
// there are many, and of what else some history must have.
func checkHistories(
	t *testing.T, part float64, calls, also []string,
	p func(t *rapid.T, cover, pair func(string)),
) {
	t.Helper()
	if areMany() {
		part = 1
	}
	had := map[string]bool{}
	check(
		t, part,
		func(t *rapid.T, cover func(string)) {
			p(t, func(edge string) { cover(edge); had[edge] = true },
				func(pair string) { had[pair] = true })
		},
	)
	var pairs []string
	for _, a := range calls {
		for _, b := range calls {
			pairs = append(pairs, a+", "+b)
		}
	}
	for what, all := range map[string][]string{"pairs of calls": pairs, "others": also} {
		missing := slices.DeleteFunc(slices.Clone(all), func(one string) bool { return had[one] })
		t.Logf("%d of %d %s", len(all)-len(missing), len(all), what)
		if part < 1 {
			continue
		}
		for _, one := range missing {
			t.Errorf("no history has, one after the other: %s", one)
		}
	}
}

// The calls of a history of tinyphysics.
var callNames = []string{
	"simulate", "cancelled", "broken off", "collect", "reset", "step", "roll", "observe", "results",
	"snapshot", "restore", "restore elsewhere",
	"foreign", "fork", "close", "reopen",
}

// What some history must have, beside the calls.
var callEdges = []string{
	"a batch whose first route ends first", "a batch whose first route ends last",
	"a batch whose first route ends between", "in step: a batch whose first route ends first",
	"in step: a batch whose first route ends last", "in step: sampled", "shown",
	"shown again after going back",
	"observed under a teacher", "more rollouts than a block", "controllers that do not close",
}

// TestHistory: any calls in any order, to an engine or two, with what was done before and
// beside: each rollout is what the reference makes of it alone. `make histories` runs many.
func TestHistory(t *testing.T) {
	checkHistories(t, 0.3, callNames, callEdges, func(t *rapid.T, cover, pair func(string)) {
		histories(t, distinct, cover, pair)
	})
}

// TestHistoryOnDevice: the same of the kernels on the CPU, a history in fifty, since they are slow.
// Without a GPU nobody else sees what calls leave on a device.
func TestHistoryOnDevice(t *testing.T) {
	probe()
	for _, e := range machine.all {
		if e.Slow {
			want.Skip(t, machine.absent[e.name])
		}
	}
	check(t, 0.02, func(t *rapid.T, cover func(string)) {
		histories(t, slow, cover, func(string) {})
	})
}

// slow are the engines that distinct leaves out.
func slow(n arbitrary.Reweighted) []engine {
	return slices.DeleteFunc(slices.Clone(load(n)), func(e engine) bool { return !e.Slow })
}

func FuzzHistory(f *testing.F) {
	fuzzEngines(f, anyHistory)
}

// anyHistory is of those engines that are fast.
func anyHistory(t *rapid.T, cover func(string)) {
	histories(t, distinct, cover, func(string) {})
}

// A history is what was opened, and what is known of it.
type history struct {
	*rapid.T
	cover     func(string)
	path      string   // of the network
	reference engine   // new, and asked for one job at a time
	engines   []engine // under test, new
	others    []engine // all that are here, to say who is wrong
	lines     []*line  // steppers that are open
	saved     []saved
	size      int // of the batch before
	rows      *rapid.Generator[int]

	watched *line // whose observers are called now
}

// histories makes a history of engines with a network, and ends it.
func histories(
	t *rapid.T, engines func(arbitrary.Reweighted) []engine, cover, pair func(string),
) {
	network := arbitrary.Networks(seeds).Draw(t, "network")
	all := engines(network)
	h := &history{
		T:     t,
		cover: cover,
		path:  machine.write(network),
		rows:  rapid.IntRange(lockstep.MinRows, 108),

		others: load(network),
	}
	defer os.Remove(h.path)
	h.reference = h.open(load(network)[0])
	for _, e := range rapid.SliceOfNDistinct(
		rapid.SampledFrom(all), 1, 2, func(e engine) string { return e.name },
	).Draw(t, "engines") {
		cover(e.name)
		h.engines = append(h.engines, h.open(e))
	}
	defer h.end()
	calls := map[string]func(){
		"simulate": h.simulate, "cancelled": h.cancelled, "broken off": h.brokenOff,
		"collect": h.collect, "reset": h.reset,
		"step": h.step, "roll": h.roll, "observe": h.observe, "results": h.results,
		"snapshot":          h.snapshot,
		"restore":           h.restore,
		"restore elsewhere": h.restoreElsewhere, "foreign": h.foreign, "fork": h.fork,
		"close": h.close, "reopen": h.reopen,
	}
	often := append(
		slices.Clone(callNames), "step", "step", "step", "roll", "observe", "snapshot", "fork",
		"fork",
	) // a rollout has many steps
	before := ""
	for range length(32).Draw(t, "calls") {
		call := rapid.SampledFrom(often).Draw(t, "call")
		calls[call]()
		if before != "" {
			pair(before + ", " + call)
		}
		before = call
	}
	for _, l := range h.lines {
		l.check(h)
	}
}

func (h *history) open(e engine) engine {
	s, err := e.implementation.open(h.path, machine.profile)
	if err != nil {
		h.Fatalf("%s: %v", e.name, err)
	}
	return engine{s, e.implementation}
}

func (h *history) end() {
	for _, l := range h.lines {
		l.Close()
	}
	for _, e := range append(h.engines, h.reference) {
		e.Close()
	}
}

// engine is one of those under test.
func (h *history) engine() engine {
	return h.engines[rapid.IntRange(0, len(h.engines)-1).Draw(h.T, "engine")]
}

// alone is what the reference makes of a job by itself.
func (h *history) alone(job lockstep.Job, opts lockstep.Options) *run {
	return rollout(h, h.reference, []lockstep.Job{job}, opts)[0]
}

// together runs jobs in an engine, and holds each to what it is alone.
func (h *history) together(jobs []lockstep.Job, opts lockstep.Options) {
	switch {
	case h.size > 0 && len(jobs) > h.size:
		h.cover("a larger batch")
	case len(jobs) < h.size:
		h.cover("a smaller batch")
	}
	h.size = len(jobs)
	h.hold(h.engine(), jobs, opts)
}

// hold runs jobs in an engine, and holds each to what it is alone: the last ones to what the same
// jobs before them are, if there are more than distinct.
func (h *history) hold(e engine, jobs []lockstep.Job, opts lockstep.Options, distinct ...int) {
	var alone []*run
	for i, got := range rollout(h, e, jobs, opts) {
		if len(distinct) == 0 || i < distinct[0] {
			alone = append(alone, h.alone(jobs[i], opts))
		}
		want := alone[i%len(alone)]
		if d := got.difference(want); d != "" {
			h.Fatalf(
				"%s, job %d of %d (%v), against the reference's (wanted here): %s; %s", e.name, i,
				len(jobs), jobs[i].Policy, d, h.third(e, func(other engine) (with, against bool) {
					own := rollout(h, other, jobs[i:i+1], opts)[0]
					return own.difference(got) == "", own.difference(want) == ""
				}),
			)
		}
	}
}

// third says with whom an engine agrees that shares no code with the one under test, nor with the
// reference: that may be wrong as well.
func (h *history) third(e engine, agrees func(other engine) (with, against bool)) string {
	of := func(e engine) string { return cmp.Or(e.Rests, e.Engine.Name) }
	for _, other := range h.others {
		if of(other) == of(e) || of(other) == of(h.reference) {
			continue
		}
		switch with, against := agrees(other); {
		case against:
			return fmt.Sprintf("%s agrees with the reference, so %s is wrong", other.name, e.name)
		case with:
			return fmt.Sprintf("%s agrees with %s, so the reference is wrong", other.name, e.name)
		}
		return other.name + " agrees with neither"
	}
	return "there is no third engine here to say who is wrong"
}

// The networks that steer: one of the shape of the published ones.
var actor = sync.OnceValue(func() *lockstep.Network { return policytest.Network(&testing.T{}) })

// refused are policies whose controllers cannot be made.
func refused() *rapid.Generator[lockstep.Policy] {
	none := errors.New("no controller for anybody")
	return rapid.SampledFrom([]lockstep.Policy{
		lockstep.Custom{Name: "unmade", New: func() lockstep.Controller { panic(none) }},
		&lockstep.Batch{
			Name: "unmade batch",
			New:  func([]*lockstep.Route) (lockstep.BatchController, error) { return nil, none },
		},
	})
}

// native are policies of the engines' own.
func (h *history) native(route *lockstep.Route) lockstep.Policy {
	actions := make([]float64, lockstep.TableSteps)
	for i := range actions {
		actions[i] = math.Sin(float64(i))
	}
	table, err := lockstep.NewTable(map[string][]float64{route.Name: actions})
	if err != nil {
		h.Fatal(err)
	}
	forward, err := lockstep.KindPIDFF.New(
		[]float64{0.2, 0.1, -0.05, 0.1, 0.2, -0.1, 0.05, 0.1, 0.3, 0.02},
	)
	if err != nil {
		h.Fatal(err)
	}
	return rapid.SampledFrom(
		[]lockstep.Policy{lockstep.Zero{}, lockstep.DefaultPID(), forward, table, actor()},
	).Draw(h.T, "native policy")
}

// sampled has a network sample its commands, perhaps, as a rollout of this number.
func (h *history) sampled(j *lockstep.Job, id uint64) bool {
	if _, ok := j.Policy.(*lockstep.Network); !ok || !rapid.Bool().Draw(h.T, "sampled") {
		return false
	}
	j.Sampling = &lockstep.Sampling{Seed: rapid.Uint64Range(0, 3).Draw(h.T, "key"), ID: id}
	return true
}

// unequal are jobs of one batch policy whose routes end at several steps, in any order.
func (h *history) unequal(where string, shortcuts lockstep.Shortcuts) (jobs []lockstep.Job) {
	policy := arbitrary.BatchPolicy().Draw(h.T, "batch policy")
	rows := rapid.Permutation([]int{101, 104, 107}).Draw(h.T, "their rows")
	for _, n := range rows[:rapid.IntRange(2, len(rows)).Draw(h.T, "of the batch")] {
		route := arbitrary.Route(rapid.Just(n)).Draw(h.T, "route")
		jobs = append(jobs, lockstep.Job{Route: route, Policy: policy})
	}
	first, least, most := jobs[0].End(shortcuts), rows[0], 0
	for i := range jobs {
		least, most = min(least, jobs[i].End(shortcuts)), max(most, jobs[i].End(shortcuts))
	}
	switch first {
	case least:
		h.cover(where + "a batch whose first route ends first")
	case most:
		h.cover(where + "a batch whose first route ends last")
	default:
		h.cover(where + "a batch whose first route ends between")
	}
	return jobs
}

// crowd: more rollouts than an engine works at in one go are each what they are alone.
func (h *history) crowd() {
	e := h.engine()
	pool := h.unequal("", lockstep.CostOnly)
	sizes := simtest.Awkward(e.Implementation)
	n := rapid.SampledFrom(sizes[len(sizes)/2:]).Draw(h.T, "jobs")
	jobs := make([]lockstep.Job, n)
	for i := range jobs {
		jobs[i] = pool[i%len(pool)]
	}
	if n > len(pool) {
		h.cover("more rollouts than a block")
	}
	h.hold(e, jobs, lockstep.Options{Shortcuts: lockstep.CostOnly}, len(pool))
}

// simulate runs a batch of any jobs.
func (h *history) simulate() {
	if rapid.IntRange(0, 7).Draw(h.T, "a crowd") == 7 {
		h.crowd()
		return
	}
	jobs := arbitrary.Jobs(
		7, h.rows, rapid.OneOf(arbitrary.Policy(), arbitrary.FaultyPolicy(), refused()),
	).Draw(h.T, "jobs")
	taught, before := rapid.Bool().Draw(h.T, "teacher"), make([]*lockstep.Trajectory, len(jobs))
	var teacher *lockstep.Trajectory
	if taught {
		h.cover("teacher")
		teacher = trajectory(h.T, 108)
	}
	for i := range jobs {
		j := &jobs[i]
		if rapid.Bool().Draw(h.T, "native") {
			j.Policy = h.native(j.Route)
		}
		switch rapid.IntRange(0, 4).Draw(h.T, "draws") {
		case 0:
			h.cover("given draws")
			j.Draws = lockstep.Draws(
				10*uint32(i)+rapid.Uint32Range(0, 9).Draw(h.T, "their seed"), j.Route.Len(),
			)
		case 1:
			h.cover("expected")
			j.Expected = true
		}
		h.sampled(j, uint64(i))
		if taught {
			j.Teacher, before[i] = shifted(teacher, i), shifted(teacher, i)
		}
	}
	opts := lockstep.Options{
		Shortcuts:  lockstep.SkipWarmup | arbitrary.Shortcuts().Draw(h.T, "shortcuts"),
		Trajectory: rapid.Bool().Draw(h.T, "trajectory"),
	}
	if !taught && rapid.IntRange(0, 3).Draw(h.T, "an unequal batch") == 3 {
		jobs = append(jobs, h.unequal("", opts.Shortcuts)...)
	}
	h.together(jobs, opts)
	for i, was := range before {
		if was == nil {
			continue
		}
		is := jobs[i].Teacher
		if err := errors.Join(simtest.SameBits("lataccel", is.Lataccel, was.Lataccel),
			simtest.SameBits("action", is.Action, was.Action)); err != nil {
			h.Fatalf("the teacher of job %d is another after the run: %v", i, err)
		}
	}
}

// shifted is job i's teacher, made of one trajectory: no two are taught the same.
func shifted(of *lockstep.Trajectory, i int) *lockstep.Trajectory {
	own := *of
	own.Lataccel, own.Action = slices.Clone(of.Lataccel), slices.Clone(of.Action)
	for k := range own.Lataccel {
		own.Lataccel[k] += float64(i) / 8
		own.Action[k] -= float64(i) / 16
	}
	return &own
}

// cancelled: where the time is over, every job says so.
func (h *history) cancelled() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	e := h.engine()
	for i, r := range e.Simulate(
		ctx, h.steered(3), lockstep.Options{Shortcuts: lockstep.CostOnly},
	) {
		if !errors.Is(r.Err, context.Canceled) {
			h.Fatalf("%s, job %d of a cancelled run: %v", e.name, i, r.Err)
		}
	}
}

// brokenOff leaves a run after its first result.
func (h *history) brokenOff() {
	h.cover("broken off")
	for range h.engine().Simulate(
		context.Background(), h.steered(7), lockstep.Options{Shortcuts: lockstep.CostOnly},
	) {
		break
	}
}

// steered are up to n jobs that PID steers.
func (h *history) steered(n int) []lockstep.Job {
	return arbitrary.Jobs(n, h.rows, rapid.Just[lockstep.Policy](lockstep.DefaultPID())).Draw(
		h.T, "jobs",
	)
}

// collect: what rollouts leave for training is what each leaves alone.
func (h *history) collect() {
	jobs := arbitrary.Jobs(3, h.rows, rapid.Just[lockstep.Policy](actor())).Draw(h.T, "jobs")
	for i := range jobs {
		if rapid.Bool().Draw(h.T, "sampled") {
			jobs[i].Sampling = &lockstep.Sampling{
				Seed: rapid.Uint64().Draw(h.T, "key"),
				ID:   rapid.Uint64Range(0, 3).Draw(h.T, "rollout"),
			}
		}
	}
	e := h.engine()
	collected := func(e engine, jobs []lockstep.Job) (*lockstep.Experience, []float32) {
		got, err := e.Collect(context.Background(), jobs)
		if err != nil {
			h.Fatalf("%s: %v", e.name, err)
		}
		steps := 0
		for i := range jobs {
			steps += got.Steps(i)
		}
		seen := make([]float32, steps*lockstep.ObservationSize)
		if err := e.Observe(got, nil, seen); err != nil {
			h.Fatalf("%s: %v", e.name, err)
		}
		return got, seen
	}
	got, seen := collected(e, jobs)
	for i := range jobs {
		want, observed := collected(h.reference, jobs[i:i+1])
		row := func(x []float32, width int) []float32 { return x[i*width : (i+1)*width] }
		wide := func(x []float64) []float64 {
			return x[i*lockstep.ExperienceSteps : (i+1)*lockstep.ExperienceSteps]
		}
		if err := errors.Join(
			simtest.Same("raw", row(got.Raw, lockstep.ExperienceSteps), want.Raw),
			simtest.Same("softplus", row(got.Softplus, 2*lockstep.ExperienceSteps), want.Softplus),
			simtest.Same("reward", row(got.Reward, lockstep.ExperienceSteps), want.Reward),
			simtest.Same("lataccel", wide(got.Lataccel), want.Lataccel),
			simtest.Same("action", wide(got.Action), want.Action),
			simtest.Same("observations", seen[:len(observed)], observed),
		); err != nil {
			h.Fatalf("%s, rollout %d of %d: %v", e.name, i, len(jobs), err)
		}
		if d := resultDifference(got.Results[i], want.Results[0]); d != "" {
			h.Fatalf("%s, rollout %d of %d: %s", e.name, i, len(jobs), d)
		}
		seen = seen[len(observed):]
	}
}

// A line is rollouts in step, in an engine.
type line struct {
	lockstep.Stepper
	engine engine
	opts   lockstep.Options
	jobs   []lockstep.Job // the same slice as of all that can have its snapshots
	fates  []fate

	hosted bool // some are steered by Go code, of whose memory there is no snapshot
	shown  bool // they have observers
}

// taught reports whether a line's rollouts have a teacher.
func (l *line) taught() bool { return l.jobs[0].Teacher != nil }

// A fate is all that a rollout is made of, and what it came to.
type fate struct {
	job      lockstep.Job // without a policy: what the commands below steer
	mean     bool         // the next step takes the expected value
	commands []float64    // of each step from ContextLength on
	lataccel []float64    // after each of these steps, as it was answered
	means    []bool       // which of these steps took the expected value
	shown    []stages     // what its observer was shown of them
}

// A commandee is a controller that is told beforehand what to answer.
type commandee struct{ commands []float64 }

func (c *commandee) Update(float64, float64, lockstep.State, lockstep.FuturePlan) float64 {
	x := c.commands[0]
	c.commands = c.commands[1:]
	return x
}

// saved is a snapshot, and what was known when it was taken.
type saved struct {
	*lockstep.Snapshot
	from  *line
	fates []fate
}

func copied(fates []fate) []fate {
	fates = slices.Clone(fates)
	for i := range fates {
		f := &fates[i]
		f.commands, f.lataccel, f.means = slices.Clone(f.commands), slices.Clone(f.lataccel),
			slices.Clone(f.means)
		f.shown = slices.Clone(f.shown)
	}
	return fates
}

// reset begins rollouts in step: some steer themselves, some share a route or its name.
func (h *history) reset() {
	routes := rapid.SliceOfN(arbitrary.Route(h.rows), 1, 3).Draw(h.T, "routes")
	l := &line{
		opts: lockstep.Options{
			Shortcuts:  lockstep.SkipWarmup | arbitrary.Shortcuts().Draw(h.T, "shortcuts"),
			Trajectory: true,
		},
	}
	for i := range rapid.IntRange(1, 5).Draw(h.T, "rollouts") {
		job := lockstep.Job{Route: rapid.SampledFrom(routes).Draw(h.T, "route")}
		if rapid.Bool().Draw(h.T, "native") {
			job.Policy = h.native(job.Route)
		}
		switch rapid.IntRange(0, 5).Draw(h.T, "draws") {
		case 0:
			job.Draws = lockstep.Draws(
				10*uint32(i)+rapid.Uint32Range(0, 9).Draw(h.T, "their seed"), job.Route.Len(),
			)
		case 1:
			job.Expected = true
		}
		if h.sampled(&job, uint64(i)) {
			h.cover("in step: sampled")
		}
		l.jobs = append(l.jobs, job)
	}
	switch rapid.IntRange(0, 3).Draw(h.T, "steered or taught") {
	case 2:
		l.hosted = true
		l.jobs = append(l.jobs, h.unequal("in step: ", l.opts.Shortcuts)...)
	case 3:
		teacher := trajectory(h.T, 108)
		for i := range l.jobs {
			l.jobs[i].Teacher = shifted(teacher, i)
		}
	}
	l.shown = rapid.Bool().Draw(h.T, "observers")
	for i := range l.jobs {
		l.fates = append(l.fates, fate{job: l.jobs[i], mean: l.jobs[i].Expected})
		if l.shown {
			l.jobs[i].Observe = func(s *lockstep.Step) {
				f := &h.watched.fates[i]
				r := run{steps: f.shown}
				r.observe(s)
				f.shown = r.steps
			}
		}
	}
	h.begin(l)
}

// begin opens a line. Of those that are open the oldest ends, checked.
func (h *history) begin(l *line) {
	l.engine = h.engine()
	var err error
	if l.Stepper, err = l.engine.Reset(context.Background(), l.jobs, l.opts); err != nil {
		h.Fatalf("%s: %v", l.engine.name, err)
	}
	h.add(l)
}

func (h *history) add(l *line) {
	const most = 3
	if h.lines = append(h.lines, l); len(h.lines) > most {
		h.closeLine(0)
	}
}

// line is one of those that are open, the first if there is none.
func (h *history) line() *line {
	if len(h.lines) == 0 {
		h.reset()
	}
	return h.lines[rapid.IntRange(0, len(h.lines)-1).Draw(h.T, "stepper")]
}

// copyable is one of which there are snapshots, and that has no teacher if it is to be forked.
func (h *history) copyable(fork bool) *line {
	for {
		var all []*line
		for _, l := range h.lines {
			if !l.hosted && !(fork && l.taught()) {
				all = append(all, l)
			}
		}
		if len(all) > 0 {
			return rapid.SampledFrom(all).Draw(h.T, "stepper")
		}
		h.reset()
	}
}

// commands are some for all rollouts of a line. One that is not a number fails its rollout.
func (h *history) commands(l *line) []float64 {
	commands := make([]float64, len(l.fates))
	for i := range commands {
		commands[i] = rapid.Float64Range(-3, 3).Draw(h.T, "command") + float64(i)/64
	}
	if l.Index() >= lockstep.ControlStartIdx &&
		rapid.IntRange(0, 7).Draw(h.T, "not a number") == 7 {
		commands[rapid.IntRange(0, len(commands)-1).Draw(h.T, "of rollout")] = math.NaN()
	}
	return commands
}

// steps is how many a call goes: one, or to where the network runs.
func (h *history) steps(l *line) int {
	most := l.last() - l.Index()
	if l.Index() < lockstep.ControlStartIdx-1 {
		return min(most, rapid.SampledFrom([]int{80, 79, 81, 7, 1}).Draw(h.T, "steps"))
	}
	return min(most, rapid.IntRange(1, 3).Draw(h.T, "steps"))
}

// last is one past the last step of a line's longest rollout.
func (l *line) last() (last int) {
	for i := range l.jobs {
		last = max(last, l.jobs[i].End(l.opts.Shortcuts))
	}
	return last
}

// step goes on, a step at a time.
func (h *history) step() {
	l := h.line()
	h.goOn(l, h.steps(l))
}

// goOn takes so many steps of a line, fewer where its last rollout ends.
func (h *history) goOn(l *line, steps int) {
	for range steps {
		if l.Done() {
			return
		}
		commands, lataccels := h.commands(l), make([]float64, len(l.fates))
		index, running := l.Index(), l.running()
		h.watched = l
		if err := l.Step(context.Background(), commands, lataccels); err != nil {
			h.Fatalf("%s, step %d: %v", l.engine.name, index, err)
		}
		if l.Index() != index+1 {
			h.Fatalf("%s: after step %d comes %d", l.engine.name, index, l.Index())
		}
		l.enter(h, index, running, commands, lataccels)
		for i := range l.fates {
			if got := l.Lataccel(i); !schema.Equal(got, lataccels[i]) {
				h.Fatalf(
					"%s, rollout %d, step %d: Lataccel is %v, Step answered %v", l.engine.name, i,
					index, got, lataccels[i],
				)
			}
			want := 0.0
			if running[i] {
				want = l.fates[i].cost(index)
			}
			if got := l.Cost(i); l.Err(i) == nil && !schema.Equal(got, want) {
				h.Fatalf(
					"%s, rollout %d, step %d: it cost %v, want %v", l.engine.name, i, index, got,
					want,
				)
			}
		}
	}
}

func (l *line) running() []bool {
	running := make([]bool, len(l.fates))
	for i := range running {
		running[i] = l.Running(i)
	}
	return running
}

// enter keeps what a step did.
func (l *line) enter(h *history, index int, running []bool, commands, lataccels []float64) {
	for i := range l.fates {
		f := &l.fates[i]
		if running[i] {
			f.commands, f.lataccel, f.means = append(f.commands, commands[i]),
				append(f.lataccel, lataccels[i]), append(f.means, f.mean)
			continue
		}
		last := math.NaN()
		if l.Err(i) == nil {
			last = f.lataccel[len(f.lataccel)-1]
		}
		if !schema.Equal(lataccels[i], last) {
			h.Fatalf(
				"%s, rollout %d, which does not run, step %d: lataccel %v, want %v", l.engine.name,
				i, index, lataccels[i], last,
			)
		}
	}
}

// cost is what a step added to the cost, as Stepper.Roll has it.
func (f *fate) cost(step int) float64 {
	end := min(f.job.Route.Len(), lockstep.CostEndIdx)
	if step < lockstep.ControlStartIdx || step >= end {
		return 0
	}
	n := float64(end - lockstep.ControlStartIdx)
	at := f.lataccel[step-lockstep.ContextLength]
	e := f.job.Route.TargetLataccel[step] - at
	cost := float64((5000 / n) * float64(e*e))
	if step > lockstep.ControlStartIdx {
		j := (at - f.lataccel[step-1-lockstep.ContextLength]) / 0.1
		cost += float64((100 / (n - 1)) * float64(j*j))
	}
	return cost
}

// roll goes several steps at once.
func (h *history) roll() {
	l := h.line()
	steps, m := h.steps(l), len(l.fates)
	if steps <= 0 || l.Done() {
		return
	}
	var commands []float64
	for range steps {
		commands = append(commands, h.commands(l)...)
	}
	index := l.Index()
	costs, lataccels := make([]float64, m), make([]float64, len(commands))
	for i := range costs {
		costs[i] = float64(i)
	}
	running, failed := l.running(), make([]bool, m)
	h.watched = l
	err := l.Roll(context.Background(), commands, costs, lataccels)
	if over := l.Done() && l.Index() < index+steps; (err != nil) != over ||
		!over && l.Index() != index+steps {
		h.Fatalf(
			"%s: after %d steps from %d comes %d, error %v", l.engine.name, steps, index, l.Index(),
			err,
		)
	}
	steps = l.Index() - index // or where the last rollout failed
	want, last := make([]float64, m), make([]float64, m)
	for i := range want {
		want[i] = float64(i)
	}
	for s := range steps {
		l.enter(h, index+s, running, commands[s*m:(s+1)*m], lataccels[s*m:(s+1)*m])
		clear(last)
		for i := range running {
			if running[i] {
				last[i] = l.fates[i].cost(index + s)
				want[i] += last[i]
				failed[i] = failed[i] || math.IsNaN(lataccels[s*m+i])
			}
			running[i] = running[i] && !failed[i] && index+s+1 < l.jobs[i].End(l.opts.Shortcuts)
		}
	}
	l.holdCosts(h, index, steps, costs, want, last)
}

// holdCosts holds what steps of a roll and the last of them cost.
func (l *line) holdCosts(h *history, index, steps int, costs, want, last []float64) {
	for i := range costs {
		now := l.Cost(i)
		if l.Err(i) != nil {
			want[i], last[i] = math.NaN(), math.NaN()
		} else if steps == 0 {
			now = last[i] // that of a step before
		}
		for what, x := range map[string][2]float64{
			"they cost": {costs[i], want[i]}, "the last of them costs": {now, last[i]},
		} {
			if !schema.Equal(x[0], x[1]) {
				h.Fatalf("%s, rollout %d, %d steps from %d: %s %v, want %v", l.engine.name, i,
					steps, index, what, x[0], x[1])
			}
		}
	}
}

// observe: what a network sees of a line's rollouts is what it sees of others that are where these
// are, in the reference.
func (h *history) observe() {
	l, ctx := h.copyable(false), context.Background()
	got, want := make([]float32, len(l.jobs)*lockstep.ObservationSize),
		make([]float32, len(l.jobs)*lockstep.ObservationSize)
	err := l.Observe(ctx, got)
	s, failed := l.Snapshot(ctx)
	if failed != nil {
		h.Fatalf("%s: %v", l.engine.name, failed)
	}
	p, failed := h.reference.Reset(ctx, l.jobs, l.opts)
	if failed != nil {
		h.Fatalf("%s: %v", h.reference.name, failed)
	}
	defer p.Close()
	if err := p.Restore(ctx, s); err != nil {
		h.Fatalf("%s, from a snapshot of %s: %v", h.reference.name, l.engine.name, err)
	}
	if w := p.Observe(ctx, want); message(err) != message(w) {
		h.Fatalf("%s, observed before step %d: %v, want %v", l.engine.name, s.Step, err, w)
	} else if err != nil {
		h.cover("observed too early")
		return
	}
	h.cover("observed")
	if l.taught() {
		h.cover("observed under a teacher")
	}
	for i := range l.jobs {
		row := func(x []float32) []float32 {
			return x[i*lockstep.ObservationSize:][:lockstep.ObservationSize]
		}
		if err := simtest.Same("observation", row(got), row(want)); err != nil {
			h.Fatalf("%s, rollout %d, before step %d: %v", l.engine.name, i, s.Step, err)
		}
	}
}

// results asks a line at any time.
func (h *history) results() { h.line().check(h) }

// check holds each rollout of a line, and its result, to what the reference makes of the same
// job and commands, alone.
func (l *line) check(h *history) {
	results, err := l.Results(context.Background())
	if err != nil || len(results) != len(l.fates) {
		h.Fatalf(
			"%s: %d results of %d rollouts, %v", l.engine.name, len(results), len(l.fates), err,
		)
	}
	for i := range l.fates {
		f := &l.fates[i]
		at := fmt.Sprintf(
			"%s, rollout %d of %d (%v), before step %d", l.engine.name, i, len(l.fates),
			l.jobs[i].Policy, l.Index(),
		)
		got := results[i]
		switch {
		case l.Err(i) != nil:
			h.cover("one that fails")
			if complaint(got.Err) != complaint(l.Err(i)) {
				h.Fatalf("%s: the error of the result is %v, of the stepper %v", at, got.Err,
					l.Err(i))
			}
		case l.Running(i):
			if got.Err == nil || !strings.Contains(got.Err.Error(), "goes on") {
				h.Fatalf("%s: it goes on, and has the result %+v", at, got)
			}
		}
		if d := l.unlike(h, i, got); d != "" {
			h.Fatalf("%s, against the reference's (wanted here): %s; %s", at, d,
				h.third(l.engine, func(other engine) (with, against bool) {
					reference := h.reference
					defer func() { h.reference = reference }()
					lataccel, result, _ := f.aloneTold(h, l.opts)
					h.reference = other
					own, ownResult, _ := f.aloneTold(h, l.opts)
					return l.unlike(h, i, got) == "", simtest.Same("", own, lataccel) == nil &&
						resultDifference(ownResult, result) == ""
				}))
		}
	}
}

// unlike is how a rollout of a line, and its result, differ from the same job and commands alone
// in the reference.
func (l *line) unlike(h *history, i int, got lockstep.Result) string {
	f := &l.fates[i]
	lataccel, want, shown := f.aloneTold(h, l.opts)
	switch n := len(f.shown); {
	case !l.shown && n > 0:
		return fmt.Sprintf("an observer was shown %d steps of what has none", n)
	case l.shown && l.Err(i) == nil && n != len(f.lataccel):
		return fmt.Sprintf("the observer was shown %d steps of %d", n, len(f.lataccel))
	case n > 0 && shown != nil:
		h.cover("shown")
		if d := stepsDifference(f.shown, shown[:min(n, len(shown))]); d != "" {
			return "the observer was shown: " + d
		}
	}
	for k, got := range f.lataccel {
		x := math.NaN() // of a step at which it failed
		if k < len(lataccel) {
			x = lataccel[k]
		}
		if !schema.Equal(got, x) {
			return fmt.Sprintf("step %d answered %v, want %v", lockstep.ContextLength+k, got, x)
		}
	}
	switch {
	case l.Err(i) != nil:
		if complaint(got.Err) != complaint(want.Err) {
			return fmt.Sprintf("the error is %v, want %v", got.Err, want.Err)
		}
	case !l.Running(i):
		return resultDifference(got, want)
	}
	return ""
}

// aloneTold is alone, where a command that is no number fails the rollout in a stepper's words.
func (f *fate) aloneTold(
	h *history, opts lockstep.Options,
) ([]float64, lockstep.Result, []stages) {
	lataccel, want, shown := f.alone(h, opts)
	if n := len(f.commands) - 1; n >= 0 && f.job.Policy == nil &&
		math.IsNaN(f.commands[n]) { // of a controller the network would say it
		lataccel = lataccel[:min(n, len(lataccel))]
		want.Err = f.job.Failed(lockstep.ContextLength+n, errors.New("the command is NaN"))
	}
	return lataccel, want, shown
}

var controllerName = regexp.MustCompile(", controller [^,]*,")

// complaint is an error's text without the name of the controller, which commands do not have.
func complaint(err error) string { return controllerName.ReplaceAllString(message(err), ",") }

// alone is what the reference makes of a fate's job and commands: the lataccels, as far as it
// comes, and the result. Where some steps took sampled values and others expected ones, each
// step is computed both ways from the answers before it, which a teacher gives. Else it also says
// what an observer is shown.
func (f *fate) alone(h *history, opts lockstep.Options) ([]float64, lockstep.Result, []stages) {
	job := f.job
	if job.Policy == nil {
		job.Policy = lockstep.Custom{
			Name: "commanded",
			New:  func() lockstep.Controller { return &commandee{f.commands} },
		}
	}
	job.Expected = f.mean
	if len(f.means) > 0 {
		job.Expected = f.means[0]
	}
	mixed := slices.Contains(f.means, !job.Expected)
	if mixed {
		h.cover("sampled and expected values in one rollout")
		job.Teacher = f.teacher()
	}
	answered := func(s *lockstep.Step) float64 {
		if t := f.job.Teacher; t != nil {
			return t.Lataccel[s.Index]
		}
		return s.Lataccel
	}
	lataccel, did := h.watch(job, opts, answered)
	if mixed {
		job.Expected = !job.Expected
		other, _ := h.watch(job, opts, answered)
		for k := range min(len(f.means), len(other), len(lataccel)) {
			if f.means[k] == job.Expected {
				lataccel[k] = other[k]
			}
		}
		return lataccel, did.result, nil
	}
	return lataccel, did.result, did.steps
}

// watch is a value of each step of a job alone, and what the job did.
func (h *history) watch(
	job lockstep.Job, opts lockstep.Options, value func(*lockstep.Step) float64,
) (values []float64, _ *run) {
	job.Observe = func(s *lockstep.Step) { values = append(values, value(s)) }
	did := h.alone(job, opts)
	return values, did
}

// teacher is the history that a fate had, and zeros behind it.
func (f *fate) teacher() *lockstep.Trajectory {
	r := f.job.Route
	t := &lockstep.Trajectory{
		Target:   r.TargetLataccel,
		Lataccel: make([]float64, r.Len()),
		Action:   make([]float64, r.Len()),
	}
	copy(t.Lataccel[copy(t.Lataccel, r.TargetLataccel[:lockstep.ContextLength]):], f.lataccel)
	copy(t.Action[copy(t.Action, r.SteerCommand[:lockstep.ContextLength]):], f.commands)
	copy(t.Action, r.SteerCommand[:lockstep.ControlStartIdx])
	for step := lockstep.ContextLength; step < len(t.Action); step++ {
		t.Action[step] = max(lockstep.SteerMin, min(t.Action[step], lockstep.SteerMax))
	}
	for _, column := range [][]float64{t.Action, t.Lataccel} { // where it failed it has no history
		for i, x := range column {
			if x != x {
				column[i] = 0
			}
		}
	}
	return t
}

// snapshot keeps a snapshot, or what its bytes say.
func (h *history) snapshot() { h.snapshotOf(h.copyable(false)) }

func (h *history) snapshotOf(l *line) {
	if rapid.Bool().Draw(h.T, "at an edge") {
		last := l.last()
		edges := []int{
			lockstep.ControlStartIdx - 1, lockstep.ControlStartIdx, lockstep.ControlStartIdx + 1,
			lockstep.ControlStartIdx + 2, last - 1, last,
		}
		h.goOn(l, max(0, rapid.SampledFrom(edges).Draw(h.T, "edge")-l.Index()))
	}
	s, err := l.Snapshot(context.Background())
	if err != nil {
		h.Fatalf("%s: %v", l.engine.name, err)
	}
	if rapid.Bool().Draw(h.T, "by way of bytes") {
		h.cover("a snapshot by way of bytes")
		data, err := snapshotfile.Marshal(s)
		if err != nil {
			h.Fatalf("%s: %v", l.engine.name, err)
		}
		if s, err = snapshotfile.Unmarshal(data); err != nil {
			h.Fatalf("%s: %v", l.engine.name, err)
		}
	}
	h.saved = append(h.saved, saved{s, l, copied(l.fates)})
}

// kept is one of the snapshots, the first if there is none.
func (h *history) kept(fork bool) *saved {
	for {
		var all []*saved
		for i := range h.saved {
			if s := &h.saved[i]; !(fork && s.from.taught()) {
				all = append(all, s)
			}
		}
		if len(all) > 0 {
			return all[rapid.IntRange(0, len(all)-1).Draw(h.T, "snapshot")]
		}
		h.snapshotOf(h.copyable(fork))
	}
}

// family are the open lines with the jobs of a snapshot; if there is none, one is opened.
func (h *history) family(s *saved) *line {
	var all []*line
	for _, l := range h.lines {
		if &l.jobs[0] == &s.from.jobs[0] {
			all = append(all, l)
		}
	}
	if len(all) == 0 {
		return h.anew(s)
	}
	return rapid.SampledFrom(all).Draw(h.T, "stepper of its jobs")
}

// anew opens a line of a snapshot's jobs, in any engine.
func (h *history) anew(s *saved) *line {
	l := &line{jobs: s.from.jobs, opts: s.from.opts, shown: s.from.shown}
	for _, job := range l.jobs {
		job.Observe = nil
		l.fates = append(l.fates, fate{job: job, mean: job.Expected})
	}
	h.begin(l)
	return l
}

// restore goes back, or forward, to any snapshot of a line's jobs.
func (h *history) restore() {
	s := h.kept(false)
	h.restoreInto(h.family(s), s)
}

// restoreElsewhere goes on in a new line, of this engine or another.
func (h *history) restoreElsewhere() {
	s := h.kept(false)
	h.restoreInto(h.anew(s), s)
}

func (h *history) restoreInto(l *line, s *saved) {
	if err := l.Restore(context.Background(), s.Snapshot); err != nil {
		h.Fatalf("%s, step %d: %v", l.engine.name, s.Step, err)
	}
	l.fates = copied(s.fates)
	if l.Index() != s.Step {
		h.Fatalf("%s: restored at step %d, want %d", l.engine.name, l.Index(), s.Step)
	}
	for i := range l.fates {
		if f := &l.fates[i]; len(f.lataccel) > 0 &&
			!schema.Equal(l.Lataccel(i), f.lataccel[len(f.lataccel)-1]) {
			h.Fatalf(
				"%s, rollout %d: restored at lataccel %v, want %v", l.engine.name, i, l.Lataccel(i),
				f.lataccel[len(f.lataccel)-1],
			)
		}
	}
	// What a snapshot lacks shows at once, before another restore forgets it.
	steps := rapid.IntRange(0, 2).Draw(h.T, "steps from there")
	if l.shown && steps > 0 && !l.Done() {
		h.cover("shown again after going back")
	}
	h.goOn(l, steps)
}

// foreign: a snapshot of other rollouts or of another network is refused, and changes nothing.
func (h *history) foreign() {
	l, s := h.line(), *h.kept(false).Snapshot
	switch rapid.IntRange(0, 2).Draw(h.T, "foreign") {
	case 0:
		s.Model = strings.Repeat("0", len(s.Model))
	case 1:
		s.Rollouts = append(
			slices.Clone(s.Rollouts),
			slices.Repeat(s.Rollouts[:1], max(1, 1+len(l.jobs)-len(s.Rollouts)))...)
	case 2:
		s.Profile.CSV = s.Profile.CSV%2 + 1
		s.Profile.Softmax++
	}
	index, before := l.Index(), make([]float64, len(l.fates))
	for i := range before {
		before[i] = l.Lataccel(i)
	}
	if err := l.Restore(context.Background(), &s); err == nil {
		h.Fatalf("%s takes a snapshot that is not of its rollouts", l.engine.name)
	}
	for i, want := range before {
		if got := l.Lataccel(i); l.Index() != index || !schema.Equal(got, want) {
			h.Fatalf(
				"%s, rollout %d: step %d and lataccel %v after a snapshot was refused, before "+
					"%d and %v",
				l.engine.name, i, l.Index(), got, index, want,
			)
		}
	}
}

// fork continues rollouts of a snapshot under a noise.
func (h *history) fork() {
	s := h.kept(true)
	l := h.family(s)
	index := rapid.SliceOfN(rapid.IntRange(0, len(s.fates)-1), 1, 4).Draw(h.T, "index")
	noise := lockstep.Noise{
		Kind: rapid.SampledFrom(
			[]lockstep.NoiseKind{lockstep.RouteNoise, lockstep.SeededNoise, lockstep.ExpectedNoise},
		).Draw(h.T, "noise"),
	}
	if noise.Kind == lockstep.SeededNoise {
		noise.Seeds = rapid.SliceOfN(rapid.Uint32Range(0, 9), len(index), len(index)).Draw(
			h.T, "seeds",
		)
		for k := range noise.Seeds {
			noise.Seeds[k] += 10 * uint32(k)
		}
	}
	p, err := l.Fork(context.Background(), s.Snapshot, index, noise)
	if err != nil {
		h.Fatalf("%s, step %d: %v", l.engine.name, s.Step, err)
	}
	if p.Index() != s.Step {
		h.Fatalf("%s: forked at step %d, want %d", l.engine.name, p.Index(), s.Step)
	}
	h.cover("a fork under " + noise.Kind.String() + " noise")
	child := &line{Stepper: p, engine: l.engine, opts: l.opts}
	all := copied(s.fates)
	for k, i := range index {
		f := copied(all[i : i+1])[0]
		f.shown = nil // a fork has no observers
		job := lockstep.Job{
			Route:    f.job.Route,
			Draws:    l.jobs[i].Draws,
			Expected: l.jobs[i].Expected,
		}
		f.commanded(h, l.opts)
		switch noise.Kind {
		case lockstep.SeededNoise:
			job.Draws, job.Expected, f.mean = lockstep.Draws(
				noise.Seeds[k], f.job.Route.Len()-lockstep.ContextLength,
			), false, false
			f.job.Draws = f.draws(s.Step, job.Draws)
		case lockstep.ExpectedNoise:
			job.Expected, f.mean = true, true
		}
		child.jobs, child.fates = append(child.jobs, job), append(child.fates, f)
	}
	h.add(child)
}

// commanded makes a fate whose job steered itself one of the commands that it gave.
func (f *fate) commanded(h *history, opts lockstep.Options) {
	if f.job.Policy == nil {
		return
	}
	job := f.job
	job.Expected = f.mean // one that steers itself is no fork
	actions, did := h.watch(job, opts, func(s *lockstep.Step) float64 { return s.Action })
	if did.result.Err != nil && len(actions) < len(f.commands) {
		return // where it failed it stays
	}
	copy(f.commands, actions)
	f.job.Policy, f.job.Sampling = nil, nil
}

// draws are the fate's own before a step and others from it on.
func (f *fate) draws(step int, others []float64) []float64 {
	own := f.job.Draws
	if own == nil {
		own = lockstep.Draws(f.job.Route.Seed, f.job.Route.Len()-lockstep.ContextLength)
	}
	return slices.Concat(
		own[:min(step-lockstep.ContextLength, len(others))],
		others[min(step-lockstep.ContextLength, len(others)):],
	)
}

// close ends a line, if there is one.
func (h *history) close() {
	if len(h.lines) > 0 {
		h.closeLine(rapid.IntRange(0, len(h.lines)-1).Draw(h.T, "stepper"))
	}
}

// closeLine checks a line and closes it, twice: the first time it says which policies do not close,
// as the reference does. From then on it refuses everything.
func (h *history) closeLine(k int) {
	l := h.lines[k]
	h.lines = slices.Delete(h.lines, k, k+1)
	l.check(h)
	same, err := h.reference.Reset(context.Background(), l.jobs, l.opts)
	if err != nil {
		h.Fatal(err)
	}
	unclosed := same.Close()
	if unclosed != nil {
		h.cover("controllers that do not close")
	}
	for _, want := range []error{unclosed, nil} {
		if err := l.Close(); fmt.Sprint(err) != fmt.Sprint(want) {
			h.Fatalf("%s: Close: %v, want %v, as of the reference", l.engine.name, err, want)
		}
	}
	ctx, numbers := context.Background(), make([]float64, len(l.fates))
	_, noResults := l.Results(ctx)
	_, noSnapshot := l.Snapshot(ctx)
	for what, err := range map[string]error{
		"Step": l.Step(ctx, numbers, numbers),
		"Roll": l.Roll(ctx, numbers, slices.Clone(numbers), nil), "Results": noResults,
		"Snapshot": noSnapshot,
	} {
		if err == nil {
			h.Fatalf("%s: %s of a closed stepper has no error", l.engine.name, what)
		}
	}
}

// reopen closes an engine with all its lines, and opens it anew.
func (h *history) reopen() {
	k := rapid.IntRange(0, len(h.engines)-1).Draw(h.T, "engine")
	e := h.engines[k]
	for i := len(h.lines) - 1; i >= 0; i-- {
		if h.lines[i].engine.Implementation == e.Implementation {
			h.closeLine(i)
		}
	}
	if err := e.Close(); err != nil {
		h.Fatalf("%s: %v", e.name, err)
	}
	for i, r := range e.Simulate(context.Background(), h.steered(2), lockstep.Options{}) {
		if r.Err == nil {
			h.Fatalf("%s is closed, and computes job %d", e.name, i)
		}
	}
	h.engines[k] = h.open(e)
}
