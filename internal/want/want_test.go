package want

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// fake is a test that notes how it ended.
type fake struct{ outcome string }

func (f *fake) Helper() {}

func (f *fake) Skip(args ...any) {
	f.outcome = "skipped: " + fmt.Sprint(args...)
	runtime.Goexit()
}

func (f *fake) Fatal(args ...any) {
	f.outcome = "failed: " + fmt.Sprint(args...)
	runtime.Goexit()
}

// outcome runs a test and says how it ended.
func outcome(test func(TB)) string {
	f := &fake{outcome: "crashed"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(f)
		f.outcome = "passed"
	}()
	<-done
	return f.outcome
}

// TestSkip: what is absent skips, unless it is required; what is here, whatever an
// engine says, fails.
func TestSkip(t *testing.T) {
	none := errors.New("no warp")
	for _, c := range []struct {
		here     bool
		reason   error
		required string
		want     string
	}{
		{false, nil, "", "passed"},
		{false, nil, "1", "passed"},
		{false, none, "", "skipped: not run for want of warp: no warp"},
		{false, none, "0", "skipped: not run for want of warp: no warp"},
		{false, none, "1", "failed: LOCKSTEP_REQUIRE_WARP=1, but no warp"},
		{true, nil, "", "passed"},
		{
			true, none, "",
			"failed: a warp core is here (/dev/warp), but what needs it says: no warp",
		},
		{
			true, none, "1",
			"failed: a warp core is here (/dev/warp), but what needs it says: no warp",
		},
	} {
		w := &Want{"warp", "a warp core", func() (string, error) {
			if c.here {
				return "/dev/warp", nil
			}
			return "", none
		}}
		t.Setenv(w.Variable(), c.required)
		if got := outcome(func(t TB) { Skip(t, w.Denied(c.reason)) }); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
		if !c.here {
			want := strings.Replace(
				c.want, "passed",
				map[string]string{"": "skipped: not run for want of warp: no warp",
					"1": "failed: LOCKSTEP_REQUIRE_WARP=1, but no warp"}[c.required],
				1,
			)
			if got := outcome(func(t TB) { w.Need(t) }); got != want {
				t.Errorf("Need, %q: %s, want %s", c.required, got, want)
			}
		}
	}
}

// TestRead: the line of every want is read back.
func TestRead(t *testing.T) {
	for _, w := range All {
		t.Setenv(w.Variable(), "")
		if got := Read(
			"    x_test.go:12: " + w.Lacks(errors.New("none: of them")).Error() + "\n",
		); got != w {
			t.Errorf("%s is read as %+v", w.Name, got)
		}
		if ByName(w.Name) != w {
			t.Errorf("two wants are called %s", w.Name)
		}
	}
	for _, text := range []string{"", "not run for want of warp: none", "not run for want of " +
		"assets"} {
		if got := Read(text); got != nil {
			t.Errorf("%q is read as %s", text, got.Name)
		}
	}
}

// TestFind: each thing is found where it lies, and nowhere else.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		text := "#!/bin/sh\necho Traceback\necho $SAYS\nexit $STATUS\n"
		if err := os.WriteFile(path, []byte(text), 0o777); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		w                    *Want
		variable, good, none string
	}{
		{Compiler, "CXX", file("bin/cc"), filepath.Join(dir, "bin", "none")},
		{
			ONNXRuntime, "ONNXRUNTIME_LIB", file("lib/libonnxruntime.so"),
			filepath.Join(dir, "lib", "none"),
		},
		{Assets, "LOCKSTEP_ASSETS", filepath.Dir(filepath.Dir(file("assets/routes/0.csv"))), dir},
	} {
		file("assets/tinyphysics.onnx")
		if c.w == ONNXRuntime && !cgo {
			continue
		}
		t.Setenv(c.variable, c.good)
		if path, err := c.w.Find(); err != nil || !strings.HasPrefix(path, c.good) {
			t.Errorf("%s: %s, %v", c.w.Name, path, err)
		}
		t.Setenv(c.variable, c.none)
		if path, err := c.w.Find(); err == nil {
			t.Errorf("%s: %s, where there is none", c.w.Name, path)
		}
	}
	t.Setenv("LOCKSTEP_PYTHON", file("bin/python"))
	t.Setenv("STATUS", "0")
	if _, err := findPython(); err != nil {
		t.Error(err)
	}
	t.Setenv("STATUS", "1")
	t.Setenv("SAYS", "no such module")
	if _, err := findPython(); err == nil ||
		!strings.Contains(err.Error(), "python: no such module: set LOCKSTEP_PYTHON to one with "+
			"numpy") {
		t.Errorf("a Python without numpy: %v", err)
	}
	if _, err := first("py*", filepath.Join(dir, "bin")); err != nil {
		t.Error(err)
	}
	if _, err := first("none*", dir); err == nil {
		t.Error("found what is not there")
	}
}

