package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockstep"
	"lockstep/engines"
	"lockstep/internal/assets"
	"lockstep/internal/assets/assetstest"
	"lockstep/internal/defaults"
	"lockstep/internal/want"
)

// ownCache gives the test a cache folder of its own, and a working folder from
// which no assets are found.
func ownCache(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	t.Setenv("XDG_CACHE_HOME", dir)
	t.Setenv("HOME", dir)
	t.Setenv("LOCKSTEP_ASSETS", "")
	for _, w := range want.All {
		t.Setenv(w.Variable(), "0") // nothing is here, and nothing has to be
	}
	t.Chdir(t.TempDir())
	return dir
}

// TestOwnModel: without any asset a rollout uses the project's own, and says so.
func TestOwnModel(t *testing.T) {
	ownCache(t)
	status, stdout, stderr := lockstepRun(t.Context(), "rollout", "--num_segs", "2")
	if status != exitOK || strings.Count(stdout, "\n") != 4 ||
		!strings.HasPrefix(stdout, "g00000  lataccel_cost: ") {
		t.Errorf("exit %d, stdout %q", status, stdout)
	}
	for _, want := range []string{"the project's own network", "generated routes"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr %q does not speak of %s", stderr, want)
		}
	}
}

func TestGenerateAndEval(t *testing.T) {
	ownCache(t)
	if status, stdout, stderr := lockstepRun(t.Context(), "generate", "--num_routes", "3",
		"--seed", "5", "--out", "routes"); status != exitOK ||
		stdout != "3 routes of seed 5 in routes\n" {
		t.Fatalf("exit %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	args := []string{
		"eval", "--data_path", "routes", "--test_controller", "pid", "--baseline_controller",
		"zero", "--engine", "reference", "--no-cache", "--csv", "costs.csv", "--parquet",
		"costs.parquet",
	}
	status, stdout, stderr := lockstepRun(t.Context(), args...)
	if status != exitOK ||
		!strings.Contains(
			stdout, "test      pid                  3 routes, average lataccel_cost: ",
		) ||
		!strings.Contains(stdout, "report: report.html\n") {
		t.Fatalf("exit %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	html, err := os.ReadFile("report.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<!doctype html>", "<svg", "g00002", "lockstep eval " +
		"--data_path routes"} {
		if !bytes.Contains(bytes.ToLower(html), []byte(strings.ToLower(want))) {
			t.Errorf("the report lacks %q", want)
		}
	}
	csv, err := os.ReadFile("costs.csv")
	if err != nil || bytes.Count(csv, []byte("\n")) != 1+2*3 {
		t.Errorf("costs.csv: %v\n%s", err, csv)
	}
	if info, err := os.Stat("costs.parquet"); err != nil || info.Size() == 0 {
		t.Errorf("costs.parquet: %v", err)
	}

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if status, _, _ := lockstepRun(cancelled,
		append(args, "--report", "none.html")...); status != exitInterrupted {
		t.Errorf("interrupted: exit %d, want 130", status)
	}
	if _, err := os.Stat("none.html"); err == nil {
		t.Error("an interrupted evaluation left a report")
	}
}

func TestControllerNames(t *testing.T) {
	ownCache(t)
	for _, args := range [][]string{
		{"rollout", "--controller", "mpc"}, {"eval", "--test_controller", "mpc"},
	} {
		status, _, stderr := lockstepRun(t.Context(), args...)
		if want := `"mpc": want one of ` + kinds() + `, a policy file, a Python file, or the ` +
			`name of one in ./controllers`; status != exitUsage ||
			!strings.Contains(stderr, want) {
			t.Errorf("%q: exit %d, stderr %q; want 2 and %s", args, status, stderr, want)
		}
	}
	// A file in ./controllers is meant where its name is that of no kind, nor says gains of one.
	t.Setenv("LOCKSTEP_PYTHON", "no-python")
	for name, want := range map[string]string{
		"mine": "LOCKSTEP_PYTHON: ", "pid_mine": "LOCKSTEP_PYTHON: ", "zero_2": "LOCKSTEP_PYTHON: ",
		"pid_1_2": "LOCKSTEP_PYTHON: ", "pidff": "want the 10 gains of pidff",
		"pid_1_2_3": "--timeout goes with", "pid": "--timeout goes with",
	} {
		file := mkdir(t, filepath.Join("controllers", name+".py"))
		writeController(t, file, "", "return 0.0")
		status, _, stderr := lockstepRun(
			t.Context(), "rollout", "--controller", name, "--timeout", "9s")
		if status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s, with %s: exit %d, stderr %q; want %s", name, file, status, stderr, want)
		}
	}
}

func TestDemo(t *testing.T) {
	ownCache(t)
	status, stdout, stderr := lockstepRun(t.Context(), "demo")
	if status != exitOK || !strings.Contains(stdout, "reference") ||
		!strings.Contains(stdout, "the project's own network") ||
		!strings.HasSuffix(stdout, "\nthe challenge's own network: lockstep fetch model\n") {
		t.Errorf("exit %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	if html, err := os.ReadFile("lockstep.html"); err != nil ||
		!bytes.Contains(html, []byte("<svg")) {
		t.Errorf("the report: %v", err)
	}
}

// TestDemoEngines: each engine that opens takes part, behind one that does not, too; what differs,
// and what is here and does not open, is an exit status.
func TestDemoEngines(t *testing.T) {
	dir := ownCache(t)
	model, _, err := defaults.Write(filepath.Join(dir, "own"))
	if err == nil {
		err = os.Rename(model, mkdir(t, filepath.Join(dir, "here", assets.Model)))
	}
	if err != nil {
		t.Fatal(err)
	}
	shortRoute(t, mkdir(t, filepath.Join(dir, "here", assets.Routes, "a.csv")), 102, nil)
	t.Setenv("LOCKSTEP_ASSETS", filepath.Join(dir, "here"))
	const alike, fetch = "every lataccel, action and cost equal", "lockstep fetch model"
	for names, c := range map[string]struct {
		status int
		says   []string
	}{
		"equal":         {exitOK, []string{"1 routes, the project's own network\n", alike}},
		"costs,equal":   {exitParity, []string{"1 rollouts differ", alike}},
		"absent,equal":  {exitOK, []string{"not here: twin: no device\n", alike}},
		"broken,equal":  {exitUsage, []string{"not here: twin: it does not open\n", alike}},
		"broken,absent": {exitUsage, []string{"not here: twin: it does not open\n"}},
	} {
		plant(t, names)
		status, stdout, stderr := lockstepRun(t.Context(), "demo")
		for _, want := range c.says {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: %q is not in\n%s", names, want, stdout)
			}
		}
		if status != c.status || strings.Contains(stdout, fetch) {
			t.Errorf("%s: exit %d, want %d\n%s%s", names, status, c.status, stdout, stderr)
		}
	}
}

func TestDoctor(t *testing.T) {
	dir := ownCache(t)
	t.Setenv("ONNXRUNTIME_LIB", "") // one that is named is found
	status, stdout, stderr := lockstepRun(t.Context(), "doctor")
	if status != exitOK || stderr != "" {
		t.Errorf("exit %d, stderr %q", status, stderr)
	}
	for _, want := range []string{
		"lockstep fetch model", "lockstep fetch data", "make onnxruntime", "engine reference",
		"engine emulated",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("without assets the doctor does not say %q:\n%s", want, stdout)
		}
	}
	t.Setenv("LOCKSTEP_ASSETS", dir)
	_, stdout, _ = lockstepRun(t.Context(), "doctor")
	if want := "no routes in " + dir + ": set LOCKSTEP_ASSETS"; !strings.Contains(stdout, want) {
		t.Errorf("the doctor does not say %q:\n%s", want, stdout)
	}
	t.Setenv("LOCKSTEP_ASSETS", "")
	bad := filepath.Join(dir, "lockstep", "assets", assets.Model)
	if err := os.WriteFile(mkdir(t, bad), []byte("text"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, stdout, _ := lockstepRun(t.Context(), "doctor"); !strings.Contains(stdout, "BAD") {
		t.Errorf("a damaged network is not found:\n%s", stdout)
	}
	if err := os.WriteFile(bad, defaults.Model(), 0o666); err != nil {
		t.Fatal(err)
	}
	const foreign = "this is not the challenge's network: delete it and run"
	routes := filepath.Join(filepath.Dir(bad), assets.Routes)
	for _, name := range []string{"a.csv", "b.csv"} {
		shortRoute(t, mkdir(t, filepath.Join(routes, name)), 1, nil)
	}
	if _, stdout, _ := lockstepRun(t.Context(), "doctor"); !strings.Contains(stdout, foreign) ||
		!strings.Contains(stdout, routes+", 2 files\n") {
		t.Errorf("another network in its place is not found, or two routes:\n%s", stdout)
	}
}

// TestDoctorEngines: an engine that is to run anywhere and does not open is no sound machine,
// wherever it stands among the others; one that wants something may lack it.
func TestDoctorEngines(t *testing.T) {
	ownCache(t)
	sound := *engines.Reference()
	broken, lacking, slow := sound, sound, sound
	slow.Name, slow.Slow = "slow", true
	broken.Name, lacking.Name, lacking.Want = "broken", "lacking", want.GPU
	broken.New = func(engines.Config) (lockstep.Implementation, error) {
		return nil, errors.New("it does not open")
	}
	lacking.New, slow.New = broken.New, broken.New
	for _, c := range []struct {
		list []engines.Engine
		want int
	}{
		{[]engines.Engine{broken, sound}, exitUsage},
		{[]engines.Engine{sound, broken, sound}, exitUsage},
		{[]engines.Engine{sound, broken}, exitUsage},
		{[]engines.Engine{sound, lacking, sound}, exitOK},
		{[]engines.Engine{sound, slow}, exitOK},
	} {
		restore := engines.Replace(c.list)
		status, stdout, _ := lockstepRun(t.Context(), "doctor")
		restore()
		if names := fmt.Sprint(len(c.list)); status != c.want ||
			strings.Contains(stdout, "it does not open") == (c.list[1].Name == "slow") ||
			strings.Contains(stdout, "slow: it runs where") != (c.list[1].Name == "slow") {
			t.Errorf("%s engines: exit %d, want %d:\n%s", names, status, c.want, stdout)
		}
	}
}

// mkdir makes the folder of a path and returns the path.
func mkdir(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBenchOwn: without assets it measures what the project has, and says so.
func TestBenchOwn(t *testing.T) {
	ownCache(t)
	shortRoute(t, "short.csv", 102, nil)
	model, _, err := defaults.Keep()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"bench", "--jobs", "1", "--repetitions", "1", "--data_path", "short.csv"}
	for _, want := range []string{
		"\nnetwork " + model + ", routes short.csv\n", `"model":"` + model + `","data":"short.csv"`,
	} {
		if status, stdout, stderr := lockstepRun(t.Context(), args...); status != exitOK ||
			!strings.Contains(stdout, want) {
			t.Errorf("exit %d, %q is not in\n%s%s", status, want, stdout, stderr)
		}
		args = append(args, "--json")
	}
}

// TestBenchJudged: each rollout of each measurement is held to the reference's, and what differs is
// said beside the speeds; spreads are of all measurements.
func TestBenchJudged(t *testing.T) {
	var out strings.Builder
	b := &bench{
		env:   &environment{ctx: t.Context(), stdout: &stickyWriter{w: &out}},
		jobs:  make([]lockstep.Job, 3),
		truth: []lockstep.Costs{{Total: 1}, {Total: 2}, {Total: 3}},
	}
	calls := 0
	for name, wrong := range map[string]int{"sound": 9, "late": 2, "always": 0} {
		b.enter(name, 1, 3, func(jobs []lockstep.Job) ([]lockstep.Costs, error) {
			costs := slices.Clone(b.truth[:len(jobs)])
			if calls++; wrong == 0 || wrong == 2 && calls%3 == 0 { // in the last measurement alone
				costs[2].Total = math.Nextafter(costs[2].Total, 4)
			}
			return costs, nil
		})
	}
	for _, k := range b.Rows {
		calls = 0
		for range 3 {
			if err := b.measure(k); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.tabulate()
	b.print(&benchCommand{})
	for _, k := range b.Rows {
		n := map[string]int{"sound": 0, "late": 1, "always": 3}[k.Name]
		want := fmt.Sprintf("DIFFERENT, %d of 9", n)
		if n == 0 {
			want = "equal, 9 of 9"
		}
		line := k.Name + out.String()[strings.Index(out.String(), "\n"+k.Name)+1+len(k.Name):]
		line, _, _ = strings.Cut(line, "\n")
		if k.Rollouts != 9 || k.Equal != 9-n || k.differs() != (n > 0) ||
			!strings.Contains(line, want) {
			t.Errorf("%s: %d of %d are equal, and it says %q, want %s", k.Name, k.Equal, k.Rollouts,
				line, want)
		}
	}
	for want, x := range map[spread][]float64{
		{2, 1, 3}: {3, 1, 2}, {2.5, 1, 4}: {4, 1, 2, 3}, {5, 5, 5}: {5}, {1.5, 1, 2}: {2, 1},
	} {
		given := slices.Clone(x)
		if got := newSpread(x); *got != want || !slices.Equal(x, given) {
			t.Errorf("of %v it is %v, want %v; they are %v now", given, *got, want, x)
		}
	}
}

// TestBenchRates: rollouts a second are of all cores together, and the share of the time that the
// network takes is of one.
func TestBenchRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which a second is one
		b := &bench{
			env: &environment{ctx: t.Context()}, jobs: make([]lockstep.Job, 3),
			truth: make([]lockstep.Costs, 3),
		}
		for _, cores := range []int{1, 2} {
			k := b.enter("sleeper", cores, 3, func(jobs []lockstep.Job) ([]lockstep.Costs, error) {
				time.Sleep(2 * time.Second)
				return b.truth, nil
			})
			begin := time.Now().Add(-time.Hour) // for which it has been at work before
			k.network = func() time.Duration { return time.Since(begin) / 4 }
			if err := b.measure(k); err != nil {
				t.Fatal(err)
			}
			inside := 0.25 / float64(cores)
			if !slices.Equal(k.rates, []float64{1.5}) ||
				!slices.Equal(k.inside, []float64{inside}) {
				t.Errorf("%d cores: %v rollouts a second, %v in the network; want 1.5 and %v",
					cores, k.rates, k.inside, inside)
			}
		}
	})
}

// TestBenchInterrupted: a measurement that is ended says so, by its exit status, too.
func TestBenchInterrupted(t *testing.T) {
	ownCache(t)
	shortRoute(t, "short.csv", 102, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	args := []string{
		"bench", "--jobs", "10000", "--repetitions", "1000", "--data_path", "short.csv",
	}
	if status, stdout, stderr := lockstepRun(ctx, args...); status != exitInterrupted ||
		!strings.Contains(stderr, "lockstep: interrupted; ") || stdout != "" {
		t.Errorf("exit %d, %s%s", status, stdout, stderr)
	}
}

// TestBench holds the table to what a short run gives.
func TestBench(t *testing.T) {
	assetstest.Model(t)
	status, stdout, stderr := lockstepRun(t.Context(), "bench", "--jobs", "2", "--repetitions", "1")
	if status != exitOK || !strings.Contains(stdout, "equal, 2 of 2") ||
		strings.Contains(stdout, "DIFFERENT") {
		t.Errorf("exit %d, stdout %s, stderr %s", status, stdout, stderr)
	}
	if status, _, stderr := lockstepRun(t.Context(), "bench", "--jobs", "0"); status != exitUsage ||
		!strings.Contains(stderr, "want 1 or more") {
		t.Errorf("no jobs: exit %d, %s", status, stderr)
	}
	nowhere := filepath.Join(t.TempDir(), "nothere")
	if status, _, stderr := lockstepRun(t.Context(), "bench", "--jobs", "1", "--model_path",
		nowhere); status != exitUsage ||
		!strings.Contains(stderr, "open "+nowhere) {
		t.Errorf("no network: exit %d, %s", status, stderr)
	}
	if status, _, stderr := lockstepRun(t.Context(), "bench", "--jobs", "1", "--upstream",
		nowhere); status != exitUsage ||
		!strings.HasPrefix(stderr, "lockstep: "+nowhere+" is no checkout of") {
		t.Errorf("no checkout: exit %d, %s", status, stderr)
	}
}
