//go:build !cgo || !unix

package main

// canTellClosed: see stdoutClosed.
const canTellClosed = false

// stdoutClosed cannot tell here whether the program began without a standard output.
func stdoutClosed() bool { return false }
