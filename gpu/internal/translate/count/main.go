// Command count executes rollouts by the machine code that is shipped and counts, between
// barriers, what it executes: the speed model of gpu/PERFORMANCE.md. Nothing in it was
// measured on a GPU.
//
//	go run ./gpu/internal/translate/count -routes 6
//	go run ./gpu/internal/translate/count -policy wide  # steered by a recorded network
//	go run ./gpu/internal/translate/count -cubin FILE   # another, with its listing in FILE.sass
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"lockstep"
	"lockstep/golden/policies"
	"lockstep/gpu"
	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/driver/emulated"
	"lockstep/gpu/internal/module"
	"lockstep/gpu/internal/translate"
	"lockstep/internal/defaults"
	"lockstep/routefile"
)

func main() {
	routes := flag.Int("routes", 6, "routes of the block: 1, 2, 4, 5 or 6")
	steps := flag.Int("steps", 400, "steps that the network runs")
	policy := flag.String(
		"policy", "pid", "what steers: pid, or network or wide of the recorded policies",
	)
	cubin := flag.String(
		"cubin", "",
		"machine code to count, if it is not that shipped; its listing is in FILE.sass",
	)
	flag.Parse()
	if err := run(*routes, *steps, *policy, *cubin); err != nil {
		fmt.Fprintln(os.Stderr, "count:", err)
		os.Exit(1)
	}
}

// steers is what a name stands for.
func steers(name string) (lockstep.Policy, error) {
	switch name {
	case "pid":
		return lockstep.DefaultPID(), nil
	case "network":
		return policies.Network()
	case "wide":
		return policies.Wide()
	}
	return nil, fmt.Errorf("-policy %s: want pid, network or wide", name)
}

func run(routes, steps int, policy, cubin string) error {
	steering, err := steers(policy)
	if err != nil {
		return err
	}
	if most := lockstep.CostEndIdx - lockstep.ControlStartIdx; steps < 1 || steps > most {
		return fmt.Errorf("-steps %d: want 1 to %d", steps, most)
	}
	dir, err := os.MkdirTemp("", "lockstep-count-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	model, folder, err := defaults.Write(dir)
	if err != nil {
		return err
	}
	counts := filepath.Join(dir, "counts")
	os.Setenv(translate.CountsVariable, counts)

	code, listing := module.Cubin, module.Listing
	if cubin != "" {
		code, listing = file(cubin), file(cubin+".sass")
	}
	all := translate.Shipped("counted", module.PTX, code, listing)
	shipped := all["sass"]
	read := shipped.Read
	shipped.Read = func() (translate.Module, error) {
		m, err := read()
		if err != nil {
			return nil, err
		}
		return translate.Counted(m)
	}
	open := func() (driver.Device, error) {
		return shipped.Open("counted", emulated.Options{Processors: 1})
	}
	s, err := gpu.New(
		gpu.Config{ModelPath: model, RoutesPerBlock: routes, Threads: 256, Open: open},
	)
	if err != nil {
		return err
	}
	defer s.Close()
	files, err := routefile.List(folder, -1)
	if err != nil {
		return err
	}
	var jobs []lockstep.Job
	for i := range routes {
		r, err := routefile.Loader{}.Load(files[i%len(files)])
		if err != nil {
			return err
		}
		r = r.First(lockstep.ControlStartIdx + steps)
		jobs = append(jobs, lockstep.Job{Route: r, Policy: steering})
	}
	options := lockstep.Options{Shortcuts: lockstep.CostOnly}
	for _, r := range s.Simulate(context.Background(), jobs, options) {
		if r.Err != nil {
			return r.Err
		}
	}
	f, err := os.Open(counts)
	if err != nil {
		return err
	}
	defer f.Close()
	intervals, err := translate.ReadCounts(f)
	if err != nil {
		return err
	}
	show(intervals, float64(steps))
	return nil
}

// file reads a file when it is asked for.
func file(path string) func() (string, error) {
	return func() (string, error) {
		data, err := os.ReadFile(path)
		return string(data), err
	}
}

// show prints what a step has of each.
func show(intervals []translate.Interval, steps float64) {
	fmt.Printf("%8s %7s %8s %8s %8s %8s %8s %7s %6s %8s %7s %7s %7s\n", "barrier", "times",
		"cycles", "even", "issue", "stall", "shared", "xu", "f64", "ffma", "loads", "float",
		"moves")
	line := func(name string, i translate.Interval) {
		fmt.Printf(
			"%8s %7.1f %8.0f %8.0f %8.0f %8.0f %8.0f %7.0f %6.0f %8.0f %7.0f %7.0f %7.0f\n", name,
			i.Times/steps, i.Cycles/steps, i.Even/steps, i.Issue/steps, i.Stall/steps,
			i.Shared/steps, i.XU/steps, i.F64/steps, i.FMA/steps, i.Loads/steps, i.Float/steps,
			i.Moves/steps,
		)
	}
	for _, i := range intervals {
		line(fmt.Sprintf("%x", i.Address), i)
	}
	line("a step", translate.Sum(intervals))
}
