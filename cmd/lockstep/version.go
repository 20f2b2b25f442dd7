package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"lockstep"
	"lockstep/engines"
)

// version and commit are those of a release, which its build sets.
var version, commit string

type versionCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// origin is what a program says of where it comes from.
type origin struct {
	Version string `json:"version"` // "" of what is no release
	// with "+changes" if there were some that nobody had committed
	Commit   string   `json:"commit"`
	Go       string   `json:"go"`
	Platform string   `json:"platform"`
	Engines  []string `json:"engines"`
	Profiles []string `json:"profiles"`
}

// Run is the version command.
func (c *versionCommand) Run(env *environment) error {
	o := origin{
		Version: version, Commit: cmp.Or(commit, built()),
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Engines: engines.Names(),
	}
	for _, p := range lockstep.Profiles() {
		o.Profiles = append(o.Profiles, p.String())
	}
	if c.JSON {
		env.json(o)
		return nil
	}
	fmt.Fprintf(
		env.stdout,
		"lockstep %s, commit %s\n%s, %s\nengines: %s\n\na profile is a word of each, %d in all:\n",
		cmp.Or(o.Version, "(no release)"), cmp.Or(o.Commit, "unknown"), o.Go, o.Platform,
		strings.Join(o.Engines, ", "), len(o.Profiles),
	)
	t := tabwriter.NewWriter(env.stdout, 0, 0, 2, ' ', 0)
	for k := range strings.Split(o.Profiles[0], "-") {
		for _, form := range lockstep.Forms(k) {
			fmt.Fprintf(t, "%s\t%s\n", form.Word, form.What)
		}
	}
	return t.Flush()
}

// built is the commit that Go found when it built the program, or empty.
func built() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return revision(info.Settings)
}

// revision is the commit among the settings of a build, or empty.
func revision(settings []debug.BuildSetting) (commit string) {
	changes := ""
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changes = "+changes"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + changes
}
