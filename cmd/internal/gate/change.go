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

// tools are the folders of what computes nothing that is compared.
var tools = []string{
	"cmd/internal/report/", "internal/generate/", "internal/pycontroller/", "cmd/lockstep/",
	"scripts/",
}

// documentation reports whether nothing of a file is read by a program.
func documentation(file string) bool {
	return path.Ext(file) == ".md" && !strings.Contains("/"+file, "/testdata/") ||
		slices.Contains([]string{"LICENSE", "NOTICE", "AUTHORS"}, file)
}

// Changed finds what differs from the base in the git checkout of the folder root, and
// which of the engines that may concern. It never fails: where it cannot tell, the answer
// is everything.
func Changed(ctx context.Context, root, base string) verdict.Change {
	c := verdict.Change{
		Base:          base,
		Files:         []string{},
		Engines:       []string{},
		Packages:      []string{everyPackage},
		Documentation: true,
	}
	err := differing(ctx, root, &c)
	known := err == nil
	found := map[string]bool{}
	for _, file := range c.Files {
		if documentation(file) {
			continue
		}
		c.Documentation = false
		names := engines.Of(file)
		for _, name := range names {
			found[name] = true
		}
		if names == nil &&
			!slices.ContainsFunc(
				tools, func(folder string) bool { return strings.HasPrefix(file, folder) },
			) {
			err = fmt.Errorf("%s concerns every engine", file)
		}
	}
	for _, name := range engines.Names() {
		if found[name] || err != nil {
			c.Engines = append(c.Engines, name)
		}
	}
	switch {
	case err != nil:
		c.Everything, c.Documentation, c.Why = true, false, "every engine is checked: "+err.Error()
	case c.Documentation:
		c.Why = "documentation only"
	case len(c.Engines) == 0:
		c.Why = "no engine has changed"
	default:
		c.Why = "changed: " + strings.Join(c.Engines, ", ")
	}
	if known {
		if c.Packages, err = reached(ctx, root, c.Files); err != nil {
			c.Packages, c.Why = []string{everyPackage}, c.Why+"; all tests run: "+err.Error()
		}
	}
	return c
}

// differing enters the commits and the files that differ. The error is why that cannot
// be told.
func differing(ctx context.Context, root string, c *verdict.Change) error {
	var err error
	if c.Head, err = git(ctx, root, "rev-parse", "--verify", "--quiet",
		"HEAD^{commit}"); err != nil {
		return errors.New("this is no git checkout with a commit")
	}
	switch {
	case c.Base == "":
		return errors.New("no base revision is given")
	case strings.HasPrefix(c.Base, "-"):
		return fmt.Errorf("%q is no revision", c.Base)
	}
	if _, err := git(ctx, root, "rev-parse", "--verify", "--quiet",
		c.Base+"^{commit}"); err != nil {
		return fmt.Errorf("revision %s is not known here", c.Base)
	}
	if c.MergeBase, err = git(ctx, root, "merge-base", c.Base, "HEAD"); err != nil {
		return fmt.Errorf("%s and what is checked out have no commit in common", c.Base)
	}
	// Without --no-renames a file that leaves a folder would show in the other only,
	// and without -z and --relative names would be quoted, and from elsewhere.
	differ, err := git(
		ctx, root, "diff", "--name-only", "--no-renames", "--relative", "-z", c.MergeBase, "--",
		".",
	)
	if err != nil {
		return err
	}
	untracked, err := git(ctx, root, "ls-files", "--others", "--exclude-standard", "-z", "--", ".")
	if err != nil {
		return err
	}
	files := slices.Sorted(
		strings.FieldsFuncSeq(differ+untracked, func(r rune) bool { return r == 0 }),
	)
	if len(files) == 0 {
		return fmt.Errorf("nothing differs from %s", c.Base)
	}
	c.Files = slices.Compact(files)
	return nil
}

// git runs a git command in a folder and returns what it prints, without the end of its line.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", args...)
	command.Dir = dir
	out, err := command.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(exit.Stderr))
	}
	return strings.TrimSuffix(string(out), "\n"), err
}
