//go:build linux

package batched

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockstep"
	"lockstep/internal/assets/assetstest"
	"lockstep/internal/f32"
	"lockstep/internal/model"
	"lockstep/internal/policytest"
)

// FMAs of a sequence: what the network needs, whatever a kernel computes besides.
const usefulFMA = 13_060_000

// filledNetwork is a network with some input, that computes each sequence by itself.
func filledNetwork(w *weights, kernels *f32.Kernels, s shape) *network {
	n := newNetwork(w, kernels, lockstep.Profile{}, s.chunk, s.group)
	n.alone = true
	for i := range n.states {
		n.states[i] = -1 + float32(i%80)*2/79
	}
	for i := range n.tokens {
		n.tokens[i] = int32(50 * (i % 20))
	}
	return n
}

// BenchmarkNetwork is the network by the number of sequences and of those in a group, in
// percent of the core's peak just before and after: the median of many passes, the tenth
// part below and above which the others are.
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
		for _, size := range [][2]int{
			{1, 1}, {10, 1}, {20, 1}, {20, 4}, {40, 2}, {80, 2}, {80, 4},
		} {
			n := filledNetwork(packed, kernels, shape{size[0], size[1]})
			b.Run(
				fmt.Sprintf("%s/%d-in-groups-of-%d", kernels.Name, size[0], size[1]),
				func(b *testing.B) {
					for b.Loop() {
					}
					peak := func() float64 {
						fma, start := 0, time.Now()
						for range 300 {
							fma += kernels.Peak()
						}
						return float64(fma) / time.Since(start).Seconds()
					}
					least, shares := math.Inf(1), make([]float64, 50)
					for i := range shares {
						before, start := peak(), time.Now()
						n.Run(size[0])
						each := time.Since(start).Seconds() / float64(size[0])
						least = min(least, each)
						shares[i] = 100 * usefulFMA / each / ((before + peak()) / 2)
					}
					slices.Sort(shares)
					b.ReportMetric(least*1e6, "least-µs/sequence")
					b.ReportMetric(shares[5], "%peak-p10")
					b.ReportMetric(shares[25], "%peak")
					b.ReportMetric(shares[45], "%peak-p90")
				},
			)
		}
	}
}

// stopwatch takes the time of kernels, by part.
type stopwatch struct {
	spent map[string]time.Duration
	own   time.Duration // what a measurement takes
}

func (w *stopwatch) take(part string, run func()) {
	start := time.Now()
	run()
	w.spent[part] += time.Since(start) - w.own
}

// watch is a set of kernels whose time is taken.
func (w *stopwatch) watch(k *f32.Kernels) *f32.Kernels {
	watched := *k
	watched.MatMul = func(m, panels, depth int, a []float32, lda int, b f32.Panels, c []float32,
		ldc int, alpha float32, accumulate bool) {
		part := "products"
		switch {
		case depth <= headSize && panels <= 2:
			part = "attention's-products"
		case m%positions != 0 || panels == vocabulary/f32.PanelWidth:
			part = "products-of-last-positions"
		}
		w.take(part, func() { k.MatMul(m, panels, depth, a, lda, b, c, ldc, alpha, accumulate) })
	}
	watched.LayerNorm = func(y, x, weight, bias []float32) {
		w.take("layer-norms", func() { k.LayerNorm(y, x, weight, bias) })
	}
	watched.Gelu = func(y, x []float32) { w.take("GELU", func() { k.Gelu(y, x) }) }
	watched.Softmax512 = func(s []float32, rows, stride, first int) {
		w.take("softmax", func() { k.Softmax512(s, rows, stride, first) })
	}
	watched.Transpose = func(y, x []float32, rows, columns, stride int) {
		w.take("transposing", func() { k.Transpose(y, x, rows, columns, stride) })
	}
	watched.Add = func(y, x []float32) { w.take("adding", func() { k.Add(y, x) }) }
	return &watched
}

// BenchmarkParts is the time of each part of the network for a sequence, the least of
// many passes.
func BenchmarkParts(b *testing.B) {
	w, err := model.Load(assetstest.Model(b))
	if err != nil {
		b.Fatal(err)
	}
	packed := packWeights(w)
	const chunk = 39 // odd, so that rows tell the last positions from all
	for _, kernels := range f32.Available() {
		if kernels.Peak == nil {
			continue
		}
		b.Run(kernels.Name, func(b *testing.B) {
			watch := &stopwatch{spent: map[string]time.Duration{}}
			own := time.Hour
			for range 1000 {
				start := time.Now()
				own = min(own, time.Since(start))
			}
			watch.own = own
			plain := filledNetwork(packed, kernels, shape{chunk, 3})
			n := filledNetwork(packed, watch.watch(kernels), shape{chunk, 3})
			best := map[string]time.Duration{}
			for range 200 {
				clear(watch.spent)
				watch.take("all", func() { plain.Run(chunk) })
				n.Run(chunk)
				for part, took := range watch.spent {
					if before, known := best[part]; !known || took < before {
						best[part] = took
					}
				}
			}
			for b.Loop() {
			}
			for part, took := range best {
				b.ReportMetric(took.Seconds()*1e6/chunk, "µs:"+part)
			}
		})
	}
}

// BenchmarkActor is what a rollout costs with an actor of the published size, in those with
// the PID controller: the median over pairs of runs in turns, of what the process computed,
// with the quarter of the pairs that are below and above.
func BenchmarkActor(b *testing.B) {
	sim, err := New(Config{ModelPath: assetstest.Model(b), Workers: 1})
	if err != nil {
		b.Fatal(err)
	}
	route := *assetstest.Route(b, assetstest.RouteNames[0], lockstep.Profile{})
	for _, column := range []*[]float64{
		&route.TargetLataccel, &route.RollLataccel, &route.VEgo, &route.AEgo, &route.SteerCommand,
	} {
		*column = (*column)[:lockstep.ControlStartIdx+60]
	}
	took := func(p lockstep.Policy) float64 {
		jobs := slices.Repeat([]lockstep.Job{{Route: &route, Policy: p}}, 40)
		var before, after unix.Timespec
		unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &before)
		for _, r := range sim.Simulate(
			b.Context(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly},
		) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
		unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &after)
		return float64(after.Nano() - before.Nano())
	}
	actor := policytest.Network(b)
	took(actor) // once before it counts
	var ratios []float64
	for b.Loop() {
		ratios = ratios[:0]
		for range 20 {
			pid := took(lockstep.DefaultPID())
			ratios = append(ratios, took(actor)/pid)
		}
	}
	slices.Sort(ratios)
	for name, quantile := range map[string]float64{"×pid": 0.5, "×pid-¼": 0.25, "×pid-¾": 0.75} {
		b.ReportMetric(ratios[int(quantile*float64(len(ratios)))], name)
	}
}
