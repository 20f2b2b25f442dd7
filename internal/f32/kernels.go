package f32

import (
	"fmt"
	"strings"
)

// Kernels is one complete set of kernels. All sets compute the same bits.
//
// Slices given to one call must not overlap unless they are the same slice.
type Kernels struct {
	// Name is "go", "avx2", "avx512" or "neon".
	Name string

	// MatMul computes C = alpha·(A·B), or C += alpha·(A·B) if accumulate, for A
	// of shape (m, k) with row stride lda, B of shape (k, 16·panels) and C of
	// shape (m, 16·panels) with row stride ldc.
	//
	// Each output is one chain, acc = fma(a[i][p], b[p][j], acc) for p from 0 to
	// k-1, starting at 0; then c = acc·alpha, or c = fma(acc, alpha, c). This is
	// ONNX Runtime's order inside one panel of K.
	MatMul func(m, panels, k int, a []float32, lda int, b Panels, c []float32, ldc int,
		alpha float32, accumulate bool)

	// LayerNorm normalises rows as ONNX Runtime 1.30 does. Rows lie one after the
	// other and are as long as weight and bias: a multiple of 8.
	LayerNorm func(y, x, weight, bias []float32)

	// LayerNormARM is that of arm64: see LayerNorm130ARM.
	LayerNormARM func(y, x, weight, bias []float32)

	// Gelu applies twice GELU to each element.
	Gelu func(g, f []float32)

	// Exp512 and Exp256 compute y = e^(x + shift), as inside ONNX Runtime's
	// softmax on CPUs with AVX-512 and with AVX2, for x + shift <= 0.
	Exp512, Exp256 func(y, x []float32, shift float32)

	// ExpNumPy computes y = e^(x + shift) as NumPy does, ExpNumPyFused as it does where
	// its compiler fuses the range reduction.
	// ExpLibrary is what it does on arm64.
	ExpNumPy, ExpNumPyFused, ExpLibrary func(y, x []float32, shift float32)

	// Softmax512 and Softmax256 replace rows of attention's scores by their causal
	// softmax, as ONNX Runtime computes it on CPUs with AVX-512 and with AVX2: row i
	// begins at i·stride and has Context scores, of which the first first+i+1 count.
	// Softmax4 is that of arm64, whose exponential is that of AVX2.
	Softmax512, Softmax256, Softmax4 func(s []float32, rows, stride, first int)

	// Transpose copies x, of shape (rows, columns) with a row stride, to y as the
	// panels of its transpose, of shape (columns, rows): see Panels. Rows are a
	// multiple of 4, columns of 8; what panels have beyond the rows stays as it is.
	Transpose func(y, x []float32, rows, columns, stride int)

	// Divide computes y = x / divisor, Add y = y + x.
	Divide func(y, x []float32, divisor float32)
	Add    func(y, x []float32)

	// Max is the largest number of x, of either sign if it is zero, or -∞.
	Max func(x []float32) float32

	// Peak does nothing but so many fused multiply-adds, as fast as the CPU can with
	// the set's instructions. Plain Go has none.
	Peak func() (fma int)
}

// Go is the specification: the plain Go functions.
var Go = &Kernels{
	Name:          "go",
	MatMul:        matMul,
	LayerNorm:     layerNorm,
	LayerNormARM:  LayerNorm130ARM,
	Gelu:          gelu,
	Exp512:        exp512,
	Exp256:        exp256,
	ExpNumPy:      expNumPy,
	ExpNumPyFused: expNumPyFused,
	ExpLibrary:    expLibrary,
	Softmax512:    softmax512,
	Softmax256:    softmax256,
	Softmax4:      softmax4,
	Transpose:     transpose,
	Divide:        divide,
	Add:           add,
	Max:           highest,
}

// Available lists the sets that this CPU runs, the fastest first. Go is always
// the last one.
func Available() []*Kernels { return append(assembly(), Go) }

// Best is the fastest set on this CPU.
func Best() *Kernels { return Available()[0] }

// Named is the set of that name, or the best if it is empty.
func Named(name string) (*Kernels, error) {
	if name == "" {
		return Best(), nil
	}
	var names []string
	for _, k := range Available() {
		if k.Name == name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	return nil, fmt.Errorf("no kernels %q here, only %s", name, strings.Join(names, ", "))
}
