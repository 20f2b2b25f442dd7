package engines

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"lockstep"
	"lockstep/internal/f32"
)

// options are the ways in which an engine can be opened for one network and profile.
var options = map[string]Config{
	"by default":     {},
	"three workers":  {Workers: 3},
	"two in step":    {Workers: 1, Chunk: 2},
	"timed":          {Timed: true},
	"shuffled":       {Shuffled: true},
	"kernels go":     {Kernels: "go"},
	"kernels avx2":   {Kernels: "avx2"},
	"kernels avx512": {Kernels: "avx512"},
}

// entries are the ways to an engine's results. Each gives them as a text with all digits, and
// goes on from a snapshot that the engine made when it was opened by default.
var entries = map[string]func(t *testing.T, s lockstep.Implementation, jobs []lockstep.Job,
	from *lockstep.Snapshot) string{
	"model": func(_ *testing.T, s lockstep.Implementation, _ []lockstep.Job,
		_ *lockstep.Snapshot) string {
		return s.Name() + s.Profile().String() + s.About().Model
	},
	"simulate": func(_ *testing.T, s lockstep.Implementation, jobs []lockstep.Job,
		_ *lockstep.Snapshot) string {
		text := ""
		for _, r := range roll(s, jobs, lockstep.Options{
			Shortcuts:  lockstep.CostOnly,
			Trajectory: true,
		}) {
			text += fmt.Sprintln(r.steps, r.result.Costs, r.result.Err, *r.result.Trajectory)
		}
		return text
	},
	"step": func(t *testing.T, s lockstep.Implementation, jobs []lockstep.Job,
		_ *lockstep.Snapshot) string {
		return fmt.Sprint(snap(t, planner(t, s, jobs, snapshotAt+1)))
	},
	"snapshot": func(t *testing.T, s lockstep.Implementation, jobs []lockstep.Job,
		_ *lockstep.Snapshot) string {
		return fmt.Sprint(snap(t, planner(t, s, jobs, snapshotAt)))
	},
	"restore": func(t *testing.T, s lockstep.Implementation, jobs []lockstep.Job,
		from *lockstep.Snapshot) string {
		p := planner(t, s, jobs, lockstep.ContextLength)
		if err := p.Restore(t.Context(), from); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(through(t, p, len(jobs), snapshotAt+1))
	},
	"fork": func(t *testing.T, s lockstep.Implementation, jobs []lockstep.Job,
		from *lockstep.Snapshot) string {
		f := fork(
			t, planner(t, s, jobs, lockstep.ContextLength), from, []int{1, 0, 1},
			lockstep.Noise{Kind: lockstep.RouteNoise},
		)
		costs, lataccels := make([]float64, 3), make([]float64, 3)
		if err := f.Roll(context.Background(), []float64{0.1, -0.2, 0.3}, costs,
			lataccels); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(costs, lataccels)
	},
	"collect": func(t *testing.T, s lockstep.Implementation, jobs []lockstep.Job,
		_ *lockstep.Snapshot) string {
		i := slices.IndexFunc(
			jobs, func(j lockstep.Job) bool { _, ok := j.Policy.(*lockstep.Network); return ok },
		)
		e, err := s.Collect(context.Background(), jobs[i:i+1])
		if err != nil {
			t.Fatal(err)
		}
		observations := make([]float32, e.Steps(0)*lockstep.ObservationSize)
		if err := s.Observe(e, nil, observations); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(
			e.Results, e.Raw, e.Softplus, e.Reward, e.Lataccel, e.Action, observations,
		)
	},
}

// snapshotAt is a step behind the warm-up.
const snapshotAt = lockstep.ControlStartIdx + 1

// TestOptions: however an engine is opened, all ways to its results give the same.
func TestOptions(t *testing.T) {
	common := config(t)
	covered := map[string]bool{
		"Model":   true,
		"Profile": true,
		"Stream":  true,
	} // the last is of a GPU's
	for _, o := range options {
		for i := range reflect.TypeFor[Config]().NumField() {
			if !reflect.ValueOf(o).Field(i).IsZero() {
				covered[reflect.TypeFor[Config]().Field(i).Name] = true
			}
		}
	}
	if n := reflect.TypeFor[Config]().NumField(); len(covered) != n {
		t.Errorf("of %d options of engines these are tried: %v", n, covered)
	}
	routes := policyRoutes(t, 2)
	list := somePolicies(t, routes, 6)
	jobs := []lockstep.Job{
		{Route: routes[0], Policy: lockstep.DefaultPID()},
		{Route: routes[1], Policy: list[len(list)-1]},
	}
	for _, p := range list {
		if n, ok := p.(*lockstep.Network); ok && len(n.Layers) == 2 {
			jobs[1].Policy = n
		}
	}
	for i := range jobs { // of a slow engine each step takes long
		jobs[i].Route = cutRoute(jobs[i].Route, snapshotAt+3)
	}
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			first := e.ForTest(t, common)
			shot := snap(t, planner(t, first, jobs, snapshotAt))
			want := map[string]string{}
			for name, entry := range entries {
				want[name] = entry(t, first, jobs, shot)
			}
			for name, o := range options {
				if _, err := f32.Named(o.Kernels); err != nil {
					t.Logf("without %s: %v", name, err)
					continue
				}
				if o.Kernels != "" && first.About().Kernels == "" {
					continue // it has none to choose
				}
				o.Model, o.Profile = common.Model, common.Profile
				s := e.ForTest(t, o)
				for way, entry := range entries {
					t.Run(name+"/"+way, func(t *testing.T) {
						if got := entry(t, s, jobs, shot); got != want[way] {
							t.Errorf("it is %.200q, by default %.200q", got, want[way])
						}
					})
				}
			}
		})
	}
}

// cutRoute is a route's first rows.
func cutRoute(r *lockstep.Route, rows int) *lockstep.Route {
	cut := *r
	for _, column := range []*[]float64{
		&cut.TargetLataccel, &cut.RollLataccel, &cut.VEgo, &cut.AEgo, &cut.SteerCommand,
	} {
		*column = (*column)[:rows]
	}
	return &cut
}
