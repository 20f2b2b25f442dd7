//go:build !cuda

package want

const cuda = false
