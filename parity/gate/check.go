package gate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"lockstep/internal/guard"
	"lockstep/parity/verdict"
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
	if panicked := guard.Do(func() { err = f() }); panicked != nil {
		return panicked
	}
	return err
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

// maxLine bounds a line: the report of a comparison of some thousand rollouts.
const maxLine = 256 << 20

// program runs a program in a folder and gives each line of its standard output to
// line. An exit status is returned as it is; the error is of all else.
func program(ctx context.Context, c *verdict.Check, dir string, env []string, words []string, line func([]byte) error) (status int, err error) {
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	command.Dir, command.Env = dir, env
	// What a killed program started may hold its output open.
	command.WaitDelay = 5 * time.Second
	var stderr capture
	command.Stderr = &stderr
	output, into := io.Pipe()
	command.Stdout = into
	read := make(chan error, 1)
	go func() {
		err := protect(func() error {
			lines := bufio.NewScanner(output)
			lines.Buffer(nil, maxLine)
			for lines.Scan() {
				if err := line(lines.Bytes()); err != nil {
					return err
				}
			}
			return lines.Err()
		})
		output.Close() // what is printed beyond an error ends the program
		read <- err
	}()
	err = command.Run()
	into.Close()
	var exit *exec.ExitError
	switch bad := <-read; {
	case bad != nil:
		err = bad
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
