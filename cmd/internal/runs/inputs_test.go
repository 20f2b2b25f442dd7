package runs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/engines"
	"lockstep/internal/defaults"
	"lockstep/routefile"
)

// shortInputs are inputs with routes of a few steps, in a folder.
func shortInputs(t *testing.T, routes int, controllers ...string) (in Inputs, folder string) {
	t.Helper()
	model, from, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(from, "*.csv"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	folder = t.TempDir()
	for i := range routes {
		rows := append(slices.Clone(lines[:1]), lines[1:104+i]...)
		err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("r%d.csv", i)),
			bytes.Join(rows, nil), 0o666)
		if err != nil {
			t.Fatal(err)
		}
	}
	return Inputs{Model: model, Data: []string{folder}, Limit: -1, SeedPrefix: "./data",
		Profile: lockstep.Profile{}.String(),
		Engine:  "batched", Controllers: controllers}, folder
}

// TestParts: a shard loads the routes of its own rollouts and no others, whatever these are by
// now; what it comes to is what all rollouts come to in one go. More routes than the plan has, or
// fewer, or another where one is needed, are refused.
func TestParts(t *testing.T) {
	in, folder := shortInputs(t, 3, "zero", "pid")
	o, err := in.Open(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	var want []Result
	err = (&Work{Simulator: o.Simulator, Jobs: o.Jobs, Options: lockstep.Options{
		Shortcuts: lockstep.CostOnly,
	}}).Stream(t.Context(), func(i int, r lockstep.Result) { want = append(want, NewResult(i, r)) })
	if err != nil || len(want) != 6 {
		t.Fatal(want, err)
	}
	holdRollouts(t, in, folder, o.Plan, want)
	dir := t.TempDir()
	if err := o.WritePlan(dir, 4); err != nil { // of 1, 2, 1 and 2 rollouts
		t.Fatal(err)
	}
	files := &routeFiles{folder: folder}
	for i := range 3 {
		text, err := os.ReadFile(files.path(i))
		if err != nil {
			t.Fatal(err)
		}
		files.good = append(files.good, text)
	}
	for shard := range 4 {
		files.runsAlone(t, dir, o.Plan, shard)
	}
	m, err := Merge(dir)
	if err != nil || len(m.Results) != len(want) {
		t.Fatalf("%+v, %v", m, err)
	}
	for i, r := range m.Results {
		if !r.same(want[i]) {
			t.Errorf("rollout %d: %+v, want %+v", i, r, want[i])
		}
	}
	for _, shard := range []int{-1, 4, 5} {
		_, err := RunShard(t.Context(), dir, shard, Here{}, 1, nil)
		if want := fmt.Sprintf("shard %d: the plan has 4, from 0 on", shard); err == nil ||
			err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// holdRollouts: six rollouts of two controllers and three routes are of the routes that the plan
// names, and each is another.
func holdRollouts(t *testing.T, in Inputs, folder string, p *Plan, want []Result) {
	t.Helper()
	for i, r := range want {
		file := filepath.Join(folder, fmt.Sprintf("r%d.csv", i%3))
		route, err := routefile.Loader{SeedPrefix: in.SeedPrefix}.Load(file)
		if err != nil || p.Routes[i%3] != PlanRoute(route) || r.Err != "" {
			t.Fatalf("rollout %d: %+v, of route %+v, %v", i, r, p.Routes[i%3], err)
		}
	}
	if want[0].same(want[3]) || want[0].Costs == want[1].Costs || want[0].Costs == want[3].Costs {
		t.Errorf("others' rollouts come to the same: %+v", want)
	}
}

// TestPartOfControllers: a shard loads the controllers of its own rollouts and no others, whatever
// these are by now.
func TestPartOfControllers(t *testing.T) {
	folder := t.TempDir()
	files := []string{filepath.Join(folder, "a.json"), filepath.Join(folder, "b.json")}
	texts := []string{
		`{"policy": "pid", "gains": [0.1, 0, 0]}`, `{"policy": "pid", "gains": [0.2, 0, 0]}`,
	}
	put := func(i int, text string) {
		if err := os.WriteFile(files[i], []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	put(0, texts[0])
	put(1, texts[1])
	in, _ := shortInputs(t, 2, files...)
	o, err := in.Open(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	dir := t.TempDir()
	if err := o.WritePlan(dir, 2); err != nil {
		t.Fatal(err)
	}
	for shard := range 2 {
		put(shard, "none")
		if file, err := RunShard(t.Context(), dir, shard, Here{}, 1, nil); err == nil {
			t.Errorf("shard %d is in %s without its controller", shard, file)
		}
		put(shard, texts[shard])
		put(1-shard, "none")
		if _, err := RunShard(t.Context(), dir, shard, Here{}, 1, nil); err != nil {
			t.Errorf("shard %d, where the other's controller is none: %v", shard, err)
		}
		put(1-shard, texts[1-shard])
	}
}

// TestElsewhere: where a machine has network and routes elsewhere than planned, a shard takes them
// from there, and has the file that it has where they were planned; what is not said is taken from
// where the plan has it. There it may be another network, or none: it is not looked at.
func TestElsewhere(t *testing.T) {
	in, folder := shortInputs(t, 1, "zero")
	o, err := in.Open(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	moved := t.TempDir()
	model, data := filepath.Join(moved, "model.onnx"), filepath.Join(moved, "routes")
	text, err := os.ReadFile(in.Model)
	if err == nil {
		err = os.WriteFile(model, text, 0o666)
	}
	if err == nil {
		err = os.CopyFS(data, os.DirFS(folder))
	}
	if err != nil {
		t.Fatal(err)
	}
	planned := filepath.Join(folder, "r0.csv")
	route, err := os.ReadFile(planned)
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, c := range []struct {
		what string
		gone []string // where it was planned
		here Here
	}{
		{"nothing", nil, Here{}},
		{"the network", []string{in.Model}, Here{Model: model}},
		{"the routes", []string{planned}, Here{Data: []string{data}}},
		{"both", []string{in.Model, planned}, Here{Model: model, Data: []string{data}}},
	} {
		for _, left := range []string{"", "another\n"} {
			dir := planAgain(t, o)
			for _, file := range c.gone {
				err := os.Remove(file)
				if err == nil && left != "" {
					err = os.WriteFile(file, []byte(left), 0o666)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			file, err := RunShard(t.Context(), dir, 0, c.here, 1, nil)
			if want == "" {
				want = filepath.Base(file)
			}
			if err != nil || filepath.Base(file) != want {
				t.Errorf("%s elsewhere, %q where it was: %s, %v, want %s", c.what, left, file, err,
					want)
			}
			if len(c.gone) > 0 {
				if file, err := RunShard(t.Context(), planAgain(t, o), 0, Here{}, 1,
					nil); err == nil {
					t.Errorf("%s elsewhere, which nobody says: the shard is in %s", c.what, file)
				}
			}
			for name, text := range map[string][]byte{in.Model: text, planned: route} {
				if err := os.WriteFile(name, text, 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// planAgain is another folder of a plan of one shard.
func planAgain(t *testing.T, o *Opened) string {
	t.Helper()
	dir := t.TempDir()
	if err := o.WritePlan(dir, 1); err != nil {
		t.Fatal(err)
	}
	return dir
}

// counted is an engine that tells how many are open.
type counted struct {
	lockstep.Implementation
	open *int
}

func (c counted) Close() error {
	*c.open--
	return c.Implementation.Close()
}

// TestShardCloses: whatever comes of a shard, its engine is closed; and it was opened with all that
// the inputs say of it.
func TestShardCloses(t *testing.T) {
	open := 0
	var config engines.Config
	list := engines.Checked()
	for i := range list {
		make := list[i].New
		list[i].New = func(c engines.Config) (lockstep.Implementation, error) {
			config = c
			e, err := make(c)
			if err != nil {
				return nil, err
			}
			open++
			return counted{e, &open}, nil
		}
	}
	t.Cleanup(engines.Replace(list))
	in, folder := shortInputs(t, 2, "zero")
	profile := lockstep.Profile{CSV: lockstep.CSVExact}
	in.Profile = profile.String()
	text, err := os.ReadFile(filepath.Join(folder, "r0.csv"))
	if err != nil {
		t.Fatal(err)
	}
	// 1.2345678901234567e-30 is another number in another profile.
	lines := bytes.SplitAfterN(text, []byte("\n"), 3)
	cells := bytes.Split(lines[1], []byte(","))
	cells[1] = []byte("1.2345678901234567e-30")
	lines[1] = bytes.Join(cells, []byte(","))
	if err := os.WriteFile(filepath.Join(folder, "r0.csv"), bytes.Join(lines, nil),
		0o666); err != nil {
		t.Fatal(err)
	}
	loaded := func(p lockstep.Profile) PlannedRoute {
		route, err := routefile.Loader{Profile: p, SeedPrefix: in.SeedPrefix}.Load(
			filepath.Join(folder, "r0.csv"))
		if err != nil {
			t.Fatal(err)
		}
		return PlanRoute(route)
	}
	o, err := in.Open(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	if want := (engines.Config{Model: in.Model, Profile: profile, Workers: 3}); !reflect.DeepEqual(
		config, want) {
		t.Errorf("the engine is opened with %+v, want %+v", config, want)
	}
	if p := o.Plan; p.Version != Version || p.Profile != profile ||
		p.Routes[0] != loaded(profile) || p.Routes[0] == loaded(lockstep.Profile{}) {
		t.Errorf("the plan is %+v, of profile %v", p, profile)
	}
	dir := planAgain(t, o)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	one := Here{Data: []string{filepath.Join(folder, "r0.csv")}}
	for _, c := range []struct {
		what  string
		ctx   context.Context
		here  Here
		fails bool
	}{
		{"refused", t.Context(), one, true}, {"interrupted", cancelled, Here{}, true},
		{"without routes", t.Context(), Here{Data: []string{folder + "2"}}, true},
		{"computed", t.Context(), Here{}, false}, {"there", t.Context(), Here{}, false},
	} {
		if _, err := RunShard(c.ctx, dir, 0, c.here, 1, nil); (err != nil) != c.fails || open != 0 {
			t.Errorf("%s: %v, and %d engines are open", c.what, err, open)
		}
	}
}

// TestBrokenRoute: a route that cannot be loaded is told of once, however many controllers need it.
func TestBrokenRoute(t *testing.T) {
	in, folder := shortInputs(t, 3, "zero", "pid")
	name := filepath.Join(folder, "r1.csv")
	if err := os.WriteFile(name, []byte("no route\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Open(t.Context(), 1); err == nil || strings.Count(err.Error(), name) != 1 {
		t.Errorf("%v, want one error, of %s", err, name)
	}
}

// routeFiles are the three routes of a folder, of which some may be none.
type routeFiles struct {
	folder string
	good   [][]byte
}

func (f *routeFiles) path(i int) string {
	return filepath.Join(f.folder, fmt.Sprintf("r%d.csv", i))
}

func (f *routeFiles) put(t *testing.T, broken func(i int) bool) {
	t.Helper()
	for i, text := range f.good {
		if broken(i) {
			text = []byte("no route\n")
		}
		if err := os.WriteFile(f.path(i), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// refusesOthers: a shard is refused where one of its routes has other rows, of which a route can be
// made as well; it is told which, and nothing is kept.
func (f *routeFiles) refusesOthers(
	t *testing.T, dir string, p *Plan, shard int, needed map[int]bool,
) {
	t.Helper()
	for i := range needed {
		f.put(t, func(int) bool { return false })
		if err := os.WriteFile(f.path(i), f.good[(i+1)%len(f.good)], 0o666); err != nil {
			t.Fatal(err)
		}
		r := p.Routes[i]
		says := fmt.Sprintf("there it is %q (seed %d, %.12s)", r.Name, r.Seed, r.SHA256)
		file, err := RunShard(t.Context(), dir, shard, Here{}, 1, nil)
		begins := fmt.Sprintf(
			"this machine would compute something else than planned: route %d is %q", i, r.Name)
		if err == nil || !strings.HasPrefix(err.Error(), begins) ||
			!strings.HasSuffix(err.Error(), says) {
			t.Errorf(
				"shard %d, with other rows of route %d: %s, %v; want %s ... %s", shard, i, file,
				err, begins, says,
			)
		}
		if kept, err := shardFiles(dir, shard); err != nil || len(kept) > 0 {
			t.Errorf("shard %d, with other rows of route %d: kept are %v, %v", shard, i, kept, err)
		}
	}
}

// runsAlone: a shard is refused without its own routes, with others in their places, where
// there is one more, and where any has another name; it runs where the others are none.
func (f *routeFiles) runsAlone(t *testing.T, dir string, p *Plan, shard int) {
	t.Helper()
	from, to := p.Range(shard)
	needed := map[int]bool{}
	for j := from; j < to; j++ {
		needed[j%3] = true
	}
	f.put(t, func(i int) bool { return needed[i] })
	if file, err := RunShard(t.Context(), dir, shard, Here{}, 1, nil); err == nil {
		t.Errorf("shard %d is in %s without its routes", shard, file)
	}
	f.refusesOthers(t, dir, p, shard, needed)
	if err := os.WriteFile(f.path(3), f.good[0], 0o666); err != nil {
		t.Fatal(err)
	}
	f.put(t, func(int) bool { return false })
	const many = "this machine would compute something else than planned: 4 routes, there 3"
	if _, err := RunShard(t.Context(), dir, shard, Here{}, 1, nil); err == nil ||
		err.Error() != many {
		t.Errorf("shard %d, a route too many: %v", shard, err)
	}
	if err := os.Remove(f.path(3)); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		other := strings.TrimSuffix(f.path(i), ".csv") + " (2).csv" // in the same place
		if err := os.Rename(f.path(i), other); err != nil {
			t.Fatal(err)
		}
		named := fmt.Sprintf("this machine would compute something else than planned: route %d is "+
			"%q (seed ", i, routefile.Name(other))
		if _, err := RunShard(t.Context(), dir, shard, Here{}, 1, nil); err == nil ||
			!strings.HasPrefix(err.Error(), named) {
			t.Errorf("shard %d, where route %d has another name: %v", shard, i, err)
		}
		if err := os.Rename(other, f.path(i)); err != nil {
			t.Fatal(err)
		}
	}
	f.put(t, func(i int) bool { return !needed[i] })
	done := 0
	_, err := RunShard(t.Context(), dir, shard, Here{}, 1, func() { done++ })
	if err != nil || done != to-from {
		t.Errorf("shard %d, where others' routes are none: %v, %d rollouts are told", shard, err,
			done)
	}
}

// TestAbsolute: what is a file is found from any folder, and what is a name stays one.
func TestAbsolute(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	in := Inputs{
		Model: "m.onnx", Data: []string{"a", "/b", "c"},
		Controllers: []string{"pid", "zero", "p.json", "c.py", "/d.py", "pid_1_2_3", "e.py"},
	}
	got, err := in.absolute()
	here := func(name string) string { return filepath.Join(dir, name) }
	want := []string{
		"pid", "zero", here("p.json"), here("c.py"), "/d.py", "pid_1_2_3", here("e.py"),
	}
	if err != nil || got.Model != here("m.onnx") {
		t.Errorf("%+v, %v", got, err)
	}
	if !slices.Equal(got.Controllers, want) {
		t.Errorf("controllers %q, want %q", got.Controllers, want)
	}
	if want := []string{here("a"), "/b", here("c")}; !slices.Equal(got.Data, want) {
		t.Errorf("data %q, want %q", got.Data, want)
	}
	if in.Controllers[2] != "p.json" || in.Data[0] != "a" {
		t.Errorf("the caller's inputs are others now: %+v", in)
	}
}

// TestController: a plan holds what a controller is made of, or refuses it.
func TestController(t *testing.T) {
	for _, c := range []struct {
		policy lockstep.Policy
		want   PlannedController
		fails  string
	}{
		{lockstep.PID{P: 1}, PlannedController{Name: "pid_1_0_0"}, ""},
		{&lockstep.Batch{Name: "b", SHA256: "12", Made: []string{"x", "y"}},
			PlannedController{Name: "b", SHA256: "12", Made: "x\ny"}, ""},
		{
			&lockstep.Batch{Name: "b"}, PlannedController{Name: "b"},
			"controller b: nobody knows the hash",
		},
	} {
		got, err := NewController(c.policy)
		if got != c.want || (err == nil) != (c.fails == "") ||
			err != nil && !strings.HasPrefix(err.Error(), c.fails) {
			t.Errorf("%v: %+v, %v; want %+v, %q", c.policy, got, err, c.want, c.fails)
		}
	}
	sum, err := HashProgram("")
	if file, e := os.Executable(); e == nil {
		own, e := HashProgram(file)
		if err != nil || e != nil || sum != own || len(sum) != 64 {
			t.Errorf("this program is %q (%v), its file %q (%v)", sum, err, own, e)
		}
	}
	if sum, err := HashProgram(filepath.Join(t.TempDir(), "none")); err == nil || sum != "" {
		t.Errorf("a program that is not there has the hash %q", sum)
	}
}

// TestDifferenceText: what two plans differ in is told with both values, this one's last.
func TestDifferenceText(t *testing.T) {
	made := func(c PlannedController) *Plan {
		p, _ := sweep(1, 1)
		p.Controllers = []PlannedController{{Name: "first"}, c}
		return p
	}
	for _, c := range []struct {
		a, b PlannedController
		want string
	}{
		{
			PlannedController{"a", "1", "x"}, PlannedController{"b", "1", "y"},
			`controller 1 is "b" (1), there it is "a" (1)`,
		},
		{
			PlannedController{"a", "1", "x"}, PlannedController{"a", "2", "y"},
			`controller 1 is "a" (2), there it is "a" (1)`,
		},
		{
			PlannedController{"a", "1", "x"}, PlannedController{"a", "", "x"},
			`controller 1 is "a", there it is "a" (1)`,
		},
		{PlannedController{"a", "1", "x\nz"}, PlannedController{"a", "1", "y\nz\nw"},
			"controller 1 is made of y, w, there of x"},
		{PlannedController{"a", "1", "x\nz"}, PlannedController{"a", "1", "x"},
			"controller 1 is made of nothing else, there of z"},
		{PlannedController{"a", "1", "x"}, PlannedController{"a", "1", "x"}, ""},
	} {
		if got := made(c.a).Difference(made(c.b)); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	for want, set := range map[string]func(p *Plan, is string){
		"the network has SHA-256 ": func(p *Plan, is string) { p.Model = is },
		"the engine is ":           func(p *Plan, is string) { p.Engine = is },
		"the engine's build is ":   func(p *Plan, is string) { p.Build = is },
		"the search is 0 generations of 0 ": func(p *Plan, is string) {
			p.Search = &Search{Kind: is}
		},
		"the planning is of ": func(p *Plan, is string) {
			p.Planning = &Planning{Noise: []string{is}}
		},
	} {
		old, now := made(PlannedController{}), made(PlannedController{})
		set(old, "old")
		set(now, "new")
		got := old.Difference(now)
		if before, after, _ := strings.Cut(got, ", there it is "); !strings.HasPrefix(
			before, want+"new") || !strings.Contains(after, "old") {
			t.Errorf("%q, want %q and new, there it is old", got, want)
		}
	}
}
