package main

import (
	"encoding/json"
	"runtime/debug"
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

// TestRevision: the commit of a build is named, and that there were changes which nobody had
// committed.
func TestRevision(t *testing.T) {
	of := func(words ...string) (all []debug.BuildSetting) {
		for i := 0; i < len(words); i += 2 {
			all = append(all, debug.BuildSetting{Key: words[i], Value: words[i+1]})
		}
		return all
	}
	for _, c := range []struct {
		settings []debug.BuildSetting
		want     string
	}{
		{of("vcs", "git", "vcs.revision", "0123abcd", "vcs.modified", "false"), "0123abcd"},
		{of("vcs.modified", "true", "vcs.revision", "0123abcd"), "0123abcd+changes"},
		{of("vcs.revision", "0123abcd", "-race", "true"), "0123abcd"},
		{of("vcs.modified", "true"), ""},
		{nil, ""},
	} {
		if got := revision(c.settings); got != c.want {
			t.Errorf("of %v: %q, want %q", c.settings, got, c.want)
		}
	}
}
