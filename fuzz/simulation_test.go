package fuzz

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/internal/arbitrary"
	"lockstep/internal/simtest"
	"lockstep/parity/schema"
	"lockstep/parity/tinyphysics"
)

// The properties of simulations. One execution takes some 10 to 100 ms, most of
// it inside the network: routes are short, and most cases skip the warm-up.

const seeds = 2 // of networks of one scale

func TestTokenizer(t *testing.T)  { check(t, 1, tokenizer) }
func TestStep(t *testing.T)       { check(t, 0.3, step) }
func TestDraws(t *testing.T)      { check(t, 0.5, draws) }
func TestBatch(t *testing.T)      { check(t, 0.6, batch) }
func TestShortcuts(t *testing.T)  { check(t, 0.2, shortcuts) }
func TestTeacher(t *testing.T)    { check(t, 0.4, teacher) }
func TestLongRoutes(t *testing.T) { check(t, 0.12, longRoutes) }

func FuzzTokenizer(f *testing.F)  { fuzzEngines(f, tokenizer) }
func FuzzStep(f *testing.F)       { fuzzEngines(f, step) }
func FuzzDraws(f *testing.F)      { fuzzEngines(f, draws) }
func FuzzBatch(f *testing.F)      { fuzzEngines(f, batch) }
func FuzzAgreement(f *testing.F)  { fuzzEngines(f, agreement) }
func FuzzShortcuts(f *testing.F)  { fuzzEngines(f, shortcuts) }
func FuzzTeacher(f *testing.F)    { fuzzEngines(f, teacher) }
func FuzzLongRoutes(f *testing.F) { fuzzEngines(f, longRoutes) }

func TestAgreement(t *testing.T) {
	if len(load(arbitrary.Reweighted{})) == 1 {
		t.Skip("the reference is alone: TestEngines says for want of what")
	}
	check(t, 0.6, agreement)
}

// past is a route whose histories before step 100 hold given lataccels.
func past(values []float64) *lockstep.Route {
	const n = lockstep.MinRows
	r := &lockstep.Route{
		Name: "past", RollLataccel: make([]float64, n), VEgo: make([]float64, n),
		AEgo:           make([]float64, n),
		TargetLataccel: make([]float64, n), SteerCommand: make([]float64, n),
	}
	copy(r.TargetLataccel[lockstep.ControlStartIdx-lockstep.ContextLength:], values)
	return r
}

// tokensOf are the tokens that an engine makes of 20 lataccels, or its error.
func tokensOf(e engine, values []float64, fail func(string, ...any)) (tokens []int64, err error) {
	job := lockstep.Job{
		Route:  past(values),
		Policy: lockstep.Zero{},
		Observe: func(s *lockstep.Step) {
			if s.Index == lockstep.ControlStartIdx {
				tokens = slices.Clone(s.Tokens)
			}
		},
	}
	for _, r := range e.Simulate(
		context.Background(), []lockstep.Job{job}, lockstep.Options{Shortcuts: lockstep.CostOnly},
	) {
		err = r.Err
	}
	if err == nil && len(tokens) != lockstep.ContextLength {
		fail("%s: %d tokens at step %d", e.name, len(tokens), lockstep.ControlStartIdx)
	}
	return tokens, err
}

