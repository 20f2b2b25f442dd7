package fuzzing

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// flagsOf says with which flags a target is fuzzed.
func flagsOf(f *testing.F) {
	for _, name := range []string{"test.fuzzminimizetime", "test.run"} {
		f.Logf("%s is %s", name, flag.Lookup(name).Value)
	}
}

func FuzzOne(f *testing.F) {
	flagsOf(f)
	f.Add(1)
	f.Fuzz(func(*testing.T, int) { Ended() })
}

// FuzzOneMore is meant by every pattern that is not anchored and means FuzzOne. Where it is
// fuzzed, its executions take longer than the test gives it.
func FuzzOneMore(f *testing.F) {
	f.Add(1)
	f.Fuzz(func(*testing.T, int) {
		if given := flag.Lookup("test.fuzzworker"); given.Value.String() == "true" {
			time.Sleep(3 * time.Second)
		}
		Ended()
	})
}

// TestTyped: what one types fuzzes, or says what to type.
func TestTyped(t *testing.T) {
	const alone = "the tests of its package are not run before it"
	for name, c := range map[string]struct {
		args []string
		ok   bool
		says []string
		not  string
	}{
		"one": {
			args: []string{"-test.fuzz=^FuzzOne$", "-test.fuzztime=300x"},
			ok:   true,
			says: []string{alone, "test.fuzzminimizetime is 10x", "test.run is ^$\n", "execs: 300"},
			not:  "--- PASS: TestRan",
		},
		"flags of the user's own": {
			args: []string{
				"-test.fuzz=^FuzzOne$", "-test.fuzztime=20x", "-test.fuzzminimizetime=7s",
				"-test.run=^TestRan$",
			},
			ok:   true,
			says: []string{"test.fuzzminimizetime is 7s", "--- PASS: TestRan"},
			not:  alone,
		},
		"several": {
			args: []string{"-test.fuzz=FuzzOne"},
			says: []string{"-fuzz FuzzOne means 2 targets, and go test fuzzes one at a time: " +
				"type -fuzz '^FuzzOne$', or another of FuzzOneMore; make fuzz runs all\n"},
			not: "TestRan",
		},
		"none": {
			args: []string{"-test.fuzz=FuzzTwo"},
			says: []string{"-fuzz FuzzTwo means no target: there are FuzzOne, FuzzOneMore\n"},
			not:  "PASS",
		},
		"no pattern": {
			args: []string{"-test.fuzz=Fuzz("},
			says: []string{"-fuzz Fuzz(: ", "missing closing )"}, not: "PASS",
		},
		"nothing ran": {
			args: []string{"-test.fuzz=^FuzzOneMore$", "-test.fuzztime=100ms"},
			says: []string{
				"FuzzOneMore: no execution came to its end: if none failed, nothing was found out",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Whatever is wrong, this test is not run within itself.
			args := append(
				c.args, "-test.v", "-test.skip=^TestTyped$", "-test.fuzzcachedir="+t.TempDir())
			cmd := exec.Command(os.Args[0], args...)
			cmd.Dir = t.TempDir() // where testdata would be written
			out, err := cmd.CombinedOutput()
			if (err == nil) != c.ok {
				t.Errorf("error %v", err)
			}
			for _, text := range c.says {
				if !strings.Contains(string(out), text) {
					t.Errorf("it does not say %q", text)
				}
			}
			if c.not != "" && strings.Contains(string(out), c.not) {
				t.Errorf("it says %q", c.not)
			}
			if files, err := os.ReadDir(cmd.Dir); err != nil || len(files) > 0 {
				t.Errorf("left behind: %v (%v)", files, err)
			}
			if t.Failed() {
				t.Logf("%s:\n%s", strings.Join(cmd.Args, " "), out)
			}
		})
	}
}

// TestRan is one of the tests that fuzzing does not wait for.
func TestRan(*testing.T) {}