// TestNamed: what one test's Python answered is not what the next one's answers.
func TestNamed(t *testing.T) {
	asked := 0
	named := func() (string, error) {
		asked++
		return fmt.Sprint(os.Getenv("LOCKSTEP_PYTHON"), os.Getenv("LOCKSTEP_GYMNASIUM"),
			os.Getenv("LOCKSTEP_PACKAGE")), nil
	}
	answer := oncePerPython(named)
	for _, variable := range []string{
		"LOCKSTEP_PYTHON", "LOCKSTEP_GYMNASIUM", "LOCKSTEP_PACKAGE",
	} {
		for _, python := range []string{"first", "second"} {
			t.Setenv(variable, python)
			want, _ := named()
			for range 2 {
				if found, err := answer(); found != want || err != nil {
					t.Errorf("%s=%s: %s, %v; want %s", variable, python, found, err, want)
				}
			}
		}
	}
	if asked != 12 {
		t.Errorf("asked %d times, want once for each environment and once for its answer", asked)
	}
}

// TestModules: a Python that a variable names is found if it has the module, and what is said
// otherwise names the variable and what to do.
func TestModules(t *testing.T) {
	dir := t.TempDir()
	python := filepath.Join(dir, "python")
	script := "#!/bin/sh\necho first\necho $2\nexit $STATUS\n"
	if err := os.WriteFile(python, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		find                            func() (string, error)
		variable, module, what, command string
	}{
		{findGymnasium, "LOCKSTEP_GYMNASIUM", "gymnasium", "a Python with Gymnasium",
			"make test-classic"},
		{findPackage, "LOCKSTEP_PACKAGE", "lockstep", "a Python with this package",
			"make test-python"},
	} {
		hold := func(named, status, path, want string) {
			t.Helper()
			t.Setenv(c.variable, named)
			t.Setenv("STATUS", status)
			found, err := c.find()
			if found != path || want == "" && err != nil ||
				want != "" && (err == nil || err.Error() != want) {
				t.Errorf("%s=%q: %q, %v; want %q, %s", c.variable, named, found, err, path, want)
			}
		}
		hold(python, "0", python, "")
		hold(python, "1", "", fmt.Sprintf("%s: import %s: set %s to %s", python, c.module,
			c.variable, c.what))
		hold("", "0", "", fmt.Sprintf("set %s to %s, or run `%s`", c.variable, c.what, c.command))
		none := filepath.Join(dir, "none")
		hold(none, "0", "", fmt.Sprintf("%s: exec: %q: stat %s: no such file or directory",
			c.variable, none, none))
	}
	t.Setenv("LOCKSTEP_PYTHON", filepath.Join(dir, "none"))
	const want = "no Python: set LOCKSTEP_PYTHON to one with numpy: "
	if found, err := findPython(); found != "" || err == nil ||
		!strings.HasPrefix(err.Error(), want) {
		t.Errorf("%q, %v, want %s", found, err, want)
	}
}

// TestPath: without a variable a program is taken from the path, the first name of it that is
// there.
func TestPath(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for _, name := range []string{"CXX", "LOCKSTEP_PYTHON"} {
		t.Setenv(name, "")
	}
	put := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	find := func(w string, f func() (string, error), want string) {
		t.Helper()
		if got, err := f(); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", w, got, err, want)
		}
	}
	find("compiler", findCompiler, "")
	find("python", findPython, "")
	find("compiler", findCompiler, "")
	gcc, python := put("g++"), put("python")
	find("compiler", findCompiler, gcc)
	find("python", findPython, python)
	find("python", findPython, python)
	find("python3", findPython, python)
	python3 := put("python3")
	find("python3", findPython, python3)
	if names := Names(); len(names) != len(All) || names[0] != "assets" {
		t.Errorf("names %q", names)
	}
	none := filepath.Join(dir, "none")
	_, err := first("a*", dir, none)
	want := fmt.Sprintf("no file %s/a* or %s/a*", dir, none)
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := first("[", dir); err == nil {
		t.Error("a pattern that is none finds something")
	}
	if file, err := first("g*", none, dir); file != gcc {
		t.Errorf("%s, %v, want %s", file, err, gcc)
	}
}
