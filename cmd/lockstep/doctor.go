package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"text/tabwriter"

	"lockstep"
	"lockstep/defaults"
	"lockstep/engines"
	"lockstep/internal/assets"
	"lockstep/internal/model"
	"lockstep/internal/want"
	"lockstep/reference"
)

type doctorCommand struct{}

// Run is the doctor command: one line for each part, with the one command that
// mends it. It exits 2 if what is needed for a rollout does not work.
func (c *doctorCommand) Run(env *environment) error {
	t := tabwriter.NewWriter(env.stdout, 0, 0, 2, ' ', 0)
	broken := false // what a rollout needs
	line := func(mark, what, state string) { fmt.Fprintf(t, "%s\t%s\t%s\n", mark, what, state) }
	const ok, missing, bad = "ok", "–", "BAD"

	line(ok, "machine", fmt.Sprintf("%s, %d cores, %s", cpuModel(), runtime.GOMAXPROCS(0), runtime.Version()))
	line(ok, "arithmetic", reference.HostProfile().String())

	w, err := model.Parse(defaults.Model())
	if err != nil {
		line(bad, "own network", err.Error())
		t.Flush()
		return exitStatus(exitUsage)
	}
	line(ok, "own network", "embedded, "+w.SHA256[:12]+"…")

	path, err := assets.Find(assets.Model)
	if err == nil {
		if w, err = model.Load(path); err == nil && w.SHA256 != model.OfficialSHA256 {
			err = errors.New("this is not the challenge's network")
		}
		if err != nil {
			line(bad, "challenge's network", fmt.Sprintf("%v: delete it and run `lockstep fetch model`", err))
		} else {
			line(ok, "challenge's network", path)
		}
	} else {
		line(missing, "challenge's network", remedy(err, "lockstep fetch model"))
	}
	if path, err := assets.Find(assets.Routes); err == nil {
		files, err := lockstep.RouteFiles(path, -1)
		if err != nil {
			line(bad, "challenge's routes", err.Error())
		} else {
			line(ok, "challenge's routes", fmt.Sprintf("%s, %d files", path, len(files)))
		}
	} else {
		line(missing, "challenge's routes", remedy(err, "lockstep fetch data"))
	}

	own, _, err := defaults.Keep()
	if err != nil {
		line(bad, "cache folder", err.Error())
		t.Flush()
		return exitStatus(exitUsage)
	}
	for _, e := range engines.All {
		what := "engine " + e.Name
		var absent *want.Error
		if err := e.Absent(); errors.As(err, &absent) {
			line(missing, what, absent.Reason.Error())
		} else if err == nil && e.Slow {
			line(ok, what, "slow: it runs where it is asked for by its name")
		} else if sim, opened := e.Open(engines.Config{Model: own, Profile: reference.HostProfile(), Workers: 1}); err != nil || opened != nil {
			line(bad, what, cmp.Or(err, opened).Error())
			broken = broken || e.Want == nil
		} else {
			line(ok, what, engines.Inside(sim))
			engines.Close(sim)
		}
	}
	if python, err := want.Python.Find(); err != nil {
		line(missing, "Python controllers", err.Error())
	} else {
		line(ok, "Python controllers", python)
	}
	if err := t.Flush(); err != nil || !broken {
		return err
	}
	return exitStatus(exitUsage)
}

// remedy is what mends that an asset is not found: to fetch it, or where the folder is
// given, what that folder lacks.
func remedy(lacks error, fetch string) string {
	if os.Getenv("LOCKSTEP_ASSETS") != "" {
		return lacks.Error()
	}
	return fetch
}
