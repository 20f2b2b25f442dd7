package kernels_test

import (
	"fmt"
	"testing"

	"lockstep"
	"lockstep/gpu/internal/driver/emulated"
)

// BenchmarkRollout is the time of one route's 400 network calls on one core, for
// blocks of so many routes and threads.
func BenchmarkRollout(b *testing.B) {
	all := routes(b)
	d := open(b, emulated.Options{Processors: 1})
	for _, c := range []struct{ block, threads int }{
		{1, 256}, {1, 64}, {1, 32}, {2, 256}, {4, 256}, {5, 256}, {6, 256},
	} {
		b.Run(fmt.Sprintf("%dx%d", c.block, c.threads), func(b *testing.B) {
			r := rollouts{shortcuts: lockstep.CostOnly, block: c.block, threads: c.threads}
			for i := range c.block {
				r.routes, r.policies = append(r.routes, all[i]),
					append(r.policies, lockstep.DefaultPID())
			}
			for b.Loop() {
				run(b, d, r)
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N*c.block), "s/route")
		})
	}
}
