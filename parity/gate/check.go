package gate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"lockstep/parity/verdict"
	"os/exec"
	"runtime/debug"
	"strings"
	"time"
)

// A step is a check that is to run.
type step struct {
	name, title string

	beside bool // of the others, not after them

	// leave, if not empty, says why the check does not run.
	leave string
	run   func(ctx context.Context, c *verdict.Check) error
}

// execute runs a check and judges it. Whatever goes wrong in it is a failure of it.
func (s *step) execute(ctx context.Context, limit time.Duration, require []string) verdict.Check {
	c := verdict.Check{Name: s.name, Title: s.title, Cases: []verdict.Case{}} // and not null in JSON
	if s.leave != "" {
		c.Outcome, c.Why = verdict.NotRun, s.leave
		return c
	}
	start := time.Now()
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := protect(func() error { return s.run(limited, &c) })
	c.Seconds = time.Since(start).Seconds()
	var leave leaving
	if errors.As(err, &leave) {
		c.Outcome, c.Why = verdict.NotRun, leave.Error()
		return c
	}
	if limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("it did not end within %v", limit)
	}
	c.Judge(err, require)
	return c
}

// protect turns a panic into an error.
func protect(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// How much of a program's output is kept: a crash is told at its beginning, all else
// at its end.
const (
	headKept = 4 << 10
	tailKept = 12 << 10
)

// capture keeps the beginning and the end of what is written.
type capture struct {
	head, tail []byte
	cut        bool // something between them is gone
}

func (c *capture) Write(p []byte) (int, error) {
	n := len(p)
	room := min(headKept-len(c.head), n)
	c.head = append(c.head, p[:room]...)
	c.tail = append(c.tail, p[room:]...)
	if len(c.tail) > 2*tailKept {
		c.trim()
	}
	return n, nil
}

func (c *capture) trim() {
	if surplus := len(c.tail) - tailKept; surplus > 0 {
		c.tail = append(c.tail[:0], c.tail[surplus:]...)
		c.cut = true
	}
}

func (c *capture) String() string {
	c.trim()
	between := ""
	if c.cut {
		between = "\n[…]\n"
	}
	return strings.ToValidUTF8(string(c.head)+between+string(c.tail), "\uFFFD")
}

// firstLine is that of a text that has something in it.
func firstLine(text string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return first
}

// program runs a program in a folder and gives each line of its standard output to
// line. An exit status is returned as it is; the error is of all else.
func program(ctx context.Context, c *verdict.Check, dir string, env []string, words []string, line func([]byte) error) (status int, err error) {
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	command.Dir, command.Env = dir, env
	// What a killed program started may hold its output open.
	command.WaitDelay = 5 * time.Second
	var stderr capture
	command.Stderr = &stderr
	// Lines are taken on a goroutine of the command's, where nobody else recovers.
	lines := &lineWriter{line: func(b []byte) error { return protect(func() error { return line(b) }) }}
	command.Stdout = lines
	err = command.Run()
	if lines.err == nil {
		lines.finish()
	}
	var exit *exec.ExitError
	switch {
	case lines.err != nil:
		err = lines.err
	case errors.As(err, &exit) && exit.Exited():
		status, err = exit.ExitCode(), nil
	case errors.As(err, &exit):
		err = fmt.Errorf("it crashed: %v", err)
	}
	if status != 0 || err != nil {
		c.Output = stderr.String()
	}
	return status, err
}

// lineWriter calls a function with each line.
type lineWriter struct {
	line func([]byte) error
	part []byte
	err  error
}

// maxLine bounds a line: the report of a comparison of some thousand rollouts.
const maxLine = 256 << 20

func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for w.err == nil && len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			if w.part = append(w.part, p...); len(w.part) > maxLine {
				w.err = errors.New("a line without an end")
			}
			break
		}
		w.err = w.line(append(w.part, p[:i]...))
		w.part, p = w.part[:0], p[i+1:]
	}
	if w.err != nil {
		return 0, w.err
	}
	return n, nil
}

func (w *lineWriter) finish() {
	if len(w.part) > 0 {
		w.err = w.line(w.part)
	}
}
