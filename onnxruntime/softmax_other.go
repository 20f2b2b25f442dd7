//go:build !cgo || !amd64

package onnxruntime

// vectorSoftmax is softmax in vector instructions, which this build lacks.
var vectorSoftmax func(logits, probs []float32, running []float64, fused bool) float64
