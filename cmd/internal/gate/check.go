package gate

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"lockstep/cmd/internal/gate/internal/testlog"
	"lockstep/internal/group"
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
	c := verdict.Check{
		Name:  s.name,
		Title: s.title,
		Cases: []verdict.CheckCase{},
	} // and not null in JSON
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
func program(
	ctx context.Context, c *verdict.Check, dir string, env []string, words []string,
	line func([]byte) error,
) (status int, err error) {
	command := group.Command(ctx, words[0], words[1:]...)
	command.Dir, command.Env = dir, env
	command.WaitDelay = 5 * time.Second // what it started may hold its output open
	output, stderr := lines{call: line}, testlog.Capture{}
	command.Stdout, command.Stderr = &output, &stderr
	err = command.Run()
	if command.Process != nil {
		group.Kill(command.Process) // what it has started and left behind
	}
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

// goTest runs tests of packages of the module, never from the cache: that does not
// know of libraries and programs which tests load.
func goTest(ctx context.Context, c *verdict.Check, dir string, env []string, args ...string) error {
	words := append(
		[]string{"go", "test", "-json", "-count=1", "-timeout=0"},
		args...) // the gate has its own limit
	c.Command = "go test -count=1 " + strings.Join(args, " ")
	var log testlog.Log
	status, err := program(ctx, c, dir, env, words, log.Line)
	c.Cases = append(c.Cases, log.Cases()...)
	if err != nil {
		return err
	}
	if status != 0 && c.Count(verdict.Failed) == 0 {
		return fmt.Errorf("go test ended with status %d, and no test has failed", status)
	}
	return nil
}

// testRuns are what go test prints when it runs several times, perhaps of the same packages.
type testRuns []*testRun

type testRun struct {
	log      testlog.Log
	packages map[string]bool
}

// line takes one line of go test -json. A package that begins again is another run's.
func (r *testRuns) line(data []byte) error {
	var event struct{ Action, Package string }
	if err := json.Unmarshal(data, &event); err != nil {
		return fmt.Errorf("go test -json printed %.200q: %w", data, err)
	}
	if runs := *r; len(runs) == 0 ||
		event.Action == "start" && runs[len(runs)-1].packages[event.Package] {
		*r = append(runs, &testRun{packages: map[string]bool{}})
	}
	last := (*r)[len(*r)-1]
	last.packages[event.Package] = true
	return last.log.Line(data)
}

// cases are those of all runs. One is added, which fails, for each package that must pass and
// does not occur, or of which nothing passed in a run and nothing says what it lacked.
func (r testRuns) cases(passing []string) (all []verdict.CheckCase) {
	told := map[string]bool{}
	for _, run := range r {
		cases := run.log.Cases()
		all = append(all, cases...)
		for _, folder := range passing {
			name := modulePath + "/" + folder
			told[name] = told[name] || run.packages[name]
			counts := func(k verdict.CheckCase) bool {
				return k.Class == name && (k.Outcome != verdict.NotRun || k.Lacks != "")
			}
			if run.packages[name] && !slices.ContainsFunc(cases, counts) {
				all = append(
					all,
					verdict.CheckCase{
						Class:   name,
						Name:    "package",
						Outcome: verdict.Failed,
						Message: "none of its tests was run",
					},
				)
			}
		}
	}
	for _, folder := range passing {
		if name := modulePath + "/" + folder; !told[name] {
			all = append(
				all,
				verdict.CheckCase{
					Class:   name,
					Name:    "package",
					Outcome: verdict.Failed,
					Message: "go test was not run in it",
				},
			)
		}
	}
	return all
}

// modulePath is what import paths begin with.
const modulePath = "lockstep"
