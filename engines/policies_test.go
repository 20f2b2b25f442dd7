package engines

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"lockstep"
	"lockstep/internal/generate"
	"lockstep/internal/simtest"
	"lockstep/routefile"
)

// seenStep is what is compared of a step, with its arrays copied.
type seenStep struct {
	index                                   int
	observation, actor                      []float32
	raw, action, draw, prediction, lataccel uint64
	sample                                  int
}

// rolled is all that a job came to.
type rolled struct {
	steps  []seenStep
	result lockstep.Result
}

func roll(s lockstep.Implementation, jobs []lockstep.Job, options lockstep.Options) []rolled {
	all, had := make([]rolled, len(jobs)), make([]bool, len(jobs))
	for i, r := range s.Simulate(context.Background(), watched(jobs, all), options) {
		if had[i] {
			r = lockstep.Result{Err: fmt.Errorf("a second result: %+v", r)}
		}
		all[i].result, had[i] = r, true
	}
	return all
}

// watched are jobs whose steps are kept.
func watched(jobs []lockstep.Job, all []rolled) []lockstep.Job {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].Observe = func(s *lockstep.Step) {
			bits := math.Float64bits
			all[i].steps = append(all[i].steps, seenStep{
				s.Index,
				slices.Clone(s.Observation),
				slices.Clone(s.Actor),
				bits(s.Raw),
				bits(s.Action),
				bits(s.Draw),
				bits(s.Prediction),
				bits(s.Lataccel),
				s.Sample,
			})
		}
	}
	return jobs
}

// A trial is an engine that is held to the reference, and how both are opened.
type trial struct {
	engine  string
	config  Config
	options lockstep.Options
}

// compareRolled holds rollouts to the reference's. It names engine, job, step, array and both
// values, and which of the two a third engine agrees with.
func (c trial) compareRolled(t *testing.T, jobs []lockstep.Job, got, want []rolled) {
	t.Helper()
	for i := range want {
		if err := sameRolled(got[i], want[i]); err != nil {
			t.Errorf(
				"%s, job %d, route %s, %v: %v; %s", c.engine, i, jobs[i].Route.Name, jobs[i].Policy,
				err, c.third(jobs[i], got[i], want[i]),
			)
		}
	}
}

// together have their policies from one package, so that neither is a second opinion on the other.
var together = []string{"batched", "onnxruntime"}

// third says whom another engine agrees with: the reference may be wrong as well.
func (c trial) third(job lockstep.Job, got, want rolled) string {
	for _, e := range Others() {
		if e.Name == c.engine ||
			slices.Contains(together, e.Name) && slices.Contains(together, c.engine) {
			continue
		}
		s, err := e.Open(c.config)
		if err != nil || s.Profile() != c.config.Profile {
			continue
		}
		own := roll(s, []lockstep.Job{job}, c.options)[0]
		s.Close()
		switch {
		case sameRolled(own, want) == nil:
			return fmt.Sprintf("%s agrees with the reference, so %s is wrong", e.Name, c.engine)
		case sameRolled(own, got) == nil:
			return fmt.Sprintf("%s agrees with it, so the reference is wrong", e.Name)
		}
		return fmt.Sprintf("%s agrees with neither", e.Name)
	}
	return "there is no third engine here to say who is wrong"
}

// sameRolled tells the first difference of a job's steps and of what it came to.
func sameRolled(got, want rolled) error {
	if len(got.steps) != len(want.steps) {
		return fmt.Errorf("%d steps, want %d (%v)", len(got.steps), len(want.steps), got.result.Err)
	}
	for k := range want.steps {
		g, w := &got.steps[k], &want.steps[k]
		err := cmp.Or(
			simtest.Same("observation", g.observation, w.observation),
			simtest.Same("actor", g.actor, w.actor),
			simtest.Same(
				"index, sample", []int64{int64(g.index), int64(g.sample)},
				[]int64{int64(w.index), int64(w.sample)},
			),
			g.number("raw", g.raw, w.raw),
			g.number("action", g.action, w.action),
			g.number("draw", g.draw, w.draw),
			g.number("prediction", g.prediction, w.prediction),
			g.number("lataccel", g.lataccel, w.lataccel),
		)
		var d *simtest.Difference
		seen := simtest.Same("observation", g.observation, w.observation)
		if len(w.observation) == lockstep.ObservationSize && errors.As(seen, &d) {
			err = fmt.Errorf("%s: %w", lockstep.ObservationElement(d.Index), seen)
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", w.index, err)
		}
	}
	if g, w := fmt.Sprint(got.result.Costs, got.result.Err), fmt.Sprint(want.result.Costs,
		want.result.Err); g != w {
		return fmt.Errorf("it comes to %s, want %s", g, w)
	}
	return nil
}

