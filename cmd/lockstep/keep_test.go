package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/cmd/internal/runs"
	"lockstep/internal/generate"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
)

// build builds the command, once for all tests, into a temporary folder, which TestMain removes.
// Nobody debugs it: to link it without what a debugger reads takes half as long.
var build = sync.OnceValues(func() (path string, err error) {
	folder, err := os.MkdirTemp("", "lockstep-program-")
	if err != nil {
		return "", err
	}
	path = filepath.Join(folder, "lockstep")
	out, err := exec.Command("go", "build", "-ldflags=-w", "-o", path, ".").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return path, err
})

// program builds the command and returns its path.
func program(t *testing.T) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// shortRoutes writes n routes of few rows and returns their folder. The last cannot be
// loaded.
func shortRoutes(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	if err := generate.Write(t.Context(), dir,
		generate.Options{NumRoutes: n, Seed: 1, Progress: func(int) {}}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.csv"))
	if err != nil || len(files) != n {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rows := 105 + i%10
		if i == n-1 {
			rows = 50
		}
		lines := bytes.SplitAfterN(text, []byte("\n"), rows+2)
		if err := os.WriteFile(file, bytes.Join(lines[:rows+1], nil), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var secondsPattern = regexp.MustCompile(`"seconds":[^}]*`)

// disturbed is a command that keeps a run, and is killed at random moments.
type disturbed struct {
	program string
	args    []string
	file    string // that it writes at its end, or empty
	kept    int    // records
}

// run runs the command, and returns what it prints and writes.
func (d *disturbed) run(ctx context.Context, extra ...string) (stdout, stderr string, err error) {
	var out, errors bytes.Buffer
	command := exec.CommandContext(ctx, d.program, append(slices.Clone(d.args), extra...)...)
	command.Stdout, command.Stderr = &out, &errors
	err = command.Run()
	stdout = secondsPattern.ReplaceAllString(out.String(), "")
	if ctx.Err() == nil && d.file != "" {
		text, _ := os.ReadFile(d.file) // which is missed, where there is none
		stdout += string(text)
	}
	return stdout, errors.String(), err
}

// kill kills the command again and again, lets it go on, and holds what it prints in the end to an
// undisturbed run. It returns the folder.
func (d *disturbed) kill(t *testing.T, kills int) (dir string) {
	t.Helper()
	begin := time.Now()
	want, stderr, _ := d.run(t.Context())
	took := time.Since(begin)
	if strings.Count(want, "\n") < 5 {
		t.Fatalf("%s, undisturbed: %s%s", d.args[0], want, stderr)
	}
	random := rand.New(rand.NewPCG(7, 7))
	dir = filepath.Join(t.TempDir(), "run")
	finished := 0
	for killed := 0; killed < kills; {
		ctx, cancel := context.WithTimeout(
			t.Context(), time.Duration(random.Float64()*float64(took)),
		)
		part, stderr, err := d.run(ctx, "--out", dir)
		ended := ctx.Err() == nil
		cancel()
		if whole := part[:strings.LastIndex(part, "\n")+1]; !strings.HasPrefix(want, whole) {
			t.Fatalf(
				"%s, kill %d: printed what is not the beginning of the undisturbed run:\n%s",
				d.args[0], killed, whole,
			)
		}
		if !ended {
			killed++
			continue
		}
		// It ended by itself: it has printed everything, and begins anew.
		if part != want {
			t.Fatalf("%s, after %d kills: %v\n%s", d.args[0], killed, err, stderr)
		}
		finished++
		checkKept(t, dir, d.kept)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // what is left of it, and a run that is finished
		if got, stderr, err := d.run(t.Context(), "--out", dir); got != want {
			t.Fatalf("%s, in the end: %v\n%s", d.args[0], err, stderr)
		}
		checkKept(t, dir, d.kept)
	}
	t.Logf(
		"%s: %d kills, %d runs to the end in between, each equal to an undisturbed one", d.args[0],
		kills, finished+1,
	)
	return dir
}

// TestKill kills runs that are kept, again and again at random moments, and holds what they print
// in the end to undisturbed ones. LOCKSTEP_KILLS is how often a rollout is killed; a search, of
// gains and of actions, is a quarter as often.
func TestKill(t *testing.T) {
	t.Parallel()
	kills := numberFrom(t, "LOCKSTEP_KILLS", 4)
	lockstep := program(t)
	const routes, gains = 60, 5
	data := shortRoutes(t, routes)
	common := []string{"--data_path=" + data, "--engine", "reference", "--no-cache"}
	rollout := &disturbed{
		program: lockstep,
		args:    append([]string{"rollout", "--json"}, common...),
		kept:    gains * (routes - 1),
	}
	for g := range gains {
		rollout.args = append(rollout.args, fmt.Sprintf("--pid=0.%d,0.1,-0.05", g+1))
	}
	dir := rollout.kill(t, kills)
	if got, stderr, err := rollout.run(t.Context()); err == nil ||
		strings.Count(got, "\n") != gains*(routes+1) || strings.Count(got, `"error"`) != gains {
		t.Fatalf("undisturbed: %v, %s\n%s", err, got, stderr)
	}

	// a search leaves out nothing
	if err := os.Remove(filepath.Join(data, fmt.Sprintf("g%05d.csv", routes-1))); err != nil {
		t.Fatal(err)
	}
	const some = 7
	common = append(common, "--num_segs", fmt.Sprint(some))
	file := filepath.Join(t.TempDir(), "found.json")
	tune := &disturbed{
		program: lockstep, file: file, kept: some * (1 + 3*8),
		args: append(
			[]string{"tune", "--population", "8", "--generations", "3", "--gains", file},
			common...),
	}
	tune.kill(t, kills/4)
	plan := &disturbed{
		// windows of 11 steps, a round and the actions
		program: lockstep, file: file, kept: some * (6 + 2),
		args: append(
			[]string{
				"plan", "--noise", "own,expected", "--rounds", "1", "--window", "2", "--horizon",
				"6", "--table", file,
			},
			common...),
	}
	plan.kill(t, kills/4)

	// Another program refuses the folder, though its version has the same name.
	text, err := os.ReadFile(lockstep)
	if err != nil {
		t.Fatal(err)
	}
	rollout.program += "2"
	simtest.Write(t, rollout.program, append(text, 0), 0o777)
	if got, stderr, err := rollout.run(t.Context(), "--out", dir); err == nil || got != "" ||
		!strings.Contains(stderr, "is of another run: the engine's build is") {
		t.Errorf("of another program: %v\n%s%s", err, got, stderr)
	}
}

// numberFrom is a number in the environment, or another where there is none.
func numberFrom(t *testing.T, name string, or int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return or
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: want a number above 0", name, text)
	}
	return n
}

// checkKept holds a folder to one result for each rollout.
func checkKept(t *testing.T, dir string, rollouts int) {
	t.Helper()
	if p, err := runs.Watch(dir); err != nil || p.Finished != rollouts {
		t.Fatalf("%+v, %v; want %d results", p, err, rollouts)
	}
}

// TestKeep holds --out to refuse another run, --trace and folders that cannot be, and
// watch to say what there is.
func TestKeep(t *testing.T) {
	data := shortRoutes(t, 4)
	dir := filepath.Join(t.TempDir(), "run")
	args := []string{"rollout", "--engine", "reference", "--data_path", data, "--out", dir}
	first := func(args ...string) (int, string, string) { return lockstepRun(t.Context(), args...) }
	status, stdout, _ := first(args...)
	if status != exitUsage ||
		strings.Count(stdout, "lataccel_cost") != 4 { // three and their average
		t.Fatalf("exit %d: %s", status, stdout)
	}
	if status, stdout, stderr := first("watch", "--once", dir); status != exitOK ||
		!strings.Contains(stdout, "3 of 3 rollouts") ||
		!strings.Contains(stdout, "3 of 3 routes, average") {
		t.Errorf("watch: exit %d, %s%s", status, stdout, stderr)
	}
	blocked := filepath.Join(data, "g00000.csv")
	for _, test := range []struct {
		args []string
		want string
	}{
		{append(args, "--controller", "zero"),
			"--out: " + filepath.Join(dir,
				"plan.json") + ` is of another run: controller 0 is "zero"`},
		{append(args, "--trace", filepath.Join(t.TempDir(), "x")), "--out and --trace do not go " +
			"together"},
		{[]string{"rollout", "--data_path", data, "--out", filepath.Join(blocked, "x")},
			"--out: stat " + filepath.Join(blocked, "x") + ": not a directory"},
		{[]string{"watch", t.TempDir()}, "plan.json: no such file"},
		{[]string{"rollout", "--data_path", ""}, "the argument after --data_path is empty"},
		{[]string{"", "rollout"}, "unexpected argument"},
		{[]string{"rollout", "--data_path="}, "--data_path is empty"},
		{[]string{"rollout", "--data_path", blocked, "--trace", blocked},
			"--trace: " + blocked + " is an input"},
		{
			[]string{"rollout", "--data_path", blocked, "--trace",
				filepath.Join(t.TempDir(), "none", "x")},
			"no such file",
		},
	} {
		if status, _, stderr := first(test.args...); status != exitUsage ||
			!strings.Contains(stderr, test.want) {
			t.Errorf("%v: exit %d, %q; want %q", test.args, status, stderr, test.want)
		}
	}
}

// TestKeepLost: rollouts whose process is killed or late are named, are an exit status, and are
// in no folder and no shard; the same command computes them.
func TestKeepLost(t *testing.T) {
	want.Python.Need(t)
	t.Parallel() // it waits for what is late
	data := shortRoutes(t, 3)
	// no plan holds what cannot be loaded
	if err := os.Remove(filepath.Join(data, "g00002.csv")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"killed":     "os.kill(os.getpid(), signal.SIGKILL)",
		"terminated": "os.kill(os.getpid(), signal.SIGTERM)",
		"late":       "time.sleep(1000)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wait := "60s" // also for a busy machine to import NumPy
			if name == "late" {
				wait = "5s"
			}
			loses(t, data, text, wait)
		})
	}
}

// loses has rollouts lost by what a controller does to its process, and computes them again.
func loses(t *testing.T, data, text, wait string) {
	t.Helper()
	dir := t.TempDir()
	file, disturbed := filepath.Join(dir, "c.py"), filepath.Join(dir, "disturbed")
	writeController(
		t, file,
		"import os, signal, time\nFILE = os.path.join(os.path.dirname(__file__), 'disturbed')",
		"exec(open(FILE).read()) if os.path.exists(FILE) else None; return 0.1",
	)
	out := filepath.Join(dir, "out")
	timed := []string{
		"--engine", "reference", "--data_path", data, "--controller", file, "--timeout", wait,
	}
	run := append(append([]string{"rollout"}, timed...), "--out", out)
	plan := append(
		append([]string{"shard", "plan", "--shards", "1"}, timed...), "--out", out+"-shards",
	)
	if status, _, stderr := lockstepRun(t.Context(), plan...); status != exitOK {
		t.Fatalf("exit %d, %s", status, stderr)
	}
	shard := []string{"shard", "run", "--index", "0", "--out", out + "-shards"}
	if err := os.WriteFile(disturbed, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	for want, args := range map[string][]string{
		"when the same command is run again: g00000 of c, g00001 of c\n":  run,
		"shard 0 is not kept, and the same command computes it: 2 of its": shard,
	} {
		both.Go(func() {
			if status, _, stderr := lockstepRun(t.Context(), args...); status != exitUsage ||
				!strings.Contains(stderr, want) {
				t.Errorf("exit %d, %s; want %q", status, stderr, want)
			}
		})
	}
	both.Wait()
	if err := os.Remove(disturbed); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{run, shard} {
		if status, stdout, stderr := lockstepRun(t.Context(), args...); status != exitOK {
			t.Errorf("again: exit %d, %s%s", status, stdout, stderr)
		}
	}
	checkKept(t, out, 2)
}

// TestKeepEdited: a controller that is edited while its run is under way is, in every process,
// what its plan has the hash of; the next run is of another one, and is refused.
func TestKeepEdited(t *testing.T) {
	want.Python.Need(t)
	data, dir := shortRoutes(t, 5), t.TempDir()
	file, out := filepath.Join(dir, "c.py"), filepath.Join(dir, "run")
	// Each process edits the file and steers one route: the next has another process.
	const first = "import os\nmade = 0\n" + `
class Controller:
    def __init__(self):
        global made
        if made == 1: os._exit(0)
        made += 1
    def update(self, target_lataccel, current_lataccel, state, future_plan):
        EDIT
        return 0.1
`
	steer := func(text string, args ...string) (int, string, string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		args = append(
			[]string{"rollout", "--engine", "reference", "--data_path", data, "--controller", file},
			args...)
		return lockstepRun(t.Context(), args...)
	}
	_, undisturbed, stderr := steer(strings.ReplaceAll(first, "EDIT", "pass"))
	if strings.Count(undisturbed, "lataccel_cost") != 5 { // four and their average
		t.Fatalf("undisturbed: %s%s", undisturbed, stderr)
	}
	edit := "open(" + strconv.Quote(file) + ", 'w').write(" +
		"'class Controller:\\n def update(self, *args, **named): return 0.7\\n')"
	text := strings.ReplaceAll(first, "EDIT", edit)
	if _, stdout, stderr := steer(text, "--out", out); stdout != undisturbed {
		t.Errorf("edited while it ran: %swant %s%s", stdout, undisturbed, stderr)
	}
	edited, err := os.ReadFile(file)
	if err != nil || string(edited) == text {
		t.Fatalf("it was not edited: %v", err)
	}
	if status, _, stderr := steer(string(edited), "--out", out); status != exitUsage ||
		!strings.Contains(stderr, "is of another run: controller 0 is") {
		t.Errorf("the edited one: exit %d, %s", status, stderr)
	}
	if _, stdout, stderr := steer(text, "--out", out); stdout != undisturbed {
		t.Errorf("the first again: %s%s", stdout, stderr)
	}
}

// TestKeepEval ends an evaluation after its first rollouts, lets it go on, and holds it
// to an undisturbed one.
func TestKeepEval(t *testing.T) {
	data, dir := shortRoutes(t, 9), t.TempDir()
	args := func(extra ...string) []string {
		return append(
			[]string{
				"eval", "--engine", "reference", "--no-cache", "--data_path", data,
				"--test_controller", "pid", "--baseline_controller", "zero", "--report",
				filepath.Join(dir, "report.html"),
			},
			extra...)
	}
	table := func(extra ...string) (string, string) {
		t.Helper()
		file := filepath.Join(dir, "costs.csv")
		status, stdout, stderr := lockstepRun(t.Context(), args(append(extra, "--csv", file)...)...)
		text, err := os.ReadFile(file)
		if status != exitUsage || err != nil { // one route cannot be loaded
			t.Fatalf("exit %d, %v: %s", status, err, stderr)
		}
		return stdout, string(text)
	}
	wantOut, want := table()
	run := filepath.Join(dir, "run")
	for range 2 {
		out, got := table("--out", run)
		if out != wantOut || got != want {
			t.Errorf("kept: %s\n%s\nwant %s\n%s", out, got, wantOut, want)
		}
		checkKept(t, run, 16)
	}
	results := filepath.Join(run, "results")
	text, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(results, text[:len(text)/2], 0o666); err != nil {
		t.Fatal(err)
	}
	if out, got := table("--out", run); out != wantOut || got != want {
		t.Errorf("resumed: %s\n%s\nwant %s\n%s", out, got, wantOut, want)
	}
	checkKept(t, run, 16)
	if status, _, stderr := lockstepRun(t.Context(),
		args("--csv", filepath.Join(dir, "report.html"))...); status != exitUsage ||
		!strings.Contains(stderr, "--report and --csv: both would be") {
		t.Errorf("two outputs in one file: exit %d, %s", status, stderr)
	}
}

// TestKeepTune ends a search at any result, lets it go on, and holds it to an
// undisturbed one: what it prints and writes, and that nothing is computed twice.
func TestKeepTune(t *testing.T) {
	data, dir := shortRoutes(t, 4), t.TempDir()
	// a search leaves out nothing
	if err := os.Remove(filepath.Join(data, "g00003.csv")); err != nil {
		t.Fatal(err)
	}
	gains, run := filepath.Join(dir, "gains.json"), filepath.Join(dir, "run")
	args := func(extra ...string) []string {
		return append(
			[]string{
				"tune", "--engine", "reference", "--no-cache", "--data_path", data, "--kind", "pid",
				"--population", "8", "--generations", "2", "--gains", gains,
			},
			extra...)
	}
	tune := func(extra ...string) string {
		t.Helper()
		status, stdout, stderr := lockstepRun(t.Context(), args(extra...)...)
		text, err := os.ReadFile(gains)
		if status != exitOK || err != nil {
			t.Fatalf("exit %d, %v: %s", status, err, stderr)
		}
		return stdout + string(text)
	}
	const rollouts = 3 * (1 + 2*8)
	want := tune()
	if !strings.Contains(want, "generation  2  best ") ||
		!strings.Contains(want, "pid: pid; class: controller\n") {
		t.Fatalf("undisturbed:\n%s", want)
	}
	if got := tune("--out", run); got != want {
		t.Errorf("kept:\n%swant:\n%s", got, want)
	}
	checkKept(t, run, rollouts)
	results := filepath.Join(run, "results")
	text, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []int{0, 5, 50, 99, 100} { // % of the results that are there
		if err := os.WriteFile(results, text[:len(text)*part/100], 0o666); err != nil {
			t.Fatal(err)
		}
		if got := tune("--out", run); got != want {
			t.Errorf("resumed at %d %%:\n%swant:\n%s", part, got, want)
		}
		checkKept(t, run, rollouts)
	}
	if status, stdout, stderr := lockstepRun(t.Context(), "watch", run); status != exitOK ||
		!strings.Contains(stdout, fmt.Sprintf("%d of %[1]d rollouts", rollouts)) ||
		!strings.Contains(stdout, "generation 2\nbest ") {
		t.Errorf("watch: exit %d, %s%s", status, stdout, stderr)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for want, extra := range map[string][]string{
		"the search is 2 generations of 8 pid, seed 2, " +
			"there it is 2 generations of 8 pid, seed 1": {"--out", run, "--seed", "2"},
		"--gains and --report: both would be": {"--report", gains},
		"--gains: " + data: {
			"--gains", filepath.Join(data, "g00000.csv"),
			"--data_path", filepath.Join(data, "g00000.csv"),
		},
		"--generations 0: want 1 or more":                      {"--generations", "0"},
		"a population of 7: want 8 to 100000":                  {"--population", "7"},
		`--kind must be one of "pid","pidff" but got "table2"`: {"--kind", "table2"},
		`--kind must be one of "pid","pidff" but got "table"`:  {"--kind", "table"},
		"--budget 1ns: not even one generation":                {"--budget", "1ns"},
	} {
		status, _, stderr := lockstepRun(t.Context(), args(extra...)...)
		if said := withoutNotices(stderr); status != exitUsage || !strings.Contains(said, want) ||
			strings.Count(said, "\n") != 1 {
			t.Errorf("%v: exit %d, %s; want %q", extra, status, said, want)
		}
	}
	if status, _, _ := lockstepRun(cancelled, args("--out", run)...); status != exitInterrupted {
		t.Errorf("interrupted: exit %d", status)
	}
}

// TestKeepPlan ends a search of actions at any choice, lets it go on, and holds it to an
// undisturbed one: what it prints and writes, and that nothing is chosen twice.
func TestKeepPlan(t *testing.T) {
	data, dir := shortRoutes(t, 3), t.TempDir()
	// a search leaves out nothing
	if err := os.Remove(filepath.Join(data, "g00002.csv")); err != nil {
		t.Fatal(err)
	}
	table, run := filepath.Join(dir, "table.json"), filepath.Join(dir, "run")
	args := func(extra ...string) []string {
		return append([]string{
			"plan", "--engine", "reference", "--no-cache", "--data_path", data, "--noise",
			"own,seeded,expected", "--seeds", "1", "--rounds", "1", "--window", "2",
			"--horizon", "4", "--table", table,
		}, extra...)
	}
	plan := func(extra ...string) string {
		t.Helper()
		status, stdout, stderr := lockstepRun(t.Context(), args(extra...)...)
		text, err := os.ReadFile(table)
		if status != exitOK || err != nil {
			t.Fatalf("exit %d, %v: %s", status, err, stderr)
		}
		return stdout + string(text)
	}
	const choices = 2 * (3 + 2 + 2) // routes, windows of 6 steps, twice a round and the actions
	want := plan()
	if got := plan("--out", run); got != want {
		t.Errorf("kept:\n%swant:\n%s", got, want)
	}
	checkKept(t, run, choices)
	results := filepath.Join(run, "results")
	text, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []int{0, 5, 50, 99, 100} { // % of the choices that are there
		if err := os.WriteFile(results, text[:len(text)*part/100], 0o666); err != nil {
			t.Fatal(err)
		}
		if got := plan("--out", run); got != want {
			t.Errorf("resumed at %d %%:\n%swant:\n%s", part, got, want)
		}
		checkKept(t, run, choices)
	}
	if status, stdout, stderr := lockstepRun(t.Context(), "watch", run); status != exitOK ||
		!strings.Contains(
			stdout, fmt.Sprintf("%d of %[1]d choices", choices),
		) || strings.Contains(stdout, "average") {
		t.Errorf("watch: exit %d, %s%s", status, stdout, stderr)
	}
	for want, extra := range map[string][]string{
		"windows of 2 steps and horizons of 5": {"--horizon", "5"},
		"seed 2, in 7 steps, there":            {"--seed", "2"},
		"noise with 2 rounds":                  {"--rounds", "2"},
		`controller 0 is "zero"`:               {"--from", "zero"},
		`route 0 is "g00000" (seed`:            {"--seed_prefix", "other"},
	} {
		status, _, stderr := lockstepRun(t.Context(), args(append(extra, "--out", run)...)...)
		if said := withoutNotices(stderr); status != exitUsage || !strings.Contains(said, want) {
			t.Errorf("%v: exit %d, %s; want %q", extra, status, said, want)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if status, _, _ := lockstepRun(cancelled, args("--out", run)...); status != exitInterrupted {
		t.Errorf("interrupted: exit %d", status)
	}
}

// TestShardCommands computes a run in three parts and holds the merged lines to those
// of an undisturbed run.
func TestShardCommands(t *testing.T) {
	data := shortRoutes(t, 5)
	// no plan holds what cannot be loaded
	if err := os.Remove(filepath.Join(data, "g00004.csv")); err != nil {
		t.Fatal(err)
	}
	// With the second no network gets along.
	shortRoute(t, filepath.Join(data, "g00001.csv"), 104,
		func(text string) string { return strings.ReplaceAll(text, ",30,", ",1e300,") })
	dir := filepath.Join(t.TempDir(), "plan")
	flags := []string{
		"--engine", "reference", "--data_path", data, "--pid", "0.1,0,0", "--pid", "0.2,0,0",
	}
	run := func(want int, args ...string) string {
		t.Helper()
		status, stdout, stderr := lockstepRun(t.Context(), args...)
		if status != want {
			t.Fatalf("%v: exit %d, want %d: %s", args, status, want, stderr)
		}
		return stdout
	}
	run(
		exitOK, "shard", "plan", "--out", filepath.Join(t.TempDir(), "default"), "--shards", "1",
		"--engine", "reference", "--data_path", data,
	)
	refuses(t, "kernels of a plan", "a plan has none to choose", "shard", "plan", "--out", dir,
		"--shards", "1", "--kernels", "go")
	undisturbed := secondsPattern.ReplaceAllString(
		run(exitUsage, append([]string{"rollout", "--json"}, flags...)...), "",
	)
	run(exitOK, append([]string{"shard", "plan", "--out", dir, "--shards", "3"}, flags...)...)
	for _, k := range []string{"2", "0"} {
		run(exitOK, "shard", "run", "--out", dir, "--index", k)
	}
	if _, _, stderr := lockstepRun(t.Context(), "shard", "merge", "--out", dir); !strings.Contains(
		stderr, "1 of 3 shards are missing: [1]",
	) {
		t.Errorf("missing: %s", stderr)
	}
	run(exitParity, "shard", "merge", "--out", dir)
	other := shortRoutes(t, 5)
	if err := os.Remove(filepath.Join(other, "g00003.csv")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(other, "g00000.csv"),
		filepath.Join(other, "g00004.csv")); err != nil {
		t.Fatal(err)
	}
	if _, _, stderr := lockstepRun(t.Context(), "shard", "run", "--out", dir, "--index", "1",
		"--data_path", other); !strings.Contains(
		stderr, "this machine would compute something else than planned: 3 routes, there 4",
	) {
		t.Errorf("other routes: %s", stderr)
	}
	run(exitOK, "shard", "run", "--out", dir, "--index", "1")
	status, merged, stderr := lockstepRun(t.Context(), "shard", "merge", "--json", "--out", dir)
	if status != exitUsage || strings.Contains(stderr, "missing") {
		t.Errorf("merged: exit %d, %s", status, stderr)
	}
	merged = secondsPattern.ReplaceAllString(merged, "")
	m, err := runs.Merge(dir)
	if want := undisturbed + `{"sha256":"` + m.SHA256 + "\"}\n"; err != nil || merged != want {
		t.Errorf("%v, merged:\n%swant:\n%s", err, merged, want)
	}
	text := run(exitUsage, "shard", "merge", "--out", dir)
	if !strings.HasSuffix(text, "\nsha256 "+m.SHA256+"\n") {
		t.Errorf("merged:\n%swant its hash, %s", text, m.SHA256)
	}
}
