//go:build cuda

package cuda

// #include <stdlib.h>
// #include <cuda.h>
import "C"

import (
	"fmt"
	"reflect"
	"unsafe"

	"gorgonia.org/cu"
)

// What gorgonia.org/cu lacks.

// initialise is cuInit, which that package has called before.
func initialise() error { return result(C.cuInit(0)) }

// cudaError is an error of the driver's, with the name and the text it gives it.
type cudaError struct {
	code int
	text string
}

func (e *cudaError) Error() string { return e.text }

func result(code C.CUresult) error {
	if code == C.CUDA_SUCCESS {
		return nil
	}
	e := &cudaError{code: int(code), text: fmt.Sprintf("CUDA error %d", code)}
	var name, text *C.char
	if C.cuGetErrorName(code, &name) == C.CUDA_SUCCESS && name != nil {
		e.text = fmt.Sprintf("%s (%d)", C.GoString(name), code)
	}
	if C.cuGetErrorString(code, &text) == C.CUDA_SUCCESS && text != nil {
		e.text += ": " + C.GoString(text)
	}
	return e
}

// explain gives an error of gorgonia.org/cu, which is a number, its text.
func explain(err error) error {
	if err == nil {
		return nil
	}
	if v := reflect.ValueOf(err); v.Kind() == reflect.Int {
		return result(C.CUresult(v.Int()))
	}
	return err
}

// code is that of an error, or 0.
func code(err error) int {
	if e, ok := err.(*cudaError); ok {
		return e.code
	}
	return 0
}

const (
	codeOutOfMemory = C.CUDA_ERROR_OUT_OF_MEMORY
	codeNotReady    = C.CUDA_ERROR_NOT_READY
	codeNoDevice    = C.CUDA_ERROR_NO_DEVICE
	codeNoLibrary   = C.CUDA_ERROR_SHARED_OBJECT_INIT_FAILED
	codeNoSymbol    = C.CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND
)

// allowShared lets a kernel's blocks have more shared memory than 48 KiB.
func allowShared(f cu.Function, bytes int) error {
	// A cu.Function is a struct of the handle alone.
	handle := *(*C.CUfunction)(unsafe.Pointer(&f))
	return result(C.cuFuncSetAttribute(
		handle, C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, C.int(bytes),
	))
}

// launch starts a kernel whose only argument is a struct with these bytes, which
// the driver copies. cu.Function.Launch takes arguments of 8 bytes alone.
func launch(f cu.Function, blocks, threads, shared int, stream cu.Stream, argument []byte) error {
	handle := *(*C.CUfunction)(unsafe.Pointer(&f))
	onto := *(*C.CUstream)(unsafe.Pointer(&stream))
	// In memory of C's, since a pointer to it lies in memory that C reads.
	copied := C.CBytes(argument)
	defer C.free(copied)
	parameters := (*unsafe.Pointer)(C.malloc(C.size_t(unsafe.Sizeof(copied))))
	defer C.free(unsafe.Pointer(parameters))
	*parameters = copied
	return result(C.cuLaunchKernel(
		handle, C.uint(blocks), 1, 1, C.uint(threads), 1, 1, C.uint(shared), onto, parameters, nil,
	))
}

// streamOf is the caller's stream of a handle: 0 and CU_STREAM_LEGACY are the default
// one.
func streamOf(handle uintptr) (s cu.Stream) {
	const legacy = 1
	if handle == legacy {
		handle = 0
	}
	// A cu.Stream is a struct of the handle alone.
	*(*uintptr)(unsafe.Pointer(&s)) = handle
	return s
}

// destroy ends a context with all that is in it.
func destroy(c cu.CUContext) error {
	return result(C.cuCtxDestroy(*(*C.CUcontext)(unsafe.Pointer(&c))))
}

// pinned reserves memory that the GPU reaches without a copy in between.
func pinned(bytes int64) ([]byte, error) {
	var p unsafe.Pointer
	if err := result(C.cuMemHostAlloc(&p, C.size_t(bytes), 0)); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), bytes), nil
}

func unpin(memory []byte) error { return result(C.cuMemFreeHost(unsafe.Pointer(&memory[0]))) }

// sharedPerBlock is how much shared memory a block can be allowed.
func sharedPerBlock(d cu.Device) (int, error) {
	var n C.int
	err := result(C.cuDeviceGetAttribute(
		&n, C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, C.CUdevice(d),
	))
	return int(n), err
}