// tokenizer: 20 lataccels get the tokens of np.digitize, and one without a token
// fails the job.
func tokenizer(t *rapid.T, cover func(string)) {
	value := rapid.OneOf(
		arbitrary.Lataccel(), rapid.SampledFrom([]float64{math.Inf(1), math.Inf(-1)}),
		rapid.Float64(),
	)
	values := rapid.SliceOfN(value, lockstep.ContextLength, lockstep.ContextLength).Draw(
		t, "lataccels",
	)
	if rapid.IntRange(0, 9).Draw(t, "one is no number") == 9 {
		values[rapid.IntRange(0, len(values)-1).Draw(t, "which")] = math.NaN()
	}
	want := make([]int64, len(values))
	valid := true
	for i, x := range values {
		k, ok := token(x)
		want[i], valid = k, valid && ok
		switch {
		case !ok:
			cover("NaN")
		case math.IsInf(x, 0):
			cover("infinite")
		case math.Abs(x) > 5:
			cover("beyond the ends")
		case x == bins[k]:
			cover("a bin")
		case math.Nextafter(x, -9) == bins[max(k-1, 0)]:
			cover("just above a bin")
		case math.Nextafter(x, 9) == bins[k]:
			cover("just below a bin")
		}
	}
	for _, e := range load(arbitrary.Reweighted{}) {
		got, err := tokensOf(e, values, t.Fatalf)
		if !valid {
			if err == nil {
				t.Fatalf("%s: %v have no error, one is no number", e.name, values)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v: %v", e.name, values, err)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf(
					"%s: %v (%x) has token %d, want %d", e.name, values[i], values[i], got[i],
					want[i],
				)
			}
		}
	}
}

// TestTokenizerBins tries every bin and both its neighbours.
func TestTokenizerBins(t *testing.T) {
	var values []float64
	for _, b := range bins {
		values = append(values, math.Nextafter(b, -9), b, math.Nextafter(b, 9))
	}
	for len(values)%lockstep.ContextLength != 0 {
		values = append(values, 0)
	}
	for _, e := range load(arbitrary.Reweighted{}) {
		for chunk := range slices.Chunk(values, lockstep.ContextLength) {
			got, err := tokensOf(e, chunk, t.Fatalf)
			if err != nil {
				t.Fatalf("%s: %v", e.name, err)
			}
			for i, x := range chunk {
				if want, _ := token(x); got[i] != want {
					t.Errorf("%s: %v (%x) has token %d, want %d", e.name, x, x, got[i], want)
				}
			}
		}
	}
}

// step: in every step each stage follows from those before it, as the definition
// says: histories to tokens and states, probabilities to the distribution, the
// draw to the token, the token to its bin, the bin to lataccel.
func step(t *rapid.T, cover func(string)) {
	network := arbitrary.Networks(seeds).Draw(t, "network")
	job := lockstep.Job{
		Route:  arbitrary.Route(arbitrary.ShortRows()).Draw(t, "route"),
		Policy: arbitrary.Policy().Draw(t, "policy"),
	}
	opts := lockstep.Options{
		Shortcuts: rapid.SampledFrom(
			[]lockstep.Shortcuts{lockstep.CostOnly, lockstep.SkipWarmup, lockstep.AllSteps},
		).Draw(t, "shortcuts"),
		Trajectory: true,
	}
	r := job.Route
	for _, e := range distinct(network) {
		w := &witness{
			t: t, cover: cover, engine: e.name, route: r, shortcuts: opts.Shortcuts,
			lataccel: slices.Clone(r.TargetLataccel[:lockstep.ContextLength]),
			action:   slices.Clone(r.SteerCommand[:lockstep.ContextLength]),
		}
		job.Observe = w.observe
		tr := rollout(t, e, []lockstep.Job{job}, opts)[0]
		if tr.result.Err != nil {
			cover("failed")
			continue
		}
		cover("finished")
		if d := resultDifference(lockstep.Result{Trajectory: tr.result.Trajectory},
			lockstep.Result{Trajectory: &lockstep.Trajectory{Target: r.TargetLataccel,
				Lataccel: w.lataccel, Action: w.action}}); d != "" {
			t.Fatalf("%s: %s", e.name, d)
		}
	}
}

// A witness follows a rollout, and holds each stage of a step to what comes before it.
type witness struct {
	t                *rapid.T
	cover            func(string)
	engine           string
	route            *lockstep.Route
	shortcuts        lockstep.Shortcuts
	lataccel, action []float64 // the histories
}

