package pycontroller

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep"
	"lockstep/internal/assets/assetstest"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
	"lockstep/reference"
)

// python returns a Python with numpy, or skips the test.
func python(t testing.TB) string {
	t.Helper()
	return want.Python.Need(t)
}

// write writes files, named by paths in a new folder, and returns the folder.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		simtest.Write(t, path, []byte(text), 0o666)
	}
	return dir
}

const preamble = `
import os, sys, time
import numpy as np
from . import BaseController
`

// source is a controller whose update has this body, with self.n the number of
// calls before.
func source(body string) string {
	return preamble + `
class Controller(BaseController):
    def __init__(self):
        self.n = -1
    def update(self, target_lataccel, current_lataccel, state, future_plan):
        self.n += 1
        ` + strings.ReplaceAll(strings.TrimSpace(body), "\n", "\n        ") + "\n"
}

// start makes controllers from Python text.
func start(t testing.TB, text string, change ...func(*Options)) *Controllers {
	t.Helper()
	options := Options{
		File:   filepath.Join(write(t, map[string]string{"c.py": text}), "c.py"),
		Stderr: &buffer{},
	}
	for _, f := range change {
		f(&options)
	}
	return open(t, options)
}

func open(t testing.TB, options Options) *Controllers {
	t.Helper()
	options.Python = python(t)
	c, err := New(context.Background(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// patiently runs a test of a time limit with longer and longer ones until it passes: what a
// busy machine needs longer for is no fault, and what is one stays one.
func patiently(t *testing.T, test func(t testing.TB, limit time.Duration)) {
	t.Helper()
	for limit := time.Second; ; limit *= 4 {
		attempt := &attempt{TB: t}
		var running sync.WaitGroup
		running.Go(func() { test(attempt, limit) })
		running.Wait()
		switch {
		case attempt.said.Len() == 0:
			return
		case limit > DefaultTimeout:
			t.Fatalf("with a limit of %v: %s", limit, &attempt.said)
		}
		t.Logf("again, since with a limit of %v: %s", limit, &attempt.said)
	}
}

// attempt keeps what a test says is wrong.
type attempt struct {
	testing.TB
	said strings.Builder
}

func (a *attempt) Error(args ...any)                 { fmt.Fprintln(&a.said, args...) }
func (a *attempt) Errorf(format string, args ...any) { fmt.Fprintf(&a.said, format+"\n", args...) }
func (a *attempt) Fatal(args ...any)                 { a.Error(args...); runtime.Goexit() }
func (a *attempt) Fatalf(format string, args ...any) { a.Errorf(format, args...); runtime.Goexit() }

// says waits until a controller has printed the text.
func says(t testing.TB, stderr *buffer, text string) {
	t.Helper()
	for begin := time.Now(); !strings.Contains(stderr.String(), text); time.Sleep(10 *
		time.Millisecond) {
		if time.Since(begin) > 2*DefaultTimeout {
			t.Fatalf("no %q in what the controller printed:\n%s", text, stderr)
		}
	}
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// testRoutes makes routes of smooth random columns; route i has rows - i%40 rows
// and v_ego i at step ContextLength.
func testRoutes(n, rows int) []*lockstep.Route {
	random := rand.New(rand.NewPCG(1, 2))
	routes := make([]*lockstep.Route, n)
	for i := range routes {
		r := &lockstep.Route{Name: fmt.Sprintf("%05d", i)}
		column := func() []float64 {
			x, values := random.NormFloat64(), make([]float64, rows-i%40)
			for k := range values {
				values[k] = x
				x += 0.1 * random.NormFloat64()
			}
			return values
		}
		r.RollLataccel, r.VEgo, r.AEgo, r.TargetLataccel, r.SteerCommand = column(), column(),
			column(), column(), column()
		r.VEgo[lockstep.ContextLength] = float64(i)
		routes[i] = r
	}
	return routes
}

// outcome is what a route's controller did: its answers, and the error that
// ended it.
type outcome struct {
	steer []float64
	err   error
	step  int // of the error
}

// drive steers routes in one chunk, as engines do. A simple lag takes the
// place of the simulation.
func drive(c *Controllers, routes []*lockstep.Route) ([]outcome, error) {
	controller, err := c.Policy().New(routes)
	if err != nil {
		return nil, err
	}
	defer controller.Close()
	outcomes := make([]outcome, len(routes))
	s := lockstep.NewBatchStep(len(routes))
	end := 0
	for i, r := range routes {
		s.Running[i] = true
		s.CurrentLataccel[i] = r.TargetLataccel[lockstep.ContextLength-1]
		end = max(end, r.Len())
	}
	for s.Step = lockstep.ContextLength; s.Step < end; s.Step++ {
		for i, r := range routes {
			s.Steer[i], s.Err[i] = math.NaN(), nil
			if s.Running[i] = s.Running[i] && s.Step < r.Len(); s.Running[i] {
				s.TargetLataccel[i], s.State[i], s.Plan[i] = r.TargetLataccel[s.Step],
					r.State(s.Step), r.FuturePlan(s.Step)
			}
		}
		if err := controller.Update(s); err != nil {
			return outcomes, err
		}
		for i := range routes {
			if !s.Running[i] {
				if s.Err[i] != nil {
					return outcomes, fmt.Errorf(
						"route %d was steered after its end: %w", i, s.Err[i],
					)
				}
				continue
			}
			if s.Err[i] != nil {
				outcomes[i].err, outcomes[i].step = s.Err[i], s.Step
				s.Running[i] = false
				continue
			}
			outcomes[i].steer = append(outcomes[i].steer, s.Steer[i])
			if steer := s.Steer[i]; s.Step >= lockstep.ControlStartIdx && !math.IsNaN(steer) {
				s.CurrentLataccel[i] += 0.2 * (min(max(steer, -2), 2) - s.CurrentLataccel[i])
			}
		}
	}
	return outcomes, controller.Close()
}

// mustDrive fails the test if a route fails.
func mustDrive(t testing.TB, c *Controllers, routes []*lockstep.Route) []outcome {
	t.Helper()
	outcomes, err := drive(c, routes)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range outcomes {
		if o.err != nil {
			t.Fatalf("route %d: step %d: %v", i, o.step, o.err)
		}
	}
	return outcomes
}

// equal reports whether two outcomes have the same bits.
func equal(a, b outcome) bool {
	if len(a.steer) != len(b.steer) {
		return false
	}
	for i := range a.steer {
		if math.Float64bits(a.steer[i]) != math.Float64bits(b.steer[i]) {
			return false
		}
	}
	return true
}

// contains fails the test unless an error says all of this.
func contains(t testing.TB, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", want)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error:\n%v\nwant in it: %q", err, w)
		}
	}
}

// TestUpstreamCosts holds costs to those that the unmodified Python program has
// with the same controllers. One of them raises an exception unless all it is
// given has the program's types, which was true there.
func TestUpstreamCosts(t *testing.T) {
	data, err := os.ReadFile("testdata/upstream.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Profile     lockstep.Profile
		Model       string            `json:"model_sha256"`
		Controllers map[string]string `json:"controllers_sha256"`
		Costs       map[string]map[string]map[string]struct{ Hex string }
	}
	if err := json.Unmarshal(data, &recorded); err != nil {
		t.Fatal(err)
	}
	for name, want := range recorded.Controllers {
		text, err := os.ReadFile("testdata/controllers/" + name + ".py")
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s.py is not the file that was recorded: run testdata/record.py", name)
		}
	}
	python(t)
	simulator, err := reference.New(assetstest.Model(t), recorded.Profile)
	if err != nil {
		t.Fatal(err)
	}
	for name, routes := range recorded.Costs {
		if len(routes) != len(assetstest.RouteNames) {
			t.Errorf(
				"%s: %d routes recorded, want %d", name, len(routes), len(assetstest.RouteNames),
			)
		}
		c := open(t, Options{File: "testdata/controllers/" + name + ".py"})
		if c.Policy().String() != name {
			t.Errorf("the policy is named %q, want %q", c.Policy(), name)
		}
		var jobs []lockstep.Job
		for _, route := range assetstest.RouteNames {
			jobs = append(
				jobs,
				lockstep.Job{
					Route:  assetstest.Route(t, route, recorded.Profile),
					Policy: c.Policy(),
				},
			)
		}
		for i, result := range simulator.Simulate(
			context.Background(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly},
		) {
			if result.Err != nil {
				t.Error(result.Err)
				continue
			}
			for cost, have := range map[string]float64{
				"lataccel_cost": result.Costs.Lataccel, "jerk_cost": result.Costs.Jerk,
				"total_cost": result.Costs.Total,
			} {
				want, err := strconv.ParseFloat(routes[jobs[i].Route.Name][cost].Hex, 64)
				if err != nil {
					t.Fatal(err)
				}
				if math.Float64bits(have) != math.Float64bits(want) {
					t.Errorf(
						"%s, route %s: %s %x, the Python program's is %x", name, jobs[i].Route.Name,
						cost, have, want,
					)
				}
			}
		}
	}
}

