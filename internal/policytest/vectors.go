// Package policytest holds what computes networks' policies to vectors that others
// computed, from rollouts of the unmodified Python program with a published
// controller, and from C. The vectors lie beside the assets, in a folder vectors.
package policytest

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"lockstep"
	"lockstep/internal/assets/assetstest"
	"lockstep/internal/npz"
)

// Functions are an implementation's.
type Functions struct {
	Softplus func(z []float32) []float32
	Beta     func(draws []Draw) []float32
	Mean     func(sp [2]float32) float64 // the raw action
	// Forward is the network of one observation; nil leaves networks out.
	Forward func(n *lockstep.Network, x []float32) []float32
	// Observe is the observation at a step; histories reach to the step before.
	Observe func(o []float32, r *lockstep.Route, step int, lataccel, action []float64) error
}

// A Draw says which variate is wanted.
type Draw struct {
	Softplus [2]float32
	Seed, ID uint64
	Step     int
}

// Each is a function of many things that computes them one by one.
func Each[X, Y any](f func(X) Y) func([]X) []Y {
	return func(all []X) (out []Y) {
		for _, x := range all {
			out = append(out, f(x))
		}
		return out
	}
}

// Hold runs an implementation on all vectors.
func Hold(t *testing.T, f Functions) {
	t.Run("softplus", func(t *testing.T) { holdSoftplus(t, f) })
	t.Run("beta", func(t *testing.T) { holdBeta(t, f) })
	t.Run("pairs", func(t *testing.T) { holdPairs(t, f) })
	if f.Forward != nil {
		t.Run("network", func(t *testing.T) { holdNetwork(t, f) })
	}
	t.Run("scalars", func(t *testing.T) { holdScalars(t, f) })
	for _, route := range []string{"00000", "04959"} {
		t.Run("observation/"+route, func(t *testing.T) { holdObservation(t, f, route) })
	}
}

func read(t testing.TB, name string) map[string]npz.Array {
	t.Helper()
	arrays, err := npz.ReadFile(assetstest.Find(t, filepath.Join("..", "vectors", name)))
	if err != nil {
		t.Fatal(err)
	}
	return arrays
}

func elements[T npz.Number](t testing.TB, arrays map[string]npz.Array, name string) []T {
	t.Helper()
	values, err := npz.Elements[T](arrays[name])
	if err != nil || len(values) == 0 {
		t.Fatalf("%s: %d values, %v", name, len(values), err)
	}
	return values
}

func holdSoftplus(t *testing.T, f Functions) {
	v := read(t, "vectors_contract.npz")
	z, y := elements[float32](t, v, "softplus_z"), elements[float32](t, v, "softplus_y")
	for i, got := range f.Softplus(z) {
		if math.Float32bits(got) != math.Float32bits(y[i]) {
			t.Fatalf("softplus(%v) = %v, want %v", z[i], got, y[i])
		}
	}
}

func holdBeta(t *testing.T, f Functions) {
	v := read(t, "vectors_contract.npz")
	st, seed, id := elements[float32](t, v, "beta_st"), elements[uint64](t, v, "beta_seed"),
		elements[uint64](t, v, "beta_id")
	step, x := elements[uint32](t, v, "beta_step"), elements[float32](t, v, "beta_x")
	draws := make([]Draw, len(x))
	for i := range draws {
		draws[i] = Draw{[2]float32(st[2*i:]), seed[i], id[i], int(step[i])}
	}
	for i, got := range f.Beta(draws) {
		if math.Float32bits(got) != math.Float32bits(x[i]) {
			t.Fatalf("variate %d, %+v: %v, want %v", i, draws[i], got, x[i])
		}
	}
}

// holdPairs: whether a pair is taken can follow from a number's last bits. Each implementation has
// these variates, and TestCheng of package policies has them from the algorithm as it is printed.
func holdPairs(t *testing.T, f Functions) {
	want := []float32{0.80969626, 0.92577183, 0.15882368, 0.34681767, 0.2244573}
	for i, got := range f.Beta(DecisivePairs()) {
		if got != want[i] {
			t.Errorf("variate %d, %+v: %v, want %v", i, DecisivePairs()[i], got, want[i])
		}
	}
}

