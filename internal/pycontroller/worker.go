package pycontroller

import (
	"bufio"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockstep"
	"lockstep/internal/group"
	"lockstep/internal/plain"
	"lockstep/internal/sandbox"
)

//go:embed worker.py
var script string

var (
	errTimeout = errors.New("no answer")
	errGarbled = errors.New("the answer makes no sense")
)

// stackGrace is how long a process that hangs may take to say where.
const stackGrace = time.Second

// maxAnswer bounds what is believed to be an answer's length.
const maxAnswer = 1 << 30

// worker is a Python process. Its methods other than end are for one goroutine at
// a time. worker.py describes the messages.
type worker struct {
	options *Options
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	seen    *sight // what Options.Watch gets, or nil
	stderr  *tail
	inputs  *inputs
	answer  []byte

	once  sync.Once
	ended atomic.Bool // waited for: the number may be another process's
}

// startWorker starts a process, which is still to be greeted.
func startWorker(o *Options, inputs *inputs, stderr *sync.Mutex) (*worker, error) {
	w := &worker{
		options: o,
		inputs:  inputs,
		stderr:  &tail{lock: stderr, out: plain.NewWriter(o.Stderr)},
	}
	w.command = exec.Command(o.Python, "-u", "-X", "faulthandler",
		"-c", script, o.Source.path, strconv.FormatInt(o.Memory, 10))
	w.command.Stderr, w.command.Env = w.stderr, environment()
	w.command.WaitDelay = time.Second // for children of the controller's that keep stderr open
	group.Set(w.command)
	var err error
	if w.seen, err = o.Watch.prepare(w.command); err != nil {
		return nil, err
	}
	err = w.run()
	w.seen.started(err)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// run starts the process with pipes to it.
func (w *worker) run() (err error) {
	if w.in, err = w.command.StdinPipe(); err != nil {
		return err
	}
	out, err := w.command.StdoutPipe()
	if err != nil {
		return err
	}
	w.out = bufio.NewReader(out)
	start := w.command.Start
	if w.options.Sandbox {
		start = func() error { return sandbox.Start(w.command.Start) }
	}
	if err := start(); err != nil {
		return fmt.Errorf("Python cannot be run: %w", err)
	}
	return nil
}

// greet gives the process its source, and reads what it answers to it.
func (w *worker) greet(source []byte) error {
	answer, err := w.ask(source)
	if err == nil {
		var failed error
		if err = w.eachError(answer, 1, func(_ int, err error) { failed = err }); err == nil {
			err = failed
		}
	}
	if err != nil {
		return fmt.Errorf("run by %s: %w", w.options.Python, err)
	}
	return nil
}

// ask sends a message and returns the answer, which is valid until the next call.
// After an error the process has ended.
func (w *worker) ask(message []byte) ([]byte, error) {
	expired := make(chan struct{})
	timer := time.AfterFunc(w.options.Timeout, func() {
		defer close(expired)
		if group.AskForStack(w.command.Process) {
			time.Sleep(stackGrace)
		}
		if !w.ended.Load() {
			group.Kill(w.command.Process)
		}
	})
	err := w.exchange(message)
	if !timer.Stop() {
		<-expired
		err = fmt.Errorf("%w within %v", errTimeout, w.options.Timeout)
	}
	if err != nil {
		return nil, w.lost(err)
	}
	return w.answer, nil
}

func (w *worker) exchange(message []byte) error {
	var length [4]byte
	binary.LittleEndian.PutUint32(length[:], uint32(len(message)))
	if _, err := w.in.Write(length[:]); err != nil {
		return err
	}
	if _, err := w.in.Write(message); err != nil {
		return err
	}
	if _, err := io.ReadFull(w.out, length[:]); err != nil {
		return err
	}
	n := int(binary.LittleEndian.Uint32(length[:]))
	if n > maxAnswer {
		return errGarbled
	}
	if cap(w.answer) < n {
		w.answer = make([]byte, n)
	}
	w.answer = w.answer[:n]
	_, err := io.ReadFull(w.out, w.answer)
	return err
}

// eachError reads the errors of an answer for n routes, and what inputs came with it.
func (w *worker) eachError(answer []byte, n int, f func(route int, err error)) error {
	r := reader{data: answer}
	for range r.uint32() {
		route, memory, message, traceback := r.uint32(), r.uint32(), r.text(), r.text()
		if r.short || route >= n {
			return w.lost(errGarbled)
		}
		var failed error = &Error{
			File: w.options.File, Message: plain.Text(message), Traceback: plain.Text(traceback),
		}
		if memory != 0 { // of which this process had less than another may have
			failed = lockstep.Passing(failed)
		}
		f(route, failed)
	}
	var changed error
	for range r.uint32() {
		name, now := r.text(), r.text()
		if r.short {
			break
		}
		if err := w.inputs.add(name, now); changed == nil {
			changed = err
		}
	}
	if r.short || len(r.data) > 0 {
		return w.lost(errGarbled)
	}
	return changed
}

// reader takes an answer apart. Once it was too short, all is zero.
type reader struct {
	data  []byte
	short bool
}

func (r *reader) uint32() int {
	b := r.take(4)
	if b == nil {
		return 0
	}
	return int(binary.LittleEndian.Uint32(b))
}

func (r *reader) text() string { return string(r.take(r.uint32())) }

func (r *reader) take(n int) []byte {
	if n > len(r.data) {
		r.short, r.data = true, nil
		return nil
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

// lost ends a process that failed to answer, and says how it ended and what it
// said last.
func (w *worker) lost(err error) error {
	w.end(closeGrace)
	if !errors.Is(err, errTimeout) && !errors.Is(err, errGarbled) {
		err = fmt.Errorf("the Python process has ended: %v", w.command.ProcessState)
	}
	e := &lostError{err: err, text: fmt.Sprintf("%s: %v", w.options.File, err)}
	if last := w.stderr.lines(); last != "" {
		e.text += "; its last lines:\n" + last
	}
	return lockstep.Passing(e)
}

// lostError is the end of a process.
type lostError struct {
	err  error
	text string
}

func (e *lostError) Error() string { return e.text }
func (e *lostError) Unwrap() error { return e.err }

// end ends the process: its pipe is closed, and after the grace it is killed.
// When end returns the process is gone. It may be called more than once, from
// several goroutines.
func (w *worker) end(grace time.Duration) {
	w.once.Do(func() {
		timer := time.AfterFunc(grace, func() { group.Kill(w.command.Process) })
		w.in.Close()
		w.command.Wait()
		w.ended.Store(true)
		timer.Stop()
		group.Kill(w.command.Process) // what it has started and left behind
		w.seen.ended()
	})
}

// tail passes on what it is given, without what a terminal would obey, and keeps the last of it.
type tail struct {
	lock *sync.Mutex // of out
	out  io.Writer
	last []byte
}

// tailBytes and tailLines bound what errors quote.
const (
	tailBytes = 4096
	tailLines = 20
)

// Write never fails: a controller may go on when nobody can read what it prints.
func (t *tail) Write(p []byte) (int, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.out.Write(p)
	t.last = append(t.last, p...)
	if n := len(t.last); n > 2*tailBytes {
		t.last = append(t.last[:0], t.last[n-tailBytes:]...)
	}
	return len(p), nil
}

// lines returns the last lines.
func (t *tail) lines() string {
	t.lock.Lock()
	defer t.lock.Unlock()
	last := strings.TrimSpace(string(t.last[max(0, len(t.last)-tailBytes):]))
	lines := strings.Split(last, "\n")
	return plain.Text(strings.Join(lines[max(0, len(lines)-tailLines):], "\n"))
}
