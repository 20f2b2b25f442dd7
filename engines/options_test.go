package engines

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep"
	"lockstep/gpu"
	"lockstep/internal/f32"
	"lockstep/internal/simtest"
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

// TestOptions: however an engine is opened, all ways to its results give the same; and it is opened
// as it was asked: of each field of Config that it has a use for it shows another where another is
// given.
func TestOptions(t *testing.T) {
	common := config(t)
	routes := policyRoutes(t, 2)
	list := somePolicies(t, routes, 6)
	jobs := []lockstep.Job{
		{Route: routes[0], Policy: lockstep.DefaultPID()},
		{Route: routes[1], Policy: smallNetwork(t, list)},
	}
	for i := range jobs { // of a slow engine each step takes long
		jobs[i].Route = cutRoute(jobs[i].Route, snapshotAt+3)
	}
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			first, said := e.ForTest(t, common), said{}
			said.add(t, e, first, common)
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
				said.add(t, e, s, o)
				for way, entry := range entries {
					t.Run(name+"/"+way, func(t *testing.T) {
						if got := entry(t, s, jobs, shot); got != want[way] {
							t.Errorf("it is %.200q, by default %.200q", got, want[way])
						}
					})
				}
			}
			another := common
			another.Profile.CSV = 1 - common.Profile.CSV
			said.add(t, e, e.ForTest(t, another), another)
			said.refused(e, common, "Model", "another.onnx")
			said.refused(e, common, "Kernels", "none")
			said.hold(t, e)
		})
	}
}

// smallNetwork is that with one hidden layer, of some policies.
func smallNetwork(t *testing.T, list []lockstep.Policy) *lockstep.Network {
	t.Helper()
	for _, p := range list {
		if n, ok := p.(*lockstep.Network); ok && len(n.Layers) == 2 {
			return n
		}
	}
	t.Fatal("no network has a hidden layer")
	return nil
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

// A showing is how engines show a field, by their names.
type showing map[string]func(*testing.T, lockstep.Implementation, Config) string

// shown is how engines that have a use for a field of Config show what they were opened with. Those
// that are not named have none. It is held to say another thing where the field is another.
var shown = map[string]showing{
	"Config.Model": by(func(s lockstep.Implementation) string { return s.About().Model },
		"reference", "emulated", "onnxruntime", "batched"),
	"Config.Profile": by(func(s lockstep.Implementation) string { return s.Profile().String() },
		"reference", "emulated", "onnxruntime", "batched"),
	"Config.Workers": {
		"emulated": func(t *testing.T, s lockstep.Implementation, _ Config) string {
			info, err := s.(*gpu.Simulator).Info()
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(info.Multiprocessors)
		},
		"onnxruntime": crowded, "batched": crowded,
	},
	"Config.Chunk": by(func(s lockstep.Implementation) string {
		return fmt.Sprint(s.(interface{ Cuts() []int }).Cuts())
	}, "emulated", "onnxruntime", "batched"),
	"Config.Timed": by(func(s lockstep.Implementation) string { // of the weights
		return fmt.Sprint(s.(*gpu.Simulator).Stats().Upload > 0)
	}, "emulated"),
	// a GPU's: TestSharedStream of gpu/internal/driver/cuda, where there is one
	"Config.Stream": nil,
	"Config.Kernels": by(func(s lockstep.Implementation) string { return s.About().Kernels },
		"reference", "batched"),
	"Config.Shuffled": by(func(s lockstep.Implementation) string { // no result may show it
		return fmt.Sprint(simtest.Inside(s, "Order"))
	}, "emulated"),
}

// said is what an engine has shown, by field.
type said map[string]map[string]bool

// add has an engine show what it was opened with, of the fields that are not as they are by
// default.
func (s said) add(t *testing.T, e Engine, sim lockstep.Implementation, c Config) {
	t.Helper()
	for field, by := range shown {
		show := by[e.Name]
		if show == nil || field == "Config.Workers" && c.Workers == 0 { // all cores
			continue
		}
		if s[field] == nil {
			s[field] = map[string]bool{}
		}
		s[field][show(t, sim, c)] = true
	}
}

// refused adds what an engine refuses by its name.
func (s said) refused(e Engine, c Config, field, value string) {
	reflect.ValueOf(&c).Elem().FieldByName(field).SetString(value)
	_, err := e.Open(c)
	if of := s["Config."+field]; of != nil && err != nil && strings.Contains(err.Error(), value) {
		of[value] = true
	}
}

// hold fails for each field of Config of which an engine has shown one value alone, and for one
// that is new.
func (s said) hold(t *testing.T, e Engine) {
	t.Helper()
	simtest.Fields(t, shown, func(field string, by showing) {
		if by[e.Name] != nil && len(s[field]) < 2 {
			t.Errorf("%s: whatever it is, the engine shows %v", field, s[field])
		}
	}, reflect.TypeFor[Config]())
}

// by is one way for engines to show a setting.
func by(show func(lockstep.Implementation) string, names ...string) showing {
	all := showing{}
	for _, name := range names {
		all[name] = func(_ *testing.T, s lockstep.Implementation, _ Config) string {
			return show(s)
		}
	}
	return all
}

// crowd is how many rollouts crowded has.
const crowd = 3

// crowded is how many rollouts met at their first step: all that are computed at one time, or none.
func crowded(t *testing.T, s lockstep.Implementation, c Config) string {
	patience := 10 * time.Second
	if c.Workers == 1 { // nobody comes
		patience = 30 * time.Millisecond
	}
	var came atomic.Int32
	all := make(chan struct{})
	jobs := make([]lockstep.Job, crowd)
	for i := range jobs {
		jobs[i].Route = cutRoute(policyRoutes(t, 1)[0], lockstep.MinRows)
		jobs[i].Policy = lockstep.Zero{}
		jobs[i].Observe = func(s *lockstep.Step) {
			if s.Index > lockstep.ContextLength {
				return
			}
			if came.Add(1) == crowd {
				close(all)
			}
			select {
			case <-all:
			case <-time.After(patience):
				came.Add(-1) // and leaves before others may come
			}
		}
	}
	for i, r := range s.Simulate(t.Context(), jobs, lockstep.Options{
		Shortcuts: lockstep.CostOnly,
	}) {
		if r.Err != nil {
			t.Fatal(i, r.Err)
		}
	}
	return fmt.Sprint(came.Load())
}
