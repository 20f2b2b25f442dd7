package engines

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep"
	batched "lockstep/batched/classic"
	"lockstep/gpu"
	"lockstep/internal/defaults"
	"lockstep/internal/fileio"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
	"lockstep/reference"
)

// config is of the project's own network.
func config(t *testing.T) Config {
	t.Helper()
	model, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return Config{Model: model, Profile: reference.HostProfile()}
}

// TestIdentity: every engine that is here has its name, the profile that is asked for
// unless some of it is its own, and an identity that no other has.
func TestIdentity(t *testing.T) {
	c := config(t)
	c.Profile.CSV = lockstep.CSVExact
	names, identities := map[string]bool{}, map[string]string{}
	whole := simtest.Whole(t)
	for _, e := range All() {
		if names[e.Name] {
			t.Errorf("two engines are called %s", e.Name)
		}
		names[e.Name] = true
		if e.Compiled && !whole {
			continue // the compiler takes half a minute for its instructions
		}
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			id := lockstep.Identity(s)
			if other := identities[id]; other != "" || !strings.Contains(id, ": ") {
				t.Errorf("%s proves to be %q, as %q does", e.Name, id, other)
			}
			identities[id] = e.Name
			if sum, err := fileio.SHA256(c.Model); err != nil || s.About().Model != sum {
				t.Errorf("%s has the network %q, want %q (%v)", e.Name, s.About().Model, sum, err)
			}
			t.Log(id)
		})
	}
	if Reference().Want != nil || Reference().ByLibrary || Reference().Slow {
		t.Error("the reference must run everywhere, in any profile")
	}
}

// TestLists: what the two lists say of an engine of one name is the same, but for the folder,
// and it is so that what is asked for by nobody does not run.
func TestLists(t *testing.T) {
	said := func(w *want.Want, slow, compiled bool) string {
		if w == nil {
			w = &want.Want{Name: "nothing"}
		}
		return fmt.Sprintf("wants %s, slow %t, compiled %t", w.Name, slow, compiled)
	}
	of := map[string]string{}
	for _, e := range All() {
		of[e.Name] = said(e.Want, e.Slow, e.Compiled)
		if e.Missing == nil || e.New == nil {
			t.Errorf("nobody says whether %s is here, or it cannot be made", e.Name)
		}
		if e.Compiled && !e.Slow || e.Compiled != (e.Folder == "gpu/internal/translate") {
			t.Errorf("%s of %s: %s", e.Name, e.Folder, of[e.Name])
		}
	}
	members := Classic().All()
	if len(members) < len(of)-1 || members[0].Name != Reference().Name {
		t.Errorf("of classic control there are %d engines, the first %s", len(members),
			members[0].Name)
	}
	for _, m := range members {
		if m.New == nil {
			t.Errorf("classic %s cannot be made", m.Name)
		} else if e, err := m.New(3); m.Name == "batched" && e != (batched.Batched{Workers: 3}) {
			t.Errorf("classic %s by three workers is %+v, %v", m.Name, e, err)
		}
		if got := said(m.Want, m.Slow, m.Compiled); got != of[m.Name] {
			t.Errorf("classic %s %s; of tinyphysics it %s", m.Name, got, of[m.Name])
		}
		if m.Compiled != (m.Folder == "gpu/internal/translate") ||
			!m.Compiled && filepath.Base(m.Folder) != "classic" {
			t.Errorf("classic %s is of %s", m.Name, m.Folder)
		}
	}
}

