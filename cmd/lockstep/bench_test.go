package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockstep"
	"lockstep/classic"
	"lockstep/engines"
	"lockstep/internal/defaults"
	"lockstep/reference"
)

// timed is an engine that says how long its network took.
type timed struct{ lockstep.Implementation }

func (timed) Name() string { return "timed" }

func (t timed) About() lockstep.About {
	about := t.Implementation.About()
	about.NetworkTime = func() time.Duration { return time.Hour }
	return about
}

// TestBenchEntered: which routes and gains are measured, by whom, on how many cores, and how many
// rollouts of each.
func TestBenchEntered(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.csv", "b.csv"} {
		shortRoute(t, filepath.Join(dir, name), 101, nil)
	}
	model, _, err := defaults.Keep()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	env := &environment{ctx: t.Context(), stdout: &stickyWriter{w: io.Discard}, stderr: &said}
	b := &bench{env: env, Machine: machine{
		Cores: 3, Engines: map[string]string{}, Profile: reference.HostProfile(),
	}}
	if err := b.load(dir, 9); err != nil {
		t.Fatal(err)
	}
	for i, job := range b.jobs {
		gains := lockstep.DefaultPID()
		gains.P += []float64{0, 0.001, 0.002, 0.003, 0.004}[i/2]
		if job.Policy != lockstep.Policy(gains) || job.Route.Name != []string{"a", "b"}[i%2] {
			t.Errorf("job %d is %v of %s, want %v", i, job.Policy, job.Route.Name, gains)
		}
	}
	list := testEngines("equal")
	measured, broken := list[0], list[0]
	measured.Name, broken.Name = "timed", "broken"
	measured.New = func(c engines.Config) (lockstep.Implementation, error) {
		s, err := reference.New(c.Model, c.Profile)
		return timed{s}, err
	}
	broken.New = func(engines.Config) (lockstep.Implementation, error) {
		return nil, errors.New("it does not open")
	}
	t.Cleanup(engines.Replace(append(list, broken, measured)))
	if err := b.enterEngines(engines.Config{
		Model: model, Profile: b.Machine.Profile,
	}); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, k := range b.Rows {
		rows = append(rows, fmt.Sprintf("%s: %d, %d, %v", k.Name, k.Cores, k.jobs, k.network()))
	}
	if want := []string{
		"reference: 1, 8, 0s", "ONNX Runtime, naive batch: 1, 9, 0s", "twin: 1, 9, 0s",
		"timed: 1, 9, 1h0m0s", "timed, 3 cores: 3, 9, 1h0m0s",
	}; !slices.Equal(rows, want) {
		t.Errorf("%q, want %q", rows, want)
	}
	if want := "lockstep: the engine broken is not measured: it does not open\n"; said.String() !=
		want || b.Machine.Engines["twin"] != "a fault" || len(b.truth) != len(b.jobs) {
		t.Errorf("%s %v, want %s", &said, b.Machine.Engines, want)
	}
	t.Cleanup(engines.Replace([]engines.Engine{broken}))
	b.truth = nil
	if err := b.enterEngines(engines.Config{}); err == nil {
		t.Error("nothing is said of a reference that does not open")
	}
	for _, end := range env.ends {
		end()
	}
	if n := plantedOpen.Load(); n != 0 {
		t.Errorf("%d engines are open", n)
	}
}

// TestBenchPython: the Python program has the same routes and gains as the engines, in their order.
func TestBenchPython(t *testing.T) {
	b := &bench{files: []string{"a", "b"}}
	for i := range 3 {
		b.jobs = append(b.jobs, lockstep.Job{Policy: lockstep.PID{P: float64(i)}})
	}
	run := b.inPython(func(file string, p lockstep.Policy) (
		took time.Duration, c lockstep.Costs, err error,
	) {
		if c.Total = p.(lockstep.PID).P; file == "b" {
			c.Jerk = 7
		}
		if c.Total == 2 && len(b.jobs) == 2 {
			err = io.EOF
		}
		return 0, c, err
	})
	costs, err := run(b.jobs)
	if want := []lockstep.Costs{{}, {Total: 1, Jerk: 7}, {Total: 2}}; err != nil ||
		!slices.Equal(costs, want) {
		t.Errorf("%+v, %v; want %+v", costs, err, want)
	}
	b.jobs = b.jobs[1:]
	b.files = b.files[1:]
	if _, err := run(b.jobs); !errors.Is(err, io.EOF) {
		t.Errorf("one fails, and the error is %v", err)
	}
}

