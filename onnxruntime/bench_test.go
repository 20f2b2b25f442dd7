//go:build cgo && linux

package onnxruntime

import (
	"fmt"
	"syscall"
	"testing"

	"lockstep"
)

// BenchmarkRollout simulates 256 jobs, in the naive way (the whole network at
// every step) and with less and less of it. Run it with -benchtime 1x.
func BenchmarkRollout(b *testing.B) {
	for _, c := range []struct {
		name      string
		config    Config
		shortcuts lockstep.Shortcuts
	}{
		{"naive", Config{Workers: 1, Graph: GraphFull}, lockstep.LastPosition},
		{"full", Config{Workers: 1, Graph: GraphFull}, lockstep.CostOnly},
		{"head", Config{Workers: 1, Graph: GraphHead}, lockstep.CostOnly},
		{"two_rows", Config{Workers: 1, Graph: GraphTwoRows}, lockstep.CostOnly},
		{"one_row", Config{Workers: 1, Graph: GraphOneRow}, lockstep.CostOnly},
		{"rebuilt", Config{Workers: 1}, lockstep.CostOnly},
		{"rebuilt_64", Config{Workers: 1, Chunk: 64}, lockstep.CostOnly},
		{"rebuilt_2_workers", Config{Workers: 2}, lockstep.CostOnly},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newSimulator(b, c.config)
			var jobs []lockstep.Job
			for i := range benchJobs {
				r := routes(b, s.Profile())
				jobs = append(jobs, lockstep.Job{Route: r[i%len(r)], Policy: lockstep.DefaultPID})
			}
			before := processorTime()
			inside := s.NetworkTime()
			for b.Loop() {
				for _, r := range s.Simulate(b.Context(), jobs, lockstep.Options{Shortcuts: c.shortcuts}) {
					if r.Err != nil {
						b.Fatal(r.Err)
					}
				}
			}
			n := float64(b.N * len(jobs))
			wall := b.Elapsed().Seconds()
			b.ReportMetric(n/wall, "routes/s")
			b.ReportMetric(1e3*(processorTime()-before)/n, "cpu-ms/route")
			b.ReportMetric(100*(1-(s.NetworkTime()-inside).Seconds()/(wall*float64(c.config.Workers))), "%outside")
			b.ReportMetric(0, "ns/op")
		})
	}
}

const benchJobs = 256

// processorTime is what this process has used, in seconds.
func processorTime() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(fmt.Sprint("getrusage: ", err))
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
