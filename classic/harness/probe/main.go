// Command probe holds one engine of classic control to another through the harness
// and prints the stages at fault: what the planted faults are noticed by.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"lockstep/classic"
	"lockstep/classic/harness"
	"lockstep/engines"
	golden "lockstep/golden/classic"
	"lockstep/parity"
)

func main() {
	want := flag.String("want", "reference", "what is held to")
	got := flag.String("got", "batched", "what is held to it")
	flag.Parse()
	stages, compared, err := probe(*want, *got)
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(2)
	}
	fmt.Printf("%d steps: %s\n", compared, strings.Join(stages, " "))
	if len(stages) > 0 {
		os.Exit(1)
	}
}

// probe returns the stages that are the first at fault in some rollout, the most
// frequent first, and how many steps were compared.
func probe(want, got string) (stages []string, compared int, err error) {
	var sides [2]classic.Engine
	for i, name := range []string{want, got} {
		if sides[i], err = engines.OpenClassic(name, 1); err != nil {
			return nil, 0, err
		}
	}
	counts := map[string]int{}
	for _, e := range classic.Environments {
		all, err := rollouts(e)
		if err != nil {
			return nil, 0, err
		}
		for _, r := range all {
			view := harness.NewView(r.Task)
			a, b := parity.Live(&harness.Engine{Classic: sides[0], View: view}), parity.Live(&harness.Engine{Classic: sides[1], View: view})
			report, err := parity.Compare(context.Background(), parity.Family{}, a, b, r.Tasks(), parity.CompareOptions{})
			if err != nil {
				return nil, 0, err
			}
			compared += report.Steps
			for _, v := range report.Rollouts {
				if v.First != nil {
					counts[v.First.Stage]++
				}
			}
		}
	}
	stages = slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return counts[b] - counts[a] })
	return stages, compared, nil
}

// rollouts are an environment's with every option, mode and policy.
func rollouts(e classic.Environment) ([]*harness.Rollout, error) {
	var all []*harness.Rollout
	for i := range 12 {
		task, err := classic.Make(e.Name, 10, nil)
		if err != nil {
			return nil, err
		}
		task.Autoreset = []classic.Autoreset{classic.NextStep, classic.SameStep, classic.Off}[i%3]
		task.SuttonBarto, task.SemiImplicit, task.Nips, task.NumPy1 = i%4 == 1, i == 6, i%6 == 2, i == 4
		if i%2 == 1 {
			task.MaxSteps = 30
		}
		if e.Shared {
			task.Autoreset = classic.NextStep
		}
		key := uint64(i)
		r := &harness.Rollout{Task: task, Reset: classic.Reset{Seed: int64(100 * i)}, Policy: classic.Policy{Uniform: &key}, Steps: 300}
		if i%4 == 3 {
			r.Policy = classic.Policy{Network: golden.Goals[e.Name]}
		}
		all = append(all, r)
	}
	return all, nil
}
