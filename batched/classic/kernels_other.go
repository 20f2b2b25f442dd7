//go:build (!amd64 && !arm64) || noasm

package classic

func assembly() []*kernels { return nil }
