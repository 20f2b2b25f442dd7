package engines

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"

	"lockstep"
	"lockstep/internal/policytest"
)

// TestTogether: what is asked of an engine while it computes, of it or of another one with its
// network, by an observer, by a controller, in the loop over results, or by other goroutines, comes
// to what it comes to alone.
func TestTogether(t *testing.T) {
	var routes []*lockstep.Route
	for i, r := range policyRoutes(t, 3) {
		routes = append(routes, cutRoute(r, lockstep.MinRows+1+i))
	}
	everyEngine(t, func(t *testing.T, s, _ lockstep.Implementation) {
		calls := map[string]func() string{
			"simulate": func() string {
				return simulated(s, each(routes[:2], lockstep.DefaultPID(), nil))
			},
			"every step": func() string {
				jobs := each(routes[1:], lockstep.Zero{}, nil)
				jobs[0].Draws, jobs[1].Expected = lockstep.Draws(9, routes[1].Len()), true
				return simulatedBy(s, jobs, lockstep.Options{Shortcuts: lockstep.FullTrajectory})
			},
			"step":    func() string { return steppedTogether(t, s, routes) },
			"collect": func() string { return collectedTogether(t, s, routes) },
		}
		want := map[string]string{}
		for name, call := range calls {
			want[name] = call()
		}
		ask := func(where string) {
			for name, call := range calls {
				if got := call(); got != want[name] {
					t.Errorf("%s, asked in %s: %s\nwant %s", name, where, got, want[name])
				}
			}
		}
		within(t, s, routes, ask)
		var others sync.WaitGroup
		for name, call := range calls {
			others.Go(func() {
				if got := call(); got != want[name] {
					t.Errorf("%s, beside others: %s\nwant %s", name, got, want[name])
				}
			})
		}
		others.Wait()
	})
}

// within asks while an engine simulates, in all ways at one step of a few, and holds what that
// comes to, too.
func within(
	t *testing.T, s lockstep.Implementation, routes []*lockstep.Route, ask func(where string),
) {
	t.Helper()
	const at = lockstep.ControlStartIdx
	var mutex sync.Mutex
	left := map[string]int{"an observer": 1, "a controller": 2, "the loop over results": 1}
	asks := func(step int, where string) {
		mutex.Lock()
		now := step == at && left[where] > 0
		if now {
			left[where]--
		}
		mutex.Unlock()
		if now {
			ask(where)
		}
	}
	run := func() (all []string) {
		custom := func() lockstep.Controller {
			return &asking{step: lockstep.ContextLength - 1, ask: asks}
		}
		for _, jobs := range [][]lockstep.Job{
			each(routes[:2], lockstep.DefaultPID(), func(x *lockstep.Step) {
				asks(x.Index, "an observer")
			}),
			each(routes[:1], lockstep.Custom{Name: "asking", New: custom}, nil),
		} {
			all = append(all, simulated(s, jobs), steppedJobs(t, s, jobs))
		}
		text := make([]string, 2)
		for i, r := range s.Simulate(context.Background(),
			each(routes[:2], policytest.Network(t), nil), togetherOptions) {
			asks(at, "the loop over results")
			text[i] = ended(r)
		}
		return append(all, text...)
	}
	got := run()
	for where, n := range left {
		if n > 0 {
			t.Errorf("nothing was asked in %s, %d times", where, n)
		}
	}
	for i, want := range run() {
		if got[i] != want {
			t.Errorf("run %d, in which others are asked: %s\nwant %s", i, got[i], want)
		}
	}
}

// asking answers a wave.
type asking struct {
	step int
	ask  func(step int, where string)
}

func (a *asking) Update(float64, float64, lockstep.State, lockstep.FuturePlan) float64 {
	a.step++
	a.ask(a.step, "a controller")
	return math.Sin(float64(a.step))
}

var togetherOptions = lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}

// each is a job for each route.
func each(
	routes []*lockstep.Route, p lockstep.Policy, observe func(*lockstep.Step),
) (jobs []lockstep.Job) {
	for _, r := range routes {
		jobs = append(jobs, lockstep.Job{Route: r, Policy: p})
	}
	jobs[0].Observe = observe
	return jobs
}

// ended is all of a result.
func ended(r lockstep.Result) string {
	if r.Trajectory == nil {
		return fmt.Sprint(r.Costs, r.Err)
	}
	return fmt.Sprint(r.Costs, r.Err, r.Trajectory.Lataccel, r.Trajectory.Action)
}

func simulated(s lockstep.Implementation, jobs []lockstep.Job) string {
	return simulatedBy(s, jobs, togetherOptions)
}

func simulatedBy(s lockstep.Implementation, jobs []lockstep.Job, opts lockstep.Options) string {
	all := make([]string, len(jobs))
	for i, r := range s.Simulate(context.Background(), jobs, opts) {
		all[i] = ended(r)
	}
	return fmt.Sprint(all)
}

// steppedJobs is what jobs come to in step.
func steppedJobs(t *testing.T, s lockstep.Implementation, jobs []lockstep.Job) string {
	p, err := s.Reset(context.Background(), jobs, togetherOptions)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer p.Close()
	commands := make([]float64, len(jobs))
	for !p.Done() {
		for i := range commands {
			commands[i] = math.Cos(float64(p.Index() + i))
		}
		if err := p.Step(context.Background(), commands, make([]float64, len(jobs))); err != nil {
			t.Error(err)
			return ""
		}
	}
	results, err := p.Results(context.Background())
	text := fmt.Sprint(err)
	for _, r := range results {
		text += ended(r)
	}
	return text
}

func steppedTogether(t *testing.T, s lockstep.Implementation, routes []*lockstep.Route) string {
	jobs := each(routes, nil, nil)
	jobs[1].Policy = lockstep.PIDFF{P: 0.3, I: 0.1, Leak: 0.1, Smooth: 0.2}
	return steppedJobs(t, s, jobs)
}

func collectedTogether(t *testing.T, s lockstep.Implementation, routes []*lockstep.Route) string {
	jobs := each(routes, policytest.Network(t), nil)
	jobs[1].Sampling = &lockstep.Sampling{Seed: 1, ID: 2}
	e, err := s.Collect(context.Background(), jobs)
	if err != nil {
		return err.Error()
	}
	places := []lockstep.Place{{Rollout: 2, Step: 1}, {Rollout: 0, Step: 2}}
	seen := make([]float32, len(places)*e.Inputs())
	if err := s.Observe(e, places, seen); err != nil {
		return err.Error()
	}
	n := 2*lockstep.ExperienceSteps + 5
	return fmt.Sprint(e.Raw[:n], e.Reward[:n], e.Lataccel[:n], seen)
}
