package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"lockstep/engines"
	"lockstep/parity"
)

// A familyRow is a family of simulators beside tinyphysics, as the command line knows it: see
// enterFamily.
type familyRow struct {
	// flags makes the family's flags of rollout and compare.
	flags func() family

	// bench makes those of bench, or is nil if nothing of the family is measured.
	bench func() measured
}

var familyRows []familyRow

// enterFamily adds a family. The file of the family calls it from its init, and is all that the
// command line has of it.
func enterFamily(row familyRow) { familyRows = append(familyRows, row) }

// familyFlags are the flags of the families, each a pointer to a struct of them.
type familyFlags struct{ kong.Plugins }

func newFamilyFlags() (f familyFlags) {
	for _, row := range familyRows {
		f.Plugins = append(f.Plugins, row.flags())
	}
	return f
}

// families are those of which the command line can ask for something.
func (f *familyFlags) families() (all []family) {
	for _, one := range f.Plugins {
		all = append(all, one.(family))
	}
	return all
}

// benchFlags are the flags of bench that the families have.
type benchFlags struct{ kong.Plugins }

func newBenchFlags() (f benchFlags) {
	for _, row := range familyRows {
		if row.bench != nil {
			f.Plugins = append(f.Plugins, row.bench())
		}
	}
	return f
}

// family is the family that is asked for, or nil for tinyphysics.
func (f *benchFlags) family() measured {
	for _, one := range f.Plugins {
		if m := one.(measured); m.asked() {
			return m
		}
	}
	return nil
}

// measured is what bench asks of a family.
type measured interface {
	asked() bool
	bench(env *environment, c *benchCommand) error
}

// A family is what the commands ask of a family of simulators.
type family interface {
	// tag is the tag family:"…" of the flags that go with this family only, and flag the name
	// of the one that asks for it. With family:"every" a flag goes with each of them, without
	// a tag with tinyphysics only.
	tag() (tag, flag string)

	// asked reports whether that flag is given.
	asked() bool

	// rollout and compare are what these commands do if the family is asked for.
	rollout(env *environment, c *rolloutCommand) error
	compare(p *comparisons, c *compareCommand) error

	// replay is the repetition of a kept case on the engines of these names, or nil if the
	// file is of no case of this family.
	replay(p *comparisons, file string, names []string) (func() error, error)

	// watch writes how far the run in a folder is, and reports whether it is done; the error
	// is fs.ErrNotExist if it is no run of this family.
	watch(out io.Writer, dir string) (done bool, err error)
}

// family is the family that is asked for, or nil for tinyphysics.
func (f *familyFlags) family() family {
	for _, one := range f.families() {
		if one.asked() {
			return one
		}
	}
	return nil
}

// unshared is an error if a folder keeps a run of a family, which goes on in no other's. What is no
// folder is refused where one is made.
func unshared(dir string) error {
	all := newFamilyFlags()
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil
	}
	for _, f := range all.families() {
		if _, err := f.watch(io.Discard, dir); !errors.Is(err, fs.ErrNotExist) {
			_, flag := f.tag()
			return fmt.Errorf("%s is of another run, of --%s: give another folder, or remove this "+
				"one, whole", dir, flag)
		}
	}
	return nil
}

// checkFamily refuses what would be passed over: flags of a family that is not asked for, and
// with one that is, flags that do not go with it.
func checkFamily(command *kong.Context) error {
	asking := map[string]string{} // flag by tag
	tag, flag := "", ""           // of the family that is asked for
	all := newFamilyFlags()
	for _, one := range all.families() {
		t, name := one.tag()
		asking[t] = name
		if slices.ContainsFunc(command.Path, func(p *kong.Path) bool {
			return p.Flag != nil && p.Flag.Name == name
		}) {
			tag, flag = t, name
		}
	}
	for _, p := range command.Path {
		if p.Flag == nil {
			continue
		}
		switch of := p.Flag.Tag.Get("family"); {
		case of == "every" || of == tag:
		case of != "" && tag == "":
			return fmt.Errorf("--%s goes with --%s", p.Flag.Name, asking[of])
		default:
			return fmt.Errorf("--%s does not go with --%s", p.Flag.Name, flag)
		}
	}
	return nil
}

// unheeded are flags with which a command passes over others, and why.
var unheeded = []struct {
	command, with string
	over          []string
	why           string
}{
	{"verify", "check", []string{"profile", "seed_prefix", "num_segs"}, "the score says it"},
	{
		"export", "unchecked",
		slices.Concat([]string{
			"model_path", "data_path", "own", "num_segs", "workers", "profile", "seed_prefix",
			"no-cache", "engine", "kernels",
		}, steeringFlags),
		"nothing is run",
	},
	{
		"gate", "packages",
		[]string{
			"out", "all", "require", "require-hardware", "tested", "keep-going", "limit",
		},
		"no check is run",
	},
	{"mutants", "json", []string{"markdown"}, "no table is printed"},
}

// checkHeeded refuses what would be passed over beside another flag that is given.
func (e *environment) checkHeeded(command string) error {
	for _, row := range unheeded {
		if row.command != command || !slices.Contains(e.given, row.with) {
			continue
		}
		if name := e.givenOf(row.over); name != "" {
			return fmt.Errorf("--%s does not go with --%s: %s", name, row.with, row.why)
		}
	}
	return nil
}

// givenOf is the first flag that is given of some, or "".
func (e *environment) givenOf(names []string) string {
	for _, name := range e.given {
		if slices.Contains(names, name) {
			return name
		}
	}
	return ""
}

// openMembers opens engines of a family, of which the first is asked for by its name.
func openMembers[E interface{ Name() string }](
	f *engines.Family[E], names []string, workers int, asked bool,
) (all []opened[E], err error) {
	for i, name := range names {
		e, err := f.Named(name)
		if err != nil {
			return nil, err
		}
		engine, err := e.New(workers)
		all = append(all, enter(name, engine, err, asked || i == 0, f.Identity))
	}
	return all, nil
}

// held are the names of the yardstick and of what is held to it: of all that are tried if the
// command names none.
func held[E interface{ Name() string }](f *engines.Family[E], c *compareCommand) []string {
	others := c.Got
	if len(others) == 0 {
		others = slices.DeleteFunc(f.Tried(), func(name string) bool { return name == c.Want })
	}
	return append([]string{c.Want}, others...)
}

// replayMembers repeats a case on those engines of the names that are of the family.
func replayMembers[E interface{ Name() string }](p *comparisons, f *engines.Family[E], k kept[E],
	path string, results []parity.CaseResult, names []string) error {
	own := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, err := f.Named(name)
		return err != nil
	})
	if len(names) == 0 {
		own = f.Tried()
	}
	all, err := openMembers(f, own, 0, p.asked)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		none := notApplicable("no engine of these names computes " + f.Simulates())
		all = []opened[E]{{name: strings.Join(names, ","), err: none}}
	}
	return replay(p, k, path, results, all)
}