// TestListed: what lists are made of the list, and that kernels have in common what they lack.
func TestListed(t *testing.T) {
	for _, p := range lockstep.Profiles() { // kernels have what they lack in common
		for _, e := range All() {
			of := gpu.Lacks(p) == nil
			if strings.HasPrefix(e.Folder, "gpu") && e.Computes(p) != of {
				t.Errorf("%s computes %v: %t, want %t", e.Name, p, !of, of)
			}
		}
	}
	others := Others()
	if names := CheckedNames(); len(names) != len(Checked()) || names[1] != Checked()[1].Name {
		t.Errorf("what every check runs is named %q", names)
	}
	if len(others) != len(Checked())-1 || others[0].Name != Checked()[1].Name {
		t.Errorf("%d engines are held to the reference, of %d", len(others), len(Checked()))
	}
	if got := Classic().Simulates(); got != "classic control" {
		t.Errorf("the other family simulates %q", got)
	}
	if got := threads(Config{Workers: 3}); got != (gpu.Emulation{Processors: 3}) {
		t.Errorf("three workers are %+v", got)
	}
	if got := threads(Config{Shuffled: true}); got != (gpu.Emulation{Order: gpu.Shuffled}) {
		t.Errorf("shuffled threads are %+v", got)
	}
	if restore := Replace(others); len(All()) != len(others) {
		t.Errorf("%d engines are in place of %d", len(All()), len(others))
	} else if restore(); len(All()) <= len(others) {
		t.Errorf("%d engines are put back", len(All()))
	}
}

// TestGivenLists: who asks for a list may change what it is given, and nobody else sees it.
func TestGivenLists(t *testing.T) {
	family := &Family[member]{known: []Member[member]{
		{Name: "compiled", Compiled: true}, {Name: "a"}, {Name: "b"},
	}}
	defer Replace(All())()
	for range 2 {
		if all, checked := All(), Checked(); len(Names()) != len(all) ||
			slices.Contains(Names(), "") || all[0].Name != Reference().Name {
			t.Errorf("after a list that was given was cleared, there are %q", Names())
		} else {
			clear(all)
			clear(checked)
		}
		all, checked := family.All(), family.Checked()
		if len(all) != 3 || all[2].Name != "b" || len(checked) != 2 || checked[1].Name != "b" {
			t.Errorf("after a list that was given was cleared, a family has %v", family.known)
		}
		clear(all)
		clear(checked)
	}
}

// TestOpen: what is opened under another's name, or with another profile, is refused,
// and one that wrongly calls itself absent fails.
func TestOpen(t *testing.T) {
	c := config(t)
	e := *Reference()
	e.Name = "warp"
	if _, err := e.Open(c); err == nil ||
		!strings.Contains(err.Error(), "what is opened as engine warp calls itself reference") {
		t.Errorf("%v", err)
	}
	e = *Reference()
	e.New = func(c Config) (lockstep.Implementation, error) {
		c.Profile.CSV = 1 - c.Profile.CSV
		return Reference().New(c)
	}
	if _, err := e.Open(c); err == nil || !strings.Contains(err.Error(), "has profile") {
		t.Errorf("%v", err)
	}
	none := errors.New("no warp")
	here := &want.Want{
		Name: "warp",
		What: "a warp core",
		Find: func() (string, error) { return "/dev/warp", nil },
	}
	absent := &want.Want{
		Name: "warp",
		What: "a warp core",
		Find: func() (string, error) { return "", none },
	}
	e.Missing = func() error { return none }
	var lack *want.Error
	if e.Want = here; e.Absent() == nil || errors.As(e.Absent(), &lack) {
		t.Errorf("absent, though it is here: %v", e.Absent())
	}
	if e.Want = absent; !errors.As(e.Absent(), &lack) {
		t.Errorf("absent: %v", e.Absent())
	}
	if _, err := e.Open(c); err != none {
		t.Errorf("%v", err)
	}
	if e.Want = nil; e.Absent() != none {
		t.Errorf("absent, for want of nothing: %v", e.Absent())
	}
}

// TestKernels: the reference runs the kernels that are named, and says what it cannot open.
func TestKernels(t *testing.T) {
	c := config(t)
	for _, k := range []struct{ model, kernels, want string }{
		{c.Model, "go", "go"}, {c.Model, "sse", `no kernels "sse" here, only `},
		{c.Model + "x", "go", "no such file"}, {c.Model + "x", "", "no such file"},
	} {
		c.Model, c.Kernels = k.model, k.kernels
		s, err := Reference().Open(c)
		got := fmt.Sprint(err)
		if err == nil {
			got = s.About().Kernels
			s.Close()
		}
		if !strings.Contains(got, k.want) {
			t.Errorf("kernels %q of %s: %s, want %s", k.kernels, k.model, got, k.want)
		}
	}
}