// TestChunks holds a route's answers to be the same bits however routes share
// processes, also for a controller with a seeded random module.
func TestChunks(t *testing.T) {
	python(t)
	preview, err := os.ReadFile("testdata/controllers/preview.py")
	if err != nil {
		t.Fatal(err)
	}
	seeded := `
import random
class Controller(BaseController):
    def __init__(self):
        random.seed(5)
        self.generator = np.random.default_rng(5)
    def update(self, target_lataccel, current_lataccel, state, future_plan):
        return 0.1 * random.gauss(0, 1) + 0.1 * self.generator.normal() + state.a_ego
`
	for name, text := range map[string]string{
		"preview": string(preview), "seeded": preamble + seeded,
		"seeded once": preamble + "import random\nrandom.seed(7)\n" + strings.Replace(seeded,
			"random.seed(5)", "pass", 1),
	} {
		t.Run(name, func(t *testing.T) {
			routes := testRoutes(130, 110)
			one := start(t, text, func(o *Options) { o.Workers = 1 })
			want := mustDrive(t, one, routes)
			if n := len(one.all); n != 1 {
				t.Errorf("%d processes, want 1", n)
			}
			many := start(t, text, func(o *Options) { o.Workers = 8 })
			have := mustDrive(t, many, routes)
			if n := len(many.all); n != 3 {
				t.Errorf("%d processes for %d routes, want 3", n, len(routes))
			}
			for i := range routes {
				if !equal(have[i], want[i]) {
					t.Errorf("route %d: other answers with more processes", i)
				}
			}
			for _, i := range []int{0, 7, 129} {
				if alone := mustDrive(t, one, routes[i:i+1]); !equal(alone[0], want[i]) {
					t.Errorf("route %d: other answers alone", i)
				}
			}
			if equal(want[0], want[1]) {
				t.Error("two routes have the same answers")
			}
		})
	}
}

// TestConcurrentChunks runs more chunks at once than there are workers, and two
// on one goroutine.
func TestConcurrentChunks(t *testing.T) {
	c := start(
		t, source("return 0.3 * (target_lataccel - current_lataccel)"),
		func(o *Options) { o.Workers = 1 },
	)
	routes := testRoutes(12, 130)
	want := mustDrive(t, c, routes)
	first, err := c.Policy().New(routes[:2])
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			have, err := drive(c, routes[3*i:3*i+3])
			if err != nil {
				t.Error(err)
				return
			}
			for k := range have {
				if !equal(have[k], want[3*i+k]) {
					t.Errorf("route %d: other answers", 3*i+k)
				}
			}
		})
	}
	group.Wait()
}

