package f32

// Kernels is one complete set of kernels. All sets compute the same bits.
//
// Slices given to one call must not overlap unless they are the same slice.
type Kernels struct {
	// Name is "go", "avx2" or "avx512".
	Name string

	// MatMul computes C = alpha·(A·B), or C += alpha·(A·B) if accumulate, for A
	// of shape (m, k) with row stride lda, B of shape (k, 16·panels) and C of
	// shape (m, 16·panels) with row stride ldc.
	//
	// Each output is one chain, acc = fma(a[i][p], b[p][j], acc) for p from 0 to
	// k-1, starting at 0; then c = acc·alpha, or c = fma(acc, alpha, c). This is
	// ONNX Runtime's order inside one panel of K.
	MatMul func(m, panels, k int, a []float32, lda int, b Panels, c []float32, ldc int, alpha float32, accumulate bool)

	// LayerNorm normalises one row as ONNX Runtime 1.30 does. All lengths are
	// equal and a multiple of 8.
	LayerNorm func(y, x, weight, bias []float32)

	// Gelu applies twice GELU to each element.
	Gelu func(g, f []float32)

	// Exp512 and Exp256 compute y = e^(x + shift), as inside ONNX Runtime's
	// softmax on CPUs with AVX-512 and with AVX2, for x + shift <= 0.
	Exp512, Exp256 func(y, x []float32, shift float32)

	// ExpNumPy computes y = e^(x + shift) as NumPy does.
	ExpNumPy func(y, x []float32, shift float32, fused bool)
}

// Go is the specification: the plain Go functions.
var Go = &Kernels{
	Name:      "go",
	MatMul:    matMul,
	LayerNorm: layerNorm,
	Gelu:      gelu,
	Exp512:    exp512,
	Exp256:    exp256,
	ExpNumPy:  expNumPy,
}

// Available lists the sets that this CPU runs, the fastest first. Go is always
// the last one.
func Available() []*Kernels { return append(assembly(), Go) }

// Best is the fastest set on this CPU.
func Best() *Kernels { return Available()[0] }
