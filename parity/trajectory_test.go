package parity

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"lockstep"
	"lockstep/batched"
	"lockstep/golden"
	"lockstep/internal/assets"
	"lockstep/internal/assets/assetstest"
	"lockstep/reference"
)

const goldenRoot = "../golden/testdata"

// TestTrajectory holds every implementation to every recording of the Python
// program: all stages of all steps, and the costs, bit by bit.
//
// An engine whose arithmetic is its machine's, as ONNX Runtime's is, takes part
// in the recordings of its profile; TestTrajectoryEngines holds it to the
// reference in any case.
func TestTrajectory(t *testing.T) {
	model := assetstest.Model(t)
	sets, err := golden.Sets(goldenRoot)
	if err != nil {
		t.Fatal(err)
	}
	recordings, want := 0, 18
	for _, set := range sets {
		for _, entry := range set.Recordings {
			if selected(entry.Route + "/" + entry.Name) {
				recordings++
			}
		}
	}
	if os.Getenv("LOCKSTEP_ONLY") != "" {
		want = 1
	}
	if recordings < want {
		t.Errorf("%d recordings under %s, want %d or more", recordings, goldenRoot, want)
	}
	for _, set := range sets {
		t.Run(set.Profile.String(), func(t *testing.T) {
			if got := fileSHA256(t, model); got != set.ModelSHA256 {
				t.Fatalf("%s has SHA-256 %s, the recordings were made with %s", model, got, set.ModelSHA256)
			}
			ref, err := reference.New(model, set.Profile)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(ref.Name(), func(t *testing.T) { testSet(t, ref, set) })
			if b := newBatched(t, model, set.Profile); b != nil && b.Profile() == set.Profile {
				t.Run(b.Name(), func(t *testing.T) { testSet(t, b, set) })
			} else if b != nil {
				t.Logf("ONNX Runtime has profile %s on this machine: the batched engine is held to the reference in that", b.Profile())
			}
		})
	}
}

