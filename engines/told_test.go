package engines

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"lockstep"
	"lockstep/internal/policytest"
)

// everyEngine calls f for each engine and the reference of its arithmetic.
func everyEngine(t *testing.T, f func(t *testing.T, s, reference lockstep.Implementation)) {
	t.Helper()
	c := config(t)
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			own := c
			own.Profile = s.Profile()
			r, err := Reference().New(own)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			f(t, s, r)
		})
	}
}

// told keeps what a batch controller is told of each route, by name.
type told struct {
	routes []*lockstep.Route
	of     map[string][]string
}

func (c *told) Update(s *lockstep.BatchStep) error {
	for k, r := range c.routes {
		if !s.Running[k] {
			continue
		}
		bits := math.Float64bits
		c.of[r.Name] = append(c.of[r.Name], fmt.Sprintf(
			"step %d: target %x, lataccel %x, state %v, plan %v", s.Step, bits(s.TargetLataccel[k]),
			bits(s.CurrentLataccel[k]), s.State[k], s.Plan[k]))
		s.Steer[k] = math.Mod(s.TargetLataccel[k]-s.CurrentLataccel[k]+float64(s.Step)/7, 1)
	}
	return nil
}

func (*told) Close() error { return nil }

// orders are all orders of three routes.
var orders = [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}

