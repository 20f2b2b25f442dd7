package engines

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/simtest"
)

// A given is another value of a field of a job or of Options. On the ways that are named in refused
// the engine refuses it with such words, and on those in same it has no use for it.
type given struct {
	set           func(j *lockstep.Job, o *lockstep.Options)
	refused, same map[string]string
}

// givens are those of all fields. A fork is steered by commands, and has no observer, so that
// these fields are no use to it.
func givens(other *lockstep.Route, draws []float64, teacher *lockstep.Trajectory) map[string]given {
	steered := map[string]string{"fork": "it is steered by commands"}
	return map[string]given{
		"Job.Route": {set: func(j *lockstep.Job, _ *lockstep.Options) { j.Route = other }},
		"Job.Policy": {
			set:  func(j *lockstep.Job, _ *lockstep.Options) { j.Policy = lockstep.Zero{} },
			same: steered, refused: map[string]string{"collect": "want a network"},
		},
		"Job.Observe": {
			set:  func(j *lockstep.Job, _ *lockstep.Options) { j.Observe = nil },
			same: map[string]string{"fork": "it has no observers"},
		},
		"Job.Teacher": {
			set:     func(j *lockstep.Job, _ *lockstep.Options) { j.Teacher = teacher },
			same:    steered,
			refused: map[string]string{"collect": "it has a teacher"},
		},
		"Job.Draws": {set: func(j *lockstep.Job, _ *lockstep.Options) { j.Draws = draws }},
		"Job.Sampling": {
			set: func(j *lockstep.Job, _ *lockstep.Options) {
				j.Sampling = &lockstep.Sampling{Seed: 3, ID: 2}
			},
			same: steered,
		},
		"Sampling.Seed": {
			set: func(j *lockstep.Job, _ *lockstep.Options) {
				j.Sampling = &lockstep.Sampling{Seed: 4, ID: 2}
			},
			same: steered,
		},
		"Sampling.ID": {
			set: func(j *lockstep.Job, _ *lockstep.Options) {
				j.Sampling = &lockstep.Sampling{Seed: 3, ID: 3}
			},
			same: steered,
		},
		"Job.Expected": {set: func(j *lockstep.Job, _ *lockstep.Options) { j.Expected = true }},
		"Options.Shortcuts": {
			set: func(_ *lockstep.Job, o *lockstep.Options) { o.Shortcuts = lockstep.AllSteps },
			same: map[string]string{
				"fork": "it begins behind", "restore": "so does it", "collect": "it has none",
			},
		},
		"Options.Trajectory": {
			set:  func(_ *lockstep.Job, o *lockstep.Options) { o.Trajectory = true },
			same: map[string]string{"collect": "it has none"},
		},
	}
}

// A way leads from jobs to their results, as a text with all digits. One that goes on from a
// snapshot does so from one that is given, or else from one of which nothing was computed.
type way func(s lockstep.Implementation, jobs []lockstep.Job, o lockstep.Options,
	from *lockstep.Snapshot) (string, error)

// ways are all that an engine has.
var ways = map[string]way{
	"simulate": func(s lockstep.Implementation, jobs []lockstep.Job, o lockstep.Options,
		_ *lockstep.Snapshot) (string, error) {
		results := make([]lockstep.Result, len(jobs))
		var err error
		for i, r := range s.Simulate(context.Background(), jobs, o) {
			results[i], err = r, cmp.Or(err, r.Err)
		}
		return tell(results), err
	},
	"step": begun(func(p lockstep.Stepper, n int, _ *lockstep.Snapshot) (string, error) {
		return toEnd(p, n)
	}),
	"restore": begun(func(p lockstep.Stepper, n int, from *lockstep.Snapshot) (string, error) {
		if err := p.Restore(context.Background(), from); err != nil {
			return "", err
		}
		return toEnd(p, n)
	}),
	"fork": begun(func(p lockstep.Stepper, n int, from *lockstep.Snapshot) (string, error) {
		places := []int{n - 1, 0, n - 1}
		f, err := p.Fork(
			context.Background(), from, places, lockstep.Noise{Kind: lockstep.RouteNoise},
		)
		if err != nil {
			return "", err
		}
		defer f.Close()
		costs, lataccels := make([]float64, 3), make([]float64, 3)
		if err := f.Roll(context.Background(), []float64{0.1, -0.2, 0.3}, costs,
			lataccels); err != nil {
			return "", err
		}
		text, err := toEnd(f, 3)
		return fmt.Sprint(costs, lataccels, text), err
	}),
	"collect": func(s lockstep.Implementation, jobs []lockstep.Job, _ lockstep.Options,
		_ *lockstep.Snapshot) (string, error) {
		if len(jobs) > 1 { // it takes networks alone
			jobs = slices.DeleteFunc(slices.Clone(jobs), func(j lockstep.Job) bool {
				_, ok := j.Policy.(*lockstep.Network)
				return !ok
			})
		}
		e, err := s.Collect(context.Background(), jobs)
		if err != nil {
			return "", err
		}
		observations := make([]float32, e.Steps(0)*lockstep.ObservationSize)
		if err := s.Observe(e, nil, observations); err != nil {
			return "", err
		}
		return fmt.Sprint(tell(e.Results), e.Raw, e.Softplus, e.Reward, e.Lataccel, e.Action,
			observations), e.Results[0].Err
	},
}

