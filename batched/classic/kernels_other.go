//go:build !amd64 || noasm

package classic

func assembly() []*kernels { return nil }