func (w *witness) observe(s *lockstep.Step) {
	if s.Index != len(w.lataccel) {
		w.t.Fatalf("%s: step %d, want step %d", w.engine, s.Index, len(w.lataccel))
	}
	w.holdAction(s)
	w.action = append(w.action, s.Action)
	switch {
	case s.Logits != nil:
		w.holdInputs(s)
		w.holdSample(s)
		w.holdLataccel(s)
	case s.Index >= lockstep.ControlStartIdx || w.shortcuts&lockstep.SkipWarmup == 0:
		w.fail(s, tinyphysics.Logits, "the network did not run")
	}
	w.lataccel = append(w.lataccel, s.Lataccel)
}

func (w *witness) fail(s *lockstep.Step, stage string, format string, args ...any) {
	w.t.Fatalf(
		"%s, step %d, stage %v: %s", w.engine, s.Index, stage, fmt.Sprintf(format, args...),
	)
}

// hold fails with what differs in a stage, if something does.
func (w *witness) hold(s *lockstep.Step, stage string, differs error) {
	if differs != nil {
		w.fail(s, stage, "%v", differs)
	}
}

// holdAction: the recorded one in the warm-up, and any within ±2 behind it.
func (w *witness) holdAction(s *lockstep.Step) {
	if s.Index >= lockstep.ControlStartIdx {
		if !(s.Action >= -2 && s.Action <= 2) {
			w.fail(s, tinyphysics.Action, "%v is outside ±2", s.Action)
		}
		return
	}
	recorded := w.route.SteerCommand[s.Index]
	if !schema.Equal(s.Action, min(max(recorded, -2), 2)) {
		w.fail(s, tinyphysics.Action, "%v, recorded is %v", s.Action, recorded)
	}
}

// holdInputs: tokens are of the last lataccels, states of the last actions and the route's rows.
func (w *witness) holdInputs(s *lockstep.Step) {
	const n = lockstep.ContextLength
	var tokens []int64
	for _, x := range w.lataccel[s.Index-n:] {
		want, _ := token(x)
		tokens = append(tokens, want)
	}
	w.hold(s, tinyphysics.Tokens, simtest.SameBits("tokens", s.Tokens, tokens))
	var states []float32
	r := w.route
	for k := s.Index - n + 1; k <= s.Index; k++ {
		states = append(
			states, float32(w.action[k]), float32(r.RollLataccel[k]), float32(r.VEgo[k]),
			float32(r.AEgo[k]),
		)
	}
	w.hold(s, tinyphysics.States, simtest.SameBits("states", s.States, states))
}

// holdSample: the distribution is that of the probabilities, and the token the first beyond the
// draw.
func (w *witness) holdSample(s *lockstep.Step) {
	cdf := cumulate(s.Probs)
	w.hold(s, tinyphysics.CDF, simtest.SameBits("cdf", s.CDF, cdf))
	sample := 0
	for cdf[sample] <= s.Draw {
		sample++
	}
	if s.Sample != sample {
		w.fail(s, tinyphysics.Sample, "%d, want %d", s.Sample, sample)
	}
	if s.Probs[sample] == 1 {
		w.cover("certain")
	}
	if sample == 0 || sample == lockstep.VocabSize-1 {
		w.cover("first or last token")
	}
}

// holdLataccel: the prediction is the token's bin, and lataccel that bin within reach of the last;
// in the warm-up it is the target.
func (w *witness) holdLataccel(s *lockstep.Step) {
	bin := bins[s.Sample]
	if math.Float64bits(s.Prediction) != math.Float64bits(bin) {
		w.fail(
			s, tinyphysics.Prediction, "%v, token %d is %v", s.Prediction, s.Sample, bin,
		)
	}
	current, want := w.lataccel[s.Index-1], w.route.TargetLataccel[s.Index]
	if s.Index < lockstep.ControlStartIdx {
		w.cover("network in the warm-up")
	} else if want = clipped(bin, current, 0.5); want != bin {
		w.cover("clipped")
	} else {
		w.cover("not clipped")
	}
	if !schema.Equal(s.Lataccel, want) {
		w.fail(
			s, tinyphysics.Lataccel, "%v, want %v from %v and prediction %v", s.Lataccel, want,
			current, s.Prediction,
		)
	}
}

