package policies_test

import (
	"fmt"
	"os"
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