// TestWhere runs controllers from every kind of place.
func TestWhere(t *testing.T) {
	const returnsGain = "class Controller(BaseController):\n    def update(self, " +
		"target_lataccel, current_lataccel, state, future_plan):\n        return gain\n"
	for _, test := range []struct {
		name, file string
		files      map[string]string
		want       float64
	}{
		{"checkout", "controllers/foo.py", map[string]string{
			"controllers/__init__.py": "class BaseController:\n    gain = 0.5\n",
			"controllers/foo.py": "from . import BaseController\nfrom controllers.helper import " +
				"double\nimport tinyphysics\nimport os\ngain = double(BaseController.gain) + " +
				"float(open('data.txt').read()) + tinyphysics.CONTROL_START_IDX\n" + returnsGain,
			"controllers/helper.py": "def double(x): return 2 * x\n",
			"data.txt":              "0.25",
			"tinyphysics.py":        "CONTROL_START_IDX = 300\n",
		}, 301.25},
		{
			"controllers without __init__",
			"controllers/foo.py",
			map[string]string{
				"controllers/foo.py": "from controllers import BaseController\nfrom .helper " +
					"import double\ngain = double(float(open('data.txt').read()))\n" + returnsGain,
				"controllers/helper.py": "def double(x): return 2 * x\n",
				"data.txt":              "0.25",
			},
			0.5,
		},
		{
			"another package",
			"mine/foo.py",
			map[string]string{
				"mine/__init__.py": "",
				"mine/foo.py": "from controllers import BaseController\nfrom . import " +
					"helper\ngain = helper.gain\n" + returnsGain,
				"mine/helper.py": "gain = 0.75\n",
			},
			0.75,
		},
		{"alone", "my-foo.py", map[string]string{
			"my-foo.py": "import helper\nfrom . import BaseController\nfrom tinyphysics import " +
				"*\nfrom tinyphysics import State, FuturePlan\n" +
				"gain = helper.gain + float(open('data.txt').read()) + ACC_G + FPS + " +
				"COST_END_IDX + CONTEXT_LENGTH + VOCAB_SIZE + sum(LATACCEL_RANGE) + " +
				"STEER_RANGE[1] + MAX_ACC_DELTA + DEL_T + LAT_ACCEL_COST_MULTIPLIER + " +
				"FUTURE_PLAN_STEPS\n" +
				"class Controller(BaseController):\n    def update(self, target_lataccel, " +
				"current_lataccel, state, future_plan):\n        assert type(state) is " +
				"State and type(future_plan) is FuturePlan\n        return gain\n",
			"helper.py": "gain = 0.75\n",
			"data.txt":  "0.25",
			"random.py": "raise Exception('not the module that is meant')\n",
		}, 1667.4099999999999},
		{"state of the checkout", "controllers/foo.py", map[string]string{
			"controllers/__init__.py": "class BaseController: pass\n",
			"controllers/foo.py": "from . import BaseController\nfrom tinyphysics import " +
				"State\nclass Controller(BaseController):\n    def update(self, " +
				"target_lataccel, current_lataccel, state, future_plan):\n        return 1 " +
				"if isinstance(state, State) else 0\n",
			"tinyphysics.py": "from collections import namedtuple\nfrom controllers " +
				"import BaseController\nState = namedtuple('State', ['roll_lataccel', 'v_ego', " +
				"'a_ego'])\n",
		}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := write(t, test.files)
			t.Chdir(dir)
			c := open(t, Options{File: test.file, Stderr: &buffer{}})
			t.Chdir(filepath.Dir(dir))
			first, err := c.Policy().New(testRoutes(1, 110)) // what follows has another process
			if err != nil {
				t.Fatal(err)
			}
			defer first.Close()
			for _, o := range mustDrive(t, c, testRoutes(1, 110)) {
				if have := o.steer[len(o.steer)-1]; have != test.want {
					t.Errorf("steer %v, want %v", have, test.want)
				}
			}
		})
	}
}

// TestEdited: every process runs what New read, whenever it starts, from whichever place and
// whatever has become of the files by then; what came later is not imported.
func TestEdited(t *testing.T) {
	const body = "import inspect, sys\nclass Controller:\n    gain = helper.gain\n" +
		"    def update(self, target_lataccel, current_lataccel, state, future_plan):\n" +
		"        if state.v_ego == 1: from later import gain  # or from here\n" +
		"        if state.v_ego == 2: raise ValueError('boom')  # here\n" +
		"        assert inspect.getsource(sys.modules[__name__]).startswith(%q)\n" +
		"        return self.gain + %g\n"
	for name, place := range map[string]struct{ folder, begin string }{
		"alone":           {".", "import helper\n"},
		"another package": {"mine", "from . import helper\n"},
		"controllers, no init": {"controllers", "from .helper import gain\nfrom controllers " +
			"import helper\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := func(gain float64, begin string) map[string]string {
				list := map[string]string{
					"c.py":      begin + fmt.Sprintf(body, begin, gain),
					"helper.py": fmt.Sprintf("gain = %g\n", gain),
				}
				if place.folder == "mine" {
					list["__init__.py"] = ""
				}
				return list
			}
			dir := filepath.Join(write(t, nil), place.folder)
			put := func(list map[string]string) {
				os.MkdirAll(dir, 0o777)
				for name, text := range list {
					if err := os.WriteFile(filepath.Join(dir, name), []byte(text),
						0o666); err != nil {
						t.Fatal(err)
					}
				}
			}
			put(files(0.25, place.begin))
			c := open(t, Options{File: filepath.Join(dir, "c.py"), Stderr: &buffer{}})
			source, err := ReadSource(c.options.File)
			if err != nil || c.Policy().SHA256 != source.SHA256() {
				t.Errorf(
					"the policy has hash %s, its source %s, %v", c.Policy().SHA256, source.SHA256(),
					err,
				)
			}
			for what, change := range map[string]func(){
				"edited": func() { put(files(0.5, "# "+place.begin)) },
				"broken": func() {
					put(map[string]string{"c.py": "1 /", "helper.py": "(", "__init__.py": "("})
				},
				"later": func() { put(map[string]string{"later.py": "gain = 7"}) },
				"lost": func() {
					for name := range files(0, "") {
						os.Remove(filepath.Join(dir, name))
					}
				},
			} {
				change()
				if now, err := ReadSource(c.options.File); err == nil &&
					now.SHA256() == source.SHA256() {
					t.Errorf("%s: the hash is the same", what)
				}
				held, err := c.Policy().New(testRoutes(1, 110)) // the idle process
				if err != nil {
					t.Fatal(err)
				}
				outcomes, err := drive(c, testRoutes(3, 110)) // a new one
				held.Close()
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if steer := outcomes[0].steer; outcomes[0].err != nil ||
					steer[len(steer)-1] != 0.5 {
					t.Errorf("%s: %v, %v; want 0.5", what, steer, outcomes[0].err)
				}
				contains(t, outcomes[1].err, "later")
				contains(t, outcomes[2].err, "ValueError('boom')  # here")
				c.mu.Lock()
				idle := c.all
				c.mu.Unlock()
				for w := range idle { // all processes of the next turn are new
					c.drop(w)
				}
			}
		})
	}
}

