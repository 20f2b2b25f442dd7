package parity_test

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockstep"
	"lockstep/golden"
	"lockstep/internal/assets"
	"lockstep/internal/assets/assetstest"
	"lockstep/onnxruntime"
	"lockstep/parity"
	"lockstep/parity/tinyphysics"
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
			for _, e := range engines {
				t.Run(e.name, func(t *testing.T) {
					switch sim := e.open(t, model, set.Profile, 0, 0); {
					case sim == nil:
						t.SkipNow()
					case sim.Profile() != set.Profile:
						t.Skipf("%s computes with profile %s on this machine, and is held to the reference in that", e.name, sim.Profile())
					default:
						testSet(t, sim, set)
					}
				})
			}
		})
	}
}

// testSet holds a simulator to all of a set's recordings.
func testSet(t *testing.T, sim lockstep.Simulator, set *golden.Set) {
	source, err := tinyphysics.Golden(set)
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string]golden.Entry{}
	for _, entry := range set.Recordings {
		entries[entry.Route] = entry
		file := filepath.Join(set.Dir, entry.File)
		if got := fileSHA256(t, file); got != entry.SHA256 {
			t.Fatalf("%s has SHA-256 %s, its provenance says %s", file, got, entry.SHA256)
		}
	}
	jobs, err := tinyphysics.GoldenJobs(set, func(name string) (*lockstep.Route, error) {
		entry, path := entries[name], assetstest.RoutePath(t, name)
		if got := fileSHA256(t, path); got != entry.RouteCSV {
			t.Fatalf("%s has SHA-256 %s, the recording was made of %s", path, got, entry.RouteCSV)
		}
		return assetstest.Route(t, name, set.Profile), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	jobs = slices.DeleteFunc(jobs, func(j lockstep.Job) bool { return !selected(name(j)) })
	if len(jobs) > 0 {
		testCompare(t, source, sim, jobs)
	}
}

func name(j lockstep.Job) string { return j.Route.Name + "/" + j.Policy.String() }

// testCompare holds a simulator to a source at every step of all jobs, in a subtest
// for each.
func testCompare(t *testing.T, want parity.Source, sim lockstep.Simulator, jobs []lockstep.Job) {
	report, err := tinyphysics.Compare(t.Context(), want, tinyphysics.Live(sim), jobs, lockstep.AllSteps, parity.CompareOptions{
		Replay: func(task *parity.Task) string {
			return fmt.Sprintf("LOCKSTEP_ONLY=%s go test ./parity -run '^%s$'", task.Name(), strings.ReplaceAll(t.Name(), "/", "$/^"))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if len(report.Rollouts) != len(jobs) {
		t.Fatalf("%d rollouts, want %d", len(report.Rollouts), len(jobs))
	}
	for i, v := range report.Rollouts {
		t.Run(v.Name(), func(t *testing.T) {
			if n := jobs[i].Route.Len() - lockstep.ContextLength; v.Steps != n {
				t.Errorf("%d steps were compared, the route has %d", v.Steps, n)
			}
			if !v.Equal || v.WantHash != v.GotHash {
				t.Errorf("%d findings, the first %+v; hashes %016x and %016x", v.Findings, v.First, uint64(v.WantHash), uint64(v.GotHash))
			}
		})
	}
	for _, g := range tinyphysics.Schema(0).Stages {
		if stage := g.Name; report.Compared[stage] != report.Steps {
			t.Errorf("stage %s was compared at %d of %d steps", stage, report.Compared[stage], report.Steps)
		}
	}
}

// selected tells whether a rollout takes part: all do, unless the environment
// variable LOCKSTEP_ONLY names one, as the command that replays it does.
func selected(name string) bool {
	only := os.Getenv("LOCKSTEP_ONLY")
	return only == "" || only == name
}

// TestTrajectoryEngines holds the ONNX Runtime engine to the reference in whatever
// profile ONNX Runtime has on this machine: all stages of all steps.
func TestTrajectoryEngines(t *testing.T) {
	model := assetstest.Model(t)
	b := newONNXRuntime(t, onnxruntime.Config{ModelPath: model, Profile: reference.HostProfile()})
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
	for _, r := range assetstest.RouteNames {
		route := assetstest.Route(t, r, b.Profile())
		for _, policy := range []lockstep.Policy{lockstep.Zero{}, lockstep.DefaultPID, lockstep.PID{P: 0.3, I: 0.05, D: -0.1}, lockstep.PID{P: 2, I: 0.3, D: 0.5}} {
			if job := (lockstep.Job{Route: route, Policy: policy}); selected(name(job)) {
				jobs = append(jobs, job)
			}
		}
	}
	testCompare(t, tinyphysics.Live(ref), b, jobs)
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
	test := func(t *testing.T, sim lockstep.Simulator) {
		var jobs []lockstep.Job
		for _, row := range rows[1:] {
			if row[0] != "pid(p=0.3 i=0.05 d=-0.1)" {
				t.Fatalf("controller %q is not known", row[0])
			}
			jobs = append(jobs, lockstep.Job{Route: assetstest.Route(t, row[1], sim.Profile()), Policy: lockstep.PID{P: 0.3, I: 0.05, D: -0.1}})
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
	}
	for _, profile := range testProfiles() {
		t.Run(profile.String(), func(t *testing.T) {
			sim, err := reference.New(model, profile)
			if err != nil {
				t.Fatal(err)
			}
			test(t, sim)
		})
	}
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			sim := e.open(t, model, reference.HostProfile(), 0, 0)
			if sim == nil {
				t.SkipNow() // the reason is logged
			}
			test(t, sim)
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