// TestAbout: an engine says what computes, its network, and the kernels that it was asked for, and
// in a run that it computes; so does the specification that is given other kernels, and it stays
// the same besides.
func TestAbout(t *testing.T) {
	c := config(t)
	c.Profile.LayerNorm = lockstep.LayerNorm127
	sum, err := fileio.SHA256(c.Model)
	if err != nil {
		t.Fatal(err)
	}
	hold := func(s lockstep.Implementation, inside, kernels string) {
		t.Helper()
		about := s.About()
		if about.Inside != inside+about.Kernels || about.Model != sum || about.Kernels == "" ||
			kernels != "" && about.Kernels != kernels || s.Profile() != c.Profile ||
			about.OneCore != (s.Name() == "reference") {
			t.Errorf("%s in %v: %+v, want %s%s and the network %s in %v", s.Name(), s.Profile(),
				about, inside, kernels, sum, c.Profile)
		}
		ctx, computed := lockstep.WithComputing(t.Context())
		for _, err := range s.Simulate(ctx, []lockstep.Job{{}}, lockstep.Options{}) {
			if err.Err == nil {
				t.Errorf("%s rolls out no route", s.Name())
			}
		}
		if got := computed(); len(got) != 1 || got[0] != lockstep.Identity(s) {
			t.Errorf("%q compute, want %s", got, lockstep.Identity(s))
		}
	}
	for name, inside := range map[string]string{
		"reference": "the specification, kernels ",
		"batched":   "a network of its own, kernels ",
	} {
		list, err := ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, c.Kernels = range []string{"", "go"} {
			s, err := list[0].Open(c)
			if err != nil {
				t.Fatal(err)
			}
			hold(s, inside, c.Kernels)
			if r, ok := s.(*reference.Simulator); ok {
				other, err := r.WithKernels("go")
				if err != nil {
					t.Fatal(err)
				}
				hold(other, inside, "go")
			}
			s.Close()
		}
	}
}

// outcome is what comes of a test that needs an engine.
type outcome struct {
	skipped, errors []any
	ends            []func()
}

func (*outcome) Helper()            {}
func (o *outcome) Skip(why ...any)  { o.skipped = append(o.skipped, why...) }
func (o *outcome) Fatal(why ...any) { o.errors = append(o.errors, why...); panic(o) }
func (o *outcome) Error(why ...any) { o.errors = append(o.errors, why...) }
func (o *outcome) Cleanup(f func()) { o.ends = append(o.ends, f) }

// unproven is an engine that opens, and what it says of itself.
type unproven struct {
	fake
	why, closing error
}

func (u unproven) About() lockstep.About { return lockstep.About{Unproven: u.why} }
func (u unproven) Close() error          { return u.closing }

// TestForTest: a test is skipped by an engine that nothing has proven here, and by no other, and
// fails with an engine that does not close.
func TestForTest(t *testing.T) {
	for _, c := range []struct {
		engine          unproven
		skipped, errors string
	}{
		{unproven{}, "[]", "[]"},
		{unproven{why: errWarp}, "[not run for want of gpu: no warp]", "[]"},
		{unproven{closing: errWarp}, "[]", "[no warp]"},
	} {
		t.Setenv(want.GPU.Variable(), "")
		e := Engine{Want: want.GPU, Missing: never}
		e.New = func(Config) (lockstep.Implementation, error) { return c.engine, nil }
		o := &outcome{}
		if e.ForTest(o, Config{}); len(o.ends) != 1 {
			t.Fatalf("%d things are done at the test's end, want 1", len(o.ends))
		}
		o.ends[0]()
		if fmt.Sprint(o.skipped) != c.skipped || fmt.Sprint(o.errors) != c.errors {
			t.Errorf("%v, %v: skipped for %v, want %s; errors %v, want %s", c.engine.why,
				c.engine.closing, o.skipped, c.skipped, o.errors, c.errors)
		}
	}
	o, e := &outcome{}, Engine{Missing: never}
	e.New = func(Config) (lockstep.Implementation, error) { return nil, errWarp }
	func() {
		defer func() {
			if ended := recover(); ended != any(o) {
				t.Errorf("an engine that does not open ends its test by %v", ended)
			}
		}()
		e.ForTest(o, Config{})
	}()
	if fmt.Sprint(o.errors) != "[no warp]" || len(o.ends) > 0 {
		t.Errorf("an engine that does not open: %v", o.errors)
	}
}

