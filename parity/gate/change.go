package gate

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"

	"lockstep/engines"
	"lockstep/parity/verdict"
)

// Kinds of files.
const (
	kindDocumentation = "documentation"
	kindAll           = "every engine" // or what is not known
	kindTool          = "tools"
)

// tools are the folders of what computes nothing that is compared.
var tools = []string{"report/", "generate/", "pycontroller/", "cmd/", "scripts/"}

// kinds are what a file is: documentation, a tool, or of some engines. What is not
// known concerns every one.
func kinds(file string) []string {
	if path.Ext(file) == ".md" && !strings.Contains("/"+file, "/testdata/") || slices.Contains([]string{"LICENSE", "NOTICE", "AUTHORS"}, file) {
		return []string{kindDocumentation}
	}
	if names := engines.Of(file); names != nil {
		return names
	}
	if slices.ContainsFunc(tools, func(folder string) bool { return strings.HasPrefix(file, folder) }) {
		return []string{kindTool}
	}
	return []string{kindAll}
}

// Changed finds what differs from the base in the git checkout of the folder root, and
// which of the engines, all of them named, that may concern. It
// never fails: where it cannot tell, the answer is everything.
func Changed(ctx context.Context, root, base string, all []string) verdict.Change {
	c := verdict.Change{Base: base, Files: []string{}, Engines: all}
	everything := func(format string, args ...any) verdict.Change {
		c.Everything, c.Why = true, "every check runs: "+fmt.Sprintf(format, args...)
		c.Documentation, c.Engines = false, all
		return c
	}
	head, err := git(ctx, root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if err != nil {
		return everything("this is no git checkout with a commit")
	}
	c.Head = strings.TrimSpace(head)
	if base == "" {
		return everything("no base revision is given")
	}
	if strings.HasPrefix(base, "-") {
		return everything("%q is no revision", base)
	}
	if _, err := git(ctx, root, "rev-parse", "--verify", "--quiet", base+"^{commit}"); err != nil {
		return everything("revision %s is not known here", base)
	}
	merge, err := git(ctx, root, "merge-base", base, "HEAD")
	if err != nil {
		return everything("%s and what is checked out have no commit in common", base)
	}
	c.MergeBase = strings.TrimSpace(merge)
	// Without --no-renames a file that leaves a folder would show in the other only,
	// and without -z and --relative names would be quoted, and from elsewhere.
	differ, err := git(ctx, root, "diff", "--name-only", "--no-renames", "--relative", "-z", c.MergeBase, "--", ".")
	if err != nil {
		return everything("%v", err)
	}
	untracked, err := git(ctx, root, "ls-files", "--others", "--exclude-standard", "-z", "--", ".")
	if err != nil {
		return everything("%v", err)
	}
	for _, file := range strings.Split(differ+untracked, "\x00") {
		if file != "" {
			c.Files = append(c.Files, file)
		}
	}
	slices.Sort(c.Files)
	c.Files = slices.Compact(c.Files)
	if len(c.Files) == 0 {
		return everything("nothing differs from %s", base)
	}

	found := map[string]string{} // kinds, with a file of each
	for _, file := range c.Files {
		for _, k := range kinds(file) {
			found[k] = file
		}
	}
	if file := found[kindAll]; file != "" {
		return everything("%s concerns every engine", file)
	}
	if len(found) == 1 && found[kindDocumentation] != "" {
		c.Documentation, c.Engines = true, []string{}
		c.Why = "documentation only"
		return c
	}
	c.Engines = []string{}
	for _, e := range engines.Names() {
		if found[e] != "" {
			c.Engines = append(c.Engines, e)
		}
	}
	c.Why = "changed: " + strings.Join(c.Engines, ", ")
	if len(c.Engines) == 0 {
		c.Why = "no engine has changed"
	}
	return c
}

// git runs a git command in a folder and returns what it prints.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", args...)
	command.Dir = dir
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(out), nil
}
