package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockstep"
	"lockstep/cmd/internal/report"
	"lockstep/cmd/internal/runs"
	"lockstep/internal/search"
	"lockstep/internal/want"
	"lockstep/policyfile"
	"lockstep/reference"
)

// told are routes with the project's own network, and the flags of a command that simulates them.
type told struct {
	*simulation
	flags  []string
	stderr string // of the last command
}

func newTold(t *testing.T, data string) *told {
	t.Helper()
	f := simulatorFlags{Engine: "reference", inputFlags: inputFlags{
		pathFlags: pathFlags{Own: true, DataPath: data}, NumSegs: 100, Profile: profile,
		SeedPrefix: "data", NoCache: true,
	}}
	env := &environment{ctx: t.Context(), stdout: &stickyWriter{w: io.Discard}, stderr: io.Discard}
	s, err := f.load(env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.simulator.Close() })
	return &told{simulation: s, flags: []string{
		"--own", "--data_path", data, "--engine", "reference", "--no-cache", "--profile", profile,
	}}
}

// run runs a command on the routes, and returns what it prints.
func (s *told) run(t *testing.T, exit int, args ...string) string {
	t.Helper()
	status, stdout, stderr := lockstepRun(t.Context(), append(args, s.flags...)...)
	if s.stderr = stderr; status != exit {
		t.Fatalf("%q: exit %d, want %d: %s", args, status, exit, stderr)
	}
	return stdout
}

// alone are the costs of a policy on each of the routes, rolled out by itself, and what the draws
// have cost each at the least.
func (s *told) alone(t *testing.T, p lockstep.Policy) (costs []lockstep.Costs, draws []float64) {
	t.Helper()
	for _, route := range s.routes {
		unforeseen := search.NewUnforeseen(route)
		job := lockstep.Job{Route: route, Policy: p, Observe: unforeseen.Observe}
		options := lockstep.Options{Shortcuts: lockstep.CostOnly}
		for _, r := range s.simulator.Simulate(t.Context(), []lockstep.Job{job}, options) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			costs, draws = append(costs, r.Costs), append(draws, unforeseen.Cost)
		}
	}
	return costs, draws
}

// TestRolloutTold: each line is of its route and its controller.
func TestRolloutTold(t *testing.T) {
	s := newTold(t, shortRoutes(t, 4))
	policies := []lockstep.Policy{lockstep.PID{P: 0.3, I: 0.05, D: -0.1}, lockstep.DefaultPID()}
	out := s.run(t, exitUsage, "rollout", "--json", "--pid", "0.3,0.05,-0.1", "--pid",
		"0.195,0.1,-0.053")
	lines := strings.Split(out, "\n")
	const each = 3 + 1 + 1 // routes, that which cannot be loaded, and a summary
	if len(lines) != each*len(policies)+1 {
		t.Fatalf("%d lines:\n%s", len(lines), out)
	}
	for k, policy := range policies {
		costs, _ := s.alone(t, policy)
		for i, c := range costs {
			want := fmt.Sprintf(
				`{"route":"%s","controller":"%s","engine":"reference","profile":"%s",%s}`,
				s.routes[i].Name, policy, profile, jsonCostText(c),
			)
			if got := lines[each*k+i]; got != want {
				t.Errorf("controller %d, route %d:\n got %s\nwant %s", k, i, got, want)
			}
		}
		mean := fmt.Sprintf(`{"controller":"%s","routes":3,"failed":1,"interrupted":0,"mean":{%s},`,
			policy, jsonCostText(reference.MeanCosts(costs)))
		if got := lines[each*k+4]; !strings.HasPrefix(got, mean) {
			t.Errorf("controller %d:\n got %s\nwant %s", k, got, mean)
		}
	}
}