// DecisivePairs are draws, with seeds beyond 32 bits, whose first pair is taken, or not, by what a
// float32 of something would not tell, and one of a distribution without a peak.
func DecisivePairs() []Draw {
	sp := [2]float32{3, 2}
	return []Draw{
		{sp, 8941732621, 5, 100}, {sp, 8975966115, 5, 100}, // the second number
		{sp, 17186100554, 5, 100}, // what is under the logarithm
		{sp, 17232249815, 5, 100}, // the product of both
		{[2]float32{}, 17186100554, 5, 100},
	}
}

// HoldProducts holds a network's products, (rows, 256) to (rows, 2), to the vectors': of
// all observations together, and of the first ones.
func HoldProducts(t *testing.T, forward func(n *lockstep.Network, x []float32) []float32) {
	t.Helper()
	v := read(t, "vectors_contract.npz")
	obs, want := elements[float32](t, v, "net_obs"), elements[float32](t, v, "net_logits")
	n := Network(t)
	all := len(obs) / lockstep.ObservationSize
	for _, rows := range []int{1, 2, 7, all} {
		got := forward(n, slices.Clone(obs[:rows*lockstep.ObservationSize]))
		for i, x := range want[:rows*lockstep.ActorSize] {
			if math.Float32bits(got[i]) != math.Float32bits(x) {
				t.Fatalf(
					"of %d observations: logit %d of observation %d is %v, want %v", rows,
					i%lockstep.ActorSize, i/lockstep.ActorSize, got[i], x)
			}
		}
	}
}

func holdNetwork(t *testing.T, f Functions) {
	v := read(t, "vectors_contract.npz")
	n := Network(t)
	obs, logits := elements[float32](t, v, "net_obs"), elements[float32](t, v, "net_logits")
	sp, raw := elements[float32](t, v, "net_softplus"), elements[float64](t, v, "net_raw")
	layer1 := elements[float32](t, v, "net_layer1")
	for i := range raw {
		x := obs[i*lockstep.ObservationSize:][:lockstep.ObservationSize]
		got := f.Forward(n, slices.Clone(x))
		if !slices.Equal(got, logits[2*i:2*i+2]) {
			t.Fatalf(
				"logits %d: %v, want %v (the first hidden layer's first: %v)", i, got,
				logits[2*i:2*i+2], layer1[i*256])
		}
		pair := [2]float32(f.Softplus(got))
		if pair != [2]float32(sp[2*i:]) {
			t.Fatalf("softplus %d: %v, want %v", i, pair, sp[2*i:2*i+2])
		}
		if r := f.Mean(pair); math.Float64bits(r) != math.Float64bits(raw[i]) {
			t.Fatalf("raw action %d: %v, want %v", i, r, raw[i])
		}
	}
}

func holdObservation(t *testing.T, f Functions, route string) {
	v := read(t, fmt.Sprintf("vectors_%s.npz", route))
	obs := elements[float32](t, v, "obs")
	lataccel, action := elements[float64](t, v, "lataccel_history"),
		elements[float64](t, v, "action_history")
	r := &lockstep.Route{
		Name: route, TargetLataccel: elements[float64](t, v, "target"),
		RollLataccel: elements[float64](t, v, "roll"),
		VEgo:         elements[float64](t, v, "v"), AEgo: elements[float64](t, v, "a"),
	}
	o := make([]float32, lockstep.ObservationSize)
	for i := range len(obs) / lockstep.ObservationSize {
		step := lockstep.ControlStartIdx + i
		if err := f.Observe(o, r, step, lataccel[:step], action[:step]); err != nil {
			t.Fatal(err)
		}
		for k, x := range o {
			if want := obs[i*lockstep.ObservationSize+k]; math.Float32bits(x) !=
				math.Float32bits(want) {
				t.Fatalf("step %d, %s: %v, want %v", step, lockstep.ObservationElement(k), x, want)
			}
		}
	}
}

