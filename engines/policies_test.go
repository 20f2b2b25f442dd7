package engines

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"lockstep"
	"lockstep/generate"
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

func roll(s lockstep.Simulator, jobs []lockstep.Job, options lockstep.Options) []rolled {
	all := make([]rolled, len(jobs))
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].Observe = func(s *lockstep.Step) {
			bits := math.Float64bits
			all[i].steps = append(all[i].steps, seenStep{
				s.Index, slices.Clone(s.Observation), slices.Clone(s.Actor),
				bits(s.Raw), bits(s.Action), bits(s.Draw), bits(s.Prediction), bits(s.Lataccel), s.Sample,
			})
		}
	}
	for i, r := range s.Simulate(context.Background(), jobs, options) {
		all[i].result = r
	}
	return all
}

// compareRolled holds rollouts to the reference's.
func compareRolled(t *testing.T, jobs []lockstep.Job, got, want []rolled) {
	t.Helper()
	for i := range want {
		name := fmt.Sprintf("job %d, route %s, %v", i, jobs[i].Route.Name, jobs[i].Policy)
		if len(got[i].steps) != len(want[i].steps) {
			t.Errorf("%s: %d steps, want %d (%v)", name, len(got[i].steps), len(want[i].steps), got[i].result.Err)
			continue
		}
		for k, w := range want[i].steps {
			if g := got[i].steps[k]; !reflect.DeepEqual(g, w) {
				element := slices.IndexFunc(w.observation, func(x float32) bool { return x != x })
				for n := range min(len(w.observation), len(g.observation)) {
					if g.observation[n] != w.observation[n] {
						element = n
						break
					}
				}
				if element >= 0 && element < len(g.observation) {
					t.Errorf("%s, step %d: %s is %v, want %v", name, w.index, lockstep.ObservationElement(element), g.observation[element], w.observation[element])
				} else {
					t.Errorf("%s: step %+v, want %+v", name, g, w)
				}
				break
			}
		}
		if g, w := fmt.Sprint(got[i].result.Costs, got[i].result.Err), fmt.Sprint(want[i].result.Costs, want[i].result.Err); g != w {
			t.Errorf("%s: %s, want %s", name, g, w)
		}
	}
}

// policyRoutes are short ones, of different lengths.
func policyRoutes(t *testing.T, n int) []*lockstep.Route {
	t.Helper()
	var routes []*lockstep.Route
	for i := range n {
		r, err := lockstep.Loader{}.Read(bytes.NewReader(generate.Route(77, i)), fmt.Sprintf("r%d.csv", i))
		if err != nil {
			t.Fatal(err)
		}
		rows := 101 + (i*37)%60
		for _, column := range []*[]float64{&r.TargetLataccel, &r.RollLataccel, &r.VEgo, &r.AEgo, &r.SteerCommand} {
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
	for i, info := range lockstep.Kinds {
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

// against runs jobs on all engines and holds them to the reference.
func against(t *testing.T, c Config, jobs []lockstep.Job, options lockstep.Options) {
	var want []rolled
	for _, e := range All {
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
			compareRolled(t, jobs, roll(s, jobs, options), want)
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
	var jobs []lockstep.Job
	for i, p := range somePolicies(t, routes, 4) {
		if _, ok := p.(*lockstep.Network); ok {
			for k, r := range routes {
				jobs = append(jobs, lockstep.Job{Route: r, Policy: p, Sampling: &lockstep.Sampling{Seed: 5, ID: uint64(10*i + k)}})
			}
			jobs = append(jobs, lockstep.Job{Route: routes[0], Policy: p})
		}
	}
	var want *lockstep.Experience
	var observed []float32
	for _, e := range All {
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			collector, ok := s.(lockstep.Collector)
			if !ok {
				t.Fatal("it does not collect")
			}
			got, err := collector.Collect(context.Background(), jobs)
			if err != nil {
				t.Fatal(err)
			}
			if profile := s.Profile(); want == nil || profile != c.Profile {
				c.Profile = profile
				want, observed = collected(t, c, jobs)
			}
			for i := range jobs {
				if g, w := fmt.Sprint(got.Results[i].Costs, got.Results[i].Err), fmt.Sprint(want.Results[i].Costs, want.Results[i].Err); g != w {
					t.Errorf("job %d: %s, want %s", i, g, w)
				}
			}
			if fmt.Sprint(got.Raw, got.Softplus, got.Reward, got.Lataccel, got.Action) != fmt.Sprint(want.Raw, want.Softplus, want.Reward, want.Lataccel, want.Action) {
				t.Error("other training data")
			}
			all := make([]float32, len(observed))
			if err := collector.Observe(got, nil, all); err != nil || !slices.Equal(all, observed) {
				t.Errorf("other observations than the network saw, %v", err)
			}
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
			if err := collector.Observe(got, some, few); err != nil {
				t.Fatal(err)
			}
			for i, k := range at {
				const n = lockstep.ObservationSize
				if !slices.Equal(few[i*n:(i+1)*n], observed[k*n:(k+1)*n]) {
					t.Fatalf("gathered row %d is not that of %v", i, some[i])
				}
			}
			if err := collector.Observe(got, []lockstep.Place{{Rollout: 0, Step: 399}}, few[:256]); err == nil || err.Error() != "place 0: rollout 0 has no step 399" {
				t.Error(err)
			}
		})
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
	failed := 0
	for i, x := range roll(r, jobs, lockstep.Options{Shortcuts: lockstep.CostOnly}) {
		if x.result.Err != nil {
			failed++
			continue
		}
		sum := 0.0
		for _, reward := range e.Reward[i*lockstep.ExperienceSteps:][:lockstep.ExperienceSteps] {
			sum += float64(reward)
		}
		if total := x.result.Costs.Total; !math.IsNaN(total) && math.Abs(sum+total) > 1e-6*total { // rewards are float32
			t.Errorf("job %d: the rewards' sum is %v, the cost %v", i, sum, total)
		}
		for _, s := range x.steps {
			observed = append(observed, s.observation...)
		}
	}
	if failed == 0 || failed == len(jobs) {
		t.Errorf("%d of %d jobs failed, want some", failed, len(jobs))
	}
	return e, observed
}