// draws: the draw of step 20+k is the k-th of the route's seed, whatever the
// shortcuts, the other jobs and their order, a teacher, or the draws that the
// route carries.
func draws(t *rapid.T, cover func(string)) {
	jobs := arbitrary.Jobs(
		4, rapid.IntRange(lockstep.MinRows, 104), rapid.Just[lockstep.Policy](lockstep.Zero{}),
	).Draw(t, "jobs")
	opts := lockstep.Options{
		Shortcuts: arbitrary.Shortcuts().Draw(t, "shortcuts") | lockstep.SkipWarmup,
	}
	if rapid.IntRange(0, 4).Draw(t, "without skipping") == 4 {
		opts.Shortcuts &^= lockstep.SkipWarmup
		jobs = jobs[:1]
		cover("network in the warm-up")
	}
	want := map[uint32][]float64{}
	for i := range jobs {
		r := jobs[i].Route
		m := newMT19937(r.Seed)
		want[r.Seed] = nil
		for range r.Len() - lockstep.ContextLength {
			want[r.Seed] = append(want[r.Seed], m.uniform())
		}
		switch n := len(r.Draws); {
		case n == 0:
			cover("route without draws")
		case n < r.Len()-lockstep.ContextLength:
			cover("route with too few draws")
		case r.Draws[0] != want[r.Seed][0]:
			cover("route with others' draws")
		}
		if rapid.Bool().Draw(t, "teacher") {
			cover("teacher")
			jobs[i].Teacher = &lockstep.Trajectory{
				Lataccel: make([]float64, r.Len()),
				Action:   make([]float64, r.Len()),
			}
		}
	}
	if len(jobs) > 1 {
		cover("several jobs")
	}
	for _, e := range fast(arbitrary.Reweighted{}) {
		steps := make([]int, len(jobs))
		for i := range jobs {
			r := jobs[i].Route
			jobs[i].Observe = func(s *lockstep.Step) {
				steps[i]++
				if k := s.Index - lockstep.ContextLength; s.Draw != want[r.Seed][k] {
					t.Errorf(
						"%s, job %d, seed %d, step %d: draw %v, want %v", e.name, i, r.Seed,
						s.Index, s.Draw, want[r.Seed][k],
					)
				}
			}
		}
		for i, tr := range rollout(t, e, jobs, opts) {
			if end := jobs[i].Route.Len() - lockstep.ContextLength; tr.result.Err == nil &&
				steps[i] != end {
				t.Errorf("%s, job %d: %d steps, want %d", e.name, i, steps[i], end)
			}
		}
	}
}

// batch: a job's every bit is the same alone and in any batch, in any order.
func batch(t *rapid.T, cover func(string)) {
	network := arbitrary.Networks(seeds).Draw(t, "network")
	policy := rapid.OneOf(arbitrary.Policy(), arbitrary.Policy(), arbitrary.FaultyPolicy())
	jobs := arbitrary.Jobs(6, rapid.IntRange(lockstep.MinRows, 106), policy).Draw(t, "jobs")
	opts := lockstep.Options{
		Shortcuts:  lockstep.SkipWarmup | arbitrary.Shortcuts().Draw(t, "shortcuts"),
		Trajectory: true,
	}
	order := rapid.Permutation(indices(len(jobs))).Draw(t, "order")
	shuffled := make([]lockstep.Job, len(jobs))
	for i, k := range order {
		shuffled[i] = jobs[k]
	}
	for _, e := range fast(network) {
		together := rollout(t, e, shuffled, opts)
		alone := map[string]*run{}
		for i, job := range shuffled {
			key := fmt.Sprintf("%p %v", job.Route, job.Policy)
			if alone[key] == nil {
				alone[key] = rollout(t, e, []lockstep.Job{job}, opts)[0]
			} else {
				cover("a job twice")
			}
			if d := together[i].difference(alone[key]); d != "" {
				t.Fatalf(
					"%s, %v, job %d of %d, controller %v, alone and in the batch: %s", e.name,
					network, i, len(jobs), job.Policy, d,
				)
			}
			if together[i].result.Err != nil && len(jobs) > 1 {
				cover("one fails among others")
			}
		}
		if len(alone) > 3 {
			cover("more than three different jobs")
		}
	}
}

