//go:build cgo && unix

package main

/*
#include <fcntl.h>

static int closed;

// Before Go's runtime, which opens /dev/null in place of standard output.
__attribute__((constructor)) static void look(void) { closed = fcntl(1, F_GETFD) == -1; }

static int stdout_closed(void) { return closed; }
*/
import "C"

// stdoutClosed reports whether the program began without a standard output.
func stdoutClosed() bool { return C.stdout_closed() != 0 }
