// Package pycontroller steers with controllers of the challenge that are written
// in Python, as they are: files with a class Controller, whose method
//
//	update(target_lataccel, current_lataccel, state, future_plan)
//
// answers with the steer command. Python processes run them, each for many
// routes, with one message a step.
//
// A controller sees what the Python program shows it: np.float64 numbers, a named
// tuple State of np.float64, and a named tuple FuturePlan of lists of float. There
// is one Controller object for each route; the file is imported once in each
// process, so that what it keeps outside of its objects is shared by routes, as it
// is in the program when that runs a folder. Three things differ:
//
//   - A controller that draws from np.random's global stream fails. The program
//     draws the simulation from that stream, so such a controller changes it.
//   - What a controller prints goes to standard error.
//   - A column of a route file without a single decimal point is made of floats
//     in the plan too, where the program has int.
package pycontroller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep"
	"lockstep/internal/sandbox"
)

// Options say which controller runs, and how.
type Options struct {
	// File is the controller's, such as controllers/foo.py. If its folder is a
	// package, or named controllers, it runs in the folder above, as in a checkout
	// of the challenge; else in its own folder.
	File string

	// Source is what the file held when it was read; New reads it if this is nil.
	Source *Code

	// Python is the interpreter, which must have numpy and whatever the controller
	// imports; FindPython's if empty.
	Python string

	// Workers is the most processes that the routes of one chunk are spread over,
	// GOMAXPROCS if 0. A chunk of up to 64 routes has one process. Chunks that run
	// at the same time have processes of their own.
	Workers int

	// Timeout is how long a process may take to start, to make a controller, or to
	// answer for one step of its routes, before it is killed; DefaultTimeout if 0.
	Timeout time.Duration

	// Memory is the most bytes of data that a process may have, as many as there are
	// if 0: a controller that asks for more gets a MemoryError, and the machine stays
	// usable.
	Memory int64

	// Sandbox denies processes the network and all writing of files. New fails where the
	// machine cannot.
	Sandbox bool

	// Watch, if not nil, gets what the controller touches beyond its arguments.
	Watch *Watch

	// Stderr gets what controllers print, os.Stderr if nil. It is written to by
	// one goroutine at a time.
	Stderr io.Writer
}

// DefaultTimeout leaves time to import large libraries.
const DefaultTimeout = 60 * time.Second

// maxLate is how many chunks in a row that do not answer in time are enough: all
// others would wait as long, one after the other.
const maxLate = 3

// routesPerWorker is how many routes make another process worth its messages.
const routesPerWorker = 64

// closeGrace is how long processes may take to end on their own.
var closeGrace = 5 * time.Second

