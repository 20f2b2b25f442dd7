package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"text/tabwriter"

	"lockstep"
	"lockstep/engines"
	"lockstep/internal/assets"
	"lockstep/internal/defaults"
	"lockstep/internal/fileio"
	"lockstep/internal/installed"
	"lockstep/internal/model"
	"lockstep/internal/want"
	"lockstep/routefile"
)

type doctorCommand struct {
	Fingerprint string `name:"fingerprint" io:"out" placeholder:"FILE" help:"Ask Python's libraries afresh, and write to a file all that they answered: what somebody needs to add its arithmetic."`
}

// Run is the doctor command: one line for each part, with the one command that
// mends it. It exits 2 if what is needed for a rollout does not work.
func (c *doctorCommand) Run(env *environment) error {
	t := tabwriter.NewWriter(env.stdout, 0, 0, 2, ' ', 0)
	defer t.Flush()
	line := func(what, state string, err error) {
		mark := "ok"
		var absent *want.Error
		if errors.As(err, &absent) {
			mark, state = "–", absent.Reason.Error()
		} else if err != nil {
			mark, state = "BAD", err.Error()
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", mark, what, state)
	}
	line(
		"machine",
		fmt.Sprintf("%s, %d cores, %s", cpuModel(), runtime.GOMAXPROCS(0), runtime.Version()), nil,
	)
	if err := c.arithmetic(env, line); err != nil {
		return err
	}

	w, err := model.Parse(defaults.Model())
	if err != nil {
		line("project's network", "", err)
		return exitStatus(exitUsage)
	}
	line("project's network", "embedded, "+w.SHA256[:12]+"…", nil)
	path, err := asset(assets.Model, "lockstep fetch model")
	if err == nil {
		w, bad := model.Load(path)
		if bad == nil && w.SHA256 != model.OfficialSHA256 {
			bad = errors.New("this is not the challenge's network")
		}
		if bad != nil {
			err = fmt.Errorf("%w: delete it and run `lockstep fetch model`", bad)
		}
	}
	line("challenge's network", path, err)
	var files []string
	if path, err = asset(assets.Routes, "lockstep fetch data"); err == nil {
		files, err = routefile.List(path, -1)
	}
	line("challenge's routes", fmt.Sprintf("%s, %d files", path, len(files)), err)

	own, _, err := defaults.Keep()
	if err != nil {
		line("cache folder", "", err)
		return exitStatus(exitUsage)
	}
	broken := false // what a rollout needs
	for _, e := range engines.All() {
		state, err := "slow: it runs where it is asked for by its name", e.Absent()
		if err == nil && !e.Slow {
			var sim lockstep.Implementation
			if sim, err = e.Open(engines.Config{Model: own, Profile: env.computed,
				Workers: 1}); err == nil {
				state = sim.About().Inside
				sim.Close()
			}
		}
		line("engine "+e.Name, state, err)
		broken = broken || err != nil && e.Want == nil
	}
	python, err := want.Python.Find()
	if err != nil {
		err = &want.Error{Want: want.Python, Reason: err}
	}
	line("Python controllers", python, err)
	if broken {
		return exitStatus(exitUsage)
	}
	return nil
}

// arithmetic says which Python was asked for its arithmetic, and what it answered.
func (c *doctorCommand) arithmetic(
	env *environment, line func(what, state string, err error),
) (err error) {
	env.told = true
	if c.Fingerprint != "" {
		data, found, err := installed.Fingerprint(env.ctx, "")
		if err != nil {
			return fmt.Errorf("--fingerprint: %w", err)
		}
		if err := fileio.WriteFile(c.Fingerprint, data); err != nil {
			return err
		}
		env.found, env.computed = found, found.Profile
	} else if env.computed, env.found, err = installed.Choose(
		env.ctx, installed.Host, "",
	); err != nil {
		return err
	}
	if env.found == nil {
		line("arithmetic", env.computed.String()+", which "+installed.Variable+" names", nil)
		return nil
	}
	line("arithmetic", env.found.String(), nil)
	if len(env.found.Answers) > 0 {
		line("probes", env.found.Summary(), nil)
	}
	for _, warning := range env.found.Warnings() {
		line("probes", "", errors.New(warning))
	}
	if c.Fingerprint != "" {
		line("fingerprint", c.Fingerprint, nil)
	}
	return nil
}

// asset is the path of an asset. That it is not found is mended by fetching it or, where
// the folder is given, by what that folder lacks.
func asset(name, fetch string) (string, error) {
	path, err := assets.Find(name)
	switch {
	case err == nil:
		return path, nil
	case os.Getenv("LOCKSTEP_ASSETS") != "":
		return "", lacking("%v", err)
	}
	return "", lacking("%s", fetch)
}
