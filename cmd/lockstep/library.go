//go:build cgo && library

package main

import "C"

import (
	"unsafe"

	_ "lockstep/cmd/internal/native"
)

// lockstep_main is the command line in the Python package's library: its arguments without the
// program's name, and the library's file. It returns the exit status.
//
//export lockstep_main
func lockstep_main(n C.int, arguments **C.char, file *C.char) C.int {
	libraryFile = C.GoString(file)
	var args []string
	for _, arg := range unsafe.Slice(arguments, int(n)) {
		args = append(args, C.GoString(arg))
	}
	return C.int(begin(args))
}
