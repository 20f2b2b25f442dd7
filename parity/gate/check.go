package gate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"lockstep/internal/guard"
	"lockstep/parity/verdict"
)

// A step is a check that is to run.
type step struct {
	name, title string

	beside bool // of the others, not after them

	// run makes the check. A leaving is why it does not run after all.
	run func(ctx context.Context, c *verdict.Check) error
}

// A leaving is the reason why a check does not run.
type leaving string

func (l leaving) Error() string { return string(l) }

// execute runs a check and judges it. Whatever goes wrong in it is a failure of it.
func (s *step) execute(ctx context.Context, limit time.Duration, require []string) verdict.Check {
	c := verdict.Check{Name: s.name, Title: s.title, Cases: []verdict.Case{}} // and not null in JSON
	start := time.Now()
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := guard.Try(func() error { return s.run(limited, &c) })
	c.Seconds = time.Since(start).Seconds()
	if leave, ok := errors.AsType[leaving](err); ok {
		c.Outcome, c.Why = verdict.NotRun, leave.Error()
		return c
	}
	if limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("it did not end within %v", limit)
	}
	c.Judge(err, require)
	return c
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
	between    string // says that something is gone
}

func (c *capture) Write(p []byte) (int, error) {
	room := min(headKept-len(c.head), len(p))
	c.head = append(c.head, p[:room]...)
	c.tail = append(c.tail, p[room:]...)
	if surplus := len(c.tail) - tailKept; surplus > 0 {
		c.tail, c.between = slices.Delete(c.tail, 0, surplus), "\n[…]\n"
	}
	return len(p), nil
}

func (c *capture) String() string {
	return strings.ToValidUTF8(string(c.head)+c.between+string(c.tail), "\uFFFD")
}

// maxLine bounds a line: the report of a comparison of some thousand rollouts.
const maxLine = 256 << 20

// lines calls a function with each line that is written, up to its first error, which ends
// the program that writes.
type lines struct {
	call func([]byte) error
	part []byte // of a line that has not ended
	err  error
}

func (l *lines) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		l.part = append(l.part, line...)
		if whole, ended := bytes.CutSuffix(l.part, []byte("\n")); ended {
			l.err = guard.Try(func() error { return l.call(whole) })
			l.part = l.part[:0]
		}
		if len(l.part) > maxLine {
			l.err = bufio.ErrTooLong
		}
		if l.err != nil {
			return 0, l.err
		}
	}
	return len(p), nil
}

// program runs a program in a folder and gives each line of its standard output to
// line. An exit status is returned as it is; the error is of all else.
func program(ctx context.Context, c *verdict.Check, dir string, env []string, words []string, line func([]byte) error) (status int, err error) {
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	command.Dir, command.Env = dir, env
	command.WaitDelay = 5 * time.Second // what it started may hold its output open
	output, stderr := lines{call: line}, capture{}
	command.Stdout, command.Stderr = &output, &stderr
	err = command.Run()
	if output.err == nil && len(output.part) > 0 {
		output.Write([]byte("\n")) // which the last line may lack
	}
	exit, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case output.err != nil:
		err = output.err
	case ended && exit.Exited():
		status, err = exit.ExitCode(), nil
	case ended:
		err = fmt.Errorf("it crashed: %v", err)
	}
	if status != 0 || err != nil {
		c.Output = stderr.String()
	}
	return status, err
}
