package batched_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"

	"lockstep"
	"lockstep/batched"
	"lockstep/internal/defaults"
	"lockstep/internal/generate"
	"lockstep/reference"
	"lockstep/routefile"
)

// Two controllers drive one route, and the costs are those of the reference.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	model, _, err := defaults.Write(dir)
	if err != nil {
		log.Fatal(err)
	}
	// Some 8 s of a route, the last 12 steps of which cost: the first line names the columns.
	lines := bytes.SplitAfter(generate.Route(1, 0), []byte("\n"))[:1+112]
	route, err := routefile.Loader{}.Read(bytes.NewReader(bytes.Join(lines, nil)), "00000.csv")
	if err != nil {
		log.Fatal(err)
	}
	profile := lockstep.Profile{}
	sim, err := batched.New(batched.Config{ModelPath: model, Profile: profile, Workers: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer sim.Close()
	plain, err := reference.New(model, profile)
	if err != nil {
		log.Fatal(err)
	}
	defer plain.Close()
	jobs := []lockstep.Job{
		{Route: route, Policy: lockstep.DefaultPID()}, {Route: route, Policy: lockstep.Zero{}},
	}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly}
	var costs [2]lockstep.Costs
	for i, result := range plain.Simulate(context.Background(), jobs, opts) {
		costs[i] = result.Costs
	}
	for i, result := range sim.Simulate(context.Background(), jobs, opts) {
		fmt.Println(jobs[i].Policy, result.Costs == costs[i], result.Err)
	}
	// Unordered output:
	// pid true <nil>
	// zero true <nil>
}
