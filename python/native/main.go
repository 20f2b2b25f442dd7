// Command native is the library behind the Python package, built with
// -buildmode=c-shared. See python/lockstep/_native.py for its other side.
//
// What is rare goes through one function, lockstep_call: a method's name, the
// handle of the object that it is of, a request in JSON, and a buffer of the
// caller's for arrays; its answer is JSON. What happens at every step has a
// function of its own. Objects stay on this side; Python holds handles. A panic
// becomes an error, here and in every goroutine, so that no mistake ends the
// interpreter.
package main

// #include <stdint.h>
// #include <stdlib.h>
import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
	"unsafe"

	"lockstep"
)

// version is that of the Python package that the library was built for.
var version = "unknown"

func main() {}

// usageError is an error of the caller's: Python's ValueError.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// failure is an error as Python is told it.
type failure struct {
	Type    string `json:"type"` // the exception's class
	Message string `json:"message"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
}

// describe finds the exception for an error. Its message is one line.
func describe(err error) *failure {
	f := &failure{Type: "SimulationError", Message: oneLine(err)}
	var route *lockstep.RouteError
	var usage usageError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.Type = "FileNotFoundError"
	case errors.Is(err, fs.ErrPermission):
		f.Type = "PermissionError"
	case errors.As(err, &route):
		f.Type, f.File, f.Line, f.Column = "RouteError", route.File, route.Line, route.Column
	case errors.As(err, &usage):
		f.Type = "ValueError"
	case errors.Is(err, errClosed):
		f.Type = "ClosedError"
	}
	return f
}

func oneLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// guard makes a panic the error of the function that defers it.
func guard(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v", p)
	}
}

//export lockstep_version
func lockstep_version() *C.char { return C.CString(version) }

//export lockstep_free
func lockstep_free(text *C.char) { C.free(unsafe.Pointer(text)) }

// lockstep_call calls a method. The answer, {"result": …} or {"error": …}, is to be
// freed with lockstep_free.
//
//export lockstep_call
func lockstep_call(method *C.char, handle C.int64_t, request *C.char, buffer unsafe.Pointer, size C.int64_t) *C.char {
	var answer struct {
		Result any      `json:"result"`
		Error  *failure `json:"error,omitempty"`
	}
	var data []byte
	if buffer != nil {
		data = unsafe.Slice((*byte)(buffer), int(size))
	}
	var err error
	answer.Result, err = call(C.GoString(method), int64(handle), C.GoString(request), data)
	if err != nil {
		answer.Result, answer.Error = nil, describe(err)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		answer.Result, answer.Error = nil, describe(err)
		text, _ = json.Marshal(answer)
	}
	return C.CString(string(text))
}

func call(name string, handle int64, request string, buffer []byte) (result any, err error) {
	defer guard(&err)
	method, ok := methods[name]
	if !ok {
		return nil, fmt.Errorf("no method %q in this library", name)
	}
	return method(handle, []byte(request), buffer)
}

// lockstep_wait waits until a run has ended, at most some milliseconds, and returns
// how many of its rollouts have ended; -1 if there is no such run.
//
//export lockstep_wait
func lockstep_wait(handle C.int64_t, milliseconds C.int64_t) C.int64_t {
	r, err := get[*run](int64(handle))
	if err != nil {
		return -1
	}
	select {
	case <-r.ended:
		return C.int64_t(len(r.jobs))
	case <-time.After(time.Duration(milliseconds) * time.Millisecond):
		return C.int64_t(min(r.count.Load(), int64(len(r.jobs))-1))
	}
}

// Results of lockstep_step.
const (
	stepDone    = 0
	stepFailed  = 1 // lockstep_call("why") says why
	stepPending = 2 // lockstep_step_wait
)

// lockstep_step computes one step of rollouts with a command for each, and writes
// their lataccels. Both arrays must stay where they are until the step is done.
//
//export lockstep_step
func lockstep_step(handle C.int64_t, commands, lataccels *C.double, n C.int64_t) C.int {
	r, err := get[*roll](int64(handle))
	if err != nil || int(n) != r.n {
		return stepFailed
	}
	return C.int(r.start(unsafe.Slice((*float64)(commands), r.n), unsafe.Slice((*float64)(lataccels), r.n)))
}

// lockstep_step_wait waits for a step that is pending.
//
//export lockstep_step_wait
func lockstep_step_wait(handle C.int64_t, milliseconds C.int64_t) C.int {
	r, err := get[*roll](int64(handle))
	if err != nil {
		return stepFailed
	}
	return C.int(r.wait(time.Duration(milliseconds) * time.Millisecond))
}
