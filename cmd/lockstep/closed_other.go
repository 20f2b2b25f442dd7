//go:build !cgo || !unix

package main

// stdoutClosed cannot tell here whether the program began without a standard output.
func stdoutClosed() bool { return false }
