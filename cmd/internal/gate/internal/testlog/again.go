package testlog

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"lockstep/parity/verdict"
)

// A Command is one call of go test.
type Command struct {
	Package, Pattern string
}

// Again are the commands that run these cases and no others, each once: one for all tests
// of a package, and one for all that lie in the same test.
func Again(cases []verdict.CheckCase) (commands []Command) {
	names := map[testKey][]string{} // by what they lie in
	for _, c := range cases {
		key := testKey{c.Class, c.Name}
		in := key.within()
		names[in] = append(names[in], strings.TrimPrefix(c.Name[len(in.name):], "/"))
	}
	for in, inner := range names {
		slices.Sort(inner)
		for i, name := range inner {
			inner[i] = regexp.QuoteMeta(name)
		}
		pattern := ""
		for name := range strings.SplitSeq(in.name, "/") {
			if name != "" {
				pattern += "^" + regexp.QuoteMeta(name) + "$/"
			}
		}
		commands = append(
			commands,
			Command{in.pkg, pattern + "^(" + strings.Join(slices.Compact(inner), "|") + ")$"},
		)
	}
	slices.SortFunc(commands, func(a, b Command) int {
		return strings.Compare(a.Package+" "+a.Pattern, b.Package+" "+b.Pattern)
	})
	return commands
}

// Missing are the cases of which a later log says nothing: they were asked for, and have
// not run.
func Missing(asked, later []verdict.CheckCase) error {
	told := tells(later)
	for _, c := range asked {
		if !told[testKey{c.Class, c.Name}] {
			return fmt.Errorf("%s %s was to run, and the log does not tell of it", c.Class, c.Name)
		}
	}
	return nil
}
