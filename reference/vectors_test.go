package reference

import (
	"slices"
	"testing"

	"lockstep"
	"lockstep/golden/vectors"
	"lockstep/internal/f32"
)

// TestVectors holds what surrounds the kernels to inputs on which plausible
// alternatives give other bits.
func TestVectors(t *testing.T) {
	for _, set := range f32.Available() {
		for operation, form := range map[string]lockstep.Softmax{
			"softmax-avx512": lockstep.SoftmaxAVX512,
			"softmax-avx2":   lockstep.SoftmaxAVX2,
			"softmax-neon":   lockstep.SoftmaxNEON,
		} {
			g := &gpt{arithmetic: set.For(lockstep.Profile{Softmax: form})}
			vectors.Hold(t, operation, func(v vectors.Vector) any {
				row := slices.Clone(v.Float32s("x"))
				g.softmax(row, int(v.Int("n")))
				return row
			})
		}
		for operation, form := range map[string]lockstep.Exp{
			"softmax-numpy-U": lockstep.ExpU,
			"softmax-numpy-F": lockstep.ExpF,
			"softmax-numpy-C": lockstep.ExpC,
		} {
			vectors.Hold(t, operation, func(v vectors.Vector) any {
				m := &tinyPhysicsModel{
					gpt:   &gpt{arithmetic: set.For(lockstep.Profile{Exp: form})},
					probs: make([]float32, lockstep.VocabSize),
				}
				m.softmax(v.Float32s("x"), lockstep.Temperature)
				return m.probs
			})
		}
	}
	distribution := func(v vectors.Vector) []float64 {
		cdf := make([]float64, lockstep.VocabSize)
		if err := cumulate(cdf, v.Float32s("p")); err != nil {
			t.Fatal(err)
		}
		return cdf
	}
	vectors.Hold(t, "cdf", func(v vectors.Vector) any { return distribution(v) })
	vectors.Hold(
		t, "choice",
		func(v vectors.Vector) any {
			return []int64{int64(search(distribution(v), v.Float64("u")))}
		},
	)
	vectors.Hold(t, "draws", func(v vectors.Vector) any {
		random := NewRandom(uint32(v.Int("seed")))
		u := make([]float64, 40)
		for i := range u {
			u[i] = random.Random()
		}
		return u
	})
	tokenizer := NewLataccelTokenizer()
	vectors.Hold(
		t, "decode",
		func(v vectors.Vector) any { return []float64{tokenizer.Decode(int(v.Int("token")))} },
	)
	vectors.Hold(
		t, "encode",
		func(v vectors.Vector) any { return []int64{tokenizer.Encode(v.Float64("x"))} },
	)
	vectors.Hold(t, "clip", func(v vectors.Vector) any {
		current := v.Float64("current")
		return []float64{
			clip(v.Float64("x"), current-lockstep.MaxAccDelta, current+lockstep.MaxAccDelta),
		}
	})
	vectors.Hold(t, "sum", func(v vectors.Vector) any { return []float64{sum(v.Float64s("x"))} })
	vectors.Hold(t, "sum32", func(v vectors.Vector) any { return []float32{sum(v.Float32s("x"))} })
	warmup := make([]float64, lockstep.ControlStartIdx)
	vectors.Hold(t, "costs", func(v vectors.Vector) any {
		c := (&tinyPhysicsSimulator{
			targetLataccelHistory:  slices.Concat(warmup, v.Float64s("target")),
			currentLataccelHistory: slices.Concat(warmup, v.Float64s("lataccel")),
		}).computeCost()
		return []float64{c.Lataccel, c.Jerk, c.Total}
	})
	vectors.Hold(t, "pid", func(v vectors.Vector) any {
		g, target := v.Float64s("gains"), v.Float64s("target")
		c, answers := &pid{p: g[0], i: g[1], d: g[2]}, []float64{}
		for k, lataccel := range v.Float64s("lataccel") {
			answers = append(
				answers, c.Update(target[k], lataccel, lockstep.State{}, lockstep.FuturePlan{}),
			)
		}
		return answers
	})
	vectors.Hold(t, "pidff", func(v vectors.Vector) any {
		policy, err := lockstep.KindPIDFF.New(v.Float64s("gains"))
		if err != nil {
			t.Fatal(err)
		}
		c, answers := &pidff{PIDFF: policy.(lockstep.PIDFF)}, []float64{}
		route := &lockstep.Route{
			TargetLataccel: v.Float64s("target"),
			RollLataccel:   v.Float64s("roll"),
			VEgo:           v.Float64s("speed"),
			AEgo:           v.Float64s("speed"),
		}
		for k, lataccel := range v.Float64s("lataccel") {
			answers = append(
				answers,
				c.Update(route.TargetLataccel[k], lataccel, route.State(k), route.FuturePlan(k)),
			)
		}
		return answers
	})
	vectors.Hold(t, "observation", func(v vectors.Vector) any {
		route := &lockstep.Route{
			TargetLataccel: v.Float64s("target"),
			RollLataccel:   v.Float64s("roll"),
			VEgo:           v.Float64s("speed"),
			AEgo:           v.Float64s("acceleration"),
		}
		o := make([]float32, lockstep.ObservationSize)
		if err := observe(o, route, len(v.Float64s("lataccel")), v.Float64s("lataccel"),
			v.Float64s("action")); err != nil {
			t.Fatal(err)
		}
		return o
	})
}