// TestByName: names in their order, each once.
func TestByName(t *testing.T) {
	if list, err := ByName("gpu", "reference"); err != nil || len(list) != 2 ||
		list[0].Name != "gpu" ||
		list[1] != Reference() {
		t.Errorf("%v, %v", list, err)
	}
	for names, want := range map[string]string{
		"warp":    `engine "warp" is not known, want one of reference, `,
		"gpu gpu": "engine gpu is named twice",
	} {
		if _, err := ByName(strings.Fields(names)...); err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", names, err)
		}
	}
	for _, e := range Tried() {
		if e.Slow {
			t.Errorf("%s is tried where nobody asks for it", e.Name)
		}
	}
	for file, want := range map[string]string{
		"reference/gpt.go":                "reference",
		"gpu/internal/kernels/rollout.cu": "emulated gpu",
		"parity/judge.go":                 "",
		"gpu":                             "",
	} {
		if got := strings.Join(Of(file), " "); got != want {
			t.Errorf("%s is of %q, want %q", file, got, want)
		}
	}
}

// TestConfig: an engine that computes rollouts in parts has such as it is opened with, in the
// arithmetic that it is opened with, and takes times if it is told to.
func TestConfig(t *testing.T) {
	c := config(t)
	c.Chunk, c.Workers, c.Profile.Exp = 2, 1, lockstep.ExpF
	for _, e := range Others() {
		t.Run(e.Name, func(t *testing.T) {
			for _, c.Timed = range []bool{false, true} {
				s := e.ForTest(t, c)
				cuts, ok := s.(interface{ Cuts() []int })
				if !ok || !slices.Contains(cuts.Cuts(), c.Chunk) {
					t.Errorf("%T does not cut its work into parts of %d", s, c.Chunk)
				}
				if got := s.Profile().Exp; got != c.Profile.Exp {
					t.Errorf("%T has exponential %v, want %v", s, got, c.Profile.Exp)
				}
				device, ok := s.(interface{ Stats() gpu.Stats })
				if !ok {
					break // nobody takes times
				}
				route := &lockstep.Route{Name: "r"}
				for _, column := range route.Columns() {
					*column = make([]float64, lockstep.MinRows)
				}
				jobs := []lockstep.Job{{Route: route, Policy: lockstep.Zero{}}}
				options := lockstep.Options{Shortcuts: lockstep.CostOnly}
				for _, r := range s.Simulate(t.Context(), jobs, options) {
					if took := device.Stats().Upload; r.Err != nil || (took > 0) != c.Timed {
						t.Errorf("timed %t: uploading took %v, %v", c.Timed, took, r.Err)
					}
				}
			}
		})
	}
}

// TestWorkers: an engine that is opened with one thread has one.
func TestWorkers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	c := config(t)
	c.Workers = 1
	list, err := ByName("batched", "onnxruntime")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			var mutex sync.Mutex
			now, most := 0, 0
			observe := func(s *lockstep.Step) {
				if s.Index%20 != 0 {
					return
				}
				mutex.Lock()
				now++
				most = max(most, now)
				mutex.Unlock()
				time.Sleep(2 * time.Millisecond)
				mutex.Lock()
				now--
				mutex.Unlock()
			}
			route := &lockstep.Route{Name: "r"}
			for _, column := range route.Columns() {
				*column = make([]float64, lockstep.MinRows)
			}
			jobs := slices.Repeat(
				[]lockstep.Job{{Route: route, Policy: lockstep.Zero{}, Observe: observe}}, 8)
			for _, r := range s.Simulate(
				t.Context(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly},
			) {
				if r.Err != nil {
					t.Error(r.Err)
				}
			}
			if most != 1 {
				t.Errorf("%d threads compute, want 1", most)
			}
		})
	}
}
