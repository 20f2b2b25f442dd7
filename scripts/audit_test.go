// Package scripts has the tests of shell scripts.
package scripts

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAudit: what is found and what could not be asked are both no pass, and are told apart.
func TestAudit(t *testing.T) {
	const answered = `while [ "$1" != --output ]; do shift; done; echo '{"dependencies": []}' > ` +
		`"$2"; `
	for name, c := range map[string]struct {
		vulncheck, audit string
		status           int
		says             string
	}{
		"nothing":   {"exit 0", answered + "exit 0", 0, "Go modules: nothing is known"},
		"a module":  {"exit 3", answered + "exit 0", 1, "Go modules: VULNERABLE"},
		"a package": {"exit 0", answered + "exit 1", 1, "golden/requirements.txt: VULNERABLE"},
		"no database of Go": {"echo no such host >&2; exit 1", answered + "exit 0", 3,
			"Go modules: NOT ASKED"},
		"no database of pip":    {"exit 0", "exit 1", 3, "golden/requirements.txt: NOT ASKED"},
		"neither":               {"exit 1", "exit 1", 3, "Go modules: NOT ASKED"},
		"one found, one absent": {"exit 3", "exit 1", 1, "golden/requirements.txt: NOT ASKED"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tool := func(name, script string) string {
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
				return path
			}
			out, err := exec.Command(
				"bash", "audit.sh", tool("govulncheck", c.vulncheck), tool("pip-audit", c.audit),
			).CombinedOutput()
			status := 0
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				status = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if status != c.status || !strings.Contains(string(out), "audit: "+c.says) {
				t.Errorf("status %d, want %d and %q:\n%s", status, c.status, c.says, out)
			}
		})
	}
}
