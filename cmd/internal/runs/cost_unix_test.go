//go:build unix

package runs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockstep"
	"lockstep/batched"
	"lockstep/internal/defaults"
	"lockstep/internal/generate"
	"lockstep/routefile"
)

// TestStreamingCost measures what streaming, and what keeping a run with its fsyncs,
// costs of a batched run on all cores: the ratio of the least processor's times of rounds
// that run each in turn, since what else the machine does only adds to a time. The ratios
// within rounds, and by the clock, are printed. It needs an idle machine, and runs where
// LOCKSTEP_STREAMING is set.
func TestStreamingCost(t *testing.T) {
	if os.Getenv("LOCKSTEP_STREAMING") == "" {
		t.Skip("LOCKSTEP_STREAMING is not set")
	}
	model, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sim, err := batched.New(batched.Config{ModelPath: model})
	if err != nil {
		t.Fatal(err)
	}
	const routes, gains = 16, 2
	var loaded []*lockstep.Route
	for i := range routes {
		r, err := routefile.Loader{}.Read(
			bytes.NewReader(generate.Route(5, i)), fmt.Sprintf("r%d.csv", i),
		)
		if err != nil {
			t.Fatal(err)
		}
		loaded = append(loaded, r)
	}
	plan := &Plan{Version: Version, Model: "own", Engine: sim.Name(), Routes: PlanRoutes(loaded)}
	var jobs []lockstep.Job
	for g := range gains {
		policy := lockstep.PID{P: 0.1 * float64(g+1), I: 0.1, D: -0.05}
		plan.Controllers = append(plan.Controllers, PlannedController{Name: policy.String()})
		for _, r := range loaded {
			jobs = append(jobs, lockstep.Job{Route: r, Policy: policy})
		}
	}
	options := lockstep.Options{Shortcuts: lockstep.CostOnly}
	stream := func(journal *Journal) {
		n := 0
		work := Work{Simulator: sim, Jobs: jobs, Options: options, Journal: journal}
		if err := work.Stream(context.Background(),
			func(int, lockstep.Result) { n++ }); err != nil ||
			n != len(jobs) {
			t.Fatalf("%d results, %v", n, err)
		}
	}
	round := 0
	ways := []func(){
		func() {
			for range sim.Simulate(context.Background(), jobs, options) {
			}
		},
		func() { stream(nil) },
		func() {
			round++
			journal, err := OpenJournal(filepath.Join(t.TempDir(), fmt.Sprint(round)), plan)
			if err != nil {
				t.Fatal(err)
			}
			defer journal.Close()
			stream(journal)
		},
	}
	var took, clock [3][]float64
	for n := range 17 {
		for k := range ways { // each way is first in turn
			way := (n + k) % len(ways)
			start, used := time.Now(), processorTime(t)
			ways[way]()
			if n > 0 {
				took[way] = append(took[way], (processorTime(t) - used).Seconds())
				clock[way] = append(clock[way], time.Since(start).Seconds())
			}
		}
	}
	for way, limit := range map[int]float64{1: 1.01, 2: 1.03} {
		low, median, high := ratios(took[way], took[0])
		_, elapsed, _ := ratios(clock[way], clock[0])
		what := []string{"", "streamed", "streamed and kept, fsync included"}[way]
		least := slices.Min(took[way]) / slices.Min(took[0])
		t.Logf(
			"%s: %.4f of a run that is not; within rounds %.4f (%.4f to %.4f), by the clock "+
				"%.4f; %d rounds of %d rollouts, %.2f s each",
			what, least, median, low, high, elapsed, len(took[0]), len(jobs), slices.Min(clock[0]),
		)
		if least > limit {
			t.Errorf("%s: %.4f, want %.2f at most", what, least, limit)
		}
	}
}

// ratios are the least, the median and the largest ratio of rounds.
func ratios(a, b []float64) (low, median, high float64) {
	all := make([]float64, len(a))
	for i := range a {
		all[i] = a[i] / b[i]
	}
	slices.Sort(all)
	return all[0], all[len(all)/2], all[len(all)-1]
}

// processorTime is what this process has used of the processor.
func processorTime(t *testing.T) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
