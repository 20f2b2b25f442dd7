//go:build linux

package batched

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockstep"
	"lockstep/internal/assets/assetstest"
	"lockstep/internal/f32"
	"lockstep/internal/model"
)

// fastest is the least time that this thread computed in one of so many calls.
func fastest(calls int, run func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	now := func() time.Duration {
		var t unix.Timespec
		unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
		return time.Duration(t.Nano())
	}
	best := time.Hour
	for range calls {
		start := now()
		run()
		best = min(best, now()-start)
	}
	return best
}

// FMAs of a sequence: what the network needs, whatever a kernel computes besides.
const usefulFMA = 13_060_000

// BenchmarkNetwork is the network by the number of sequences and of those in a group, in
// percent of the core's peak.
func BenchmarkNetwork(b *testing.B) {
	w, err := model.Load(assetstest.Model(b))
	if err != nil {
		b.Fatal(err)
	}
	packed := packWeights(w)
	for _, kernels := range f32.Available() {
		if kernels.Peak == nil {
			continue
		}
		for _, size := range [][2]int{{1, 1}, {10, 1}, {10, 2}, {20, 1}, {20, 2}} {
			n := newNetwork(packed, kernels, lockstep.Profile{}, size[0], size[1])
			for i := range n.states {
				n.states[i] = -1 + float32(i%80)*2/79
			}
			for i := range n.tokens {
				n.tokens[i] = int32(50 * (i % 20))
			}
			b.Run(fmt.Sprintf("%s/%d-in-groups-of-%d", kernels.Name, size[0], size[1]), func(b *testing.B) {
				for b.Loop() {
				}
				peak, took := 0., time.Hour
				for range 10 {
					fma := 0
					t := fastest(5, func() {
						fma = 0
						for range 10 {
							fma += kernels.Peak()
						}
					})
					peak = max(peak, float64(fma)/t.Seconds())
					took = min(took, fastest(1+20/size[0], func() { n.run(size[0]) }))
				}
				each := took.Seconds() / float64(size[0])
				b.ReportMetric(each*1e6, "µs/sequence")
				b.ReportMetric(100*usefulFMA/each/peak, "%peak")
				b.ReportMetric(peak/1e9, "peak-GFMA/s")
			})
		}
	}
}
