package defaults_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"lockstep"
	"lockstep/golden"
	"lockstep/internal/defaults"
	"lockstep/internal/generate"
	"lockstep/internal/model"
	"lockstep/internal/simtest"
	"lockstep/parity"
	"lockstep/parity/tinyphysics"
	"lockstep/reference"
	"lockstep/routefile"
)

// goldenRoot holds recordings of the Python program with this network.
const goldenRoot = "../../golden/testdata/default"

func TestModel(t *testing.T) {
	w, err := model.Parse(defaults.Model())
	if err != nil {
		t.Fatal(err)
	}
	if w.SHA256 != defaults.ModelSHA256 {
		t.Errorf("the network has SHA-256 %s, ModelSHA256 is %s", w.SHA256, defaults.ModelSHA256)
	}
	if w.SHA256 == model.OfficialSHA256 {
		t.Error("this is the challenge's own network, which is not ours to carry")
	}
	defaults.Model()[0]++
	if w, err := model.Parse(defaults.Model()); err != nil || w.SHA256 != defaults.ModelSHA256 {
		t.Error("Model does not return a copy")
	}
}

// TestRoutes holds the embedded routes to their generator.
func TestRoutes(t *testing.T) {
	names, err := fs.Glob(defaults.Routes(), "*")
	if err != nil || len(names) != defaults.NumRoutes {
		t.Fatalf("%d routes, %v; want %d", len(names), err, defaults.NumRoutes)
	}
	still, hard := 0, 0
	for i, name := range names {
		if name != generate.FileName(i) ||
			!bytes.Equal(text(t, name), generate.Route(defaults.RouteSeed, i)) {
			t.Errorf(
				"%s is not route %d of seed %d: lockstep generate --num_routes %d --seed %d "+
					"--out defaults/routes",
				name, i, defaults.RouteSeed, defaults.NumRoutes, defaults.RouteSeed,
			)
		}
		r := load(t, name, lockstep.Profile{})
		var slowest, sharpest = r.VEgo[0], 0.0
		for i, v := range r.VEgo {
			slowest = min(slowest, v)
			sharpest = max(sharpest, r.TargetLataccel[i], -r.TargetLataccel[i])
		}
		if slowest == 0 {
			still++
		}
		if sharpest > 3 {
			hard++
		}
	}
	if still < 2 || hard < 3 {
		t.Errorf(
			"%d routes stand still, %d corner with more than 3 m/s²; want 2 and 3", still, hard,
		)
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	modelPath, routesPath, err := defaults.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(modelPath)
	if err := errors.Join(err, simtest.Same("the network", data, defaults.Model())); err != nil {
		t.Errorf("%s: %v", modelPath, err)
	}
	routes, err := routefile.List(routesPath, -1)
	if err != nil || len(routes) != defaults.NumRoutes {
		t.Fatalf("%d routes, %v; want %d", len(routes), err, defaults.NumRoutes)
	}
	for _, path := range routes {
		if data, err := os.ReadFile(path); err != nil ||
			!bytes.Equal(data, text(t, filepath.Base(path))) {
			t.Errorf("%s does not hold its route: %v", path, err)
		}
	}

	before, err := os.Stat(modelPath)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(routes[3], []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := defaults.Write(dir); err != nil {
		t.Fatal(err)
	}
	data, err = os.ReadFile(routes[3])
	want := text(t, filepath.Base(routes[3]))
	if err := errors.Join(err, simtest.Same("a damaged route", data, want)); err != nil {
		t.Error(err)
	}
	if after, err := os.Stat(modelPath); err != nil || !os.SameFile(before, after) {
		t.Error("a good file was written anew")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("%d entries in the folder, want the network and the routes", len(entries))
	}

	refusesForeign(t, dir, routesPath)
	if _, _, err := defaults.Write(modelPath); err == nil {
		t.Error("a file as folder: no error")
	}
}

// refusesForeign: a route that is not one of the default ones would be taken for one.
func refusesForeign(t *testing.T, dir, routesPath string) {
	t.Helper()
	// before the others, and behind
	for _, name := range []string{"00000.csv", "zzzzz.csv", "z.CSV"} {
		foreign := filepath.Join(routesPath, name)
		if err := os.WriteFile(foreign, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, _, err := defaults.Write(dir); err == nil || !strings.Contains(err.Error(), foreign) {
			t.Errorf("another route among them: %v", err)
		}
		if err := os.Remove(foreign); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKeep: both are kept in the cache folder; where nothing can be, it is said what to set.
func TestKeep(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	model, routes, err := defaults.Keep()
	if err != nil || filepath.Dir(model) != filepath.Join(cache, "lockstep", "defaults") {
		t.Errorf("kept %s and %s, %v", model, routes, err)
	}
	for _, path := range []string{model, routes} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	t.Setenv("XDG_CACHE_HOME", model)
	const want = "the project's own network and routes: "
	if a, b, err := defaults.Keep(); err == nil || !strings.HasPrefix(err.Error(), want) ||
		!strings.Contains(err.Error(), "set HOME") || a+b != "" {
		t.Errorf("kept %s and %s in a file: %v", a, b, err)
	}
}

// TestRecordings holds the reference to recordings of the Python program with
// the embedded network and routes: all stages of all steps, and the costs, bit by
// bit. No asset of others is needed.
func TestRecordings(t *testing.T) {
	sets, err := golden.Sets(goldenRoot)
	if err != nil {
		t.Fatal(err)
	}
	recordings := 0
	for _, set := range sets {
		if set.ModelSHA256 != defaults.ModelSHA256 {
			t.Fatalf(
				"%s was recorded with a network of SHA-256 %s, the embedded one has %s: record "+
					"it anew, as golden/default_model/README.md says",
				set.Dir, set.ModelSHA256, defaults.ModelSHA256,
			)
		}
		sim := simulator(t, set.Profile)
		for _, entry := range set.Recordings {
			recordings++
			t.Run(
				set.Profile.String()+"/"+entry.Route+"/"+entry.Name,
				func(t *testing.T) { testRecording(t, sim, set, entry) },
			)
		}
	}
	if recordings < 8 {
		t.Errorf("%d recordings under %s, want 8 or more", recordings, goldenRoot)
	}
}

func testRecording(t *testing.T, sim lockstep.Simulator, set *golden.Set, entry golden.Entry) {
	file := filepath.Join(set.Dir, entry.File)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := sha(data); got != entry.SHA256 {
		t.Fatalf("%s has SHA-256 %s, its provenance says %s", file, got, entry.SHA256)
	}
	recording, err := set.Read(entry)
	if err != nil {
		t.Fatal(err)
	}
	name := entry.Route + ".csv"
	if got := sha(text(t, name)); got != entry.RouteCSV {
		t.Fatalf(
			"the embedded %s has SHA-256 %s, the recording was made of %s", name, got,
			entry.RouteCSV,
		)
	}
	route := load(t, name, set.Profile)
	if route.Seed != entry.Seed {
		t.Errorf("seed %d, want %d", route.Seed, entry.Seed)
	}
	for i, hash := range golden.HashRoute(route) {
		if hash != recording.RouteHash[i] {
			t.Fatalf("route column %s differs from what Python loaded", golden.RouteColumns()[i])
		}
	}
	policy, err := entry.Policy()
	if err != nil {
		t.Fatal(err)
	}
	one := *set
	one.Recordings = []golden.Entry{entry}
	source, err := tinyphysics.Golden(&one)
	if err != nil {
		t.Fatal(err)
	}
	report, err := tinyphysics.Compare(
		t.Context(), source, tinyphysics.Live(sim), []lockstep.Job{{Route: route, Policy: policy}},
		lockstep.AllSteps,
		parity.CompareOptions{
			Replay: func(*parity.RolloutTask) string {
				return fmt.Sprintf("go test ./defaults -run '^%s$'", t.Name())
			},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Err(); err != nil || report.Steps != recording.Steps() {
		t.Errorf(
			"%s in profile %s: %d steps were compared, %d are recorded: %v", sim.Name(),
			sim.Profile(), report.Steps, recording.Steps(), err,
		)
	}
}

// TestDrives asks whether the network behaves like a car: on generated routes,
// none of them embedded, the PID's mean total cost is at most a third of the zero
// controller's.
func TestDrives(t *testing.T) {
	n := 16
	if simtest.Whole(t) {
		n = 50
	}
	const seed = 1
	sim := simulator(t, lockstep.Profile{})
	zero, pid := make([]lockstep.Costs, n), make([]lockstep.Costs, n)
	each(n, func(i int) {
		r := read(t, generate.FileName(i), generate.Route(seed, i), sim.Profile())
		zero[i] = run(
			t, sim, lockstep.Job{Route: r, Policy: lockstep.Zero{}},
			lockstep.Options{Shortcuts: lockstep.CostOnly},
		).Costs
		pid[i] = run(
			t, sim, lockstep.Job{Route: r, Policy: lockstep.DefaultPID()},
			lockstep.Options{Shortcuts: lockstep.CostOnly},
		).Costs
	})
	var meanZero, meanPID lockstep.Costs
	for i := range n {
		add(&meanZero, zero[i], n)
		add(&meanPID, pid[i], n)
	}
	t.Logf(
		"mean of %d routes: zero %.1f (lataccel %.2f, jerk %.1f), pid %.1f (lataccel %.2f, jerk "+
			"%.1f), ratio %.3f",
		n, meanZero.Total, meanZero.Lataccel, meanZero.Jerk, meanPID.Total, meanPID.Lataccel,
		meanPID.Jerk, meanPID.Total/meanZero.Total,
	)
	if !(meanPID.Total <= meanZero.Total/3) {
		t.Errorf(
			"the PID costs %.1f, zero %.1f; want at most a third", meanPID.Total, meanZero.Total,
		)
	}
}

func add(sum *lockstep.Costs, c lockstep.Costs, n int) {
	sum.Lataccel += c.Lataccel / float64(n)
	sum.Jerk += c.Jerk / float64(n)
	sum.Total += c.Total / float64(n)
}

// TestWarmUp asks whether the recorded steer commands belong to the recorded
// lateral accelerations: before control starts the network predicts the latter
// from the former, and no longer does when right and left are exchanged.
func TestWarmUp(t *testing.T) {
	sim := simulator(t, lockstep.Profile{})
	var sums [2]float64
	n := 0
	for i := range defaults.NumRoutes {
		r := load(t, generate.FileName(i), sim.Profile())
		end := lockstep.MinRows
		for side, sign := range []float64{1, -1} {
			short := &lockstep.Route{
				Name: r.Name, Seed: r.Seed, RollLataccel: r.RollLataccel[:end],
				VEgo: r.VEgo[:end], AEgo: r.AEgo[:end],
				TargetLataccel: r.TargetLataccel[:end],
			}
			for _, steer := range r.SteerCommand[:end] {
				short.SteerCommand = append(short.SteerCommand, sign*steer)
			}
			run(
				t, sim,
				lockstep.Job{
					Route:  short,
					Policy: lockstep.Zero{},
					Observe: func(s *lockstep.Step) {
						if s.Index < lockstep.ControlStartIdx {
							d := s.Prediction - r.TargetLataccel[s.Index]
							sums[side] += d * d
							n += 1 - side
						}
					},
				},
				lockstep.Options{Shortcuts: lockstep.AllSteps},
			)
		}
	}
	right, wrong := math.Sqrt(sums[0]/float64(n)), math.Sqrt(sums[1]/float64(n))
	t.Logf(
		"root mean square error of %d predictions: %.4f m/s², with right and left exchanged %.4f",
		n, right, wrong,
	)
	if n != defaults.NumRoutes*(lockstep.ControlStartIdx-lockstep.ContextLength) || right > 0.07 ||
		wrong < 2*right {
		t.Error("want at most 0.07, and at least twice as much with right and left exchanged")
	}
}

// TestStepResponse steps the steer command and looks at the mean response of many
// rollouts: the lateral acceleration rises with a lag, without much overshoot,
// to what the simulated car does; right is right; a standing car does not turn.
func TestStepResponse(t *testing.T) {
	const before, after, rollouts = 10, 30, 48
	sim := simulator(t, lockstep.Profile{})
	for _, c := range []struct {
		speed, command float64
		final          float64 // m/s², of the simulated car
	}{
		{30, 0.5, 0.990},
		{30, -0.5, -0.990},
		{20, 1, 1.900},
		{10, 0.5, 0.793},
		{0, 1, 0},
	} {
		t.Run(fmt.Sprintf("%g at %g m/s", c.command, c.speed), func(t *testing.T) {
			responses := make([][]float64, rollouts)
			each(rollouts, func(k int) {
				n := lockstep.ControlStartIdx + before + after
				r := &lockstep.Route{
					Name:           fmt.Sprint(k),
					Seed:           uint32(k),
					RollLataccel:   make([]float64, n),
					VEgo:           make([]float64, n),
					AEgo:           make([]float64, n),
					TargetLataccel: make([]float64, n),
					SteerCommand:   make([]float64, n),
				}
				for i := range n {
					r.VEgo[i] = c.speed
				}
				policy := lockstep.Custom{Name: "step", New: func() lockstep.Controller {
					return &stepController{
						at:      lockstep.ControlStartIdx + before,
						command: c.command,
						step:    lockstep.ContextLength,
					}
				}}
				result := run(
					t, sim, lockstep.Job{Route: r, Policy: policy},
					lockstep.Options{Shortcuts: lockstep.FullTrajectory, Trajectory: true},
				)
				responses[k] = result.Trajectory.Lataccel[lockstep.ControlStartIdx:]
			})
			response := make([]float64, before+after)
			for _, r := range responses {
				for i, x := range r {
					response[i] += x / rollouts
				}
			}
			t.Logf("%.2f", response)

			if c.final == 0 {
				for i, x := range response {
					if x < -0.03 || x > 0.03 {
						t.Errorf("step %d: %.3f m/s² at standstill", i, x)
					}
				}
				return
			}
			part := func(i int) float64 { return response[before+i] / c.final }
			for i := range before {
				if x := response[i] / c.final; x < -0.1 || x > 0.1 {
					t.Errorf("%d steps before: %.2f of the final value", before-i, x)
				}
			}
			if x := part(0); x > 0.15 {
				t.Errorf("in the step itself: %.2f of the final value, want a delay", x)
			}
			if x := part(1); x > 0.6 {
				t.Errorf("after 0.1 s: %.2f of the final value, want a lag", x)
			}
			for i := range 5 {
				if part(i) < 0.8 && part(i+1) < part(i) {
					t.Errorf(
						"falls from %.2f to %.2f of the final value after %.1f s", part(i),
						part(i+1), float64(i)/lockstep.FPS,
					)
				}
			}
			for i := 15; i < after; i++ {
				if x := part(i); x < 0.8 || x > 1.2 {
					t.Errorf("after %.1f s: %.2f of the final value", float64(i)/lockstep.FPS, x)
				}
			}
		})
	}
}

// stepController answers 0 before a step and a command from it on.
type stepController struct {
	at, step int
	command  float64
}

func (c *stepController) Update(float64, float64, lockstep.State, lockstep.FuturePlan) float64 {
	c.step++
	if c.step > c.at {
		return c.command
	}
	return 0
}

// each calls f for 0 to n-1 on all processors.
func each(n int, f func(i int)) {
	var wg sync.WaitGroup
	for worker := range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := worker; i < n; i += runtime.GOMAXPROCS(0) {
				f(i)
			}
		})
	}
	wg.Wait()
}

func simulator(t *testing.T, profile lockstep.Profile) lockstep.Simulator {
	t.Helper()
	modelPath, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sim, err := reference.New(modelPath, profile)
	if err != nil {
		t.Fatal(err)
	}
	return sim
}

// run simulates one job. It may be called from any goroutine.
func run(
	t *testing.T, sim lockstep.Simulator, job lockstep.Job, opts lockstep.Options,
) (result lockstep.Result) {
	for _, result = range sim.Simulate(context.Background(), []lockstep.Job{job}, opts) {
		if result.Err != nil {
			t.Error(result.Err)
		}
	}
	return result
}

func text(t *testing.T, name string) []byte {
	t.Helper()
	data, err := fs.ReadFile(defaults.Routes(), name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func load(t *testing.T, name string, profile lockstep.Profile) *lockstep.Route {
	t.Helper()
	return read(t, name, text(t, name), profile)
}

func read(t *testing.T, name string, text []byte, profile lockstep.Profile) *lockstep.Route {
	r, err := routefile.Loader{Profile: profile}.Read(bytes.NewReader(text), name)
	if err != nil {
		t.Error(err)
		runtime.Goexit()
	}
	return r
}

func sha(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