// TestNew holds New to say at once, and in so many words, what is wrong.
func TestNew(t *testing.T) {
	dir := write(t, map[string]string{
		"fine.py":         source("return 0"),
		"a.b.py":          source("return 0"),
		"notes.txt":       "",
		"none.py":         "x = 1\n",
		"syntax.py":       "def f(:\n",
		"raises.py":       "from . import BaseController\ndef f():\n    return 1 / 0\nf()\n",
		"imports.py":      "import torch_of_another_name\n",
		"model.py":        "from tinyphysics import TinyPhysicsModel\n",
		"exits.py":        "import os\nos._exit(5)\n",
		"quits.py":        "exit('no licence')\n",
		"hangs.py":        "import time\ntime.sleep(1000)\n",
		"pkg/__init__.py": "",
		"pkg/base.py":     "from . import BaseController\n",
	})
	for _, test := range []struct {
		file string
		want []string
	}{
		{"absent.py", []string{"absent.py", "no such file"}},
		{".", []string{"not a controller: want a Python file"}},
		{"notes.txt", []string{"notes.txt: not a controller"}},
		{"a.b.py", []string{"without a dot"}},
		{"none.py", []string{"none.py: no class Controller in it", "run by "}},
		{"syntax.py", []string{"SyntaxError", "syntax.py\", line 1"}},
		{"raises.py", []string{
			"raises.py: ZeroDivisionError: division by zero\nTraceback (most " +
				"recent call last):\n  File",
			"line 3, in f",
		}},
		{"imports.py", []string{"ModuleNotFoundError: No module named 'torch_of_another_name'"}},
		{"model.py", []string{"cannot import name 'TinyPhysicsModel'", "outside a checkout of " +
			"the challenge"}},
		{"exits.py", []string{"exits.py: the Python process has ended: exit status 5"}},
		{"quits.py", []string{"SystemExit: no licence"}},
		{"pkg/base.py", []string{"ImportError: cannot import name 'BaseController'"}},
	} {
		t.Run(test.file, func(t *testing.T) {
			options := Options{
				File:   filepath.Join(dir, test.file),
				Python: python(t),
				Stderr: &buffer{},
			}
			c, err := New(context.Background(), options)
			if err == nil {
				c.Close()
			}
			contains(t, err, test.want...)
			if err != nil && strings.Contains(err.Error(), "importlib") {
				t.Errorf("frames that are not the user's:\n%v", err)
			}
		})
	}
	patiently(t, func(t testing.TB, limit time.Duration) {
		file := filepath.Join(dir, "hangs.py")
		_, err := New(
			context.Background(),
			Options{File: file, Python: python(t), Stderr: &buffer{}, Timeout: limit},
		)
		contains(t, err, fmt.Sprintf("hangs.py: no answer within %v", limit), "hangs.py\", line 2")
	})
	fine := filepath.Join(dir, "fine.py")
	if _, err := New(context.Background(),
		Options{File: fine, Python: "no-such-python"}); err == nil ||
		!strings.Contains(err.Error(), "no-such-python") {
		t.Errorf("error %v, want one that names the program", err)
	}
	t.Setenv("LOCKSTEP_PYTHON", "no-such-python")
	if _, err := New(context.Background(), Options{File: fine}); err == nil ||
		!strings.Contains(err.Error(), "LOCKSTEP_PYTHON: ") {
		t.Errorf("error %v, want one that names the variable", err)
	}
	t.Setenv("LOCKSTEP_PYTHON", "")
	t.Setenv("PATH", t.TempDir())
	if _, err := New(context.Background(), Options{File: fine}); err == nil ||
		!strings.Contains(err.Error(), "no Python in PATH") {
		t.Errorf("error %v, want one about PATH", err)
	}
}

// TestException holds an exception to fail its own route, and no other.
func TestException(t *testing.T) {
	c := start(t, preamble+`
made = 0
class Controller(BaseController):
    def __init__(self):
        global made
        made += 1
        if made == 6:
            raise ValueError("not route 5\nnor another")
        self.n = -1
        self.me = made - 1
    def update(self, target_lataccel, current_lataccel, state, future_plan):
        self.n += 1
        if self.n == 0:
            self.v = state.v_ego
        if self.me == 1 and self.n == 50:
            return self.divide(0)
        if self.me == 2 and self.n == 99:
            sys.exit(4)
        if self.me == 3 and self.n == 100:
            raise KeyboardInterrupt
        return self.v
    def divide(self, x):
        return 1 / x
`)
	outcomes, err := drive(c, testRoutes(8, 150))
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range outcomes {
		switch i {
		case 1:
			contains(
				t, o.err,
				"c.py: ZeroDivisionError: division by zero\nTraceback (most recent call "+
					"last):\n  File ",
				"c.py\", line 20, in update\n", "return self.divide(0)", "in divide\n",
			)
			var e *Error
			if !errors.As(o.err, &e) || e.Message != "ZeroDivisionError: division by zero" ||
				!strings.HasPrefix(e.Traceback, "Traceback") ||
				filepath.Base(e.File) != "c.py" ||
				o.step != 70 {
				t.Errorf("step %d: %#v", o.step, o.err)
			}
			if strings.Contains(o.err.Error(), "<string>") {
				t.Errorf("a frame that is not the user's: %v", o.err)
			}
		case 2:
			contains(t, o.err, "SystemExit: 4")
		case 3:
			contains(t, o.err, "KeyboardInterrupt")
		case 5:
			contains(t, o.err, "c.py: ValueError: not route 5\nTraceback", "nor another")
			if o.step != lockstep.ContextLength {
				t.Errorf("step %d, want the first", o.step)
			}
		default:
			if o.err != nil || len(o.steer) != 150-i-lockstep.ContextLength ||
				o.steer[len(o.steer)-1] != float64(i) {
				t.Errorf("route %d: %d steps, error %v", i, len(o.steer), o.err)
			}
		}
	}
	if outcomes[1].step != 70 || outcomes[2].step != 119 || outcomes[3].step != 120 {
		t.Errorf(
			"steps %d, %d, %d, want 70, 119, 120", outcomes[1].step, outcomes[2].step,
			outcomes[3].step,
		)
	}
}

