package lockstep_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"

	"lockstep"
	"lockstep/internal/defaults"
	"lockstep/internal/generate"
	"lockstep/reference"
	"lockstep/routefile"
)

// A route is rolled out under a controller.
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
	profile, err := lockstep.ParseProfile("ort1.30-avx2-expU-sinfma-csv2")
	if err != nil {
		log.Fatal(err)
	}
	text := generate.Route(1, 0)
	// Some 8 s of it, the last 12 steps of which cost: the first line names the columns.
	lines := bytes.SplitAfter(text, []byte("\n"))[:1+112]
	loader := routefile.Loader{Profile: profile}
	route, err := loader.Read(bytes.NewReader(bytes.Join(lines, nil)), "data/00000.csv")
	if err != nil {
		log.Fatal(err)
	}
	sim, err := reference.New(model, profile)
	if err != nil {
		log.Fatal(err)
	}
	defer sim.Close()
	jobs := []lockstep.Job{{Route: route, Policy: lockstep.DefaultPID()}}
	for i, result := range sim.Simulate(
		context.Background(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly},
	) {
		fmt.Println(jobs[i].Route.Name, jobs[i].Policy, result.Costs.Total, result.Err)
	}
	// Output:
	// 00000 pid 281.52806620716586 <nil>
}

func ExampleParsePolicy() {
	p, err := lockstep.ParsePolicy("pid_0.3_0.05_-0.1")
	fmt.Println(p.Kind(), p.Gains(), err)
	_, err = lockstep.ParsePolicy("pid_0.3")
	fmt.Println(err)
	// Output:
	// pid [0.3 0.05 -0.1] <nil>
	// policy "pid_0.3": want the 3 gains of pid: P,I,D
}

// The draws of a route follow from its name.
func ExampleDraws() {
	fmt.Println(lockstep.Draws(lockstep.Seed("data/00000.csv"), 2))
	// Output:
	// [0.1483259199415442 0.6539985406804232]
}
