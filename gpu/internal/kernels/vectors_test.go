package kernels_test

import (
	"slices"
	"testing"

	"lockstep"
	"lockstep/golden/vectors"
	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/driver/emulated"
	"lockstep/parity/schema"
)

// TestVectors holds the device functions, executed on the CPU, to inputs on which
// plausible alternatives give other bits.
func TestVectors(t *testing.T) {
	d := open(t, emulated.Options{Sources: unitSources(t), Order: emulated.Shuffled})
	for kind, operation := range []string{
		"exp512", "exp256", "exp-numpy-U", "exp-numpy-F", "tanh", "gelu",
	} {
		x := together[float32](t, operation, "x")
		args := abiUnits{n: int64(len(x)), kind: int64(kind), x: upload(t, d, x)}
		holdAll(t, operation, unit[float32](t, d, "unit_float", &args, &args.y, len(x)))
	}
	for formula, operation := range map[lockstep.LayerNorm]string{
		lockstep.LayerNorm130: "layer-norm-1.30", lockstep.LayerNorm127: "layer-norm-1.27",
		lockstep.LayerNorm123: "layer-norm-1.23",
	} {
		vectors.Hold(t, operation, func(v vectors.Vector) any {
			args := abiUnits{
				n:    1,
				kind: int64(formula),
				x:    upload(t, d, v.Float32s("x")),
				w:    upload(t, d, slices.Concat(v.Float32s("weight"), v.Float32s("bias"))),
			}
			return unit[float32](t, d, "unit_layer_norm", &args, &args.y, 128)
		})
	}
	for kind, operation := range []string{
		lockstep.SoftmaxAVX512: "softmax-avx512",
		lockstep.SoftmaxAVX2:   "softmax-avx2",
	} {
		x, n := together[float32](t, operation, "x"), together[int64](t, operation, "n")
		args := abiUnits{
			n:    int64(len(n)),
			kind: int64(kind),
			x:    upload(t, d, x),
			i:    upload(t, d, n),
		}
		holdAll(t, operation, unit[float32](t, d, "unit_attention_softmax", &args, &args.y, len(x)))
	}
	for kind, operation := range []string{
		lockstep.ExpU: "softmax-numpy-U",
		lockstep.ExpF: "softmax-numpy-F",
	} {
		vectors.Hold(t, operation, func(v vectors.Vector) any {
			args := abiUnits{
				n:    2,
				kind: int64(kind),
				x:    upload(t, d, slices.Repeat(v.Float32s("x"), 2)),
			}
			return unit[float32](t, d, "unit_softmax", &args, &args.y, 2048)[1024:]
		})
	}
	vectorsOfProducts(t, d)
	vectorsAround(t, d)
}

// together are the elements that all vectors of an operation have of an argument.
func together[T any](t *testing.T, operation, name string) (all []T) {
	t.Helper()
	for _, v := range vectors.All(t, operation) {
		all = append(all, v.Args[name].([]T)...)
	}
	return all
}

// holdAll compares the results of all vectors, one after the other.
func holdAll[T any](t *testing.T, operation string, got []T) {
	t.Helper()
	vectors.Hold(t, operation, func(v vectors.Vector) any {
		n := len(v.Want.([]T))
		result := got[:n]
		got = got[n:]
		return result
	})
}

func vectorsOfProducts(t *testing.T, d driver.Device) {
	// hold asks for results of equal rows and columns: the second is w, in as many columns.
	hold := func(operation, kernel string, kind int64, threads, columns, panels, results int) {
		vectors.Hold(t, operation, func(v vectors.Vector) any {
			var panel []float32
			for _, x := range v.Float32s("b") {
				panel = append(panel, slices.Repeat([]float32{x}, columns)...)
			}
			args := abiUnits{
				n:    1,
				kind: kind,
				x:    upload(t, d, v.Float32s("a")),
				w:    upload(t, d, slices.Repeat(panel, panels)),
			}
			y := unitOf[float32](t, d, threads, kernel, &args, &args.y, results)
			for i := range y {
				if !schema.Equal(y[i], y[0]) {
					t.Errorf(
						"%s, kind %d: result %d of equal ones is %x, the first %x", operation, kind,
						i, y[i], y[0],
					)
				}
			}
			return y[:1]
		})
	}
	for _, kind := range []int64{0, 1, 2} {
		hold("product", "unit_product", kind, 64, 16, 1, 16)
	}
	for _, queries := range []int64{0, 1, 2, 4} {
		vectors.Hold(t, "score", func(v vectors.Vector) any {
			args := abiUnits{
				kind: queries,
				x:    upload(t, d, slices.Repeat(v.Float32s("a"), 4)),
				w:    upload(t, d, slices.Repeat(v.Float32s("b"), 5)),
			}
			return unit[float32](t, d, "unit_score", &args, &args.y, 20)[19:]
		})
	}
	for _, kind := range []int64{0, 1} {
		hold("attention-output", "unit_mixed", kind, 64, 1, 1, 20)
	}
	// Of the last position, one panel after the other, and side by side in a block of 256.
	hold("product-panels", "unit_panels", 0, 64, 16, 8, 20*128)
	hold("product-panels", "unit_panels", 1, 64, 16, 8, 128)
	hold("product-panels", "unit_panels", 1, 256, 16, 8, 128)
}

