//go:build (!amd64 && !arm64) || noasm

package f32

func assembly() []*Kernels { return nil }
