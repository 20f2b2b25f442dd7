package f32

import "lockstep"

// Arithmetic is what a profile decides, in one set of kernels.
type Arithmetic struct {
	LayerNorm func(y, x, weight, bias []float32)
	Softmax   func(s []float32, rows, stride, first int) // see Kernels.Softmax512
	Weights   func(y, x []float32, shift float32)        // e^(x + shift) inside that softmax
	Lanes     int                                        // of the sum inside that softmax
	Exp       func(y, x []float32, shift float32)        // NumPy's e^(x + shift)
}

// The rows: what a set of kernels computes for each form of a profile's part.
var (
	layerNorms = [...]func(*Kernels, *Arithmetic){
		lockstep.LayerNorm130: func(k *Kernels, a *Arithmetic) { a.LayerNorm = k.LayerNorm },
		lockstep.LayerNorm127: func(_ *Kernels, a *Arithmetic) { a.LayerNorm = LayerNorm127 },
		lockstep.LayerNorm123: func(_ *Kernels, a *Arithmetic) { a.LayerNorm = LayerNorm123 },

		lockstep.LayerNorm130ARM: func(k *Kernels, a *Arithmetic) { a.LayerNorm = k.LayerNormARM },
	}
	softmaxes = [...]func(*Kernels, *Arithmetic){
		lockstep.SoftmaxAVX512: func(k *Kernels, a *Arithmetic) {
			a.Softmax, a.Weights, a.Lanes = k.Softmax512, k.Exp512, 16
		},
		lockstep.SoftmaxAVX2: func(k *Kernels, a *Arithmetic) {
			a.Softmax, a.Weights, a.Lanes = k.Softmax256, k.Exp256, 8
		},
		lockstep.SoftmaxNEON: func(k *Kernels, a *Arithmetic) {
			a.Softmax, a.Weights, a.Lanes = k.Softmax4, k.Exp256, 4
		},
	}
	exponentials = [...]func(*Kernels, *Arithmetic){
		lockstep.ExpU: func(k *Kernels, a *Arithmetic) { a.Exp = k.ExpNumPy },
		lockstep.ExpF: func(k *Kernels, a *Arithmetic) { a.Exp = k.ExpNumPyFused },
		lockstep.ExpC: func(k *Kernels, a *Arithmetic) { a.Exp = k.ExpLibrary },
	}
)

// For is a profile's arithmetic in these kernels. The sine and the reading of numbers are
// not computed here: routes are loaded with them.
func (k *Kernels) For(p lockstep.Profile) Arithmetic {
	var a Arithmetic
	layerNorms[p.LayerNorm](k, &a)
	softmaxes[p.Softmax](k, &a)
	exponentials[p.Exp](k, &a)
	return a
}