// number compares two numbers by their bits.
func (*seenStep) number(name string, got, want uint64) error {
	return simtest.SameBits(
		name, []float64{math.Float64frombits(got)}, []float64{math.Float64frombits(want)},
	)
}

// wholeRoute is a made route by its number, which goes on beyond the steps that cost.
func wholeRoute(t *testing.T, i int, name string) *lockstep.Route {
	t.Helper()
	r, err := routefile.Loader{}.Read(bytes.NewReader(generate.Route(77, i)), name+".csv")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// policyRoutes are short ones, of different lengths.
func policyRoutes(t *testing.T, n int) []*lockstep.Route {
	t.Helper()
	var routes []*lockstep.Route
	for i := range n {
		r := wholeRoute(t, i, fmt.Sprint("r", i))
		rows := 101 + (i*37)%60
		for _, column := range []*[]float64{
			&r.TargetLataccel, &r.RollLataccel, &r.VEgo, &r.AEgo, &r.SteerCommand,
		} {
			*column = (*column)[:rows]
		}
		routes = append(routes, r)
	}
	return routes
}

// somePolicies has some of each kind, with random parameters.
func somePolicies(t *testing.T, routes []*lockstep.Route, seed uint64) (list []lockstep.Policy) {
	t.Helper()
	random := rand.New(rand.NewPCG(3, seed))
	uniform := func(n int, width float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = width * (2*random.Float64() - 1)
		}
		return out
	}
	keep := func(p lockstep.Policy, err error) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	for i, info := range lockstep.Kinds() {
		kind := lockstep.Kind(i)
		switch kind {
		case lockstep.KindNetwork:
			for _, hidden := range [][]int{{}, {5}, {17, 33}, {256, 256}, {256, 255, 1}} {
				var layers []lockstep.Layer
				inputs := lockstep.ObservationSize
				for _, outputs := range append(hidden, lockstep.ActorSize) {
					l := lockstep.Layer{Inputs: inputs, Outputs: outputs}
					for _, x := range uniform(inputs*outputs, 0.2) {
						l.Weights = append(l.Weights, float32(x))
					}
					for _, x := range uniform(outputs, 0.2) {
						l.Bias = append(l.Bias, float32(x))
					}
					layers = append(layers, l)
					inputs = outputs
				}
				p, err := lockstep.NewNetwork(layers, 0.25)
				keep(p, err)
			}
		case lockstep.KindTable:
			actions := map[string][]float64{}
			for _, r := range routes {
				actions[r.Name] = uniform(lockstep.TableSteps, 3)
			}
			p, err := lockstep.NewTable(actions)
			keep(p, err)
		default:
			for range 2 {
				p, err := kind.New(uniform(len(info.Gains), 0.4))
				keep(p, err)
			}
		}
	}
	return list
}

// TestPolicies holds every kind of policy, on every engine that has it, to the
// reference at every step: mean and sampled actions, own, given and expected noise.
func TestPolicies(t *testing.T) {
	c := config(t)
	routes := policyRoutes(t, 3)
	var jobs []lockstep.Job
	for i, p := range somePolicies(t, routes, 4) {
		job := lockstep.Job{Route: routes[i%len(routes)], Policy: p}
		jobs = append(jobs, job)
		if _, ok := p.(*lockstep.Network); ok {
			for id := range 2 { // two samples of one route
				job.Sampling = &lockstep.Sampling{Seed: 1<<40 + uint64(i), ID: 1<<33 + uint64(id)}
				jobs = append(jobs, job)
			}
		}
		job.Route = routes[(i+1)%len(routes)]
		job.Expected = true
		jobs = append(jobs, job)
	}
	against(t, c, jobs, lockstep.Options{Shortcuts: lockstep.FullTrajectory})
}