// TestNeighbours: where several processes share the routes of a chunk, what fails in one of them
// fails its own routes: one whose controller cannot be made, one that raises, and all of a process
// that ends.
func TestNeighbours(t *testing.T) {
	c := start(t, preamble+`
import os
made = 0
class Controller(BaseController):
    def __init__(self):
        global made
        made += 1
        if made == 6:
            raise ValueError("the sixth of a process")
        self.n = -1
    def update(self, target_lataccel, current_lataccel, state, future_plan):
        self.n += 1
        if self.n == 0:
            self.v = int(state.v_ego)
        if self.n == 5 and self.v % 43 == 9:
            raise ValueError("route %d" % self.v)
        if self.n == 6 and self.v == 20:
            np.random.random()
        if self.n == 7 and self.v == 60:
            os._exit(3)
        return float(self.v)
`, func(o *Options) { o.Workers = 8 })
	outcomes, _ := drive(c, testRoutes(130, 145))
	if len(outcomes) != 130 {
		t.Fatal("no outcomes")
	}
	const first = lockstep.ContextLength
	for i, o := range outcomes { // of 43, 43 and 44
		wantStep, want := 0, ""
		switch {
		case i == 5 || i == 43+5 || i == 86+5:
			wantStep, want = first, "the sixth of a process"
		case i == 20:
			wantStep, want = first+6, "update changed np.random's global stream"
		case i%43 == 9:
			wantStep, want = first+5, fmt.Sprintf("route %d\n", i)
		case 43 <= i && i < 86:
			wantStep, want = first+7, "the Python process has ended: exit status 3"
		default:
			if n := 145 - i%40 - first; o.err != nil || len(o.steer) != n ||
				o.steer[n-1] != float64(i) {
				t.Errorf("route %d: %d steps, error %v", i, len(o.steer), o.err)
			}
			continue
		}
		if contains(t, o.err, want); o.step != wantStep {
			t.Errorf("route %d: step %d, want %d: %v", i, o.step, wantStep, o.err)
		}
	}
}

// TestHalfStarted: of a chunk of which one process cannot be started the others are free again.
func TestHalfStarted(t *testing.T) {
	c := start(t, preamble+`
import os
for k in range(9):  # one process after the other, whichever is first
    try:
        open(os.path.join(os.path.dirname(__file__), "started%d" % k), "x").close()
        break
    except FileExistsError:
        pass
if k == 2:
    os._exit(3)
class Controller(BaseController):
    def update(self, *args, **named):
        return 0.0
`, func(o *Options) { o.Workers = 8 })
	_, err := c.Policy().New(testRoutes(130, 145))
	contains(t, err, "the Python process has ended: exit status 3")
	if n := len(c.all); n != 2 {
		t.Errorf("%d processes, want 2", n)
	}
	for _, busy := range c.all {
		if busy {
			t.Error("a process steers routes of nobody")
		}
	}
	mustDrive(t, c, testRoutes(130, 145))
}

// answers are Python expressions that a controller returns. Those without an
// error are converted as the program does it.
var answers = []struct {
	expression string
	err        string
}{
	{"0.1", ""},
	{"np.float64(0.1)", ""},
	{"np.float32(0.1)", ""},
	{"np.float16(0.1)", ""},
	{"1", ""},
	{"-7", ""},
	{"True", ""},
	{"np.int64(2)", ""},
	{"np.uint8(1)", ""},
	{"np.bool_(True)", ""},
	{"np.array(0.3)", ""},
	{"np.array(0.3, np.float32)", ""},
	{"np.array(1)", ""},
	{"Decimal('0.1')", ""},
	{"Fraction(1, 3)", ""},
	{"10**30", ""},
	{"-10**400", ""},
	{"float('nan')", ""},
	{"np.float32('nan')", ""},
	{"float('inf')", ""},
	{"-np.float32('inf')", ""},
	{"-0.0", ""},
	{"np.longdouble(0.25)", ""},
	{"1e300", ""},
	{"np.float64(5e-324)", ""},
	{"np.ma.masked_array(0.5)", ""},
	{"type('F', (float,), {})(0.4)", ""},
	{"np.longdouble(1) / 3", " that is no float64: "},
	{"None", "update returned a NoneType, not a number: None"},
	{"'0.1'", "update returned a str, not a number: '0.1'"},
	{"np.zeros(2)", "update returned a ndarray of shape (2,), not a number: array([0., 0.])"},
	{"np.zeros(1)", "update returned a ndarray of shape (1,), not a number"},
	{"[0.1]", "update returned a list, not a number: [0.1]"},
	{"(0.1, 0.2)", "update returned a tuple, not a number: (0.1, 0.2)"},
	{"{}", "update returned a dict, not a number: {}"},
	{"1j", "update returned a complex, not a number: 1j"},
	{
		"np.zeros((2, 2))",
		"update returned a ndarray of shape (2, 2), not a number: array([[0., 0.], [0., 0.]])",
	},
	{"object()", "update returned a object, not a number"},
}