// holdScalars: what of an observation is divided by the speed, and what grip is left, on both sides
// of their bounds; what is NaN is named, and not what is made of it.
func holdScalars(t *testing.T, f Functions) {
	const step = lockstep.ControlStartIdx + 1
	for _, c := range []struct {
		target, roll, v, a, lataccel float64
		curvature, grip, left        float64
		missing                      int // the first element that is NaN, or 0
	}{
		{target: 1, roll: 0.5, v: 8, a: 3.5, curvature: 0.5 / 64, grip: 0.5, left: 0.5},
		{target: 0.0625, v: 0.5, a: -7, curvature: 0.0625, grip: 1},
		{target: 0.0625, v: 1, lataccel: -7, curvature: 0.0625, grip: 1},
		{target: 0.0625, v: -2, a: 14, curvature: 0.0625 / 4, grip: 2},
		{target: 0.0625, lataccel: 3, a: 4, curvature: 0.0625, grip: 5.0 / 7, left: 2.0 / 7},
		{target: 0.0625, v: math.NaN(), curvature: 0.0625, left: 1, missing: 6},
		{target: 0.0625, a: math.NaN(), curvature: 0.0625, missing: 7},
		{lataccel: math.NaN(), missing: 1},
		{roll: math.NaN(), missing: 3},
	} {
		r, o := &lockstep.Route{Name: "scalars"}, make([]float32, lockstep.ObservationSize)
		for _, column := range r.Columns() {
			*column = make([]float64, step+2)
		}
		r.TargetLataccel[step], r.RollLataccel[step] = c.target, c.roll
		r.VEgo[step], r.AEgo[step] = c.v, c.a
		lataccel := make([]float64, step)
		lataccel[step-1] = c.lataccel
		err := f.Observe(o, r, step, lataccel, make([]float64, step))
		if c.missing > 0 {
			at := slices.IndexFunc(o, func(x float32) bool { return x != x })
			want := lockstep.ObservationElement(c.missing) + " is NaN"
			if at != c.missing || err != nil && err.Error() != want {
				t.Errorf("%+v: element %d is NaN, %v; want %s", c, at, err, want)
			}
			continue
		}
		got := [3]float32{o[3], o[14], o[15]}
		want := [3]float32{float32(c.curvature / 0.02), float32(c.grip), float32(c.left)}
		if err != nil || got != want {
			t.Errorf("%+v: target curvature, grip and grip left are %v, want %v: %v", c, got, want,
				err)
		}
	}
}

// Network has the shape of the published ones, and weights from Philox with the key
// (2026, 0): those of layer, output and input from the counter (input, output, layer,
// 0), biases from (0, output, layer, 1).
func Network(t testing.TB) *lockstep.Network {
	t.Helper()
	weight := func(c ...uint32) float32 {
		w := philox([4]uint32(c), [2]uint32{2026, 0})[0]
		return float32((float64(w>>8)*0x1p-24 - 0.5) * 0.25)
	}
	var layers []lockstep.Layer
	for i, outputs := range []int{256, 256, 256, 256, 2} {
		l := lockstep.Layer{Inputs: 256, Outputs: outputs}
		for o := range outputs {
			for k := range l.Inputs {
				l.Weights = append(l.Weights, weight(uint32(k), uint32(o), uint32(i), 0))
			}
			l.Bias = append(l.Bias, weight(0, uint32(o), uint32(i), 1))
		}
		layers = append(layers, l)
	}
	n, err := lockstep.NewNetwork(layers, lockstep.DefaultScale)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// philox is Philox4x32-10, for the weights alone.
func philox(c [4]uint32, k [2]uint32) [4]uint32 {
	for range 10 {
		p, q := uint64(0xd2511f53)*uint64(c[0]), uint64(0xcd9e8d57)*uint64(c[2])
		c[0], c[1], c[2], c[3] = uint32(q>>32)^c[1]^k[0], uint32(q), uint32(p>>32)^c[3]^k[1],
			uint32(p)
		k = [2]uint32{k[0] + 0x9e3779b9, k[1] + 0xbb67ae85}
	}
	return c
}