// TestManyNetworks: more networks than an engine keeps at hand steer side by side, each a rollout
// of its own, and some of them another: of several widths, with ReLU and tanh behind the first
// layer, and every third without a name, as one that was written down.
func TestManyNetworks(t *testing.T) {
	c := config(t)
	c.Workers = 1
	route := cutRoute(policyRoutes(t, 2)[1], 102)
	var jobs []lockstep.Job
	for k := range 36 {
		sees, err := lockstep.ParseSees([]string{"v[0]/40", "target[1]"})
		if err != nil {
			t.Fatal(err)
		}
		bent := lockstep.Layer{Inputs: 2, Outputs: []int{1, 2, 15, 16, 17, 33}[k%6], Tanh: k%4 < 2}
		last := lockstep.Layer{Inputs: bent.Outputs, Outputs: 2, Bias: []float32{0.25, -0.25}}
		for o := range bent.Outputs {
			x := 0.25*float32(k-18) + 0.5*float32(o%5)
			bent.Weights = append(bent.Weights, x, 0.5-x)
			bent.Bias = append(bent.Bias, 0.125*float32(o%3))
			last.Weights = append(last.Weights, 0.5*x, -0.25)
		}
		layers := []lockstep.Layer{bent, last}
		network, err := lockstep.NewSeeing(sees, layers, lockstep.DefaultScale)
		if err != nil {
			t.Fatal(err)
		}
		if k%3 == 0 {
			network = &lockstep.Network{Layers: layers, Scale: network.Scale, Sees: sees}
		}
		jobs = append(jobs, lockstep.Job{Route: route, Policy: network})
	}
	jobs = append(jobs, jobs[17], jobs[0], jobs[16], jobs[1])
	against(t, c, jobs, lockstep.Options{Shortcuts: lockstep.CostOnly})
}

// against runs jobs on all engines and holds them to the reference.
func against(t *testing.T, c Config, jobs []lockstep.Job, options lockstep.Options) {
	var want []rolled
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			if profile := s.Profile(); want == nil || profile != c.Profile {
				c.Profile = profile
				r, err := Reference().New(c)
				if err != nil {
					t.Fatal(err)
				}
				want = roll(r, jobs, options)
			}
			trial{e.Name, c, options}.compareRolled(t, jobs, roll(s, jobs, options), want)
		})
	}
}

// TestCollect holds training data and the observations made of them to the reference,
// and to what the network saw; whole or gathered they are the same.
func TestCollect(t *testing.T) {
	c := config(t)
	routes := policyRoutes(t, 4)
	routes[2].TargetLataccel = slices.Clone(routes[2].TargetLataccel)
	routes[2].TargetLataccel[104] = math.NaN() // fails when the plan shows it
	routes[3].TargetLataccel = slices.Clone(routes[3].TargetLataccel)
	routes[3].TargetLataccel[151] = math.NaN() // which is later: what it had left is cleared
	// The first has no network to ask what is seen.
	jobs := []lockstep.Job{{Route: routes[0], Policy: (*lockstep.Network)(nil)}}
	for i, p := range somePolicies(t, routes, 4) {
		if _, ok := p.(*lockstep.Network); ok {
			for k, r := range routes {
				jobs = append(
					jobs,
					lockstep.Job{
						Route:    r,
						Policy:   p,
						Sampling: &lockstep.Sampling{Seed: 5, ID: uint64(10*i + k)},
					},
				)
			}
			jobs = append(jobs, lockstep.Job{Route: routes[0], Policy: p})
		}
	}
	var want *lockstep.Experience
	var observed []float32
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			got, err := s.Collect(context.Background(), jobs)
			if err != nil {
				t.Fatal(err)
			}
			if profile := s.Profile(); want == nil || profile != c.Profile {
				c.Profile = profile
				want, observed = collected(t, c, jobs)
			}
			for i := range jobs {
				g := fmt.Sprint(got.Results[i].Costs, got.Results[i].Err)
				w := fmt.Sprint(want.Results[i].Costs, want.Results[i].Err)
				if g != w {
					t.Errorf("job %d: %s, want %s", i, g, w)
				}
			}
			all := make([]float32, len(observed))
			if err := errors.Join(s.Observe(got, nil, all),
				simtest.Same("observations", all, observed)); err != nil {
				t.Errorf("%s, of what the reference's networks saw: %v", e.Name, err)
			}
			sameExperience(t, e.Name, jobs, got, want)
			gathered(t, e.Name, s, got, all, observed)
		})
	}
}

// sameExperience holds training data to the reference's, and names job and step of the first that
// differ.
func sameExperience(
	t *testing.T, engine string, jobs []lockstep.Job, got, want *lockstep.Experience,
) {
	t.Helper()
	for _, err := range []error{
		simtest.Same("raw", got.Raw, want.Raw),
		simtest.Same("softplus", got.Softplus, want.Softplus),
		simtest.Same("reward", got.Reward, want.Reward),
		simtest.Same("lataccel", got.Lataccel, want.Lataccel),
		simtest.Same("action", got.Action, want.Action),
	} {
		var d *simtest.Difference
		if errors.As(err, &d) {
			at := d.Index * len(want.Raw) / d.Of // of the numbers of a step
			job, step := at/lockstep.ExperienceSteps, at%lockstep.ExperienceSteps
			t.Errorf(
				"%s, job %d, route %s, step %d: %v (wanted by the reference)", engine, job,
				jobs[job].Route.Name, lockstep.ControlStartIdx+step, err,
			)
		} else if err != nil {
			t.Errorf("%s: %v", engine, err)
		}
	}
}