// TestAnswers holds what becomes of an answer to np.clip and np.column_stack, as
// the program uses them.
func TestAnswers(t *testing.T) {
	var list strings.Builder
	for _, a := range answers {
		fmt.Fprintf(&list, "    lambda: %s,\n", a.expression)
	}
	table := "from decimal import Decimal\nfrom fractions import Fraction\nANSWERS = [\n" +
		list.String() + "]\n"
	c := start(t, table+source(`
if self.n == 0:
    self.answer = ANSWERS[int(state.v_ego)]
return None if self.n < 80 else self.answer()
`))
	outcomes, err := drive(c, testRoutes(len(answers), 200))
	if err != nil {
		t.Fatal(err)
	}
	script := "import numpy as np\n" + table + `
for answer in ANSWERS:
    try:
        action = np.clip(answer(), -2, 2)
        states = np.column_stack([[0.5] * 19 + [action], np.zeros((20, 3))])
        last = states[19, 0]
        last = last.astype(np.float32) if hasattr(last, "astype") else np.float32(last)
        print(states.shape, last.view("u4"))
    except Exception as error:
        print("error")
`
	out, err := exec.Command(python(t), "-W", "ignore", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i, a := range answers {
		o := outcomes[i]
		if a.err != "" {
			contains(t, o.err, "c.py: update returned a ", a.err)
			if o.step != lockstep.ControlStartIdx {
				t.Errorf("%s: step %d, want %d", a.expression, o.step, lockstep.ControlStartIdx)
			}
			continue
		}
		if o.err != nil {
			t.Errorf("%s: %v", a.expression, o.err)
			continue
		}
		have := o.steer[len(o.steer)-1]
		have = min(max(have, -2), 2) // the simulator's clip
		if text := fmt.Sprintf("(20, 4) %d", math.Float32bits(float32(have))); text != lines[i] &&
			!math.IsNaN(have) {
			t.Errorf("%s: %v is %s, the program's is %s", a.expression, have, text, lines[i])
		}
	}
	for i, a := range answers {
		if a.expression == "-0.0" && !math.Signbit(outcomes[i].steer[100]) {
			t.Error("-0.0 has lost its sign")
		}
		if strings.Contains(a.expression, "nan") && !math.IsNaN(outcomes[i].steer[100]) {
			t.Error("NaN is lost")
		}
	}
}

// TestPrint holds whatever a controller prints to arrive at Stderr, and no
// message to be harmed.
func TestPrint(t *testing.T) {
	stderr := &buffer{}
	text := source(`
import subprocess
print("print", self.n)
sys.stdout.write("no line end")
os.write(1, b"descriptor 1\n")
print("\x1b]0;owned\x07")
if self.n == 3:
    subprocess.run(["echo", "child"], check=True)
    print("warned", np.float64(1) / np.float64(0), repr(sys.stdin.read()))
return 1
`)
	c := start(t, text, func(o *Options) { o.Stderr = stderr })
	mustDrive(t, c, testRoutes(3, 130))
	c.Close()
	for _, want := range []string{
		"print 0\nno line enddescriptor 1\n", "print 109\n", "child\n", "warned inf ''",
		"RuntimeWarning: divide by zero", "\ufffd]0;owned\ufffd",
	} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no %q in what was printed", want)
		}
	}
	if strings.ContainsAny(stderr.String(), "\x1b\x07") {
		t.Error("what a terminal would obey was passed on")
	}
}

// TestHang holds a controller that never answers to be ended in time, with the
// place where it hangs, and to leave other chunks alone.
func TestHang(t *testing.T) {
	for name, hang := range map[string]string{
		"sleep": "time.sleep(1000)",
		"loop":  "while True: pass",
		"child": "import subprocess; subprocess.run(['sleep', '1000'])",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := source(
				"if self.n == 30 and state.a_ego > 100:\n    " + hang + "  # here\nreturn 1",
			)
			line := fmt.Sprintf(
				"line %d in update", strings.Count(text[:strings.Index(text, "# here")], "\n")+1,
			)
			patiently(t, func(t testing.TB, limit time.Duration) {
				c := start(t, text, func(o *Options) { o.Workers = 2 })
				c.options.Timeout = limit
				routes := testRoutes(70, 200)
				routes[66].AEgo[50] = 1000
				outcomes, err := drive(c, routes)
				if err != nil {
					t.Error(err)
				}
				for i, o := range outcomes {
					if i < 35 {
						if o.err != nil {
							t.Errorf("route %d is another process's, but failed: %v", i, o.err)
						}
					} else if contains(t, o.err, fmt.Sprintf("c.py: no answer within %v",
						limit), line); o.step != 50 {
						t.Errorf("route %d: step %d, want 50", i, o.step)
					} else if !lockstep.IsPassing(o.err) {
						t.Errorf("route %d: a late answer is kept for a result: %v", i, o.err)
					}
				}
				c.options.Timeout = DefaultTimeout
				mustDrive(t, c, testRoutes(70, 200))
			})
		})
	}
}

// TestDeath holds the end of a process to fail its routes with how it ended and
// what it said last, and others to go on.
func TestDeath(t *testing.T) {
	for _, test := range []struct {
		name, die string
		want      []string
	}{
		{"exit", `print("last words"); os._exit(7)`, []string{
			"c.py: the Python process has ended: exit status 7; its last lines:\n",
			"last words",
		}},
		{"silent", `os._exit(7)`, []string{"exit status 7"}},
		{"segfault", `import ctypes; ctypes.string_at(0)`,
			[]string{"signal: segmentation fault", "Fatal Python error: Segmentation fault",
				"in update"}},
		{"kill", `import signal; os.kill(os.getpid(), signal.SIGKILL)`, []string{"signal: killed"}},
		{"descriptors", `os.closerange(3, 100)`, []string{"the Python process has ended"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := start(
				t, source("if self.n == 30 and state.a_ego > 100:\n    "+test.die+"\nreturn 1"),
			)
			bad, good := testRoutes(3, 150), testRoutes(3, 150)
			bad[1].AEgo[50] = 1000
			var group sync.WaitGroup
			group.Go(func() {
				for range 3 {
					if outcomes, err := drive(c, good); err != nil || outcomes[0].err != nil {
						t.Errorf("another chunk: %v %v", err, outcomes)
					}
				}
			})
			outcomes, err := drive(c, bad)
			if err != nil {
				t.Error(err)
			}
			for _, o := range outcomes {
				if contains(t, o.err, test.want...); o.step != 50 {
					t.Errorf("step %d, want 50", o.step)
				}
				if !lockstep.IsPassing(o.err) {
					t.Errorf("the end of a process is kept for a result: %v", o.err)
				}
			}
			group.Wait()
			mustDrive(t, c, good)
		})
	}
}

