package upstream_test

import (
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"lockstep"
	"lockstep/engines"
	"lockstep/internal/assets"
	"lockstep/internal/defaults"
	"lockstep/internal/generate"
	"lockstep/internal/installed"
	"lockstep/internal/upstream"
	"lockstep/internal/want"
	"lockstep/routefile"
)

var (
	routes = flag.Int("routes", 1, "TestLive: so many generated routes, each under two controllers")
	seed   = flag.Uint64("seed", 0, "TestLive: of the routes; a random one if 0")
)

// TestLive holds every engine, in the profile that the Python of this machine answers, to
// the unmodified program that it runs: the costs of generated routes, every bit of them.
func TestLive(t *testing.T) {
	checkout := os.Getenv("LOCKSTEP_UPSTREAM")
	if checkout == "" {
		t.Skip("set LOCKSTEP_UPSTREAM to a checkout of commaai/controls_challenge")
	}
	python := want.Python.Need(t)
	model, err := assets.Find(assets.Model)
	if err != nil {
		model = filepath.Join(t.TempDir(), defaults.ModelName)
		if err := os.WriteFile(model, defaults.Model(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found := installed.Find(t.Context(), python)
	if !found.Complete() || !found.Known() {
		t.Fatalf("%s: %s, warnings %q", found, found.Summary(), found.Warnings())
	}
	key := *seed
	if key == 0 {
		key = rand.Uint64N(1 << 32)
	}
	t.Logf("%s; network %s, routes of seed %d", found, filepath.Base(model), key)
	dir := filepath.Join(t.TempDir(), routefile.DefaultSeedPrefix)
	options := generate.Options{NumRoutes: *routes, Seed: key}
	if err := generate.Write(t.Context(), dir, options); err != nil {
		t.Fatal(err)
	}
	files, err := routefile.List(dir, -1)
	if err != nil {
		t.Fatal(err)
	}
	program, err := upstream.Start(t.Context(), python, checkout, model)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	var jobs []lockstep.Job
	var wanted []lockstep.Costs
	for _, file := range files {
		for _, policy := range []lockstep.Policy{lockstep.DefaultPID(), lockstep.Zero{}} {
			route, err := routefile.Loader{Profile: found.Profile}.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			_, costs, err := program.Rollout(file, policy)
			if err != nil {
				t.Fatal(err)
			}
			jobs, wanted = append(
				jobs,
				lockstep.Job{Route: route, Policy: policy},
			), append(
				wanted,
				costs,
			)
		}
	}
	for _, e := range engines.Tried() {
		t.Run(e.Name, func(t *testing.T) {
			sim := e.ForTest(t, engines.Config{Model: model, Profile: found.Profile})
			if sim.Profile() != found.Profile {
				t.Skipf(
					"its library has profile %s here, Python's %s: nothing is to be equal",
					sim.Profile(), found.Profile,
				)
			}
			equal := 0
			for i, result := range sim.Simulate(
				t.Context(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly},
			) {
				if result.Err == nil && same(result.Costs, wanted[i]) {
					equal++
					continue
				}
				t.Errorf(
					"route %s of seed %d, %v: costs %v (%v), the program's %v", jobs[i].Route.Name,
					key, jobs[i].Policy, result.Costs, result.Err, wanted[i],
				)
			}
			t.Logf("%d of %d costs equal", equal, len(jobs))
			if equal == 0 {
				t.Error("nothing was compared")
			}
		})
	}
}

func same(a, b lockstep.Costs) bool {
	for _, pair := range [][2]float64{
		{a.Lataccel, b.Lataccel}, {a.Jerk, b.Jerk}, {a.Total, b.Total},
	} {
		if math.Float64bits(pair[0]) != math.Float64bits(pair[1]) {
			return false
		}
	}
	return true
}