func vectorsAround(t *testing.T, d driver.Device) {
	vectors.Hold(t, "cdf", func(v vectors.Vector) any {
		args := abiUnits{x: upload(t, d, v.Float32s("p"))}
		return unit[float64](t, d, "unit_cdf", &args, &args.c, lockstep.VocabSize)
	})
	vectors.Hold(t, "choice", func(v vectors.Vector) any {
		args := abiUnits{
			n:    1,
			kind: 1,
			x:    upload(t, d, v.Float32s("p")),
			a:    upload(t, d, v.Float64s("u")),
			c:    room[float64](t, d, lockstep.VocabSize),
		}
		return unit[int64](t, d, "unit_choose", &args, &args.i, 1)
	})
	vectors.Hold(t, "draws", func(v vectors.Vector) any {
		args := abiUnits{n: 40, kind: v.Int("seed")}
		return unit[float64](t, d, "unit_draws", &args, &args.c, 40)
	})
	args := abiUnits{n: lockstep.VocabSize}
	bins := unit[float64](t, d, "unit_bin", &args, &args.c, lockstep.VocabSize)
	vectors.Hold(t, "decode", func(v vectors.Vector) any { return bins[v.Int("token"):][:1] })
	x := together[float64](t, "encode", "x")
	args = abiUnits{n: int64(len(x)), a: upload(t, d, x)}
	holdAll(t, "encode", unit[int64](t, d, "unit_encode", &args, &args.i, len(x)))
	vectors.Hold(t, "clip", func(v vectors.Vector) any {
		current := v.Float64("current")
		args := abiUnits{
			n: 1,
			a: upload(
				t, d,
				[]float64{
					v.Float64("x"), current - lockstep.MaxAccDelta, current + lockstep.MaxAccDelta,
				},
			),
		}
		return unit[float64](t, d, "unit_clip", &args, &args.c, 1)
	})
	vectors.Hold(t, "sum", func(v vectors.Vector) any {
		args := abiUnits{n: int64(len(v.Float64s("x"))), a: upload(t, d, v.Float64s("x"))}
		return unit[float64](t, d, "unit_sum", &args, &args.c, 1)
	})
	warmup := make([]float64, lockstep.ControlStartIdx)
	vectors.Hold(t, "pid", func(v vectors.Vector) any {
		var steps []float64
		for i, target := range v.Float64s("target") {
			steps = append(steps, target, v.Float64s("lataccel")[i])
		}
		args := abiUnits{
			n: int64(len(steps) / 2),
			a: upload(t, d, steps),
			b: upload(t, d, v.Float64s("gains")),
		}
		return unit[float64](t, d, "unit_pid", &args, &args.c, len(steps)/2)
	})
	vectors.Hold(t, "pidff", func(v vectors.Vector) any {
		columns := slices.Concat(v.Float64s("target"), v.Float64s("roll"), v.Float64s("speed"))
		n := len(v.Float64s("lataccel"))
		args := abiUnits{
			n:    int64(len(columns) / 3),
			kind: int64(n),
			a:    upload(t, d, columns),
			b:    upload(t, d, slices.Concat(v.Float64s("gains"), v.Float64s("lataccel"))),
		}
		return unit[float64](t, d, "unit_pidff", &args, &args.c, n)
	})
	vectors.Hold(t, "observation", func(v vectors.Vector) any {
		n := len(v.Float64s("target"))
		histories := make([]float64, 2*n)
		copy(histories, v.Float64s("lataccel"))
		copy(histories[n:], v.Float64s("action"))
		columns := slices.Concat(
			v.Float64s("target"), v.Float64s("roll"), v.Float64s("speed"),
			v.Float64s("acceleration"),
		)
		args := abiUnits{
			n:    int64(n),
			kind: int64(len(v.Float64s("lataccel"))),
			a:    upload(t, d, columns),
			b:    upload(t, d, histories),
		}
		return unit[float32](t, d, "unit_observe", &args, &args.y, lockstep.ObservationSize)
	})
	vectors.Hold(t, "costs", func(v vectors.Vector) any {
		target, lataccel := slices.Concat(warmup, v.Float64s("target")),
			slices.Concat(warmup, v.Float64s("lataccel"))
		args := abiUnits{n: int64(len(target)), a: upload(t, d, target), b: upload(t, d, lataccel)}
		return unit[float64](t, d, "unit_costs", &args, &args.c, 3)
	})
}
