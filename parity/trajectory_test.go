package parity_test

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockstep"
	"lockstep/engines"
	"lockstep/golden"
	"lockstep/internal/assets"
	"lockstep/internal/assets/assetstest"
	"lockstep/internal/defaults"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
	"lockstep/parity"
	"lockstep/parity/branches"
	"lockstep/parity/tinyphysics"
	"lockstep/reference"
	"lockstep/routefile"
)

const goldenRoot = "../golden/testdata"

// committed is how many recordings each set has, from golden/testdata: one that gets
// lost, or is not listed, is noticed.
var committed = map[string]int{
	"default/ort1.30-avx2-expU-sinfma-csv2":        8,
	"default/ort1.30arm-neon-expC-sinfma-csvexact": 2,
	"default/ort1.30-avx512-expU-sinfma-csv2":      8,
	"hard/ort1.30-avx2-expU-sinfma-csv2":           4,
	"hard/ort1.30-avx512-expU-sinfma-csv2":         4,
	"hard/ort1.30arm-neon-expC-sinfma-csvexact":    4,
	"ort1.23-avx2-expU-sinfma-csv2":                2,
	"ort1.27-avx2-expU-sinfma-csv2":                2,
	"ort1.30-avx2-expU-sinfma-csv2":                18,
	"ort1.30-avx2-expU-sinfma-csvexact":            2,
	"ort1.30-avx512-expU-sinfma-csv2":              7,
	"ort1.30arm-neon-expC-sinfma-csvexact":         1,
}

// everything reports whether neither -run nor LOCKSTEP_ONLY leaves a part out.
func everything() bool {
	return os.Getenv("LOCKSTEP_ONLY") == "" &&
		!strings.Contains(flag.Lookup("test.run").Value.String(), "/")
}

// unlisted finds recordings in folders that are not in committed.
func unlisted(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".npz" || filepath.Dir(path) == root {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err == nil && committed[filepath.ToSlash(dir)] == 0 {
			err = fmt.Errorf("%s is in a set that is not listed", path)
		}
		return err
	})
}

// testSet holds a simulator to all of a set's recordings, or to two of them, and returns to how
// many. It enters into taken the branches of the specification that they go through.
func testSet(
	t *testing.T, sim lockstep.Simulator, set *golden.Set, model, routes string, two bool,
	taken map[string]bool,
) int {
	if got := fileSHA256(t, model); got != set.ModelSHA256 {
		t.Fatalf("%s has SHA-256 %s, the recordings were made with %s", model, got, set.ModelSHA256)
	}
	source, err := tinyphysics.Golden(set)
	if err != nil {
		t.Fatal(err)
	}
	entries, rows := map[string]golden.Entry{}, map[string]int{}
	for _, entry := range set.Recordings {
		if !selected(entry.Route + "/" + entry.Name) {
			continue
		}
		entries[entry.Route], rows[entry.Route+"/"+entry.Name] = entry, entry.Rows
		file := filepath.Join(set.Dir, entry.File)
		if got := fileSHA256(t, file); got != entry.SHA256 {
			t.Fatalf("%s has SHA-256 %s, its provenance says %s", file, got, entry.SHA256)
		}
	}
	jobs, err := tinyphysics.GoldenJobs(set, func(name string) (*lockstep.Route, error) {
		path := filepath.Join(routes, name+".csv")
		if entry, ok := entries[name]; ok {
			if got := fileSHA256(t, path); got != entry.RouteCSV {
				t.Fatalf(
					"%s has SHA-256 %s, the recording was made of %s", path, got, entry.RouteCSV,
				)
			}
		}
		return routefile.Loader{Profile: set.Profile}.Load(path)
	})
	if err != nil {
		t.Fatal(err)
	}
	jobs = slices.DeleteFunc(jobs, func(j lockstep.Job) bool { return !selected(name(j)) })
	if len(jobs) != len(rows) {
		t.Fatalf("%d rollouts, want the %d of the provenance", len(jobs), len(rows))
	}
	if n := len(jobs); two && n > 2 {
		jobs = []lockstep.Job{jobs[0], jobs[n/2]}
	}
	for _, j := range jobs {
		if rows[name(j)] != j.Route.Len() {
			t.Errorf(
				"%s has %d rows, its provenance says %d", name(j), j.Route.Len(), rows[name(j)],
			)
		}
	}
	if len(jobs) > 0 {
		for _, b := range testCompare(t, source, sim, jobs).Exercised.Branches {
			taken[b.Name] = taken[b.Name] || b.Times > 0
		}
	}
	return len(jobs)
}