// begun is a way on from a stepper of n jobs that has just begun.
func begun(on func(p lockstep.Stepper, n int, from *lockstep.Snapshot) (string, error)) way {
	return func(s lockstep.Implementation, jobs []lockstep.Job, o lockstep.Options,
		from *lockstep.Snapshot) (string, error) {
		if from == nil {
			from = histories(s, jobs)
		}
		p, err := s.Reset(context.Background(), jobs, o)
		if err != nil {
			return "", err
		}
		defer p.Close()
		return on(p, len(jobs), from)
	}
}

// histories are a snapshot of jobs of which nothing was computed.
func histories(s lockstep.Implementation, jobs []lockstep.Job) *lockstep.Snapshot {
	shot := &lockstep.Snapshot{
		Profile: s.Profile(), Model: s.About().Model, Step: snapshotAt,
	}
	for _, j := range jobs {
		shot.Rollouts = append(shot.Rollouts, lockstep.RolloutState{
			Route: j.Route.Name, Lataccel: j.Route.TargetLataccel[:snapshotAt],
			Action: make([]float64, snapshotAt), Policy: []float64{},
		})
	}
	return shot
}

// tell is results as a text.
func tell(results []lockstep.Result) (text string) {
	for _, r := range results {
		text += fmt.Sprintln(r.Costs, r.Err)
		if r.Trajectory != nil {
			text += fmt.Sprintln(*r.Trajectory)
		}
	}
	return text
}

// toEnd steps rollouts to their ends, with a snapshot on the way.
func toEnd(p lockstep.Stepper, n int) (text string, err error) {
	after := make([]float64, n)
	for !p.Done() {
		if p.Index() == snapshotAt {
			shot, err := p.Snapshot(context.Background())
			if err != nil {
				return "", err
			}
			text += fmt.Sprintln(*shot)
		}
		err := p.Step(context.Background(), slices.Repeat([]float64{0.1}, n), after)
		if err != nil {
			return "", err
		}
		text += fmt.Sprintln(after)
	}
	results, err := p.Results(context.Background())
	return text + tell(results), err
}

// TestGivens: each field of a job and of Options is heeded by each engine on each way to results:
// another value makes other results, or is refused. A field that is new has no line, and fails.
func TestGivens(t *testing.T) {
	c := config(t)
	routes := policyRoutes(t, 2)
	for i := range routes {
		routes[i] = cutRoute(routes[i], snapshotAt+1)
	}
	network := smallNetwork(t, somePolicies(t, routes, 6))
	n := routes[0].Len()
	all := givens(routes[1], lockstep.Draws(99, n-lockstep.ContextLength), &lockstep.Trajectory{
		Lataccel: make([]float64, n), Action: make([]float64, n),
	})
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			tried := func(way string, sampled bool, set func(*lockstep.Job, *lockstep.Options)) (
				string, error) {
				var seen strings.Builder
				j := lockstep.Job{Route: routes[0], Policy: network}
				j.Observe = func(s *lockstep.Step) {
					fmt.Fprintln(&seen, s.Index, s.Action, s.Draw, s.Prediction, s.Lataccel)
				}
				o := lockstep.Options{Shortcuts: lockstep.CostOnly}
				if sampled {
					j.Sampling = &lockstep.Sampling{Seed: 3, ID: 2}
				}
				set(&j, &o)
				text, err := ways[way](s, []lockstep.Job{j}, o, nil)
				return text + seen.String(), err
			}
			for way := range ways {
				without := map[bool]string{}
				for _, sampled := range []bool{false, true} {
					var err error
					if without[sampled], err = tried(way, sampled,
						func(*lockstep.Job, *lockstep.Options) {}); err != nil {
						t.Fatal(way, err)
					}
				}
				simtest.Fields(t, all, func(name string, g given) {
					sampled := strings.HasPrefix(name, "Sampling.")
					got, err := tried(way, sampled, g.set)
					_, same := g.same[way]
					switch words := g.refused[way]; {
					case words != "":
						if err == nil || !strings.Contains(err.Error(), words) {
							t.Errorf("%s, %s: %v, want %q", way, name, err, words)
						}
					case err != nil:
						t.Errorf("%s, %s: %v", way, name, err)
					case (got == without[sampled]) != same:
						t.Errorf("%s, %s: with another one the results are the same: %v, want %v",
							way, name, !same, same)
					}
				}, reflect.TypeFor[lockstep.Job](), reflect.TypeFor[lockstep.Options](),
					reflect.TypeFor[lockstep.Sampling]())
			}
		})
	}
}