// TestEvalTold: the costs of an evaluation, and their averages, are those of each rollout alone,
// with a trajectory or without.
func TestEvalTold(t *testing.T) {
	dir := t.TempDir()
	s := newTold(t, shortRoutes(t, sampleRoutes+4))
	file := filepath.Join(dir, "costs.csv")
	out := s.run(t, exitUsage, "eval", "--test_controller", "zero", "--baseline_controller", "pid",
		"--csv", file, "--report", filepath.Join(dir, "report.html")) // one cannot be loaded
	// Of each controller it fails once.
	failed := fmt.Sprintf("lockstep: 2 of %d rollouts failed\n", 2*(len(s.routes)+1))
	if !strings.HasSuffix(s.stderr, failed) {
		t.Errorf("%s, want at its end %s", s.stderr, failed)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	if n := len(s.routes) + 1; err != nil || len(rows) != 1+2*n {
		t.Fatalf("%d rows of %d routes, %v", len(rows), n, err)
	}
	rows = rows[1:]
	for _, c := range []struct {
		role   string
		policy lockstep.Policy
	}{{"test", lockstep.Zero{}}, {"baseline", lockstep.DefaultPID()}} {
		want, _ := s.alone(t, c.policy)
		for i, route := range s.routes {
			row := strings.Join(rows[i][:3], " ")
			if row != fmt.Sprintf("%s %s %s", c.role, c.policy, route.Name) || rows[i][6] != "" {
				t.Errorf("%s, route %d: %q", c.role, i, rows[i])
			}
			for k, x := range costs(lockstep.Result{Costs: want[i]}) {
				if got, err := strconv.ParseFloat(rows[i][3+k], 64); err != nil ||
					math.Float64bits(got) != math.Float64bits(x) {
					t.Errorf("%s: cost %d is %v, want %v", row, k, got, x)
				}
			}
		}
		failed := rows[len(s.routes)]
		if failed[3] != "" || !strings.Contains(failed[6], "50 rows") {
			t.Errorf("%s, the last route: %q", c.role, failed)
		}
		rows = rows[len(s.routes)+1:]
		mean := reference.MeanCosts(want)
		line := fmt.Sprintf("%-9s %-20s %d routes, average lataccel_cost: %s, average jerk_cost: "+
			"%s, average total_cost: %s\n", c.role, c.policy, len(want),
			reference.FormatCost(mean.Lataccel), reference.FormatCost(mean.Jerk),
			reference.FormatCost(mean.Total))
		if !strings.Contains(out, line) {
			t.Errorf("%swant in it %s", out, line)
		}
	}
}

// TestOrigin: a report says how long it took, to a hundredth of a second.
func TestOrigin(t *testing.T) {
	s := searched(t)
	o := s.origin(&environment{}, &simulatorFlags{}, 1234567*time.Microsecond)
	if !slices.Contains(o.Facts, report.Fact{Name: "Time", Value: "1.23s"}) {
		t.Errorf("%+v", o.Facts)
	}
}

// TestCached: routes are kept in the cache if there are several of them.
func TestCached(t *testing.T) {
	cache := filepath.Join(ownCache(t), "lockstep", "routes")
	for _, name := range []string{"R/a.csv", "R/b.csv"} {
		shortRoute(t, mkdir(t, name), 101, nil)
	}
	for _, data := range []string{"R/a.csv", "R"} {
		f := simulatorFlags{Engine: "reference", inputFlags: inputFlags{
			pathFlags: pathFlags{Own: true, DataPath: data}, NumSegs: 100, Profile: profile,
		}}
		env := &environment{ctx: t.Context(), stderr: io.Discard}
		if _, err := f.load(env); err != nil {
			t.Fatal(err)
		}
		for _, end := range env.ends {
			end()
		}
		if _, err := os.Stat(cache); (err == nil) != (data == "R") {
			t.Errorf("%s: the cache: %v", data, err)
		}
	}
}

// TestRunsDrawn: the first routes come with their drives, of each controller, and all with their
// floors; those that could not be loaded come last.
func TestRunsDrawn(t *testing.T) {
	s := newTold(t, shortRoutes(t, 5))
	env := &environment{ctx: t.Context(), stderr: io.Discard}
	policies := []lockstep.Policy{lockstep.DefaultPID(), lockstep.Zero{}}
	for _, drawn := range []int{0, 2, 9} {
		all, err := s.runs(env, policies, drawn, nil)
		if err != nil || len(all) != len(policies) {
			t.Fatalf("%d runs, %v", len(all), err)
		}
		for k, run := range all {
			if n := len(run.Routes); n != 5 || run.Routes[4].Err == nil {
				t.Errorf("%s: %d routes, the last with error %v", run.Controller, n,
					run.Routes[4].Err)
			}
			for i, r := range run.Routes[:4] {
				shown := i < drawn
				if (r.Route != nil) != shown || (r.Trajectory != nil) != shown ||
					r.Name != s.routes[i].Name || r.Floor != search.Floor(s.routes[i]) ||
					run.Controller != policies[k].String() {
					t.Errorf("%d drawn: route %d of %s is %+v", drawn, i, run.Controller, r)
				}
			}
		}
	}
}

// stopping is an engine that is interrupted when it is asked for the last time.
type stopping struct {
	lockstep.Implementation
	left *int
	stop func()
}

func (s stopping) Simulate(
	ctx context.Context, jobs []lockstep.Job, o lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	if *s.left--; *s.left == 0 {
		s.stop()
	}
	return s.Implementation.Simulate(ctx, jobs, o)
}

// TestRunsInterrupted: an evaluation that is interrupted, in the rollouts that are drawn or in the
// others, comes to nothing, and says so.
func TestRunsInterrupted(t *testing.T) {
	s := newTold(t, shortRoutes(t, 4))
	sim := s.simulator
	for left, want := range map[int]error{1: exitStatus(exitInterrupted),
		2: exitStatus(exitInterrupted), 3: nil} {
		ctx, stop := context.WithCancel(t.Context())
		s.simulator = stopping{sim, &left, stop}
		var said strings.Builder
		env := &environment{ctx: ctx, stdout: &stickyWriter{w: io.Discard}, stderr: &said}
		all, err := s.runs(env, []lockstep.Policy{lockstep.Zero{}}, 1, nil)
		stop()
		interrupted := said.String() == "lockstep: interrupted; "+noReport+"\n"
		if err != want || (all != nil) != (want == nil) || interrupted != (want != nil) {
			t.Errorf("%d runs, %v, %s; want %v", len(all), err, &said, want)
		}
	}
}

// TestEvalFailing: which rollout fails is said on standard error, for each controller, and the
// averages are of the other routes.
func TestEvalFailing(t *testing.T) {
	data := shortRoutes(t, 3)
	shortRoute(t, filepath.Join(data, "g00001.csv"), 104, // with which no network gets along
		func(text string) string { return strings.ReplaceAll(text, ",30,", ",1e300,") })
	out := newTold(t, data)
	told := out.run(t, exitUsage, "eval", "--test_controller", "zero", "--report",
		filepath.Join(t.TempDir(), "report.html"))
	for _, controller := range []string{"zero", "pid"} {
		if want := "lockstep: route g00001, controller " + controller + ","; strings.Count(
			out.stderr, want) != 1 {
			t.Errorf("%s, want once %s", out.stderr, want)
		}
	}
	if n := strings.Count(told, " 1 routes, average"); n != 2 ||
		strings.Contains(told, "lockstep:") {
		t.Errorf("%swant two averages of one route, and no more", told)
	}
}

// losing is an engine that loses the rollouts of one route.
type losing struct {
	lockstep.Implementation
	route string
}

func (l losing) Simulate(
	ctx context.Context, jobs []lockstep.Job, o lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	return func(yield func(int, lockstep.Result) bool) {
		for i, r := range l.Implementation.Simulate(ctx, jobs, o) {
			if jobs[i].Route.Name == l.route {
				r = lockstep.Result{Err: lockstep.Passing(errors.New("it was killed"))}
			}
			if !yield(i, r) {
				return
			}
		}
	}
}

// TestLostTold: of rollouts that were lost each is named, and no other, wherever in a plan they
// stand; nothing is said where none was, or none would have been kept.
func TestLostTold(t *testing.T) {
	s := newTold(t, shortRoutes(t, 4))
	s.simulator = losing{s.simulator, "g00001"}
	policies := []lockstep.Policy{lockstep.DefaultPID(), lockstep.Zero{}, lockstep.PID{P: 0.5}}
	var said bytes.Buffer
	env := &environment{ctx: t.Context(), stdout: &stickyWriter{w: io.Discard}, stderr: &said}
	journal, err := s.journal(env, t.TempDir(), runs.Plan{}, policies...)
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	work := &runs.Work{
		Jobs: s.jobs(policies[1:]), First: len(s.routes), Journal: journal,
		Options: lockstep.Options{Shortcuts: lockstep.CostOnly},
	}
	if err := s.stream(env, work, func(int, lockstep.Result) {}); err != nil {
		t.Fatal(err)
	}
	want := "lockstep: 2 of 6 rollouts were lost, are not kept, and are computed when the same " +
		"command is run again: g00001 of zero, g00001 of pid_0.5_0_0\n"
	if said.String() != want {
		t.Errorf("%s, want %s", &said, want)
	}
	said.Reset()
	unkept, sound := *work, *work
	unkept.Journal, sound.First, sound.Jobs = nil, 0, s.jobs(policies[:1])[:1]
	for _, work := range []*runs.Work{&unkept, &sound} {
		if err := s.stream(env, work, func(int, lockstep.Result) {}); err != nil ||
			said.String() != "" {
			t.Errorf("%v, %s", err, &said)
		}
	}
	for i := range 3 * len(s.routes) {
		want := i == 0 || i >= work.First && i%len(s.routes) != 1
		if _, kept := journal.Result(i); kept != want {
			t.Errorf("rollout %d: kept: %v", i, kept)
		}
	}
}

// searched are routes of which a search leaves out none.
func searched(t *testing.T) *told {
	data := shortRoutes(t, 4)
	if err := os.Remove(filepath.Join(data, "g00003.csv")); err != nil {
		t.Fatal(err)
	}
	return newTold(t, data)
}

// table holds what a search prints to the routes' floors, to a bound, if there is one, and to the
// policies' total costs, each rolled out by itself. It returns the means of all columns.
func (s *told) table(t *testing.T, out string, bound []float64, policies ...lockstep.Policy) (
	means []float64,
) {
	t.Helper()
	var columns [][]float64
	var floor []float64
	for _, route := range s.routes {
		floor = append(floor, search.Floor(route))
	}
	if columns = append(columns, floor); bound != nil {
		columns = append(columns, bound)
	}
	for _, p := range policies {
		costs, _ := s.alone(t, p)
		var totals []float64
		for _, c := range costs {
			totals = append(totals, c.Total)
		}
		columns = append(columns, totals)
	}
	for _, column := range columns {
		var costs []lockstep.Costs
		for _, x := range column {
			costs = append(costs, lockstep.Costs{Total: x})
		}
		means = append(means, reference.MeanCosts(costs).Total)
	}
	var lines []string
	for line := range strings.Lines(out) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	text := strings.Join(lines, "\n")
	rows := map[string]func(column []float64, k int) float64{
		"mean": func(_ []float64, k int) float64 { return means[k] },
	}
	for i, route := range s.routes {
		rows[route.Name] = func(column []float64, _ int) float64 { return column[i] }
	}
	for name, of := range rows {
		row := "\n" + name
		for k, column := range columns {
			row += fmt.Sprintf(" %.3f", of(column, k))
		}
		if !strings.Contains(text, row+"\n") {
			t.Errorf("%s\nwant in it%s", text, row)
		}
	}
	return means
}

// TestTuneTold: what a search of gains prints of costs is what rollouts of these gains come to.
func TestTuneTold(t *testing.T) {
	s, file := searched(t), filepath.Join(t.TempDir(), "gains.json")
	out := s.run(t, exitOK, "tune", "--kind", "pid", "--population", "8", "--generations", "2",
		"--gains", file)
	best, err := policyfile.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	s.table(t, out, nil, lockstep.DefaultPID(), best)
}

// slow is an engine that takes some time whenever it is asked.
type slow struct {
	lockstep.Implementation
	takes time.Duration
}

func (s slow) Simulate(
	ctx context.Context, jobs []lockstep.Job, o lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	time.Sleep(s.takes)
	return func(yield func(int, lockstep.Result) bool) {
		for i := range jobs {
			if !yield(i, lockstep.Result{Costs: lockstep.Costs{Total: 1}}) {
				return
			}
		}
	}
}

// TestTuneBudget: a generation begins if it ends within the budget when it takes as long as the
// last one, and there are no more than were asked for.
func TestTuneBudget(t *testing.T) {
	s := searched(t)
	s.simulator = slow{s.simulator, time.Second}
	synctest.Test(t, func(t *testing.T) { // in which a second is one
		for budget, want := range map[time.Duration]int{
			500 * time.Millisecond: 0, time.Second: 1, 2 * time.Second: 1,
			3*time.Second - 1: 1, 3 * time.Second: 2, 4 * time.Second: 3, time.Hour: 4,
		} {
			var out strings.Builder
			env := &environment{
				ctx: t.Context(), stdout: &stickyWriter{w: &out}, stderr: io.Discard,
			}
			gains, err := search.NewGains(lockstep.KindPID, 8, 1)
			if err != nil {
				t.Fatal(err)
			}
			c := &tuneCommand{Population: 8, Generations: 4, Budget: budget}
			page := report.NewSearch("", s.routes)
			err = c.search(env, s.simulation, gains, nil, page, time.Now())
			text := fmt.Sprintf("--budget %v: not even one generation", budget)
			if n := strings.Count(out.String(), "generation "); n != want ||
				(err == nil) != (want > 0) || err != nil && err.Error() != text {
				t.Errorf("in %v: %d generations, %v; want %d", budget, n, err, want)
			}
		}
	})
}

// TestPlanTold: so is what a search of actions prints, with the noise of each, how far each comes,
// and what nobody can have foreseen.
func TestPlanTold(t *testing.T) {
	s, dir := searched(t), t.TempDir()
	var policies []lockstep.Policy
	var out string
	for _, noise := range []string{"route", "route,expected"} {
		file := filepath.Join(dir, noise+".json")
		out = s.run(t, exitOK, "plan", "--noise", noise, "--from", "zero", "--rounds", "1",
			"--window", "2", "--horizon", "4", "--table", file)
		table, err := policyfile.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		policies = append(policies, table)
	}
	policies = append([]lockstep.Policy{lockstep.Zero{}}, policies...)
	bound := make([]float64, len(s.routes))
	for i := range bound {
		bound[i] = math.Inf(1)
	}
	for _, p := range policies {
		_, draws := s.alone(t, p)
		for i, x := range draws {
			bound[i] = min(bound[i], search.Floor(s.routes[i])+x)
		}
	}
	means := s.table(t, out, bound, policies...)
	way := func(k int) float64 { return 100 * (means[2] - means[k]) / (means[2] - means[0]) }
	for _, want := range []string{
		fmt.Sprintf("%s (route noise): %.1f %% of the way from zero to the floor\n",
			policies[1], way(3)),
		fmt.Sprintf("%s (expected noise): %.1f %% of the way from zero to the floor\n",
			policies[2], way(4)),
		fmt.Sprintf("can expect %.1f %% of it at the most\n", way(1)),
		fmt.Sprintf("%s: %[1]s; class: table that knows the draws\n", policies[1]),
		fmt.Sprintf("%s: %[1]s; class: table, planned without the draws\n", policies[2]),
		"table: " + filepath.Join(dir, "route,expected.json") + " (expected noise)\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%swant in it %s", out, want)
		}
	}
}

