//go:build cgo

package onnxruntime

/*
#cgo noescape lockstep_softmax
#cgo nocallback lockstep_softmax
#include "softmax_amd64.h"
*/
import "C"

import "golang.org/x/sys/cpu"

// vectorSoftmax is softmax for 1024 logits on CPUs with AVX2 and FMA.
var vectorSoftmax = func() func(logits, probs []float32, running []float64, fused bool) float64 {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return nil
	}
	return func(logits, probs []float32, running []float64, fused bool) float64 {
		return float64(C.lockstep_softmax((*C.float)(&logits[0]), (*C.float)(&probs[0]), (*C.double)(&running[0]), cBool(fused)))
	}
}()

func cBool(b bool) C.int {
	if b {
		return 1
	}
	return 0
}
