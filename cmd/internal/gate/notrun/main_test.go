package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"lockstep/cmd/internal/gate/internal/testlog"
	"lockstep/internal/simtest"
	"lockstep/parity/verdict"
)

// TestMain has a process of TestCommand be the command.
func TestMain(m *testing.M) {
	if os.Getenv("TEST_IS_NOTRUN") == "1" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestCommand: each flag has the command do what it says, and what goes wrong is its status.
func TestCommand(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	const of = `"Package":"lockstep/a","Test":"TestOne"`
	text := `{"Action":"run",` + of + `}
{"Action":"output",` + of + `,"Output":"    a_test.go:1: not run for want of gpu: none\n"}
{"Action":"skip",` + of + `}
{"Action":"pass","Package":"lockstep/a"}
`
	if err := os.WriteFile(log, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	origin, err := testlog.Here(t.Context(), ".", "-race -v")
	if err != nil {
		t.Fatal(err)
	}
	const told = "1 tests were not run for want of gpu, a GPU, and a program built for it: " +
		"`lockstep doctor` says what is missing\n  a: TestOne\n"
	for _, c := range []struct {
		args, out, fails string
	}{
		{"-together", "4\n", ""},
		{"-origin -- -race -v", string(origin), ""},
		{log, told, ""},
		{log + " " + log, told, ""},
		{"-run compiler " + log, "", `notrun: -run "compiler" -out "": want one of `},
		{log + ".none", "", "notrun: open " + log + ".none: "},
		{
			"-run compiler -out " + log + ".out " + log,
			"0 tests wanted compiler, and run now with ",
			"notrun: nothing was not run for want of compiler\n",
		},
	} {
		command := exec.Command(os.Args[0], strings.Fields(c.args)...)
		command.Env = append(os.Environ(), "TEST_IS_NOTRUN=1", "GOMAXPROCS=3", "CXX=go")
		var failed bytes.Buffer
		command.Stderr = &failed
		out, err := command.Output()
		if !strings.HasPrefix(string(out), c.out) || (c.out == "") != (len(out) == 0) ||
			!strings.HasPrefix(failed.String(), c.fails) {
			t.Errorf("notrun %s: %q, %q, want %q, %q", c.args, out, &failed, c.out, c.fails)
		}
		status := command.ProcessState.ExitCode()
		if (c.fails == "") != (err == nil) || status > 1 {
			t.Errorf("notrun %s: %v", c.args, err)
		}
	}
}

// wanted are cases that were not run for want of something, and others.
var wanted = []verdict.CheckCase{
	{Class: "lockstep/a", Name: "TestOne", Outcome: verdict.NotRun, Lacks: "gpu"},
	{Class: "lockstep/a", Name: "TestTwo", Outcome: verdict.Passed},
	{Class: "lockstep/a", Name: "TestThree/b", Outcome: verdict.NotRun, Lacks: "gpu"},
	{Class: "lockstep/a", Name: "TestFour", Outcome: verdict.NotRun, Lacks: "assets"},
	{Class: "lockstep/b/c", Name: "TestOne", Outcome: verdict.NotRun, Lacks: "gpu"},
	{Class: "lockstep/b/c", Name: "TestThree", Outcome: verdict.NotRun, Lacks: "package"},
	{Class: "lockstep/b/c", Name: "TestTwo", Outcome: verdict.NotRun, Message: "on Windows alone"},
}

// TestTell: what was not run is told by want, in the list's order, and by package.
func TestTell(t *testing.T) {
	const want = "1 tests were not run for want of assets, the official network and routes: " +
		"`lockstep doctor` says what is missing\n  a: TestFour\n" +
		"3 tests were not run for want of gpu, a GPU, and a program built for it: " +
		"`lockstep doctor` says what is missing\n  a: TestOne TestThree/b\n  b/c: TestOne\n" +
		"1 tests were not run for want of package, a Python in which the package is installed: " +
		"`lockstep doctor` says what is missing\n  b/c: TestThree\n"
	var got strings.Builder
	if tell(&got, wanted); got.String() != want {
		t.Errorf("it tells\n%s\nwant\n%s", got.String(), want)
	}
}

// TestAgain: what wanted a thing is run with it, is written down, and must pass; nothing is run
// where the thing is not here or nothing wanted it.
func TestAgain(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // one waits for the other
	one := func(name string) verdict.CheckCase {
		pkg, test, _ := strings.Cut(name, ".")
		return verdict.CheckCase{
			Class: "lockstep/internal/" + pkg, Name: test, Outcome: verdict.NotRun,
			Lacks: "compiler",
		}
	}
	origin, err := testlog.Here(t.Context(), ".", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cases       []verdict.CheckCase
		name, here  string
		out         bool
		says, fails string // what it writes, and its error
		logs        []string
	}{
		{nil, "nothing", "go", true, "", "want one of assets, ", nil},
		{nil, "compiler", "go", false, "", `-out "": want`, nil},
		{nil, "compiler", "/nowhere/c++", true, "", "a C++ compiler is not here: ", nil},
		{wanted, "compiler", "go", true, "0 tests wanted compiler", "nothing was not run for", nil},
		{
			append(wanted, one("simtest.TestRefused"), one("simtest.TestInsides")),
			"compiler", "go", true, "2 tests wanted compiler, and run now with ", "",
			[]string{`"Test":"TestRefused"`, `"Test":"TestInsides"`},
		},
		{
			[]verdict.CheckCase{one("simtest.TestRefused"), one("none.TestGone")},
			"compiler", "go", true, "tests that wanted compiler",
			"internal/none -run ^(TestGone)$: exit status 1",
			[]string{`"Test":"TestRefused"`},
		},
	} {
		t.Setenv("CXX", c.here)
		file := ""
		if c.out {
			file = filepath.Join(t.TempDir(), "log")
		}
		var told strings.Builder
		err := again(&told, c.cases, c.name, file)
		if c.fails != "" {
			simtest.Refused(t, c.name, err, c.fails)
		} else if err != nil {
			t.Error(err)
		}
		if !strings.Contains(told.String(), c.says) {
			t.Errorf("it says %q, want %q", told.String(), c.says)
		}
		log, err := os.ReadFile(file)
		if (err == nil) != (c.logs != nil) {
			t.Errorf("%s with %s: a log is written: %v", c.name, c.here, err == nil)
		}
		if c.logs != nil && !bytes.HasPrefix(log, origin) {
			t.Errorf("the log begins with %.200s, want %s", log, origin)
		}
		for _, part := range c.logs {
			if !strings.Contains(string(log), part) {
				t.Errorf("the log lacks %s:\n%s", part, log)
			}
		}
	}
}