// FindPython returns the path of the Python that runs controllers: that of the
// environment variable LOCKSTEP_PYTHON, or python3 or python in PATH.
func FindPython() (string, error) {
	if python := os.Getenv("LOCKSTEP_PYTHON"); python != "" {
		path, err := LookUp(python)
		if err != nil {
			return "", fmt.Errorf("LOCKSTEP_PYTHON: %w", err)
		}
		return path, nil
	}
	for _, name := range []string{"python3", "python"} {
		if path, err := LookUp(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New(
		"no Python in PATH: install Python 3 with numpy, or set LOCKSTEP_PYTHON to one",
	)
}

// LookUp is exec.LookPath with an absolute path, since workers are started here
// and nowhere else.
func LookUp(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// An Error is what went wrong in a controller.
type Error struct {
	File      string // the controller's
	Message   string // one line, such as "ZeroDivisionError: division by zero"
	Traceback string // Python's, several lines; empty where there is none
}

func (e *Error) Error() string {
	if e.Traceback == "" {
		return e.File + ": " + e.Message
	}
	return e.File + ": " + e.Message + "\n" + e.Traceback
}

// errClosed is the answer of controllers that were closed, with a context's error if
// that ended them.
var errClosed = lockstep.Passing(errors.New("the Python controllers were closed"))

// Controllers are a controller's Python processes. Methods may be called from
// several goroutines. Close ends them.
type Controllers struct {
	options Options
	given   []byte // the source, as processes are given it
	policy  *lockstep.Batch
	unwatch func() bool // the context
	inputs  inputs

	mu     sync.Mutex
	closed error            // why they are, or nil
	late   int              // chunks in a row that did not answer in time
	all    map[*worker]bool // true for those that steer routes
	stderr sync.Mutex       // held while Options.Stderr is written to
}

// New starts a first process and loads the controller, to see that it can be. When
// ctx ends, all processes do, whatever they are at.
func New(ctx context.Context, options Options) (*Controllers, error) {
	c := &Controllers{options: options, all: map[*worker]bool{}, inputs: inputs{file: options.File}}
	o := &c.options
	if o.Sandbox {
		if err := sandbox.Available(); err != nil {
			return nil, fmt.Errorf("there is no sandbox here: %w", err)
		}
	}
	info, err := os.Stat(o.File)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir() || filepath.Ext(o.File) != ".py":
		return nil, fmt.Errorf(
			"%s: not a controller: want a Python file, such as controllers/foo.py", o.File,
		)
	}
	name := strings.TrimSuffix(filepath.Base(o.File), ".py")
	if strings.Contains(name, ".") || name == "" {
		return nil, fmt.Errorf(
			"%s: Python cannot import a file of this name: rename it to one without a dot "+
				"before .py",
			o.File,
		)
	}
	if o.Source == nil {
		if o.Source, err = ReadSource(o.File); err != nil {
			return nil, err
		}
	}
	c.given = o.Source.message()
	if o.Python == "" {
		o.Python, err = FindPython()
	} else {
		o.Python, err = LookUp(o.Python)
	}
	if err != nil {
		return nil, err
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
	c.policy = &lockstep.Batch{Name: name, File: o.File, SHA256: o.Source.SHA256(), New: c.newChunk}
	c.unwatch = context.AfterFunc(ctx, func() { c.end(fmt.Errorf("%w: %w", errClosed, ctx.Err())) })
	w, _, err := c.take(false)
	if err != nil {
		c.Close()
		return nil, err
	}
	c.policy.Made = c.inputs.made()
	c.give(w)
	return c, nil
}

// Policy is the policy of these controllers, always the same. Its name is that of
// the file, without .py.
func (c *Controllers) Policy() *lockstep.Batch { return c.policy }

// Python is the path of the interpreter.
func (c *Controllers) Python() string { return c.options.Python }

// Close ends all processes. Chunks that are still being steered fail.
func (c *Controllers) Close() error {
	c.unwatch()
	c.end(errClosed)
	return nil
}

func (c *Controllers) end(why error) {
	c.mu.Lock()
	if c.closed == nil {
		c.closed = why
	}
	all := c.all
	c.all = map[*worker]bool{}
	c.mu.Unlock()

	var group sync.WaitGroup
	for w, busy := range all {
		group.Go(func() {
			grace := closeGrace
			if busy {
				grace = 0
			}
			w.end(grace)
		})
	}
	group.Wait()
}

// whyClosed is why the processes were ended, or nil.
func (c *Controllers) whyClosed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// take returns a worker for the use of one chunk: one that is not in use, if
// reuse is set and there is one, else a new one. Nobody ever waits for another
// chunk's, so engines may run as many chunks at once as they like. Its errors are passing
// ones: the file was loaded once, and so can be.
func (c *Controllers) take(reuse bool) (w *worker, reused bool, err error) {
	c.mu.Lock()
	if c.closed != nil || c.late >= maxLate {
		defer c.mu.Unlock()
		if c.closed != nil {
			return nil, false, c.closed
		}
		return nil, false, lockstep.Passing(fmt.Errorf(
			"%s: given up, since %d times in a row there was no answer within %v",
			c.options.File, c.late, c.options.Timeout))
	}
	if reuse {
		for w, busy := range c.all {
			if !busy {
				c.all[w] = true
				c.mu.Unlock()
				return w, true, nil
			}
		}
	}
	c.mu.Unlock()

	if w, err = startWorker(&c.options, &c.inputs, &c.stderr); err != nil {
		return nil, false, lockstep.Passing(err)
	}
	c.mu.Lock()
	closed := c.closed
	if closed == nil {
		c.all[w] = true
	}
	c.mu.Unlock()
	if closed != nil {
		w.end(0)
		return nil, false, closed
	}
	if err := w.greet(c.given); err != nil {
		c.drop(w)
		return nil, false, cmp.Or(c.whyClosed(), lockstep.Passing(err))
	}
	return w, false, nil
}

// give takes a worker back.
func (c *Controllers) give(w *worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.all[w]; ok {
		c.all[w] = false
	}
}

// drop ends a worker that is of no more use.
func (c *Controllers) drop(w *worker) {
	c.mu.Lock()
	delete(c.all, w)
	c.mu.Unlock()
	w.end(0)
}

// ended counts the chunks that did not answer in time.
func (c *Controllers) ended(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late++; !errors.Is(why, errTimeout) {
		c.late = 0
	}
}

// newChunk is the policy's New.
func (c *Controllers) newChunk(routes []*lockstep.Route) (lockstep.BatchController, error) {
	n := max(1, min(c.options.Workers, (len(routes)+routesPerWorker-1)/routesPerWorker))
	parts := make([]*part, 0, n)
	from := 0
	for i := range n {
		to := len(routes) * (i + 1) / n
		parts = append(parts, &part{controllers: c, from: from, to: to})
		from = to
	}
	ch := &chunk{parts: parts}
	errs := make([]error, n)
	ch.each(func(i int, p *part) { errs[i] = p.start(routes[p.from:p.to]) })
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		ch.parts[i].failed = errs[i]
		ch.Close()
		return nil, errs[i]
	}
	return ch, nil
}
