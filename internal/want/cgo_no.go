//go:build !cgo

package want

const cgo = false
