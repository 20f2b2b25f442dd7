package f32

import (
	"fmt"
	"slices"
	"testing"

	"lockstep/golden/vectors"
)

// TestVectors holds every set of kernels, and the functions of one element or
// row, to inputs on which plausible alternatives give other bits.
func TestVectors(t *testing.T) {
	for _, set := range Available() {
		t.Run(set.Name, func(t *testing.T) {
			vectors.Map(t, "gelu", set.Gelu)
			vectors.Map(t, "exp512", func(y, x []float32) { set.Exp512(y, x, 0) })
			vectors.Map(t, "exp256", func(y, x []float32) { set.Exp256(y, x, 0) })
			vectors.Map(t, "exp-numpy-U", func(y, x []float32) { set.ExpNumPy(y, x, 0) })
			vectors.Map(t, "exp-numpy-F", func(y, x []float32) { set.ExpNumPyFused(y, x, 0) })
			vectors.Map(t, "exp-numpy-C", func(y, x []float32) { set.ExpLibrary(y, x, 0) })
			holdLayerNorm(t, "layer-norm-1.30", set.LayerNorm)
			holdLayerNorm(t, "layer-norm-1.30arm", func(y, x, weight, bias []float32) {
				four := make([]float32, 4*len(x))
				set.LayerNormARM(four, slices.Repeat(x, 4), weight, bias)
				copy(y, four[len(x):])
			})
			// every tile
			for _, shape := range [][2]int{{1, 1}, {1, 13}, {21, 1}, {23, 13}, {23, 12}, {24, 12}} {
				holdProducts(t, set, shape[0], shape[1])
			}
		})
	}
	holdLayerNorm(t, "layer-norm-1.27", LayerNorm127)
	holdLayerNorm(t, "layer-norm-1.23", LayerNorm123)
	vectors.Map(t, "tanh", func(y, x []float32) {
		for i, v := range x {
			y[i] = Tanh(v)
		}
	})
}

func holdLayerNorm(t *testing.T, operation string, run func(y, x, weight, bias []float32)) {
	t.Helper()
	vectors.Hold(t, operation, func(v vectors.Vector) any {
		y := make([]float32, len(v.Float32s("x")))
		run(y, v.Float32s("x"), v.Float32s("weight"), v.Float32s("bias"))
		return y
	})
}

// holdProducts multiplies so many equal rows with panels of equal columns, which
// must all give one result.
func holdProducts(t *testing.T, set *Kernels, rows, panels int) {
	t.Helper()
	multiply := func(v vectors.Vector, panel int, alpha float32) any {
		row, column := v.Float32s("a"), v.Float32s("b")
		n := PanelWidth * panels
		c := make([]float32, rows*n)
		for k := 0; k < len(row); k += panel {
			a, b := slices.Repeat(row[k:k+panel], rows), []float32{}
			for _, x := range column[k : k+panel] {
				b = append(b, slices.Repeat([]float32{x}, n)...)
			}
			set.MatMul(rows, panels, panel, a, panel, Pack(b, panel, n), c, n, alpha, k > 0)
		}
		for i := range c {
			if !same(c[i], c[0]) {
				return fmt.Sprintf(
					"one of the chains of %d rows and %d panels is %x, the first %x", rows, panels,
					c[i], c[0],
				)
			}
		}
		return c[:1]
	}
	vectors.Hold(t, "product", func(v vectors.Vector) any { return multiply(v, 128, 1) })
	vectors.Hold(t, "product-panels", func(v vectors.Vector) any { return multiply(v, 256, 0.5) })
	vectors.Hold(t, "score", func(v vectors.Vector) any { return multiply(v, 32, 0x1.6a09e6p-3) })
	vectors.Hold(t, "attention-output", func(v vectors.Vector) any { return multiply(v, 20, 1) })
}