func indices(n int) []int {
	x := make([]int, n)
	for i := range x {
		x[i] = i
	}
	return x
}

// agreement: all engines give the bits of the reference, at every stage of every
// step, or fail at the same step for the same reason.
func agreement(t *rapid.T, cover func(string)) {
	network := arbitrary.Networks(seeds).Draw(t, "network")
	policy := rapid.OneOf(
		arbitrary.Policy(), arbitrary.Policy(), arbitrary.Policy(), arbitrary.FaultyPolicy(),
	)
	jobs := arbitrary.Jobs(
		3, rapid.OneOf(rapid.IntRange(lockstep.MinRows, 110), arbitrary.ShortRows()), policy,
	).Draw(t, "jobs")
	opts := lockstep.Options{
		Shortcuts:  lockstep.SkipWarmup | arbitrary.Shortcuts().Draw(t, "shortcuts"),
		Trajectory: rapid.Bool().Draw(t, "trajectory"),
	}
	if rapid.IntRange(0, 4).Draw(t, "without skipping") == 4 {
		opts.Shortcuts &^= lockstep.SkipWarmup
		jobs = jobs[:1]
		cover("network in the warm-up")
	}
	if rapid.IntRange(0, 3).Draw(t, "teacher") == 3 {
		cover("teacher")
		for i := range jobs {
			jobs[i].Teacher = trajectory(t, jobs[i].Route.Len())
		}
	}
	all := load(network)
	want := rollout(t, all[0], jobs, opts)
	for _, tr := range want {
		switch {
		case tr.result.Err != nil && len(tr.steps) > 80:
			cover("failed after step 100")
		case tr.result.Err != nil:
			cover("failed")
		default:
			cover("finished")
		}
	}
	cover(fmt.Sprintf("scale %g", network.Scale))
	for _, e := range all[1:] {
		for i, got := range rollout(t, e, jobs, opts) {
			if d := got.difference(want[i]); d != "" {
				t.Fatalf(
					"%s and %s, %v, job %d of %d, shortcuts %b, controller %v: %s", e.name,
					all[0].name, network, i, len(jobs), opts.Shortcuts, jobs[i].Policy, d,
				)
			}
		}
	}
}

// trajectory is any trajectory to be taught.
func trajectory(t *rapid.T, n int) *lockstep.Trajectory {
	r := arbitrary.Route(rapid.Just(n)).Draw(t, "taught")
	action := make([]float64, n)
	for i := range min(n, len(r.SteerCommand)) {
		if x := r.SteerCommand[i]; x == x && !math.IsInf(x, 0) {
			action[i] = x
		}
	}
	return &lockstep.Trajectory{
		Target:   r.TargetLataccel,
		Lataccel: r.TargetLataccel,
		Action:   action,
	}
}

