package gate

import (
	"context"
	"lockstep/internal/want"
	"lockstep/parity/verdict"
	"os"
	"strings"
	"testing"
	"time"
)

// TestGoTest runs go test on packages that pass, fail, skip, crash and do not compile.
func TestGoTest(t *testing.T) {
	const head = "package a\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Exit\n\n"
	for name, c := range map[string]struct {
		files   map[string]string
		require []string
		outcome string
		why     string
		passed  int
		failed  []string // names and parts of their messages
	}{
		"pass": {files: map[string]string{"a_test.go": head + "func TestA(t *testing.T) " +
			"{}\nfunc TestB(t *testing.T) { t.Run(\"x\", func(*testing.T) {}); t.Run(\"y\", " +
			"func(*testing.T) {}) }"}, outcome: verdict.Passed, passed: 3},
		"fail": {files: map[string]string{"a_test.go": head + "func TestA(t *testing.T) " +
			"{}\nfunc TestB(t *testing.T) { t.Run(\"x\", func(t *testing.T) { t.Error(\"one " +
			"bit\") }) }"}, outcome: verdict.Failed, why: "1 of 2 cases failed", passed: 1,
			failed: []string{"TestB/x", "one bit"}},
		"slashes": {files: map[string]string{"a_test.go": head + "func TestA(t *testing.T) { " +
			"for _, n := range []string{\"x\", \"x/y\", \"x/y/z\"} { t.Run(n, func(*testing.T) " +
			"{}) } }"}, outcome: verdict.Passed, passed: 3},
		"no tests": {files: map[string]string{"a.go": "package a"}, outcome: verdict.Failed,
			why: "no case was run"},
		"build": {
			files: map[string]string{
				"a_test.go": head + "func TestA(t *testing.T) { " + "nothing() }",
				"b/b_test.go": strings.Replace(head, "package a", "package b",
					1) + "func TestB(t *testing.T) {}",
			},
			outcome: verdict.Failed,
			passed:  1,
			failed:  []string{"package", "undefined: nothing"},
		},
		"panic": {
			files: map[string]string{"a_test.go": head + "func TestA(t *testing.T) " +
				"{}\nfunc TestB(t *testing.T) { panic(\"oops\") }"},
			outcome: verdict.Failed,
			passed:  1,
			failed:  []string{"TestB", "oops"},
		},
		"exit": {
			files: map[string]string{"a_test.go": head + "func TestA(t *testing.T) { " +
				"os.Exit(3) }"},
			outcome: verdict.Failed,
			failed:  []string{"TestA", "did not end"},
		},
		"exit 0": {
			files: map[string]string{"a_test.go": head + "func TestA(t *testing.T) { " +
				"os.Exit(0) }"},
			outcome: verdict.Failed,
			failed:  []string{"TestA", ""},
		},
		"TestMain": {
			files: map[string]string{"a_test.go": head + "func TestMain(m " +
				"*testing.M) { os.Exit(0) }\nfunc TestA(t *testing.T) {}"},
			outcome: verdict.Failed,
			why:     "no case was run",
		},
		"skip": {files: map[string]string{"a_test.go": head + "func TestA(t *testing.T) " +
			"{}\nfunc TestB(t *testing.T) { t.Skip(\"not run for want of assets: no model\") }"},
			outcome: verdict.Passed, passed: 1},
		"required": {files: map[string]string{"a_test.go": head + "func TestA(t *testing.T) " +
			"{}\nfunc TestB(t *testing.T) { t.Skip(\"not run for want of assets: no model\") }"},
			require: []string{want.Assets.Name}, outcome: verdict.Failed,
			why: "1 of 2 cases failed", passed: 1,
			failed: []string{"TestB", "skipped, and assets is required: a_test.go:11: not run " +
				"for want of assets: no model"}},
		"all skip": {
			files: map[string]string{"a_test.go": head + "func TestA(t *testing.T) { " +
				"t.Skip() }"},
			outcome: verdict.Failed,
			why:     "no case was run: skipped, without a word why",
		},
		"half a run": {
			files: map[string]string{"a_test.go": head + "func TestA(t *testing.T) { " +
				"t.Log(\"not run for want of python: no numpy\") }\nfunc TestB(t *testing.T) {}"},
			require: []string{want.Python.Name},
			outcome: verdict.Failed,
			passed:  1,
			failed:  []string{"TestA", "python is required"},
		},
		"no package": {files: map[string]string{}, outcome: verdict.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			write(t, root, "go.mod", "module a\n\ngo 1.26\n")
			for file, text := range c.files {
				write(t, root, file, text)
			}
			s := step{name: "tests", run: func(ctx context.Context, k *verdict.Check) error {
				return goTest(ctx, k, root, append(os.Environ(), "GOFLAGS="), "./...")
			}}
			got := s.execute(t.Context(), 10*time.Minute, c.require)
			if got.Outcome != c.outcome || !strings.Contains(got.Why, c.why) ||
				got.Count(verdict.Passed) != c.passed {
				t.Errorf(
					"%s, %d passed, because %q; want %s, %d, because %q\n%+v\n%s", got.Outcome,
					got.Count(verdict.Passed), got.Why, c.outcome, c.passed, c.why, got.Cases,
					got.Output,
				)
			}
			if c.failed == nil {
				return
			}
			found := 0
			for _, k := range got.Cases {
				if k.Outcome != verdict.Failed {
					continue
				}
				found++
				if k.Name != c.failed[0] || !strings.Contains(k.Message, c.failed[1]) {
					t.Errorf("%s failed with %q, want %q", k.Name, k.Message, c.failed)
				}
			}
			if found != 1 {
				t.Errorf("%d failed, want 1: %+v", found, got.Cases)
			}
		})
	}
}
