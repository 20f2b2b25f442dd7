//go:build cgo

package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"

	"lockstep/routefile"
)

// task is a call on its way.
type task struct {
	context.Context
	cancel context.CancelFunc
	done   atomic.Int64 // how much of it
	ended  chan struct{}
	run    func(*task) (any, error)
	text   string // the answer
}

// begin prepares a call. Whatever is wrong with it is its answer.
func begin(name string, handle int64, request string, buffer []byte) *task {
	ctx, cancel := context.WithCancel(context.Background())
	return &task{
		Context: ctx,
		cancel:  cancel,
		ended:   make(chan struct{}),
		run: func(t *task) (any, error) {
			m, ok := methods[name]
			if !ok {
				return nil, fmt.Errorf("no method %q in this library", name)
			}
			return m(t, handle, []byte(request), buffer)
		},
	}
}

// answer runs the task here.
func (t *task) answer() string {
	defer t.cancel()
	defer close(t.ended)
	t.text = answer(func() (result any, err error) {
		defer recovered(&err)
		return t.run(t)
	}())
	return t.text
}

// start runs the task in a goroutine.
func (t *task) start() { go t.answer() }

// Close ends the task and waits for its end.
func (t *task) Close() error {
	t.cancel()
	<-t.ended
	return nil
}

// recovered makes a panic the error of the function that defers it.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v", p)
	}
}

// answer is what Python is told of a call's outcome.
func answer(result any, err error) string {
	var a struct {
		Result any      `json:"result"`
		Error  *failure `json:"error,omitempty"`
	}
	if a.Result = result; err != nil {
		a.Result, a.Error = nil, describe(err)
	}
	text, err := json.Marshal(a)
	if err != nil {
		a.Result, a.Error = nil, describe(err)
		text, _ = json.Marshal(a)
	}
	return string(text)
}

// failure is an error as Python is told it.
type failure struct {
	Type    string `json:"type"` // the exception's class
	Message string `json:"message"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
}

// usageError is an error of the caller's: Python's ValueError.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// usage makes an error the caller's.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// describe finds the exception for an error. Its message is one line.
func describe(err error) *failure {
	text, _, _ := strings.Cut(err.Error(), "\n")
	f := &failure{Type: "SimulationError", Message: text}
	var route *routefile.Error
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