// shortcuts: what a combination of shortcuts computes at all has the bits that the
// reference has without any.
func shortcuts(t *rapid.T, cover func(string)) {
	network := arbitrary.Networks(seeds).Draw(t, "network")
	job := lockstep.Job{
		Route:  arbitrary.Route(rapid.IntRange(lockstep.MinRows, 106)).Draw(t, "route"),
		Policy: arbitrary.Policy().Draw(t, "policy"),
	}
	some := arbitrary.Shortcuts().Draw(t, "shortcuts")
	cover(fmt.Sprintf("shortcuts %03b", some))
	all := load(network)
	want := rollout(t, all[0], []lockstep.Job{job}, lockstep.Options{Trajectory: true})[0]
	for _, e := range all {
		if e.again {
			continue
		}
		got := rollout(t, e, []lockstep.Job{job},
			lockstep.Options{Trajectory: true, Shortcuts: some})[0]
		if want.result.Err != nil {
			// A network that is not run in the warm-up does not fail there.
			n := min(len(want.steps), len(got.steps))
			if d := stepsDifference(got.steps[:n], want.steps[:n]); d != "" {
				t.Fatalf("%s, %v, shortcuts %b: %s", e.name, network, some, d)
			}
			if some&lockstep.SkipWarmup == 0 &&
				message(got.result.Err) != message(want.result.Err) {
				t.Fatalf(
					"%s, %v, shortcuts %b: error %v, want %v", e.name, network, some,
					got.result.Err, want.result.Err,
				)
			}
			cover("failed")
			continue
		}
		for _, s := range got.steps {
			if skipped := some&lockstep.SkipWarmup != 0 &&
				s.Index < lockstep.ControlStartIdx; s.ran == skipped {
				t.Fatalf(
					"%s, shortcuts %b, step %d: the network ran is %v", e.name, some, s.Index,
					s.ran,
				)
			}
		}
		if d := stepsDifference(got.steps, want.steps); d != "" {
			t.Fatalf("%s, %v, shortcuts %b: %s", e.name, network, some, d)
		}
		if d := resultDifference(got.result, want.result); d != "" {
			t.Fatalf("%s, %v, shortcuts %b: %s", e.name, network, some, d)
		}
		cover("finished")
	}
}

// teacher: a rollout that is taught its own trajectory is unchanged, also if draws
// that lie on edges of its distributions give other tokens, and one that is taught
// another's has that in its histories and nowhere else.
func teacher(t *rapid.T, cover func(string)) {
	network := arbitrary.Networks(seeds).Draw(t, "network")
	job := lockstep.Job{
		Route:  arbitrary.Route(rapid.IntRange(lockstep.MinRows, 110)).Draw(t, "route"),
		Policy: arbitrary.Policy().Draw(t, "policy"),
	}
	opts := lockstep.Options{
		Shortcuts:  lockstep.SkipWarmup | arbitrary.Shortcuts().Draw(t, "shortcuts"),
		Trajectory: true,
	}
	other := trajectory(t, job.Route.Len())
	for _, e := range distinct(network) {
		observed := job
		edges := make([]float64, job.Route.Len()-lockstep.ContextLength)
		observed.Observe = func(s *lockstep.Step) {
			if s.Logits == nil {
				return
			}
			k := s.Index - lockstep.ContextLength
			if edges[k] = s.CDF[s.Sample]; k%2 == 1 || edges[k] >= 1 {
				edges[k] = 0 // the edge below
				if s.Sample > 0 {
					edges[k] = s.CDF[s.Sample-1]
				}
			}
		}
		free := rollout(t, e, []lockstep.Job{observed}, opts)[0]
		if free.result.Err != nil {
			cover("failed")
		} else {
			own := job
			own.Teacher = free.result.Trajectory
			if d := rollout(t, e, []lockstep.Job{own}, opts)[0].difference(free); d != "" {
				t.Fatalf("%s, %v, taught its own trajectory: %s", e.name, network, d)
			}
			cover("own")
			own.Draws = edges
			own.Observe = func(s *lockstep.Step) {
				if s.Logits == nil {
					return
				}
				want := slices.IndexFunc(s.CDF, func(x float64) bool { return x > s.Draw })
				if s.Draw != edges[s.Index-lockstep.ContextLength] || s.Sample != want {
					t.Fatalf("%s, step %d: draw %v has token %d, want draw %v and token %d",
						e.name, s.Index, s.Draw, s.Sample, edges[s.Index-lockstep.ContextLength],
						want)
				}
				cover("draw on an edge")
			}
			if got := rollout(t, e, []lockstep.Job{own}, opts)[0]; got.result.Err != nil {
				t.Fatalf("%s, %v, draws on edges: %v", e.name, network, got.result.Err)
			}
		}

		taught := job
		taught.Teacher = other
		current := job.Route.TargetLataccel[lockstep.ContextLength-1]
		taught.Observe = func(s *lockstep.Step) {
			const n = lockstep.ContextLength
			if s.Logits != nil {
				for i := range n {
					if want, _ := token(other.Lataccel[s.Index-n+i]); s.Tokens[i] != want {
						t.Fatalf(
							"%s, step %d: token %d is %d, the teacher's %d", e.name, s.Index, i,
							s.Tokens[i], want,
						)
					}
					if want := float32(other.Action[s.Index-n+1+i]); math.Float32bits(
						s.States[4*i],
					) != math.Float32bits(want) {
						t.Fatalf(
							"%s, step %d: action %d is %v, the teacher's %v", e.name, s.Index, i,
							s.States[4*i], want,
						)
					}
				}
				if want := clipped(bins[s.Sample], current,
					0.5); s.Index >= lockstep.ControlStartIdx &&
					!schema.Equal(s.Lataccel, want) {
					t.Fatalf(
						"%s, step %d: lataccel %v, want %v from the teacher's %v", e.name, s.Index,
						s.Lataccel, want, current,
					)
				}
				cover("another's")
			}
			current = other.Lataccel[s.Index]
		}
		got := rollout(t, e, []lockstep.Job{taught}, opts)[0]
		if got.result.Err != nil {
			continue
		}
		r := job.Route
		want := lockstep.Trajectory{
			Target: r.TargetLataccel,
			Lataccel: slices.Concat(
				r.TargetLataccel[:lockstep.ContextLength], other.Lataccel[lockstep.ContextLength:],
			),
			Action: slices.Concat(
				r.SteerCommand[:lockstep.ContextLength], other.Action[lockstep.ContextLength:],
			),
		}
		if d := resultDifference(lockstep.Result{Trajectory: got.result.Trajectory},
			lockstep.Result{Trajectory: &want}); d != "" {
			t.Fatalf("%s, taught another's trajectory: %s", e.name, d)
		}
	}
}

