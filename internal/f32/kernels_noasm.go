//go:build !amd64 || noasm

package f32

func assembly() []*Kernels { return nil }