// TestSlowStart holds the time limit to be for each controller that is made.
func TestSlowStart(t *testing.T) {
	t.Parallel()
	patiently(t, func(t testing.TB, limit time.Duration) {
		c := start(t, preamble+fmt.Sprintf(`
class Controller(BaseController):
    def __init__(self):
        time.sleep(%g)
    def update(self, target_lataccel, current_lataccel, state, future_plan):
        return 1
`, limit.Seconds()/20))
		c.options.Timeout = limit
		mustDrive(t, c, testRoutes(22, 110))
	})
}

// TestDeathAtStart holds a controller that ends its process when it is made to
// fail New of the policy, and a process that died while idle not to.
func TestDeathAtStart(t *testing.T) {
	c := start(t, preamble+`
class Controller(BaseController):
    def __init__(self):
        if os.path.exists("die"):
            os._exit(9)
    def update(self, target_lataccel, current_lataccel, state, future_plan):
        return float(os.getpid())
`)
	routes := testRoutes(1, 110)
	pid := mustDrive(t, c, routes)[0].steer[100-lockstep.ContextLength]
	process, err := os.FindProcess(int(pid))
	if err != nil {
		t.Fatal(err)
	}
	process.Kill()
	if other := mustDrive(t, c, routes)[0].steer[100-lockstep.ContextLength]; other == pid {
		t.Error("the killed process has answered")
	}
	die := filepath.Join(filepath.Dir(c.options.File), "die")
	if err := os.WriteFile(die, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = drive(c, routes)
	contains(t, err, "c.py: the Python process has ended: exit status 9")
	if !lockstep.IsPassing(err) {
		t.Errorf("the end of a process is kept for a result: %v", err)
	}
	os.Remove(die)
	mustDrive(t, c, routes)
}

// TestRandom holds use of the stream that the program simulates from to be an
// error, and other streams to be none.
func TestRandom(t *testing.T) {
	for _, test := range []struct {
		body string
		ok   bool
	}{
		{"return np.random.normal()", false},
		{"np.random.shuffle([1, 2, 3])\nreturn 0.5", false},
		{"if self.n == 90: np.random.random(312)\nreturn 0.5", false}, // all 624 words
		{"np.random.seed(0)\nreturn 0.5", false},
		{"np.random.set_state(np.random.RandomState(3).get_state())\nreturn 0.5", false},
		{"import random\nreturn random.random()", true},
		{"return np.random.default_rng(0).normal() + np.random.RandomState(0).normal()", true},
		{
			"before = np.random.get_state()\nnp.random.seed(1)\nx = " +
				"np.random.random()\nnp.random.set_state(before)\nreturn x",
			true,
		},
	} {
		t.Run(test.body, func(t *testing.T) {
			t.Parallel()
			c := start(
				t,
				strings.Replace(
					source(test.body), "self.n = -1", "self.n = -1; np.random.seed(0)", 1,
				),
			)
			outcomes, err := drive(c, testRoutes(2, 130))
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range outcomes {
				if test.ok {
					if o.err != nil {
						t.Error(o.err)
					}
				} else {
					contains(t, o.err, "c.py: update changed np.random's global stream",
						"np.random.default_rng(seed)")
				}
			}
		})
	}
}

// TestClose holds Close to end work that is under way, without the grace of a process
// that is idle, and New to fail after it.
func TestClose(t *testing.T) {
	defer func(before time.Duration) { closeGrace = before }(closeGrace)
	closeGrace = time.Hour // a Close that waited for it would outlive the test program
	c := start(t, source("if self.n == 30:\n    print('hangs')\n    time.sleep(1000)\nreturn 1"))
	var outcomes []outcome
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		outcomes, err = drive(c, testRoutes(2, 150))
	}()
	says(t, c.options.Stderr.(*buffer), "hangs")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	<-done
	if err != nil || !errors.Is(outcomes[0].err, errClosed) {
		t.Errorf("errors %v, %v, want %v", err, outcomes, errClosed)
	}
	if _, err := drive(c, testRoutes(1, 110)); !errors.Is(err, errClosed) {
		t.Errorf("error %v, want %v", err, errClosed)
	}
	c.Close()
}

// TestReference holds the reference engine's errors to name controller, route,
// step and the place in Python.
func TestReference(t *testing.T) {
	c := start(t, source("if self.n == 100: raise ValueError('boom')\nreturn 0.0"))
	simulator, err := reference.New(assetstest.Model(t), reference.HostProfile())
	if err != nil {
		t.Fatal(err)
	}
	route := testRoutes(1, 130)[0]
	for _, result := range simulator.Simulate(
		context.Background(), []lockstep.Job{{Route: route, Policy: c.Policy()}},
		lockstep.Options{Shortcuts: lockstep.CostOnly},
	) {
		contains(
			t, result.Err, "route 00000, controller c, step 120: ",
			"c.py: ValueError: boom\nTraceback", "in update",
		)
		if lockstep.IsPassing(result.Err) {
			t.Errorf("an exception is a result, and is not kept: %v", result.Err)
		}
	}
}