// longRoutes: around the step where costs end all engines agree, and a cost-only
// rollout is the beginning of the full one.
func longRoutes(t *rapid.T, cover func(string)) {
	job := lockstep.Job{
		Route:  arbitrary.Route(arbitrary.LongRows()).Draw(t, "route"),
		Policy: arbitrary.Policy().Draw(t, "policy"),
	}
	n := job.Route.Len()
	var want *run
	for _, e := range distinct(arbitrary.Reweighted{}) {
		full := rollout(t, e, []lockstep.Job{job},
			lockstep.Options{Shortcuts: lockstep.FullTrajectory, Trajectory: true})[0]
		if want == nil {
			want = full
		} else if d := full.difference(want); d != "" {
			t.Fatalf("%s and %s, %d rows: %s", e.name, "reference", n, d)
		}
		if full.result.Err != nil {
			cover("failed")
			continue
		}
		short := rollout(t, e, []lockstep.Job{job},
			lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true})[0]
		end := min(n, lockstep.CostEndIdx)
		if d := stepsDifference(short.steps, full.steps[:end-lockstep.ContextLength]); d != "" {
			t.Fatalf("%s, %d rows, cost only: %s", e.name, n, d)
		}
		if d := costsDifference(short.result.Costs, full.result.Costs); d != "" {
			t.Fatalf("%s, %d rows, cost only: %s", e.name, n, d)
		}
		for _, tr := range []*run{short, full} {
			if got, want := len(tr.result.Trajectory.Lataccel),
				len(tr.steps)+lockstep.ContextLength; got != want {
				t.Fatalf("%s, %d rows: a trajectory of %d steps, want %d", e.name, n, got, want)
			}
		}
		switch {
		case n < lockstep.CostEndIdx:
			cover("shorter than the costs")
		case n <= lockstep.CostEndIdx+1:
			cover("as long as the costs")
		default:
			cover("longer")
		}
	}
}