// TestExportTold: a controller that is exported is held to the engine at each step of each route,
// the last ones too, in every bit; one that steers otherwise is named, and nothing is written.
func TestExportTold(t *testing.T) {
	want.Python.Need(t)
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o777); err != nil {
		t.Fatal(err)
	}
	shortRoute(t, filepath.Join(data, "a.csv"), 104, nil)
	shortRoute(t, filepath.Join(data, "b.csv"), 107, nil)
	pid := lockstep.PID{P: 0.2}
	source, err := policyfile.Export(pid)
	if err != nil {
		t.Fatal(err)
	}
	const other = `
class Controller(Controller):
    n = 19
    def update(self, *args, **named):
        self.n += 1
        x = super().update(*args, **named)
        return %s if self.n == %d else x
`
	for _, test := range []struct{ more, want string }{
		{fmt.Sprintf(other, "7", 99), ""}, // at which no answer counts
		{fmt.Sprintf(other, "np.nextafter(x, 9)", 106), "route b, step 106: the exported "},
	} {
		f := simulatorFlags{Engine: "reference", inputFlags: inputFlags{
			pathFlags: pathFlags{Own: true, DataPath: data}, NumSegs: 100, Profile: profile,
			SeedPrefix: "data", NoCache: true,
		}}
		c := &exportCommand{simulatorFlags: f, pythonFlags: pythonFlags{Timeout: time.Minute}}
		env := &environment{
			ctx: t.Context(), stdout: &stickyWriter{w: io.Discard}, stderr: io.Discard,
		}
		text := "import numpy as np\n" + string(source) + test.more
		err := c.check(env, pid, []byte(text))
		for _, end := range env.ends {
			end()
		}
		if got := fmt.Sprint(err); (err == nil) != (test.want == "") ||
			!strings.Contains(got, test.want) {
			t.Errorf("%s: %s, want %q", test.more, got, test.want)
		}
	}
}
