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
		for i := range 12 {
			r := rollout(e, i)
			report, err := r.Compare(context.Background(), sides[0], sides[1], parity.CompareOptions{})
			if err != nil {
				return nil, 0, err
			}
			compared += report.Steps * r.Num
			if report.First != nil {
				counts[report.First.Stage]++
			}
		}
	}
	stages = slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return counts[b] - counts[a] })
	return stages, compared, nil
}

// rollout is the i-th of an environment, with some options, mode and policy.
func rollout(e classic.Environment, i int) *harness.Rollout {
	key := uint64(i)
	r := &harness.Rollout{
		Environment: e.Name, Num: 10, Options: map[string]string{}, NumPy1: i == 4, Uniform: &key, Steps: 300,
		Autoreset: []classic.Autoreset{classic.NextStep, classic.SameStep, classic.Off}[i%3].String(),
	}
	for option, given := range map[string]struct {
		is    bool
		value string
	}{
		"sutton_barto_reward": {i%4 == 1, "True"}, "kinematics_integrator": {i == 6, "semi-implicit"},
		"book_or_nips": {i%6 == 2, "nips"}, "max_episode_steps": {i%2 == 1, "30"},
	} {
		if given.is && slices.Contains(e.Options(), option) {
			r.Options[option] = given.value
		}
	}
	for k := range r.Num {
		r.Seeds = append(r.Seeds, int64(100*i+k))
	}
	if e.Shared {
		r.Autoreset, r.Seeds = classic.NextStep.String(), r.Seeds[:1]
	}
	if e.Dynamics == classic.CartPole && r.Autoreset == classic.Off.String() && i > 2 {
		r.Bound = 5000 // goes through angles of all sizes
	}
	if i%4 == 3 {
		r.Uniform, r.Network = nil, golden.Goals[e.Name]
	}
	return r
}
