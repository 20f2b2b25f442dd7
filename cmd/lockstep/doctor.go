package main

import (
	"errors"
	"fmt"
	"runtime"
	"text/tabwriter"

	"lockstep"
	"lockstep/defaults"
	"lockstep/gpu"
	"lockstep/internal/assets"
	"lockstep/internal/model"
	"lockstep/onnxruntime"
	"lockstep/pycontroller"
	"lockstep/reference"
)

type doctorCommand struct{}

// Run is the doctor command: one line for each part, with the one command that
// mends it. It exits 2 if what is needed for a rollout does not work.
func (c *doctorCommand) Run(env *environment) error {
	t := tabwriter.NewWriter(env.stdout, 0, 0, 2, ' ', 0)
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
		line(missing, "challenge's network", "lockstep fetch model")
	}
	if path, err := assets.Find(assets.Routes); err == nil {
		files, err := lockstep.RouteFiles(path, -1)
		if err != nil {
			line(bad, "challenge's routes", err.Error())
		} else {
			line(ok, "challenge's routes", fmt.Sprintf("%s, %d files", path, len(files)))
		}
	} else {
		line(missing, "challenge's routes", "lockstep fetch data")
	}

	ref, err := c.reference()
	if err != nil {
		line(bad, "engine reference", err.Error())
		t.Flush()
		return exitStatus(exitUsage)
	}
	line(ok, "engine reference", "kernels "+ref.Kernels())
	if library, err := onnxruntime.FindLibrary(); err != nil {
		line(missing, "engine onnxruntime", err.Error())
	} else if b, err := c.onnxruntime(library); err != nil {
		line(bad, "engine onnxruntime", err.Error())
	} else {
		line(ok, "engine onnxruntime", fmt.Sprintf("ONNX Runtime %s, profile %s", b.Version(), b.Profile()))
		b.Close()
	}
	if err := gpu.Available(); err != nil {
		line(missing, "engine gpu", err.Error())
	} else if g, err := c.gpu(); err != nil {
		line(bad, "engine gpu", err.Error())
	} else {
		line(ok, "engine gpu", inside(g))
		g.Close()
	}
	if python, err := pycontroller.FindPython(); err != nil {
		line(missing, "Python controllers", err.Error())
	} else {
		line(ok, "Python controllers", python)
	}
	return t.Flush()
}

func (c *doctorCommand) reference() (*reference.Simulator, error) {
	path, _, err := writeOwn()
	if err != nil {
		return nil, err
	}
	return reference.New(path, reference.HostProfile())
}

func (c *doctorCommand) onnxruntime(library string) (*onnxruntime.Simulator, error) {
	path, _, err := writeOwn()
	if err != nil {
		return nil, err
	}
	return onnxruntime.New(onnxruntime.Config{ModelPath: path, Library: library, Workers: 1, Profile: reference.HostProfile()})
}

func (c *doctorCommand) gpu() (*gpu.Simulator, error) {
	path, _, err := writeOwn()
	if err != nil {
		return nil, err
	}
	return gpu.New(gpu.Config{ModelPath: path, Profile: reference.HostProfile()})
}
