package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"lockstep"
	"lockstep/internal/installed"
)

// libraryFile is the file of the code that runs, if it is not that of the process: the Python
// package's library.
var libraryFile string

// Exit statuses.
const (
	exitOK          = 0
	exitParity      = 1   // two computations differ
	exitUsage       = 2   // bad usage or bad input
	exitInterrupted = 130 // as shells report Ctrl-C
)

// environment is what a command may touch of the world.
type environment struct {
	ctx    context.Context
	args   []string // the command line, without the program's name
	stdout *stickyWriter
	stderr io.Writer
	given  []string // names of the flags that the command line has
	ends   []func() // of what a command uses until it ends

	// found is the arithmetic of the Python of this machine, if that was asked for; computed is
	// the profile that the command computes with; told is set once it has said so.
	found    *installed.Found
	computed lockstep.Profile
	told     bool
}

// atEnd has something called when the command ends, before what was to be called earlier.
func (e *environment) atEnd(end func()) { e.ends = append(e.ends, end) }

// command is the command line.
func (e *environment) command() []string { return append([]string{"lockstep"}, e.args...) }

// stickyWriter keeps the first error of its writer, and writes nothing after it: a
// command need not look at each line that it prints. One that runs long ends where
// nobody reads any more.
type stickyWriter struct {
	w   io.Writer
	err error
	end func() // called with the first error
}

func (w *stickyWriter) Write(p []byte) (n int, err error) {
	if w.err == nil {
		if n, w.err = w.w.Write(p); w.err != nil && w.end != nil {
			w.end()
		}
	}
	return n, w.err
}

// json prints a value as one line. One that has no such form is a mistake, and is an
// error of the output.
func (e *environment) json(v any) {
	if err := json.NewEncoder(e.stdout).Encode(v); err != nil && e.stdout.err == nil {
		e.stdout.err = err
	}
}

// tell ends a summary with the arithmetic of the Python of this machine, if that was
// asked for, and with what was computed if that is another.
func (e *environment) tell() {
	switch {
	case e.found == nil || e.told || e.ctx.Err() != nil:
	case e.computed != e.found.Profile:
		fmt.Fprintf(e.stdout, "two profiles: computed with %s; %s\n", e.computed, e.found)
	default:
		fmt.Fprintln(e.stdout, e.found)
	}
}

// interrupted says that the user ended a command, and what that means.
func (e *environment) interrupted(means string) error {
	if e.stdout.err == nil { // which is why, else
		fmt.Fprintf(e.stderr, "lockstep: interrupted; %s\n", means)
	}
	return exitStatus(exitInterrupted)
}

// ended is the error that a command's work ended with. That of an interruption says so,
// and what it means.
func (e *environment) ended(err error, means string) error {
	if e.ctx.Err() != nil {
		return e.interrupted(means)
	}
	return err
}

// failed reports that n of all rollouts failed, and returns the exit status with which the
// command ends: nil if none failed.
func (e *environment) failed(n, all int) error {
	if n == 0 {
		return nil
	}
	fmt.Fprintf(e.stderr, "lockstep: %d of %d rollouts failed\n", n, all)
	return exitStatus(exitUsage)
}

// exitStatus is an error whose message is already printed.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }
