package policies_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/batched"
	"lockstep/internal/defaults"
	"lockstep/internal/pycontroller"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
	"lockstep/parity/tinyphysics"
	"lockstep/policyfile"
	"lockstep/reference"
)

// TestExported: in Python each exported controller steers as the engine does, in every bit of every
// action, on routes that saturate, stand nearly still, brake beyond the tyres' grip, and end before
// plans do.
func TestExported(t *testing.T) {
	want.Python.Need(t)
	model, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sim, err := batched.New(batched.Config{ModelPath: model, Profile: reference.HostProfile()})
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	hard, err := tinyphysics.Hard(t.Context(), sim)
	if err != nil {
		t.Fatal(err)
	}
	var routes []*lockstep.Route
	for _, job := range hard {
		if !slices.Contains(routes, job.Route) {
			routes = append(routes, job.Route)
		}
	}
	for _, side := range []float64{-6, 6} {
		r := *routes[0]
		n := r.Len()
		r.Name, r.TargetLataccel = fmt.Sprint("target ", side), make([]float64, n)
		copy(r.TargetLataccel, slices.Repeat([]float64{side}, lockstep.ControlStartIdx+20))
		r.RollLataccel = make([]float64, n)
		r.VEgo = slices.Repeat([]float64{0.5}, n)
		r.AEgo = slices.Repeat([]float64{-8}, n)
		routes = append(routes, &r)
	}
	list := byName(t)
	list["pid"] = lockstep.PID{P: 0.7, I: 0.11, D: -0.31}
	// The recorded one's scale is less than the bound of a change, which this one's passes.
	wide := list["wide"].(*lockstep.Network)
	if list["wide"], err = lockstep.NewSeeing(wide.Sees, wide.Layers, 3); err != nil {
		t.Fatal(err)
	}
	for name, p := range list {
		t.Run(name, func(t *testing.T) {
			inPython := exportedPolicy(t, p)
			var jobs []lockstep.Job
			for _, r := range routes {
				for _, p := range []lockstep.Policy{p, inPython} {
					jobs = append(jobs, lockstep.Job{Route: r, Policy: p})
				}
			}
			results := make([]lockstep.Result, len(jobs))
			options := lockstep.Options{Trajectory: true}
			for i, r := range sim.Simulate(t.Context(), jobs, options) {
				results[i] = r
			}
			sameActions(t, routes, results)
		})
	}
}

// exportedPolicy is a policy that has been exported, in Python.
func exportedPolicy(t *testing.T, p lockstep.Native) lockstep.Policy {
	t.Helper()
	source, err := policyfile.Export(p)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "exported.py")
	if err := os.WriteFile(file, source, 0o666); err != nil {
		t.Fatal(err)
	}
	c, err := pycontroller.New(t.Context(), pycontroller.Options{File: file, Workers: 1})
	if err != nil && strings.Contains(err.Error(), "No module named 'onnxruntime'") {
		want.Skip(t, want.Python.Lacks(err))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.Policy()
}

// sameActions holds of each route the second result, in Python, to the first.
func sameActions(t *testing.T, routes []*lockstep.Route, results []lockstep.Result) {
	t.Helper()
	equal := 0
	for k, route := range routes {
		want, got := results[2*k], results[2*k+1]
		if want.Err != nil || got.Err != nil { // of what is NaN
			if (want.Err == nil) != (got.Err == nil) {
				t.Errorf("route %s: in Python %v, want %v", route.Name, got.Err, want.Err)
			}
			continue
		}
		what := "route " + route.Name + ", actions in Python"
		err := simtest.SameBits(what, got.Trajectory.Action, want.Trajectory.Action)
		if err != nil {
			t.Error(err)
		}
		equal++
	}
	if equal < 8 {
		t.Errorf("%d routes were compared", equal)
	}
}

// TestExportedAlone: an exported controller is one file, which is imported by itself as well as in
// the challenge's folder, where it is one of its controllers.
func TestExportedAlone(t *testing.T) {
	python, dir := want.Python.Need(t), t.TempDir()
	files := map[string][]byte{
		filepath.Join("controllers", "__init__.py"): []byte("class BaseController: pass\n"),
	}
	list := byName(t)
	list["pid"] = lockstep.PID{P: 0.7, I: 0.11, D: -0.31}
	for name, p := range list {
		source, err := policyfile.Export(p)
		if err != nil {
			t.Fatal(err)
		}
		files[name+"_alone.py"] = source
		files[filepath.Join("controllers", name+".py")] = source
	}
	if err := os.Mkdir(filepath.Join(dir, "controllers"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), python, "-B", "-c", `
import collections, importlib, sys
try:
    import onnxruntime
    names = sys.argv[1:]
except ImportError:
    names = [name for name in sys.argv[1:] if name.startswith("pid")]
sys.path.insert(0, "")
import controllers
State = collections.namedtuple("State", ["roll_lataccel", "v_ego", "a_ego"])
Plan = collections.namedtuple("Plan", ["lataccel", "roll_lataccel", "v_ego", "a_ego"])
for name in names:
    alone = importlib.import_module(name + "_alone").Controller
    inside = importlib.import_module("controllers." + name).Controller
    assert alone.__mro__[1:] == (object,), name
    assert inside.__mro__[1] is controllers.BaseController, name
    a, b = alone(), inside()
    plan = Plan([0.5] * 49, [0.1] * 49, [20.0] * 49, [0.0] * 49)
    steer = [c.update(0.4, 0.1, State(0.1, 20.0, 0.0), future_plan=plan) for _ in range(90)
             for c in (a, b)]
    assert steer[::2] == steer[1::2] and steer[-1] != 0, (name, steer)
`)
	c.Args = append(c.Args, slices.Sorted(maps.Keys(list))...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
