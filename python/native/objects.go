//go:build cgo

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

// objects are what Python holds handles of. A handle is never given out twice.
var objects = struct {
	sync.RWMutex
	last int64
	all  map[int64]any
}{all: map[int64]any{}}

var errClosed = errors.New("it has been closed")

// closer is an object that holds more than memory.
type closer interface{ Close() error }

func put(object any) int64 {
	objects.Lock()
	defer objects.Unlock()
	objects.last++
	objects.all[objects.last] = object
	return objects.last
}

func get[T any](handle int64) (T, error) {
	objects.RLock()
	object, ok := objects.all[handle]
	objects.RUnlock()
	var none T
	if !ok {
		return none, errClosed
	}
	t, ok := object.(T)
	if !ok {
		return none, fmt.Errorf("handle %d is a %T, not a %T", handle, object, none)
	}
	return t, nil
}

func drop(handle int64) error {
	objects.Lock()
	object := objects.all[handle]
	delete(objects.all, handle)
	objects.Unlock()
	if c, ok := object.(closer); ok {
		return c.Close()
	}
	return nil
}

// A method answers a request about an object.
type method func(handle int64, request, buffer []byte) (any, error)

// of is a method of objects of type T with requests of type Q.
func of[T, Q any](f func(object T, request Q, buffer []byte) (any, error)) method {
	return func(handle int64, request, buffer []byte) (any, error) {
		object, err := get[T](handle)
		if err != nil {
			return nil, err
		}
		var q Q
		if err := json.Unmarshal(request, &q); err != nil {
			return nil, usagef("request: %v", err)
		}
		return f(object, q, buffer)
	}
}

// function is a method of no object.
func function[Q any](f func(request Q, buffer []byte) (any, error)) method {
	return func(_ int64, request, buffer []byte) (any, error) {
		var q Q
		if err := json.Unmarshal(request, &q); err != nil {
			return nil, usagef("request: %v", err)
		}
		return f(q, buffer)
	}
}

// floats is a buffer as n numbers of float64.
func floats(buffer []byte, n int) ([]float64, error) {
	if len(buffer) != 8*n {
		return nil, fmt.Errorf("a buffer of %d bytes, want %d", len(buffer), 8*n)
	}
	if n == 0 {
		return nil, nil
	}
	return unsafe.Slice((*float64)(unsafe.Pointer(&buffer[0])), n), nil
}

// nothing is the answer and the request that say nothing.
type nothing struct{}

var methods map[string]method

func init() {
	methods = map[string]method{
		"open":    function(open),
		"load":    of(load),
		"columns": of(columns),
		"rollout": of(rollout),
		"results": of(results),
		"close":   func(handle int64, _, _ []byte) (any, error) { return nothing{}, drop(handle) },
		"handles": func(int64, []byte, []byte) (any, error) { return count(), nil },
		"panic":   func(int64, []byte, []byte) (any, error) { panic("as was asked for") },
	}
}

// count is how many objects there are.
func count() int {
	objects.RLock()
	defer objects.RUnlock()
	return len(objects.all)
}