// TestCancel holds the end of the context to end what a controller hangs in at once,
// its import included.
func TestCancel(t *testing.T) {
	python := python(t)
	for name, text := range map[string]string{
		"import": "import time\nprint('hangs')\ntime.sleep(1000)\n" + source("return 1"),
		"make": preamble + "class Controller(BaseController):\n    def __init__(self):\n      " +
			"  if os.path.exists('go'):\n            print('hangs')\n            " +
			"time.sleep(1000)\n    def update(self, target_lataccel, current_lataccel, " +
			"state, future_plan):\n        return 1\n",
		"update": source("print('hangs')\nwhile True: pass"),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			dir := write(t, map[string]string{"c.py": text})
			ended, stderr := make(chan error, 1), &buffer{}
			go func() {
				c, err := New(
					ctx, Options{File: filepath.Join(dir, "c.py"), Python: python, Stderr: stderr},
				)
				if err == nil {
					defer c.Close()
					os.WriteFile(filepath.Join(dir, "go"), nil, 0o666)
					var outcomes []outcome
					if outcomes, err = drive(c, testRoutes(1, 110)); err == nil {
						err = outcomes[0].err
					}
				}
				ended <- err
			}()
			says(t, stderr, "hangs")
			cancel()
			select {
			case err := <-ended:
				if !errors.Is(
					err, context.Canceled,
				) { // else an interrupted run would be a failed one
					t.Errorf("error %v, want the context's", err)
				}
			case <-time.After(time.Minute):
				t.Fatal("still at it a minute later")
			}
		})
	}
}

// TestMemory holds a controller that takes more memory than it may have to fail its
// route, and to leave the others alone.
func TestMemory(t *testing.T) {
	c := start(
		t, source("if state.v_ego == 1:\n    self.hog = bytearray(3 << 30)\n"+
			"if state.v_ego == 2:\n    self.hog = np.ones(3 << 27)\nreturn 1"),
		func(o *Options) { o.Memory = 2 << 30 },
	)
	outcomes, err := drive(c, testRoutes(4, 110))
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{1, 2} { // Python's error, and NumPy's, which is a kind of it
		contains(t, outcomes[i].err, "MemoryError")
		if !lockstep.IsPassing(outcomes[i].err) {
			t.Errorf("with more memory it may not fail: %v", outcomes[i].err)
		}
	}
	for _, i := range []int{0, 3} {
		if outcomes[i].err != nil {
			t.Errorf("route %d: %v", i, outcomes[i].err)
		}
	}
}

// TestLongMessages holds what a controller says to be cut to what is worth reading.
func TestLongMessages(t *testing.T) {
	c := start(t, source("raise ValueError('x' * 10**7 + ' the end')"))
	outcomes, err := drive(c, testRoutes(1, 110))
	if err != nil {
		t.Fatal(err)
	}
	contains(t, outcomes[0].err, "ValueError: xxx", "(10000020 characters)", "the end")
	if n := len(outcomes[0].err.Error()); n > 6000 {
		t.Errorf("%d characters", n)
	}
}

// TestLate: in a row are those alone that did not answer in time; whatever else a chunk ends with
// begins anew.
func TestLate(t *testing.T) {
	late := fmt.Errorf("c.py: %w within 1s", errTimeout)
	for _, test := range []struct {
		ends []error
		want int
	}{
		{[]error{late, late}, 2},
		{[]error{late, errors.Join(nil, late)}, 2},
		{[]error{late, nil, late}, 1},
		{[]error{late, late, nil}, 0},
		{[]error{late, io.ErrUnexpectedEOF}, 0},
		{[]error{io.ErrUnexpectedEOF, io.ErrUnexpectedEOF, late}, 1},
	} {
		c := &Controllers{}
		for _, why := range test.ends {
			c.ended(why)
		}
		if c.late != test.want {
			t.Errorf("%v: %d in a row, want %d", test.ends, c.late, test.want)
		}
	}
}

// TestGivenUp holds a controller that hangs to be waited for three times, not once for
// every chunk of routes; one that answers in between is not given up.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	patiently(t, givenUp)
}

func givenUp(t testing.TB, limit time.Duration) {
	c := start(t, strings.Replace(
		source("if self.n == 3 and state.a_ego > 100:\n    time.sleep(1000)\nreturn 1"),
		"self.n = -1", `self.n = -1
        while os.path.exists(os.path.join(os.path.dirname(__file__), "hang")): time.sleep(1)`, 1))
	c.options.Timeout = limit
	run := func(hang, made bool) error {
		routes := testRoutes(1, 110)
		if hang && made {
			routes[0].AEgo[lockstep.ContextLength+3] = 1000
		} else if hang { // where it is made
			file := filepath.Join(filepath.Dir(c.options.File), "hang")
			if err := os.WriteFile(file, nil, 0o666); err != nil {
				t.Fatal(err)
			}
			defer os.Remove(file)
		}
		outcomes, err := drive(c, routes)
		if err != nil {
			return err
		}
		return outcomes[0].err
	}
	for k, hang := range []bool{true, true, false, true, true, true} {
		if err := run(hang, k%2 == 1); hang {
			contains(t, err, fmt.Sprintf("no answer within %v", limit))
		} else if err != nil {
			t.Errorf("run %d: %v", k, err)
		}
	}
	err := run(false, true)
	contains(
		t, err,
		fmt.Sprintf("given up, since 3 times in a row there was no answer within %v", limit),
	)
	if !lockstep.IsPassing(err) {
		t.Errorf("it is kept for a result: %v", err)
	}
}

// TestUnseen: nothing in a controller's process knows more of the route than its plan has
// shown, wherever the controller looks.
func TestUnseen(t *testing.T) {
	c := start(t, source(`
frame, longest = sys._getframe(), 0
while frame:
    for x in frame.f_locals.values():
        if hasattr(x, "target") and hasattr(x, "plan"):
            longest = max(longest, len(x.target), *map(len, x.plan))
    frame = frame.f_back
assert longest, "the route is not found"
return float(longest - (self.n + 1 + len(future_plan.lataccel)))`))
	for _, o := range mustDrive(t, c, testRoutes(2, 200)) {
		if o.err != nil {
			t.Fatal(o.err)
		}
		for i, x := range o.steer {
			if x != 0 {
				t.Fatalf("answer %d: the process has %v rows more than the plan has shown", i, x)
			}
		}
	}
}
