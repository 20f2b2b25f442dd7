package classic

import (
	"fmt"
	"testing"

	"lockstep/classic"
)

// BenchmarkRun is uniform actions on one core, all answers written.
func BenchmarkRun(b *testing.B) {
	for i := range classic.Environments() {
		e := &classic.Environments()[i]
		for _, n := range []int{64, 1024, 8192} {
			b.Run(fmt.Sprintf("%s/n=%d", e.Name, n), func(b *testing.B) {
				task, err := classic.Make(e.Name, n, nil)
				if err != nil {
					b.Fatal(err)
				}
				v, err := Batched{Workers: 1}.Make(task)
				if err != nil {
					b.Fatal(err)
				}
				if err := v.Reset(classic.Reset{Seed: 1}); err != nil {
					b.Fatal(err)
				}
				seed := uint64(1)
				const steps = 200
				for b.Loop() {
					if err := v.Run(b.Context(), classic.Policy{Uniform: &seed}, steps,
						nil); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)*steps*float64(n)/b.Elapsed().Seconds()/1e6, "Msteps/s")
			})
		}
	}
}
