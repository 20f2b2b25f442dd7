// Package guard calls code of the user's own. Whatever that does to itself, a panic
// or runtime.Goexit as testing's t.Fatal calls it, is an error of the call and
// touches nothing else.
package guard

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
)

// Do calls f in a goroutine of its own and returns what ended it early.
func Do(f func()) error {
	var failure error
	Each(1, func(int) { f() }, func(_ int, err error) { failure = err })
	return failure
}

// Try is Do for a function that may return an error itself.
func Try(f func() error) (err error) {
	if ended := Do(func() { err = f() }); ended != nil {
		return ended
	}
	return err
}

// Each calls f(0) to f(n-1), one after the other in a goroutine of their own. A call
// that ends early is reported to failed, and the next one follows.
func Each(n int, f func(i int), failed func(i int, err error)) {
	for i := 0; i < n; i++ {
		ended := make(chan error)
		go func() {
			returned := false
			defer func() {
				ended <- cause(recover(), returned)
			}()
			for ; i < n; i++ {
				f(i)
			}
			returned = true
		}()
		if err := <-ended; err != nil {
			failed(i, err)
		}
	}
}

// Nobody reports whether what code of the user's own has made is nothing to call: nil, or a nil
// pointer or function in an interface, which is not nil itself.
func Nobody(made any) bool {
	switch v := reflect.ValueOf(made); v.Kind() {
	case reflect.Pointer, reflect.Func:
		return v.IsNil()
	default:
		return made == nil
	}
}

// A Failure that is panicked with carries an error out of a function that has none to
// return.
type Failure struct{ error }

// Fail is for functions that cannot return an error.
func Fail(err error) { panic(Failure{err}) }

// cause is the error of a call by what it panicked with, if it did.
func cause(panicked any, returned bool) error {
	switch p := panicked.(type) {
	case Failure:
		return p.error
	case nil:
		if !returned {
			return errors.New("it called runtime.Goexit, as t.Fatal does")
		}
		return nil
	default:
		return fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}