// newBatched makes the batched engine, or returns nil where it was built out.
func newBatched(t *testing.T, model string, profile lockstep.Profile) *batched.Simulator {
	t.Helper()
	if !batched.Built {
		t.Log("built without cgo: the batched engine takes no part")
		return nil
	}
	b, err := batched.New(batched.Config{ModelPath: model, Profile: profile})
	if err != nil {
		if os.Getenv("LOCKSTEP_REQUIRE_ASSETS") == "1" {
			t.Fatalf("LOCKSTEP_REQUIRE_ASSETS=1, but the batched engine cannot run: %v", err)
		}
		t.Logf("not run for want of assets: the batched engine: %v", err)
		return nil
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// testSet runs all of a set's rollouts as one batch and holds each to its
// recording.
func testSet(t *testing.T, sim lockstep.Simulator, set *golden.Set) {
	var jobs []lockstep.Job
	var checkers []*Checker
	var names []string
	for _, entry := range set.Recordings {
		if !selected(entry.Route + "/" + entry.Name) {
			continue
		}
		names = append(names, entry.Route+"/"+entry.Name)
		file := filepath.Join(set.Dir, entry.File)
		if got := fileSHA256(t, file); got != entry.SHA256 {
			t.Fatalf("%s has SHA-256 %s, its provenance says %s", file, got, entry.SHA256)
		}
		recording, err := set.Read(entry)
		if err != nil {
			t.Fatal(err)
		}
		path := assetstest.RoutePath(t, entry.Route)
		if got := fileSHA256(t, path); got != entry.RouteCSV {
			t.Fatalf("%s has SHA-256 %s, the recording was made of %s", path, got, entry.RouteCSV)
		}
		route := assetstest.Route(t, entry.Route, set.Profile)
		if route.Seed != entry.Seed {
			t.Errorf("route %s: seed %d, want %d", entry.Route, route.Seed, entry.Seed)
		}
		for i, hash := range golden.HashRoute(route) {
			if hash != recording.RouteHash[i] {
				t.Fatalf("route %s: column %s differs from what Python loaded", entry.Route, golden.RouteColumns[i])
			}
		}
		policy, err := entry.Policy()
		if err != nil {
			t.Fatal(err)
		}
		checker := NewChecker(recording)
		checkers = append(checkers, checker)
		jobs = append(jobs, lockstep.Job{Route: route, Policy: policy, Observe: checker.Observe})
	}
	for i, result := range sim.Simulate(context.Background(), jobs, lockstep.Options{Shortcuts: lockstep.AllSteps}) {
		t.Run(names[i], func(t *testing.T) { testResult(t, sim, checkers[i], result, names[i]) })
	}
}

// selected tells whether a rollout takes part: all do, unless the environment
// variable LOCKSTEP_ONLY names one, as the command that replays it does.
func selected(name string) bool {
	only := os.Getenv("LOCKSTEP_ONLY")
	return only == "" || only == name
}

// testResult fails the test if a rollout was not the one its checker holds it to.
func testResult(t *testing.T, sim lockstep.Simulator, checker *Checker, result lockstep.Result, name string) {
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	checker.Costs(result.Costs)
	if d := checker.Divergence(); d != nil {
		test, _ := strings.CutSuffix(t.Name(), "/"+name)
		d.Replay = fmt.Sprintf("LOCKSTEP_ONLY=%s go test ./parity -run '^%s$'", name, strings.ReplaceAll(test, "/", "$/^"))
		t.Errorf("%s in profile %s: %v", sim.Name(), sim.Profile(), d)
	}
	if n := checker.recording.Steps(); checker.Steps() != n || checker.NetworkSteps() != n {
		t.Errorf("%d steps ran, the network at %d of them; %d are recorded", checker.Steps(), checker.NetworkSteps(), n)
	}
}

// TestTrajectoryEngines holds the batched engine to the reference in whatever
// profile ONNX Runtime has on this machine: all stages of all steps.
func TestTrajectoryEngines(t *testing.T) {
	model := assetstest.Model(t)
	b := newBatched(t, model, reference.HostProfile())
	if b == nil {
		t.SkipNow()
	}
	if !b.ProfileKnown() {
		t.Skipf("ONNX Runtime computes here in a way that the reference does not know: parity is not claimed (%v)", b.Notices())
	}
	ref, err := reference.New(model, b.Profile())
	if err != nil {
		t.Fatal(err)
	}
	var jobs []lockstep.Job
	for _, name := range assetstest.RouteNames {
		route := assetstest.Route(t, name, b.Profile())
		for _, policy := range []lockstep.Policy{lockstep.Zero{}, lockstep.DefaultPID, lockstep.PID{P: 0.3, I: 0.05, D: -0.1}, lockstep.PID{P: 2, I: 0.3, D: 0.5}} {
			if selected(name + "/" + policy.String()) {
				jobs = append(jobs, lockstep.Job{Route: route, Policy: policy})
			}
		}
	}
	recordings := make([]*golden.Recording, len(jobs))
	for i := range jobs {
		recordings[i] = golden.Record(jobs[i].Route)
		jobs[i].Observe = recordings[i].Observe
	}
	options := lockstep.Options{Shortcuts: lockstep.AllSteps}
	for i, result := range ref.Simulate(context.Background(), jobs, options) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		recordings[i].Costs = result.Costs
	}
	checkers := make([]*Checker, len(jobs))
	for i := range jobs {
		checkers[i] = NewChecker(recordings[i])
		jobs[i].Observe = checkers[i].Observe
	}
	for i, result := range b.Simulate(context.Background(), jobs, options) {
		name := jobs[i].Route.Name + "/" + jobs[i].Policy.String()
		t.Run(name, func(t *testing.T) { testResult(t, b, checkers[i], result, name) })
	}
}

// TestTrajectoryPublishedCosts holds the costs to those that another person
// published in 2024, computed on other hardware by the Python program.
func TestTrajectoryPublishedCosts(t *testing.T) {
	model := assetstest.Model(t)
	f, err := os.Open(assetstest.Find(t, assets.PublishedCosts))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 7 {
		t.Fatalf("%d rows, want a header and 6", len(rows))
	}
	for _, profile := range testProfiles() {
		t.Run(profile.String(), func(t *testing.T) {
			sim, err := reference.New(model, profile)
			if err != nil {
				t.Fatal(err)
			}
			var jobs []lockstep.Job
			for _, row := range rows[1:] {
				if row[0] != "pid(p=0.3 i=0.05 d=-0.1)" {
					t.Fatalf("controller %q is not known", row[0])
				}
				jobs = append(jobs, lockstep.Job{Route: assetstest.Route(t, row[1], profile), Policy: lockstep.PID{P: 0.3, I: 0.05, D: -0.1}})
			}
			for i, result := range sim.Simulate(context.Background(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly}) {
				if result.Err != nil {
					t.Fatal(result.Err)
				}
				for j, cost := range []float64{result.Costs.Lataccel, result.Costs.Jerk, result.Costs.Total} {
					if got, want := strconv.FormatFloat(cost, 'g', -1, 64), rows[1+i][2+j]; got != want {
						t.Errorf("route %s: %s is %s, published is %s", jobs[i].Route.Name, rows[0][2+j], got, want)
					}
				}
			}
		})
	}
}

// testProfiles are the profiles that the network and NumPy's exponential span,
// with glibc's sine and pandas up to 2.x.
func testProfiles() []lockstep.Profile {
	var profiles []lockstep.Profile
	for _, p := range lockstep.Profiles() {
		if p.CSV == lockstep.CSV2 {
			profiles = append(profiles, p)
		}
	}
	return profiles
}

func fileSHA256(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
