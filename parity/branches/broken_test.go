package branches_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"lockstep"
	"lockstep/batched"
	"lockstep/classic"
	"lockstep/engines"
	"lockstep/internal/defaults"
	"lockstep/internal/simtest"
	"lockstep/parity"
	"lockstep/parity/branches"
	"lockstep/parity/gymnasium"
	"lockstep/parity/mutants"
	"lockstep/parity/tinyphysics"
	"lockstep/reference"
)

// switched is the variable that says which branch is broken. Only a program that this
// package's tests compile looks at it.
const switched = "LOCKSTEP_BROKEN_BRANCH"

// TestBroken: where one branch of the specification is broken, a comparison of the default
// inputs finds a difference in a rollout that goes through it. All are broken in one program,
// which is compiled with testdata/broken.txt and runs TestTinyPhysics and TestClassic.
func TestBroken(t *testing.T) {
	if os.Getenv(switched) != "" {
		t.Skip("this is that program")
	}
	if testing.Short() {
		t.Skip("half a minute of one core")
	}
	root, err := mutants.FindRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	overlay := plant(t, root)
	program := filepath.Join(t.TempDir(), "broken.test")
	build := exec.Command(
		"go", "test", "-c", "-overlay", overlay, "-o", program, "./parity/branches",
	)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the specification with its branches broken does not compile: %v: %s", err, out)
	}
	run := exec.Command(program, "-test.run", "^Test(TinyPhysics|Classic)$", "-test.v")
	run.Env = append(os.Environ(), switched+"=none")
	out, err := run.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	t.Logf("%s", out)
}

// plant writes what testdata/broken.txt makes of the sources, for the compiler. Each text must
// be there once, and each branch's name.
func plant(t *testing.T, root string) string {
	t.Helper()
	all, err := txtar.ParseFile("testdata/broken.txt")
	if err != nil {
		t.Fatal(err)
	}
	text := map[string]string{}
	for i := 0; i < len(all.Files); i++ {
		f := all.Files[i]
		if name, is := strings.CutPrefix(f.Name, "new "); is {
			text[name] = string(f.Data)
			continue
		}
		if text[f.Name] == "" {
			data, err := os.ReadFile(filepath.Join(root, f.Name))
			if err != nil {
				t.Fatal(err)
			}
			text[f.Name] = string(data)
		}
		old := strings.TrimSuffix(string(f.Data), "\n")
		if n := strings.Count(text[f.Name], old); n != 1 || i+1 == len(all.Files) {
			t.Fatalf("this is found %d times in %s, want once:\n%s", n, f.Name, old)
		}
		i++
		by := strings.TrimSuffix(string(all.Files[i].Data), "\n")
		text[f.Name] = strings.Replace(text[f.Name], old, by, 1)
	}
	replace, dir := map[string]string{}, t.TempDir()
	for name, content := range text {
		path := filepath.Join(root, filepath.FromSlash(name))
		replace[path] = filepath.Join(dir, strings.ReplaceAll(name, "/", "-"))
		if err := os.WriteFile(replace[path], []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}

// A drive is one that is compared by default.
type drive struct {
	name    string
	compare func() *parity.Report
	goes    map[string]bool // through which branches
}

// exercise runs each drive with nothing broken, so that it is known where it goes.
func exercise(t *testing.T, drives []drive) {
	t.Helper()
	for i := range drives {
		d := &drives[i]
		report := d.compare()
		if err := report.Err(); err != nil {
			t.Fatalf("%s, with nothing broken: %v", d.name, err)
		}
		d.goes = map[string]bool{}
		for _, x := range report.Exercised.Branches {
			d.goes[x.Name] = x.Times > 0
		}
	}
}

// seen breaks a branch: the drives that go through it and come out otherwise, until one does.
func seen(t *testing.T, name string, drives []drive) {
	t.Helper()
	t.Setenv(switched, name)
	went := 0
	for _, d := range drives {
		if !d.goes[name] {
			continue
		}
		went++
		if err := d.compare().Err(); err != nil {
			where, _, _ := strings.Cut(err.Error(), "\n")
			t.Logf("%s: %.150s", d.name, where)
			return
		}
	}
	t.Errorf("%d drives go through it, and none is another", went)
}

// TestTables: who changes a table changes his own.
func TestTables(t *testing.T) {
	for _, table := range []func() []parity.Branch{branches.TinyPhysics, branches.Classic} {
		want := table()[0]
		table()[0].Name = "another"
		if got := table()[0]; got != want {
			t.Errorf("after somebody wrote there %q is %q", want.Name, got.Name)
		}
	}
}

func TestTinyPhysics(t *testing.T) {
	if os.Getenv(switched) == "" {
		t.Skip("TestBroken runs it, with branches that can be broken")
	}
	model, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	want, err := reference.New(model, lockstep.Profile{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := batched.New(batched.Config{ModelPath: model})
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	jobs, err := tinyphysics.Hard(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(jobs, func(a, b lockstep.Job) int {
		return a.Route.Len() - b.Route.Len()
	})
	var drives []drive
	for i := range jobs {
		one := jobs[i : i+1]
		drives = append(drives, drive{
			name: fmt.Sprintf("%s with %T", one[0].Route.Name, one[0].Policy),
			compare: func() *parity.Report {
				report, err := tinyphysics.Compare(
					t.Context(), tinyphysics.Live(want), tinyphysics.Live(got), one,
					lockstep.LastPosition, parity.CompareOptions{},
				)
				if err != nil {
					t.Fatal(err)
				}
				return report
			},
		})
	}
	exercise(t, drives)
	for _, branch := range branches.TinyPhysics() {
		t.Run(branch.Name, func(t *testing.T) { seen(t, branch.Name, drives) })
	}
}

func TestClassic(t *testing.T) {
	if os.Getenv(switched) == "" {
		t.Skip("TestBroken runs it, with branches that can be broken")
	}
	whole := simtest.Whole(t)
	open := func(name string) classic.Maker {
		e, err := engines.Classic().Open(name, 1)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	want, got := open("reference"), open("batched")
	held := map[string]bool{} // by one environment, which is enough for each change
	for _, e := range classic.Environments() {
		var drives []drive
		for _, r := range gymnasium.Hard(e) {
			drives = append(drives, drive{
				name: fmt.Sprintf("%s, bound %v", r.Autoreset, r.Bound),
				compare: func() *parity.Report {
					report, err := r.Compare(t.Context(), want, got, parity.CompareOptions{})
					if err != nil {
						t.Fatal(err)
					}
					return report
				},
			})
		}
		exercise(t, drives)
		for _, branch := range branches.Classic() {
			if held[branch.Name] && !whole {
				continue
			}
			if slices.ContainsFunc(drives, func(d drive) bool { return d.goes[branch.Name] }) {
				held[branch.Name] = true
				t.Run(e.Name+"/"+branch.Name, func(t *testing.T) { seen(t, branch.Name, drives) })
			}
		}
	}
}
