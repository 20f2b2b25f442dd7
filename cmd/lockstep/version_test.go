package main

import (
	"encoding/json"
	"strings"
	"testing"

	"lockstep"
)

// TestVersion: a release's program says which it is, and every word that a profile can have.
func TestVersion(t *testing.T) {
	defer func(v, c string) { version, commit = v, c }(version, commit)
	if status, stdout, stderr := lockstepRun(t.Context(), "version"); status != exitOK ||
		!strings.HasPrefix(stdout, "lockstep (no release), commit ") {
		t.Errorf("exit %d, %s%s", status, stdout, stderr)
	}
	version, commit = "1.2.3", "0123abcd"
	_, stdout, _ := lockstepRun(t.Context(), "version")
	if !strings.HasPrefix(stdout, "lockstep 1.2.3, commit 0123abcd\n") {
		t.Errorf("of a release: %s", stdout)
	}
	if _, flag, _ := lockstepRun(t.Context(), "--version"); flag != stdout {
		t.Errorf("--version says %q", flag)
	}
	for _, p := range lockstep.Profiles() {
		for word := range strings.SplitSeq(p.String(), "-") {
			if !strings.Contains(stdout, "\n"+word+" ") {
				t.Errorf("%s is not in\n%s", word, stdout)
			}
		}
	}
	var o origin
	_, stdout, _ = lockstepRun(t.Context(), "version", "--json")
	if err := json.Unmarshal([]byte(stdout), &o); err != nil || o.Commit != "0123abcd" ||
		len(o.Profiles) != len(lockstep.Profiles()) {
		t.Errorf("%v: %s", err, stdout)
	}
}
