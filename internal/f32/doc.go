// Package f32 holds the float32 kernels of the network and of its softmax: the
// loops in which nearly all time is spent.
//
// Every kernel is a plain Go function, which is its specification, and on some
// CPUs an assembly function beside it that computes the same bits faster. The
// order of operations is that of ONNX Runtime and NumPy; in every one of them
// outputs are independent chains, or fixed lanes, so that computing them side by
// side changes nothing. Kernels says which functions a CPU runs.
//
// Nothing here may be fused, split or reordered: products that feed a sum are
// written float32(x*y) + z, fused ones FMA(x, y, z).
package f32

//go:generate go run -C _generate . -out ../matmul_avx2_amd64.s -stubs ../matmul_avx2_amd64.go -pkg f32 matmul avx2
//go:generate go run -C _generate . -out ../matmul_avx512_amd64.s -stubs ../matmul_avx512_amd64.go -pkg f32 matmul avx512
//go:generate go run -C _generate . -out ../elementwise_avx2_amd64.s -stubs ../elementwise_avx2_amd64.go -pkg f32 elementwise avx2
//go:generate go run -C _generate . -out ../elementwise_avx512_amd64.s -stubs ../elementwise_avx512_amd64.go -pkg f32 elementwise avx512
//go:generate go run -C _generate . -out ../attention_avx2_amd64.s -stubs ../attention_avx2_amd64.go -pkg f32 attention avx2
//go:generate go run -C _generate . -out ../attention_avx512_amd64.s -stubs ../attention_avx512_amd64.go -pkg f32 attention avx512
//go:generate go run -C _generate . -out ../probe_avx2_amd64.s -stubs ../probe_avx2_amd64.go -pkg f32 probe avx2
//go:generate go run -C _generate . -out ../probe_avx512_amd64.s -stubs ../probe_avx512_amd64.go -pkg f32 probe avx512
//go:generate go run -C _generate . -out ../matmul_neon_arm64.s -stubs ../matmul_neon_arm64.go -pkg f32 matmul neon
//go:generate go run -C _generate . -out ../elementwise_neon_arm64.s -stubs ../elementwise_neon_arm64.go -pkg f32 elementwise neon
//go:generate go run -C _generate . -out ../attention_neon_arm64.s -stubs ../attention_neon_arm64.go -pkg f32 attention neon
//go:generate go run -C _generate . -out ../probe_neon_arm64.s -stubs ../probe_neon_arm64.go -pkg f32 probe neon
