// Package classic is the batched engine of Gymnasium's classic control
// environments: blocks of environments in columns, a vector of them at a time
// where the CPU has AVX2, AVX-512 or NEON, blocks side by side on all cores.
//
// Every assembly function is held to the Go function beside it, see kernels.
package classic

//go:generate go run -C _generate . -out ../kernels_avx2_amd64.s -stubs ../kernels_avx2_amd64.go -pkg classic avx2
//go:generate go run -C _generate . -out ../kernels_avx512_amd64.s -stubs ../kernels_avx512_amd64.go -pkg classic avx512
//go:generate go run -C _generate . -out ../kernels_neon_arm64.s -stubs ../kernels_neon_arm64.go -pkg classic neon