// TestBenchPeak: probes are made at every 16th step of a controller, 50 at a time; what they take
// is taken off the run's time, and they say how much of the peak the network's products are.
func TestBenchPeak(t *testing.T) {
	route := &lockstep.Route{Draws: make([]float64, 84)}
	for _, column := range route.Columns() {
		*column = make([]float64, 104)
	}
	synctest.Test(t, func(t *testing.T) { // in which a second is one
		b := &bench{
			env: &environment{ctx: t.Context()}, truth: make([]lockstep.Costs, 2),
			jobs: slices.Repeat(
				[]lockstep.Job{{Route: route, Policy: lockstep.DefaultPID()}}, 2),
			peak: func() int { time.Sleep(time.Millisecond); return networkFMA / 10 },
		}
		for _, steps := range []int{14, 15, 16, 32} {
			k := b.enter("prober", 2, 2, func(jobs []lockstep.Job) ([]lockstep.Costs, error) {
				time.Sleep(2 * time.Second)
				for _, job := range jobs {
					c := job.Policy.(lockstep.Custom).New()
					for range steps {
						c.Update(0, 0, lockstep.State{}, lockstep.FuturePlan{})
					}
				}
				return b.truth, nil
			})
			if err := b.measure(k); err != nil {
				t.Fatal(err)
			}
			probes := float64((steps/16 + (steps+1)/16) * 50) // the second is one step ahead
			spent := probes / 1000
			seconds := 2*(2+spent) - spent
			if want := 2 * 2 / seconds; k.rates[0] != want {
				t.Errorf("%d steps: %v rollouts a second, want %v", steps, k.rates[0], want)
			}
			// Of each route four steps cost, or are on the way to one that does. The share is a
			// figure for people, whose factors are multiplied in another order here.
			var want []float64
			if calls := 2 * (route.Len() - lockstep.ControlStartIdx); probes > 0 {
				want = []float64{float64(calls) / seconds / 100}
			}
			if len(k.peaks) != len(want) ||
				len(want) > 0 && math.Abs(k.peaks[0]/want[0]-1) > 1e-12 {
				t.Errorf("%d steps: %v of the peak, want %v", steps, k.peaks, want)
			}
		}
	})
	jobs := []lockstep.Job{{Policy: lockstep.DefaultPID()}}
	if got := (&gauge{}).jobs(jobs); &got[0] != &jobs[0] {
		t.Error("without kernels that have a peak something is probed")
	}
}

// TestBenchTable: what is printed of each contestant, and of those before it.
func TestBenchTable(t *testing.T) {
	var out strings.Builder
	one := func(x float64) *spread { return &spread{Median: x, Min: x / 2, Max: 2 * x} }
	b := &bench{
		env: &environment{ctx: t.Context(), stdout: &stickyWriter{w: &out}},
		Machine: machine{CPU: "abacus", Cores: 4, Go: "go1", Engines: map[string]string{
			engines.Names()[1]: "beads", engines.Names()[0]: "",
		}, Profile: reference.HostProfile()},
		Model: "m.onnx", Data: "routes",
		Rows: []*contestant{
			{Name: "a", Rate: one(10), Equal: 3, Rollouts: 3},
			{
				Name: "b", Rate: one(20), Equal: 1, Rollouts: 3, Peak: one(0.125), Inside: 0.75,
				Ratios: map[string]*spread{"a": one(2)},
			},
			{
				Name: "c", Rate: one(40), Equal: 3, Rollouts: 3, Peak: one(0.25),
				Ratios: map[string]*spread{"a": one(4), "b": one(2)},
			},
		},
	}
	b.print(&benchCommand{Jobs: 3, Repetitions: 5})
	want := "abacus, 4 cores; go1\n" + engines.Names()[1] + ": beads\n" +
		"network m.onnx, routes routes\nprofile " + reference.HostProfile().String() +
		"; 3 rollouts, 5 repetitions: median (least–greatest)\n\n" +
		"   routes/s    parity with the reference  × a      × b\n" +
		"a  10 (5–20)   equal, 3 of 3                       \n" +
		"b  20 (10–40)  DIFFERENT, 2 of 3          2 (1–4)  \n" +
		"c  40 (20–80)  equal, 3 of 3              4 (2–8)  2 (1–4)\n" +
		"\nb: 12.5 % (6.2–25.0) of its cores' peak of fused multiply-adds during the run; 75.0 % " +
		"of the time is inside the network" +
		"\nc: 25.0 % (12.5–50.0) of its cores' peak of fused multiply-adds during the run" +
		"\nwhere the rest goes: RATIONALE.md, Why a network of our own, and where the time goes\n"
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", &out, want)
	}
}

// TestBenchEnvSteps: environments are stepped together, at least once, and what they did is counted
// of all; the reference does a million steps at the most.
func TestBenchEnvSteps(t *testing.T) {
	env := &environment{ctx: t.Context()}
	task, err := classic.Make("Acrobot-v1", 8, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, steps := range []int64{640, 5e6} {
		b := &benchEnv{Steps: steps, Missing: map[string]string{}}
		if err := b.enterEngines(env, task); err != nil || len(b.Rows) < 2 {
			t.Fatalf("%d engines, %v", len(b.Rows), err)
		}
		for i, e := range b.Rows {
			want := steps
			if i == 0 {
				want = min(want, 1e6)
			}
			if e.most != want || !*e.Equal {
				t.Errorf("%s does %d of %d, want %d", e.Name, e.most, steps, want)
			}
			for asked, want := range map[int64]int64{640: 640, 647: 640, 3: 8} {
				if done, seconds, err := e.run(asked); err != nil || done != want || seconds <= 0 {
					t.Errorf("%s: %d steps in %v s, %v; want %d", e.Name, done, seconds, err, want)
				}
			}
		}
	}
	for _, end := range env.ends {
		end()
	}
}

// TestBenchSlowPython: of the contestants in Python those that are slow do fewer steps, and no
// contestant more than it was told.
func TestBenchSlowPython(t *testing.T) {
	most := map[string]int64{
		"Gymnasium, one environment": 20_000, "Gymnasium, SyncVectorEnv": 20_000,
		"PufferLib": 20_000, "Gymnasium, vector class": 1e6, "EnvPool": 1e6,
	}
	for _, steps := range []int64{1e6, 100} {
		b := &benchEnv{Steps: steps, Missing: map[string]string{}}
		p := &pythonSteps{}
		for name := range most {
			p.Contestants = append(p.Contestants, name)
			if !strings.Contains(benchScript, strconv.Quote(name)) {
				t.Errorf("no contestant is called %s", name)
			}
		}
		b.enterPython(p)
		for _, e := range b.Rows {
			if want := min(most[e.Name], steps); e.most != want || len(b.Rows) != len(most) {
				t.Errorf("%s does %d of %d steps, want %d", e.Name, e.most, steps, want)
			}
		}
	}
}
