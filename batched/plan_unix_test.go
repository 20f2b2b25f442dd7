//go:build unix

package batched

import (
	"context"
	"math"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockstep"
	"lockstep/internal/defaults"
	"lockstep/internal/search"
	"lockstep/routefile"
)

// BenchmarkPlan is how much less of the processor's time a plan takes since its rollouts share
// what is equal: the ratio of the least times of rounds that do without and with, in turn.
func BenchmarkPlan(b *testing.B) {
	path, folder, err := defaults.Write(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	files, err := routefile.List(folder, 2)
	if err != nil {
		b.Fatal(err)
	}
	var routes []*lockstep.Route
	for _, file := range files {
		r, err := routefile.Loader{}.Load(file)
		if err != nil {
			b.Fatal(err)
		}
		routes = append(routes, r)
	}
	least := map[bool]time.Duration{true: math.MaxInt64, false: math.MaxInt64}
	for b.Loop() {
		for _, alone := range []bool{true, false} {
			sim, err := New(Config{ModelPath: path, Workers: 1})
			if err != nil {
				b.Fatal(err)
			}
			sim.alone = alone
			planner := search.PlannerOptions{}.Planner(lockstep.RouteNoise)
			start := processorTime(b)
			_, err = planner.Run(
				context.Background(), sim, routes, lockstep.DefaultPID(), func(int) {},
			)
			if err != nil {
				b.Fatal(err)
			}
			least[alone] = min(least[alone], processorTime(b)-start)
			b.Log(alone, processorTime(b)-start)
		}
	}
	b.ReportMetric(float64(least[true])/float64(least[false]), "×-less")
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