// TestBatchTold: what a batch controller is told of a route, step for step, is what it is told of
// it alone, whichever of its routes is the first, and whichever ends first; all at once and step by
// step.
func TestBatchTold(t *testing.T) {
	routes := policyRoutes(t, 3)
	for i, r := range routes {
		routes[i] = cutRoute(r, 101+2*i)
	}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly}
	tell := func(t *testing.T, s lockstep.Implementation, routes []*lockstep.Route,
		stepped bool) map[string][]string {
		all := map[string][]string{}
		policy := &lockstep.Batch{
			Name: "told",
			New: func(routes []*lockstep.Route) (lockstep.BatchController, error) {
				return &told{routes, all}, nil
			},
		}
		var jobs []lockstep.Job
		for _, r := range routes {
			jobs = append(jobs, lockstep.Job{Route: r, Policy: policy})
		}
		if !stepped {
			for _, r := range s.Simulate(t.Context(), jobs, opts) {
				if r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			return all
		}
		p, err := s.Reset(t.Context(), jobs, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		through(t, p, len(jobs), slices.MaxFunc(routes, func(a, b *lockstep.Route) int {
			return a.Len() - b.Len()
		}).Len())
		return all
	}
	everyEngine(t, func(t *testing.T, s, reference lockstep.Implementation) {
		want := map[string][]string{}
		for _, r := range routes {
			want[r.Name] = tell(t, reference, []*lockstep.Route{r}, false)[r.Name]
		}
		for _, order := range orders {
			list := []*lockstep.Route{routes[order[0]], routes[order[1]], routes[order[2]]}
			got := tell(t, s, list, true)
			for _, r := range routes {
				if len(got[r.Name]) != len(want[r.Name]) {
					t.Errorf("routes %v, step by step: %s has %d steps, want %d", order, r.Name,
						len(got[r.Name]), len(want[r.Name]))
					continue
				}
				for k, w := range want[r.Name] {
					if g := got[r.Name][k]; g != w {
						t.Fatalf("routes %v, step by step: %s is told %s\nwant %s", order, r.Name,
							g, w)
					}
				}
			}
		}
	})
}

// seeing has each job's observer keep what it is shown of each step, and of which arrays there is
// nothing.
func seeing(jobs []lockstep.Job) (seen [][]string) {
	seen = make([][]string, len(jobs))
	for i := range jobs {
		jobs[i].Observe = func(s *lockstep.Step) {
			seen[i] = append(seen[i], fmt.Sprintf("%+v", *s))
		}
	}
	return seen
}

// TestShownAgain: observers of rollouts that went back are shown the same steps again, with the
// same arrays or none, wherever they were and went back to: before, within and behind the warm-up,
// whether the network is asked there or not, and whether a teacher forces them.
func TestShownAgain(t *testing.T) {
	routes := policyRoutes(t, 2)
	jobs := []lockstep.Job{
		{Route: cutRoute(routes[0], 101), Policy: lockstep.DefaultPID()},
		{Route: cutRoute(routes[1], 103)},
	}
	everyEngine(t, func(t *testing.T, s, _ lockstep.Implementation) {
		for k, shortcuts := range []lockstep.Shortcuts{
			lockstep.CostOnly, lockstep.FullTrajectory, lockstep.CostOnly,
		} {
			jobs, taught := slices.Clone(jobs), k == 2
			for i := range jobs {
				if taught {
					jobs[i].Teacher = wave(jobs[i].Route.Len(), float64(i))
				}
			}
			seen := seeing(jobs)
			p, err := s.Reset(t.Context(), jobs, lockstep.Options{Shortcuts: shortcuts})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			var shots []*lockstep.Snapshot
			for _, at := range []int{20, 97, 100, 101, 102} {
				through(t, p, len(jobs), at)
				shots = append(shots, snap(t, p))
			}
			through(t, p, len(jobs), 103)
			want := [][]string{seen[0], seen[1]}
			slices.Reverse(shots)
			for _, shot := range shots {
				seen[0], seen[1] = nil, nil
				if err := p.Restore(context.Background(), shot); err != nil {
					t.Fatal(err)
				}
				through(t, p, len(jobs), 103)
				for i, w := range want {
					w = w[min(shot.Step, jobs[i].Route.Len())-lockstep.ContextLength:]
					if len(seen[i]) != len(w) {
						t.Fatalf("shortcuts %v, job %d, back at step %d: %d steps are shown, "+
							"want %d", shortcuts, i, shot.Step, len(seen[i]), len(w))
					}
					for k := range w {
						if seen[i][k] != w[k] {
							t.Errorf("shortcuts %v, job %d, back at step %d, step %d: shown is "+
								"%.300s\nwant %.300s", shortcuts, i, shot.Step, shot.Step+k,
								seen[i][k], w[k])
						}
					}
				}
			}
		}
	})
}

// wave is a teacher who goes up and down by more than a car can in a step.
func wave(rows int, from float64) *lockstep.Trajectory {
	t := &lockstep.Trajectory{}
	for i := range rows {
		x := from + float64(i)
		t.Lataccel = append(t.Lataccel, 2*math.Sin(x))
		t.Action = append(t.Action, math.Cos(x))
	}
	return t
}

// TestShownCollecting: observers of rollouts that are collected, on the device, too, are shown what
// they are shown where the same rollouts are simulated.
func TestShownCollecting(t *testing.T) {
	routes := policyRoutes(t, 2)
	jobs := []lockstep.Job{
		{Route: cutRoute(routes[0], 103), Policy: policytest.Network(t)},
		{
			Route: cutRoute(routes[1], 101), Policy: policytest.Network(t),
			Sampling: &lockstep.Sampling{Seed: 1},
		},
	}
	everyEngine(t, func(t *testing.T, s, _ lockstep.Implementation) {
		ways := map[string]func(jobs []lockstep.Job) error{
			"simulated": func(jobs []lockstep.Job) (err error) {
				for _, r := range s.Simulate(
					t.Context(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly},
				) {
					err = errors.Join(err, r.Err)
				}
				return err
			},
			"collected": func(jobs []lockstep.Job) error {
				_, err := s.Collect(t.Context(), jobs)
				return err
			},
		}
		if d, ok := s.(lockstep.DeviceCollector); ok {
			ways["collected on the device"] = func(jobs []lockstep.Job) error {
				e, err := d.CollectOnDevice(t.Context(), jobs)
				if err != nil {
					return err
				}
				return e.Close()
			}
		}
		shown := map[string]string{}
		for _, way := range []string{ // where nobody else has left the same before
			"collected on the device", "collected", "simulated",
		} {
			do, ok := ways[way]
			if !ok {
				continue
			}
			jobs := slices.Clone(jobs)
			seen := seeing(jobs)
			if err := do(jobs); err != nil {
				t.Fatalf("%s: %v", way, err)
			}
			shown[way] = fmt.Sprint(seen)
		}
		for way, text := range shown {
			if want := shown["simulated"]; text != want {
				t.Errorf("%s, shown is %.2000s\nwant %.2000s", way, text, want)
			}
		}
	})
}
