// Package native is the library behind the Python package. It is built from cmd/lockstep with
// -buildmode=c-shared and the tag library, so that the command line is in it, too. See
// python/lockstep/_native.py for its other side.
//
// Objects stay on this side; Python holds handles. A call has a method's name, the
// handle of the object that it is of, a request in JSON, and a buffer of the caller's
// for arrays; its answer is JSON. What may take long is a task, which Python waits for
// in turns so that it sees signals in between. A step of few rollouts has a function
// of its own. A panic becomes an error, here and in every goroutine, so that no mistake
// ends the interpreter.
package native

// #include <stdint.h>
// #include <stdlib.h>
import "C"

import (
	"os"
	"strings"
	"time"
	"unsafe"
)

// version is that of the Python package that the library was built for.
var version = "unknown"

//export lockstep_version
func lockstep_version() *C.char { return C.CString(version) }

// lockstep_environment makes NAME=value of all variables of the environment what they are in
// Python now: those that Go has are the process's when it began.
//
//export lockstep_environment
func lockstep_environment(n C.int, variables **C.char) {
	now := map[string]string{}
	for _, v := range unsafe.Slice(variables, int(n)) {
		name, value, _ := strings.Cut(C.GoString(v), "=")
		now[name] = value
	}
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		if is, ok := now[name]; !ok {
			os.Unsetenv(name)
		} else if is == value {
			delete(now, name)
		}
	}
	for name, value := range now {
		os.Setenv(name, value)
	}
}

//export lockstep_free
func lockstep_free(text *C.char) { C.free(unsafe.Pointer(text)) }

// lockstep_call calls a method and returns its answer, {"result": …} or {"error": …},
// which is to be freed with lockstep_free.
//
//export lockstep_call
func lockstep_call(
	method *C.char, handle C.int64_t, request *C.char, buffer unsafe.Pointer, size C.int64_t,
) *C.char {
	t := begin(C.GoString(method), int64(handle), C.GoString(request), memory(buffer, size))
	return C.CString(t.answer())
}

// lockstep_start begins a call and returns a task. The buffer must stay where it is
// until lockstep_finish has returned.
//
//export lockstep_start
func lockstep_start(
	method *C.char, handle C.int64_t, request *C.char, buffer unsafe.Pointer, size C.int64_t,
) C.int64_t {
	t := begin(C.GoString(method), int64(handle), C.GoString(request), memory(buffer, size))
	t.start()
	return C.int64_t(put(t))
}

// lockstep_wait waits for a task's end, at most some milliseconds. It returns -1 if the
// task has ended, else how much of it is done.
//
//export lockstep_wait
func lockstep_wait(handle C.int64_t, milliseconds C.int64_t) C.int64_t {
	t, err := get[*task](int64(handle))
	if err != nil {
		return -1
	}
	select {
	case <-t.ended:
		return -1
	case <-time.After(time.Duration(milliseconds) * time.Millisecond):
		return C.int64_t(t.done.Load())
	}
}

// lockstep_finish ends a task, whether it is done or not, and returns its answer.
//
//export lockstep_finish
func lockstep_finish(handle C.int64_t) *C.char {
	t, err := get[*task](int64(handle))
	if err != nil {
		return C.CString(answer(nil, err))
	}
	t.Close()
	drop(int64(handle))
	return C.CString(t.text)
}

// lockstep_step computes one step of rollouts with a command for each, and writes
// their lataccels. It returns 0, or 1 if there is an error; the method "why" has it.
//
//export lockstep_step
func lockstep_step(handle C.int64_t, commands, lataccels *C.double, n C.int64_t) C.int {
	r, err := get[*roll](int64(handle))
	if err != nil || int(n) != r.n {
		return 1
	}
	if r.step(
		unsafe.Slice((*float64)(commands), r.n), unsafe.Slice((*float64)(lataccels), r.n),
	) != nil {
		return 1
	}
	return 0
}

// lockstep_step_on_device begins a step with commands and lataccels at addresses of the
// device's memory. It returns what lockstep_step does.
//
//export lockstep_step_on_device
func lockstep_step_on_device(handle C.int64_t, commands, lataccels C.uint64_t) C.int {
	r, err := get[*roll](int64(handle))
	if err != nil || r.stepOnDevice(uintptr(commands), uintptr(lataccels)) != nil {
		return 1
	}
	return 0
}

// lockstep_environments_step computes one step of classic control environments in memory
// of the caller's, see environments.step. It returns 0, or 1 if there is an error; the
// method "environments_why" has it.
//
//export lockstep_environments_step
func lockstep_environments_step(handle C.int64_t, memory unsafe.Pointer) C.int {
	e, err := get[*environments](int64(handle))
	if err != nil || e.step(memory) != nil {
		return 1
	}
	return 0
}

// lockstep_environments_rows is lockstep_environments_step of arrays as NumPy has them, see rows.
//
//export lockstep_environments_rows
func lockstep_environments_rows(handle C.int64_t, memory unsafe.Pointer) C.int {
	e, err := get[*environments](int64(handle))
	if err != nil || e.stepRows(memory) != nil {
		return 1
	}
	return 0
}

// lockstep_episodes_step computes one step of rollouts as environments, in memory of the
// caller's, see episodes. It returns what lockstep_step does.
//
//export lockstep_episodes_step
func lockstep_episodes_step(handle C.int64_t, memory unsafe.Pointer) C.int {
	r, err := get[*roll](int64(handle))
	if err != nil || r.episodeNow(memory) != nil {
		return 1
	}
	return 0
}

func memory(buffer unsafe.Pointer, size C.int64_t) []byte {
	if buffer == nil {
		return nil
	}
	return unsafe.Slice((*byte)(buffer), int(size))
}
