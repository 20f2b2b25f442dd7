//go:build cgo && unix

package main

// canTellClosed: see stdoutClosed.
const canTellClosed = true
