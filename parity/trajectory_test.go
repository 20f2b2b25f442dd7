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
	"testing"

	"lockstep"
	"lockstep/golden"
	"lockstep/internal/assets"
	"lockstep/internal/assets/assetstest"
	"lockstep/reference"
)

const goldenRoot = "../golden/testdata"

// TestTrajectory holds every implementation to every recording of the Python
// program: all stages of all steps, and the costs, bit by bit.
func TestTrajectory(t *testing.T) {
	model := assetstest.Model(t)
	sets, err := golden.Sets(goldenRoot)
	if err != nil {
		t.Fatal(err)
	}
	recordings := 0
	for _, set := range sets {
		t.Run(set.Profile.String(), func(t *testing.T) {
			if got := fileSHA256(t, model); got != set.ModelSHA256 {
				t.Fatalf("%s has SHA-256 %s, the recordings were made with %s", model, got, set.ModelSHA256)
			}
			sim, err := reference.New(model, set.Profile)
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range set.Recordings {
				recordings++
				t.Run(entry.Route+"/"+entry.Name, func(t *testing.T) { testRecording(t, sim, set, entry) })
			}
		})
	}
	if recordings < 18 {
		t.Errorf("%d recordings under %s, want 18 or more", recordings, goldenRoot)
	}
}

func testRecording(t *testing.T, sim lockstep.Simulator, set *golden.Set, entry golden.Entry) {
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
		t.Errorf("seed %d, want %d", route.Seed, entry.Seed)
	}
	for i, hash := range golden.HashRoute(route) {
		if hash != recording.RouteHash[i] {
			t.Fatalf("route column %s differs from what Python loaded", golden.RouteColumns[i])
		}
	}
	policy, err := entry.Policy()
	if err != nil {
		t.Fatal(err)
	}

	checker := NewChecker(recording)
	job := lockstep.Job{Route: route, Policy: policy, Observe: checker.Observe}
	for _, result := range sim.Simulate(context.Background(), []lockstep.Job{job}, lockstep.Options{Shortcuts: lockstep.AllSteps}) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		checker.Costs(result.Costs)
	}
	if d := checker.Divergence(); d != nil {
		d.Replay = fmt.Sprintf("go test ./parity -run '^%s$'", t.Name())
		t.Errorf("%s in profile %s: %v", sim.Name(), sim.Profile(), d)
	}
	if checker.Steps() != recording.Steps() {
		t.Errorf("%d steps ran, %d are recorded", checker.Steps(), recording.Steps())
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
