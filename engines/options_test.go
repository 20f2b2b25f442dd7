package engines

import (
	"fmt"
	"reflect"
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
			through := func(t *testing.T, way string, s lockstep.Implementation) string {
				all := make([]rolled, len(jobs))
				text, err := ways[way](s, watched(jobs, all), lockstep.Options{
					Shortcuts:  lockstep.CostOnly,
					Trajectory: true,
				}, shot)
				if err != nil {
					t.Fatal(way, err)
				}
				for _, r := range all {
					text += fmt.Sprintln(r.steps)
				}
				return text
			}
			want := map[string]string{}
			for way := range ways {
				want[way] = through(t, way, first)
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
				if s.Name() != first.Name() || s.Profile() != first.Profile() ||
					s.About().Model != first.About().Model {
					t.Errorf("%s: it is %s, %v, %s", name, s.Name(), s.Profile(), s.About().Model)
				}
				for way := range ways {
					t.Run(name+"/"+way, func(t *testing.T) {
						if got := through(t, way, s); got != want[way] {
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
