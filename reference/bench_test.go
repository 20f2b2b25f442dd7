package reference

import (
	"context"
	"os"
	"testing"
	"time"

	"lockstep"
	"lockstep/internal/assets/assetstest"
	"lockstep/internal/f32"
	"lockstep/internal/model"
	"lockstep/internal/upstream"
	"lockstep/routefile"
)

// These benchmarks print ratios of times measured in turns in one run, since
// machines are shared and noisy. With LOCKSTEP_PYTHON and LOCKSTEP_UPSTREAM set
// (`make bench` says how) Python takes part.

func startPython(b *testing.B) *upstream.Program {
	python, checkout := os.Getenv("LOCKSTEP_PYTHON"), os.Getenv("LOCKSTEP_UPSTREAM")
	if python == "" || checkout == "" {
		b.Skip("LOCKSTEP_PYTHON and LOCKSTEP_UPSTREAM are not set: not measured against Python")
	}
	p, err := upstream.Start(context.Background(), python, checkout, assetstest.Model(b))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := p.Close(); err != nil {
			b.Error(err)
		}
	})
	return p
}

// fastest is the shortest of n runs.
func fastest(n int, run func()) time.Duration {
	best := time.Duration(1 << 62)
	for range n {
		start := time.Now()
		run()
		best = min(best, time.Since(start))
	}
	return best
}

// BenchmarkNetwork is one pass of the network on one sequence.
func BenchmarkNetwork(b *testing.B) {
	weights, err := model.Load(assetstest.Model(b))
	if err != nil {
		b.Fatal(err)
	}
	parameters := pack(weights)
	states := make([]float32, positions*model.StateSize)
	for i := range states {
		states[i] = -1 + float32(i)*2/79
	}
	tokens := make([]int64, positions)
	for i := range tokens {
		tokens[i] = int64(50 * i)
	}
	logits := make([]float32, positions*lockstep.VocabSize)
	for _, profile := range []lockstep.Profile{
		HostProfile(), {LayerNorm: lockstep.LayerNorm123, Softmax: HostProfile().Softmax},
	} {
		for _, kernels := range f32.Available() {
			g := newGPT(parameters, profile, kernels)
			for name, first := range map[string]int{"last": positions - 1, "all": 0} {
				b.Run(profile.String()+"/"+kernels.Name+"/"+name, func(b *testing.B) {
					for b.Loop() {
						g.forward(logits, states, tokens, first)
					}
				})
			}
		}
	}
	b.Run("versus-onnxruntime", func(b *testing.B) {
		python := startPython(b)
		g := newGPT(parameters, HostProfile(), f32.Best())
		ort, last, all := time.Hour, time.Hour, time.Hour
		for b.Loop() {
			d, err := python.Network(200)
			if err != nil {
				b.Fatal(err)
			}
			ort = min(ort, d)
			last = min(
				last, fastest(200, func() { g.forward(logits, states, tokens, positions-1) }),
			)
			all = min(all, fastest(200, func() { g.forward(logits, states, tokens, 0) }))
		}
		b.ReportMetric(ort.Seconds()*1e3, "ort-ms")
		b.ReportMetric(all.Seconds()*1e3, "all-ms")
		b.ReportMetric(last.Seconds()*1e3, "last-ms")
		b.ReportMetric(ort.Seconds()/all.Seconds(), "ort/all")
		b.ReportMetric(ort.Seconds()/last.Seconds(), "ort/last")
	})
}

// BenchmarkRollout is one route, loading included.
func BenchmarkRollout(b *testing.B) {
	path, profile := assetstest.RoutePath(b, "00000"), HostProfile()
	s := load(b, profile)
	rollout := func(b *testing.B, s *Simulator, shortcuts lockstep.Shortcuts) lockstep.Costs {
		route, err := routefile.Loader{Profile: profile}.Load(path)
		if err != nil {
			b.Fatal(err)
		}
		return simulate(
			b, s, lockstep.Job{Route: route, Policy: lockstep.DefaultPID()}, shortcuts,
		).Costs
	}
	for name, shortcuts := range map[string]lockstep.Shortcuts{
		"cost-only":  lockstep.CostOnly,
		"trajectory": lockstep.FullTrajectory,
		"all-steps":  lockstep.AllSteps,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				rollout(b, s, shortcuts)
			}
		})
	}
	b.Run("plain-go", func(b *testing.B) {
		plain, err := s.WithKernels("go")
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			rollout(b, plain, lockstep.AllSteps)
		}
	})
	b.Run("versus-python", func(b *testing.B) {
		python := startPython(b)
		var slow, fast time.Duration
		for b.Loop() {
			d, want, err := python.Rollout(path, lockstep.DefaultPID())
			if err != nil {
				b.Fatal(err)
			}
			slow += d
			fast += fastest(1, func() {
				if got := rollout(b, s, lockstep.CostOnly); got != want {
					b.Fatalf("costs %v, Python has %v", got, want)
				}
			})
		}
		b.ReportMetric(slow.Seconds()/float64(b.N), "python-s")
		b.ReportMetric(fast.Seconds()/float64(b.N), "reference-s")
		b.ReportMetric(slow.Seconds()/fast.Seconds(), "python/reference")
	})
}
