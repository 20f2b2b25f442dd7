package gate

import (
	"bytes"
	"context"
	"errors"
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
// which of the engines, all of them named, that may concern. It never fails: where it
// cannot tell, the answer is everything.
func Changed(ctx context.Context, root, base string, all []string) verdict.Change {
	c := verdict.Change{Base: base, Files: []string{}, Engines: all}
	err := differing(ctx, root, &c)
	found := map[string]string{} // kinds, with a file of each
	for _, file := range c.Files {
		for _, k := range kinds(file) {
			found[k] = file
		}
	}
	if file := found[kindAll]; err == nil && file != "" {
		err = fmt.Errorf("%s concerns every engine", file)
	}
	if err != nil {
		c.Everything, c.Why = true, "every check runs: "+err.Error()
		return c
	}
	c.Engines = []string{}
	if len(found) == 1 && found[kindDocumentation] != "" {
		c.Documentation, c.Why = true, "documentation only"
		return c
	}
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

// differing enters the commits and the files that differ. The error is why that cannot
// be told.
func differing(ctx context.Context, root string, c *verdict.Change) error {
	head, err := git(ctx, root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if err != nil {
		return errors.New("this is no git checkout with a commit")
	}
	c.Head = strings.TrimSpace(head)
	switch {
	case c.Base == "":
		return errors.New("no base revision is given")
	case strings.HasPrefix(c.Base, "-"):
		return fmt.Errorf("%q is no revision", c.Base)
	}
	if _, err := git(ctx, root, "rev-parse", "--verify", "--quiet", c.Base+"^{commit}"); err != nil {
		return fmt.Errorf("revision %s is not known here", c.Base)
	}
	merge, err := git(ctx, root, "merge-base", c.Base, "HEAD")
	if err != nil {
		return fmt.Errorf("%s and what is checked out have no commit in common", c.Base)
	}
	c.MergeBase = strings.TrimSpace(merge)
	// Without --no-renames a file that leaves a folder would show in the other only,
	// and without -z and --relative names would be quoted, and from elsewhere.
	differ, err := git(ctx, root, "diff", "--name-only", "--no-renames", "--relative", "-z", c.MergeBase, "--", ".")
	if err != nil {
		return err
	}
	untracked, err := git(ctx, root, "ls-files", "--others", "--exclude-standard", "-z", "--", ".")
	if err != nil {
		return err
	}
	c.Files = slices.Sorted(strings.FieldsFuncSeq(differ+untracked, func(r rune) bool { return r == 0 }))
	c.Files = slices.Compact(c.Files)
	if len(c.Files) == 0 {
		c.Files = []string{}
		return fmt.Errorf("nothing differs from %s", c.Base)
	}
	return nil
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