func name(j lockstep.Job) string { return j.Route.Name + "/" + j.Policy.String() }

// testCompare holds a simulator to a source at every step of all jobs, in a subtest
// for each.
func testCompare(
	t *testing.T, want parity.Side, sim lockstep.Simulator, jobs []lockstep.Job,
) *parity.Report {
	report, err := tinyphysics.Compare(
		t.Context(), want, tinyphysics.Live(sim), jobs, lockstep.AllSteps,
		parity.CompareOptions{
			Replay: func(task *parity.RolloutTask) string {
				return fmt.Sprintf(
					"LOCKSTEP_ONLY=%s go test ./parity -run '^%s$'", task.Name(),
					strings.ReplaceAll(t.Name(), "/", "$/^"),
				)
			},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if len(report.Rollouts) != len(jobs) {
		t.Fatalf("%d rollouts, want %d", len(report.Rollouts), len(jobs))
	}
	steps := 0
	for i, v := range report.Rollouts {
		steps += jobs[i].Route.Len() - lockstep.ContextLength
		t.Run(v.Name(), func(t *testing.T) {
			if n := jobs[i].Route.Len() - lockstep.ContextLength; v.Steps != n {
				t.Errorf("%d steps were compared, the route has %d", v.Steps, n)
			}
			if !v.Equal || v.WantHash != v.GotHash {
				t.Errorf(
					"%d findings, the first %+v; hashes %016x and %016x", v.Findings, v.First,
					uint64(v.WantHash), uint64(v.GotHash),
				)
			}
		})
	}
	names := tinyphysics.Schema(0).Required()
	for _, stage := range names[:len(names)-1] {
		if report.Compared[stage] != steps || report.Steps != steps {
			t.Errorf(
				"stage %s was compared at %d of %d steps, want %d", stage, report.Compared[stage],
				report.Steps, steps,
			)
		}
	}
	if report.Compared[tinyphysics.Costs] != len(jobs) {
		t.Errorf(
			"costs were compared for %d of %d rollouts", report.Compared[tinyphysics.Costs],
			len(jobs),
		)
	}
	return report
}

// selected tells whether a rollout takes part: all do, unless the environment
// variable LOCKSTEP_ONLY names one, as the command that replays it does.
func selected(name string) bool {
	only := os.Getenv("LOCKSTEP_ONLY")
	return only == "" || only == name
}

// TestTrajectoryEngines holds the engines whose arithmetic is their machine's to the
// reference in whatever profile that is here: all stages of all steps, of the official
// network or, where that is absent, of the project's own.
func TestTrajectoryEngines(t *testing.T) {
	model, routes, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"g00000", "g00001", "g00003", "g00004"}
	if _, err := want.Assets.Find(); err == nil {
		model, routes, names = assetstest.Model(t), assetstest.Find(t, assets.Routes),
			assetstest.RouteNames
	}
	for _, e := range engines.Others() {
		if !e.ByLibrary {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			sim := e.ForTest(t, engines.Config{Model: model, Profile: reference.HostProfile()})
			ref, err := reference.New(model, sim.Profile())
			if err != nil {
				t.Fatal(err)
			}
			var jobs []lockstep.Job
			for _, r := range names {
				route, err := routefile.Loader{
					Profile: sim.Profile(),
				}.Load(filepath.Join(routes, r+".csv"))
				if err != nil {
					t.Fatal(err)
				}
				for _, policy := range []lockstep.Policy{
					lockstep.Zero{}, lockstep.DefaultPID(), lockstep.PID{P: 0.3, I: 0.05, D: -0.1},
					lockstep.PID{P: 2, I: 0.3, D: 0.5},
				} {
					if job := (lockstep.Job{Route: route, Policy: policy}); selected(name(job)) {
						jobs = append(jobs, job)
					}
				}
			}
			testCompare(t, tinyphysics.Live(ref), sim, jobs)
		})
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
	test := func(t *testing.T, sim lockstep.Simulator) {
		var jobs []lockstep.Job
		for _, row := range rows[1:] {
			if row[0] != "pid(p=0.3 i=0.05 d=-0.1)" {
				t.Fatalf("controller %q is not known", row[0])
			}
			jobs = append(
				jobs,
				lockstep.Job{
					Route:  assetstest.Route(t, row[1], sim.Profile()),
					Policy: lockstep.PID{P: 0.3, I: 0.05, D: -0.1},
				},
			)
		}
		for i, result := range sim.Simulate(
			context.Background(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly},
		) {
			if result.Err != nil {
				t.Fatal(result.Err)
			}
			for j, cost := range []float64{
				result.Costs.Lataccel, result.Costs.Jerk, result.Costs.Total,
			} {
				if got, want := strconv.FormatFloat(cost, 'g', -1,
					64), rows[1+i][2+j]; got != want {
					t.Errorf(
						"route %s: %s is %s, published is %s", jobs[i].Route.Name, rows[0][2+j],
						got, want,
					)
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
	for _, e := range engines.Others() {
		t.Run(e.Name, func(t *testing.T) {
			test(
				t,
				e.ForTest(
					t,
					engines.Config{Model: model, Profile: reference.HostProfile(), Shuffled: true},
				),
			)
		})
	}
}

// testProfiles are profiles that have, together, every form of the network and of NumPy's
// exponential, with glibc's sine and pandas up to 2.x; of the x86-64 ones all, since they
// are of most machines.
func testProfiles() []lockstep.Profile {
	var profiles []lockstep.Profile
	for _, p := range lockstep.Profiles() {
		arm := 0
		for _, is := range []bool{
			p.LayerNorm == lockstep.LayerNorm130ARM, p.Softmax == lockstep.SoftmaxNEON,
			p.Exp == lockstep.ExpC,
		} {
			if is {
				arm++
			}
		}
		if p.CSV == lockstep.CSV2 && (arm == 0 || arm == 3) {
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

// TestTrajectory holds every engine to every recording of the Python program: all
// stages of all steps, and the costs, bit by bit. Without the official network those of
// the project's own are left; the last line says what was compared and what was not.
//
// Recordings with the project's own network go through every branch of the specification that
// the program itself can take with the policies of package controllers; TestTrajectoryHard
// goes through all.
//
// If a library of this machine does some of an engine's arithmetic, as ONNX Runtime does,
// the engine is compared with the recordings of that library's profile alone;
// TestTrajectoryEngines holds it to the reference in any case. The test fails if an
// engine can run here and was compared with no recording.
func TestTrajectory(t *testing.T) {
	ownModel, ownRoutes, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	whole := simtest.Whole(t)    // a slow engine's own tests have all of them
	compared := map[string]int{} // recordings, by engine
	taken := map[string]bool{}   // branches of the specification
	missing := 0
	for _, dir := range slices.Sorted(maps.Keys(committed)) {
		set := committedSet(t, dir)
		model, routes := ownModel, ownRoutes
		if beside := set.Routes(); beside != "" {
			routes = beside
		}
		if set.ModelSHA256 != defaults.ModelSHA256 {
			if _, err := want.Assets.Find(); err != nil {
				missing += selectedOf(set)
				t.Run(dir, func(t *testing.T) { want.Assets.Need(t) })
				continue
			}
			model, routes = assetstest.Model(t), assetstest.Find(t, assets.Routes)
		}
		t.Run(dir, func(t *testing.T) {
			for _, e := range engines.Checked() {
				if !e.Computes(set.Profile) {
					continue // TestLacks: it says so where it is asked for it
				}
				t.Run(e.Name, func(t *testing.T) {
					sim := e.ForTest(
						t, engines.Config{Model: model, Profile: set.Profile, Shuffled: true},
					)
					if e.ByLibrary && sim.Profile() != set.Profile {
						t.Skipf(
							"%s computes with profile %s on this machine", e.Name, sim.Profile(),
						)
					}
					compared[e.Name] += testSet(t, sim, set, model, routes, e.Slow && !whole, taken)
				})
			}
		})
	}
	if err := unlisted(goldenRoot); err != nil {
		t.Error(err)
	}
	holdBranches(t, taken)
	summarize(t, compared, missing)
}

// committedSet opens a set of recordings, which has as many as are committed.
func committedSet(t *testing.T, dir string) *golden.Set {
	t.Helper()
	set, err := golden.OpenSet(filepath.Join(goldenRoot, dir))
	if err != nil {
		t.Fatal(err)
	}
	if files, err := filepath.Glob(filepath.Join(set.Dir, "*.npz")); err != nil ||
		len(files) != committed[dir] ||
		len(set.Recordings) != committed[dir] {
		t.Errorf(
			"%s has %d files and its provenance names %d, want %d (%v)", set.Dir, len(files),
			len(set.Recordings), committed[dir], err,
		)
	}
	return set
}

// selectedOf counts the recordings of a set that LOCKSTEP_ONLY does not leave out.
func selectedOf(set *golden.Set) (n int) {
	for _, entry := range set.Recordings {
		if selected(entry.Route + "/" + entry.Name) {
			n++
		}
	}
	return n
}

// summarize says how many recordings engines were compared with, and how many were missing. It
// fails where an engine that is here was compared with none, and skips where all were missing.
func summarize(t *testing.T, compared map[string]int, missing int) {
	t.Helper()
	var parts []string
	all := 0
	for _, e := range engines.Checked() {
		all += compared[e.Name]
		parts = append(parts, fmt.Sprintf("%s %d", e.Name, compared[e.Name]))
		if here := e.Absent() == nil; here && compared[e.Name] == 0 && everything() {
			t.Errorf("engine %s is here, and was compared with no recording", e.Name)
		}
	}
	if only := os.Getenv("LOCKSTEP_ONLY"); only != "" && all+missing == 0 {
		t.Errorf("LOCKSTEP_ONLY=%s: no such recording was compared", only)
	}
	summary := fmt.Sprintf("recordings compared: %s", strings.Join(parts, ", "))
	if missing > 0 {
		summary += fmt.Sprintf("; %d official recordings were not", missing)
	}
	if all == 0 && missing > 0 {
		t.Skip(summary)
	}
	t.Log(summary)
}

// unrecorded are the branches that no recording here goes through. The program raises an error
// where it meets NaN, and draws as its seed says. Policies other than zero and pid are recorded
// in golden/policies.
var unrecorded = []int{
	branches.NaNRoll, branches.NaNSpeed, branches.NaNAcceleration, branches.NaNTarget,
	branches.NaNCommand, branches.Failure,
	branches.FirstToken, branches.LastToken, branches.GivenDraws, branches.DrawOnEdge,
	branches.DrawBelowEdge, branches.DrawAboveEdge,
	branches.ExpectedValue, branches.TaughtBefore, branches.TaughtAfter,
	branches.WholePlan, branches.CutPlan, branches.NoPlan,
	branches.PolicyPIDFF, branches.SlowPIDFF, branches.EmptyBand, branches.NetworkMean,
	branches.NetworkSampled, branches.NetworkChange, branches.PolicyTable, branches.TableOver,
	branches.PolicyCode, branches.PolicyBatch,
}

// TestTrajectoryHard holds every engine to the reference in rollouts that go through every
// branch of the specification: all stages of all steps.
func TestTrajectoryHard(t *testing.T) {
	model, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range engines.Others() {
		t.Run(e.Name, func(t *testing.T) {
			sim := e.ForTest(t, engines.Config{Model: model, Profile: reference.HostProfile()})
			ref, err := reference.New(model, sim.Profile())
			if err != nil {
				t.Fatal(err)
			}
			jobs, err := tinyphysics.Hard(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			report, err := tinyphysics.Compare(
				t.Context(), tinyphysics.Live(ref), tinyphysics.Live(sim), jobs,
				lockstep.AllSteps, parity.CompareOptions{},
			)
			if err != nil {
				t.Fatal(err)
			}
			if err := report.Err(); err != nil {
				t.Error(err)
			}
			if never := report.Exercised.Never(); len(never) > 0 {
				t.Errorf("no rollout goes through: %s", strings.Join(never, ", "))
			}
		})
	}
}

// holdBranches fails where the recordings, if none was left out, go through too little of the
// specification.
func holdBranches(t *testing.T, taken map[string]bool) {
	t.Helper()
	if !everything() {
		return
	}
	for i, b := range branches.TinyPhysics() {
		if !taken[b.Name] && !slices.Contains(unrecorded, i) {
			t.Errorf("no recording goes through: %s, %s", b.Name, b.Is)
		}
	}
}