// TestCollectLong: of a route that goes on beyond the steps that cost, the last job's, those steps
// are collected and no other.
func TestCollectLong(t *testing.T) {
	c := config(t)
	route := wholeRoute(t, 0, "long")
	if route.Len() <= lockstep.CostEndIdx+1 {
		t.Fatalf("%d rows", route.Len())
	}
	job := lockstep.Job{
		Route:    route,
		Policy:   smallNetwork(t, somePolicies(t, policyRoutes(t, 1), 6)),
		Sampling: &lockstep.Sampling{Seed: 5},
	}
	for _, e := range Checked() {
		if e.Slow || e.ByLibrary { // whose steps are batched's
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			got, err := s.Collect(t.Context(), []lockstep.Job{job})
			if err != nil {
				t.Fatal(err)
			}
			if r := got.Results[0]; r.Err != nil || r.Costs.Total == 0 {
				t.Errorf("costs %v, %v", r.Costs, r.Err)
			}
			if slices.Contains(got.Raw, 0) {
				t.Errorf("nothing is kept of step %d", slices.Index(got.Raw, 0)+
					lockstep.ControlStartIdx)
			}
		})
	}
}

// gathered: rows that are asked for in any order are those of all rows, and a place that no
// rollout has is refused.
func gathered(
	t *testing.T, engine string, s lockstep.Collector, got *lockstep.Experience,
	all, observed []float32,
) {
	t.Helper()
	places, err := got.Places(nil, all)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	few := make([]float32, 40*lockstep.ObservationSize)
	some, at := make([]lockstep.Place, 40), make([]int, 40)
	for i := range some {
		at[i] = random.IntN(len(places))
		some[i] = places[at[i]]
	}
	if err := s.Observe(got, some, few); err != nil {
		t.Fatal(err)
	}
	for i, k := range at {
		const n = lockstep.ObservationSize
		if err := simtest.Same("observation", few[i*n:(i+1)*n],
			observed[k*n:(k+1)*n]); err != nil {
			t.Fatalf("%s, gathered row %d, %v: %v", engine, i, some[i], err)
		}
	}
	err = s.Observe(got, []lockstep.Place{{Rollout: 0, Step: 399}}, few[:256])
	if err == nil || err.Error() != "place 0: rollout 0 has no step 399" {
		t.Error(err)
	}
}

// collected is the reference's experience of the jobs, and the observations that its
// networks saw. Rewards are summed to the costs.
func collected(t *testing.T, c Config, jobs []lockstep.Job) (*lockstep.Experience, []float32) {
	t.Helper()
	r, err := Reference().New(c)
	if err != nil {
		t.Fatal(err)
	}
	e, err := r.(lockstep.Collector).Collect(context.Background(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	var observed []float32
	failed, late := 0, 0
	for i, x := range roll(r, jobs, lockstep.Options{Shortcuts: lockstep.CostOnly}) {
		if x.result.Err != nil {
			if failed++; len(x.steps) > lockstep.ControlStartIdx-lockstep.ContextLength {
				late++
			}
			continue
		}
		sum := 0.0
		for _, reward := range e.Reward[i*lockstep.ExperienceSteps:][:lockstep.ExperienceSteps] {
			sum += float64(reward)
		}
		if total := x.result.Costs.Total; !math.IsNaN(total) &&
			math.Abs(sum+total) > 1e-6*total { // rewards are float32
			t.Errorf("job %d: the rewards' sum is %v, the cost %v", i, sum, total)
		}
		for _, s := range x.steps {
			observed = append(observed, s.observation...)
		}
	}
	if late == 0 || failed == late || failed == len(jobs) {
		t.Errorf("%d of %d jobs failed, %d after some steps; want some of each", failed, len(jobs),
			late)
	}
	for i, result := range e.Results {
		own := e.Lataccel[i*lockstep.ExperienceSteps:][:lockstep.ExperienceSteps]
		if result.Err != nil && slices.ContainsFunc(own, func(x float64) bool { return x != 0 }) {
			t.Errorf("job %d has failed (%v), and leaves something", i, result.Err)
		}
	}
	return e, observed
}
