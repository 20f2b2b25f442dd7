package golden_test

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/internal/want"
)

// TestGenerate holds the script that records to what golden/README.md says of its ends: one
// line, and the status of a refusal or of a difference.
func TestGenerate(t *testing.T) {
	python := want.Python.Need(t)
	other := filepath.Join(t.TempDir(), "tinyphysics.py")
	write(t, other, "print('another program')\n")
	const load = "import sys; sys.argv[0] = 'generate.py'; sys.path.insert(0, '.'); import " +
		"generate as g; import numpy as np\n"
	for _, c := range []struct {
		args   []string
		status int
		want   string // in the one line
	}{
		{
			[]string{"generate.py", "--upstream", filepath.Dir(other), "--model", "m", "--routes",
				"r", "--check", "testdata"},
			2,
			": missing: --upstream must hold ",
		},
		{
			[]string{"-c", load + "probe = {'sin': dict(question='np.sin', known={'fma': '1p0'}, " +
				"answer='3p0', name=None)}\ng.run(lambda: g.profile_name(probe))"},
			2,
			"probe sin (np.sin) answered 3p0, none of ['1p0']: this arithmetic is not a known " +
				"profile",
		},
		{[]string{"-c", load + `
def check():
    raise g.Failed(g.first_difference({"a": np.zeros(2)}, {"a": np.array([0.0, -0.0])}))
g.run(check)`}, 1, "a[1]: committed 0.0 (0000000000000000), regenerated -0.0 (8000000000000000) " +
			"(1 of 2 differ)"},
	} {
		command := exec.Command(python, append([]string{"-B"}, c.args...)...)
		var stderr bytes.Buffer
		command.Stderr = &stderr
		var ended *exec.ExitError
		if err := command.Run(); !errors.As(err, &ended) || ended.ExitCode() != c.status {
			t.Errorf("%q: %v, want status %d\n%s", c.args, err, c.status, &stderr)
		}
		if text := stderr.String(); !strings.HasPrefix(text, "generate.py: ") ||
			!strings.Contains(text, c.want) ||
			strings.Count(text, "\n") != 1 {
			t.Errorf("%q says %q, want one line with %q", c.args, text, c.want)
		}
	}
}
