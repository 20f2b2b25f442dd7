package f32

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// reportShare reports the speed of run in percent of the peak just before and after it: the
// median of many short runs, the tenth part below and above which the others are. Other
// programs' load on a core changes within milliseconds.
func reportShare(b *testing.B, peak, run func() (fma int)) {
	rate := func(run func() int) float64 {
		n, start := 0, time.Now()
		for n < 4_000_000 {
			n += run()
		}
		return float64(n) / float64(time.Since(start))
	}
	shares := make([]float64, 500)
	for i := range shares {
		before, speed := rate(peak), rate(run)
		shares[i] = 100 * speed / ((before + rate(peak)) / 2)
	}
	slices.Sort(shares)
	b.ReportMetric(shares[len(shares)/10], "%peak-p10")
	b.ReportMetric(shares[len(shares)/2], "%peak")
	b.ReportMetric(shares[len(shares)*9/10], "%peak-p90")
}

func BenchmarkMatMul(b *testing.B) {
	weights := make(
		[]float32, 1<<20,
	) // 4 MiB, used in turn: they come from the caches beyond the first
	for i := range weights {
		weights[i] = 1 // memory that nobody wrote is one page, which is in the first
	}
	for _, set := range Available() {
		for _, s := range []struct{ m, k, n int }{
			{40, 128, 512}, {20, 128, 1024}, {20, 128, 512}, {20, 128, 384}, {20, 128, 128},
			{20, 256, 128},
			{20, 32, 32}, {20, 20, 32}, {20, 4, 64},
			{1, 128, 1024}, {1, 128, 512}, {1, 256, 128}, {1, 128, 128},
		} {
			b.Run(fmt.Sprintf("%s/%dx%dx%d", set.Name, s.m, s.k, s.n), func(b *testing.B) {
				x, y := make([]float32, s.m*s.k), make([]float32, s.m*s.n)
				used, size := 0, s.k*s.n
				call := func() {
					if used+size > len(weights) {
						used = 0
					}
					w := Panels{weights[used : used+size], PanelWidth, PanelWidth * s.k}
					set.MatMul(s.m, s.n/PanelWidth, s.k, x, s.k, w, y, s.n, 1, false)
					used += size
				}
				for b.Loop() {
					call()
				}
				if set.Peak != nil {
					reportShare(b, set.Peak, func() int {
						call()
						return s.m * size
					})
				}
			})
		}
	}
}

func BenchmarkElementwise(b *testing.B) {
	x, y := make([]float32, 1<<12), make([]float32, 1<<12)
	for i := range x {
		x[i] = -float32(i) / 64
	}
	for _, set := range Available() {
		for _, kernel := range []struct {
			name string
			n    int
			run  func(n int)
		}{
			{"LayerNorm", 128, func(n int) { set.LayerNorm(y[:n], x[:n], x[:n], x[:n]) }},
			{"Gelu", 512, func(n int) { set.Gelu(y[:n], x[:n]) }},
			{"Exp512", 20, func(n int) { set.Exp512(y[:n], x[:n], -1) }},
			{"Exp256", 20, func(n int) { set.Exp256(y[:n], x[:n], -1) }},
			{"ExpNumPy", 1024, func(n int) { set.ExpNumPy(y[:n], x[:n], -1) }},
			{"ExpNumPyFused", 1024, func(n int) { set.ExpNumPyFused(y[:n], x[:n], -1) }},
		} {
			b.Run(fmt.Sprintf("%s/%s/%d", set.Name, kernel.name, kernel.n), func(b *testing.B) {
				for b.Loop() {
					kernel.run(kernel.n)
				}
				b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N*kernel.n), "ns/element")
			})
		}
	}
}
