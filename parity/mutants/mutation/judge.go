package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"lockstep/internal/group"
)

// A test is one of a program's, with what it needs when no mutant is chosen and which it reaches.
type test struct {
	in      *program
	name    string // as go test -run has it, if it has a slash
	seconds float64
	work    time.Duration // that processors spend on it
	reached []byte
}

const (
	patience = 10  // how many times its own time a test may take with a mutant
	cheap    = 0.5 // seconds that tests take together which are run at once
	attempts = 4   // to tell a mutant that is late from a machine that is busy

	unknown = "NOT JUDGED" // the machine was too busy
)

// grace is given besides, since others use the machine, too.
var grace = 5 * time.Second

// start runs tests of a program with a mutant, or with none (-1): what they print, if they fail,
// and how long processors worked on it.
func (p *program) start(
	names []string, mutant int, reached string, limit time.Duration,
) (string, time.Duration, error) {
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	// A mutant that allocates without end is not to take the machine's memory.
	args := append([]string{"-c", `ulimit -d 6000000; exec "$0" "$@"`, p.path, "-test.failfast",
		"-test.run", expression(names)}, p.flags...)
	cmd := group.Command(ctx, "sh", args...)
	cmd.Dir = p.dir
	cmd.Env = append(
		os.Environ(), fmt.Sprintf("LOCKSTEP_MUTANT=%d", mutant),
		"LOCKSTEP_MUTANTS_REACHED="+reached,
	)
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	var work time.Duration
	if cmd.ProcessState != nil {
		work = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return out.String(), work, err
}

// expression is what go test -run has of some tests, or of some cases of one.
func expression(names []string) string {
	if len(names) == 1 && strings.Contains(names[0], "/") {
		parts := strings.Split(names[0], "/")
		for i := range parts {
			parts[i] = "^(" + parts[i] + ")$"
		}
		return strings.Join(parts, "/")
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return "^(" + strings.Join(quoted, "|") + ")$"
}

// record runs each test alone, without a mutant: its time, and the mutants that it reaches.
func (b *build) record(
	programs []program, leave *regexp.Regexp, over func() bool,
) (tests []test, err error) {
	for i := range programs {
		p := &programs[i]
		names, err := p.tests()
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if leave != nil && leave.MatchString(name) {
				continue
			}
			if over() {
				return nil, unfit("the time was over before each of its tests had run once")
			}
			t := test{in: p, name: name}
			path := filepath.Join(b.work, "reached")
			if err := os.WriteFile(path, make([]byte, max(len(b.mutants), 1)), 0o600); err != nil {
				return nil, err
			}
			begin := time.Now()
			out, work, err := p.start([]string{name}, -1, path, 5*time.Minute)
			if err != nil {
				return nil, fmt.Errorf(
					"%s of %s fails without a mutant (--leave leaves tests out): %w: %s", name,
					p.dir, err, out,
				)
			}
			t.seconds, t.work = time.Since(begin).Seconds(), work
			if t.reached, err = os.ReadFile(path); err != nil {
				return nil, err
			}
			if len(p.only) > 0 && !bytes.Contains(t.reached, []byte{1}) {
				fmt.Printf("%s of %s helps nobody: it reaches no mutant\n", name, p.dir)
			}
			tests = append(tests, t)
		}
	}
	slices.SortStableFunc(tests, func(a, b test) int { return int(1e6 * (a.seconds - b.seconds)) })
	return tests, nil
}

// tests are those of a program that judge.
func (p *program) tests() ([]string, error) {
	if len(p.only) > 0 {
		return p.only, nil
	}
	cmd := exec.Command(p.path, "-test.list", "^(Test|Example|Fuzz)")
	cmd.Dir = p.dir
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("which tests %s has: %w", p.dir, err)
	}
	return strings.Fields(string(out)), nil
}

// judge says whether the tests that reach a mutant see it: those that cost least first.
func judge(tests []test, m int) (status string, err error) {
	status = "NOT COVERED"
	var batches []batch
	for _, t := range tests {
		if t.reached[m] == 0 {
			continue
		}
		status = "LIVED"
		i := slices.IndexFunc(
			batches,
			func(b batch) bool {
				alone := strings.Contains(t.name+b.names[0], "/")
				return b.in == t.in && !alone && b.seconds+t.seconds < cheap
			},
		)
		if i < 0 {
			i, batches = len(batches), append(batches, batch{in: t.in})
		}
		batches[i].names = append(batches[i].names, t.name)
		batches[i].seconds += t.seconds
		batches[i].work += t.work
	}
	for _, b := range batches {
		if seen, err := b.judge(m); err != nil || seen != "" {
			return seen, err
		}
	}
	return status, nil
}

// A batch is tests that are run at once.
type batch struct {
	in      *program
	names   []string
	seconds float64
	work    time.Duration
}

// judge says how a mutant is seen, if it is. One that is late is seen if processors worked on it
// for as long as it may take, or if the same tests without it are in time before it is late again:
// a busy machine is late with either.
func (b *batch) judge(m int) (status string, err error) {
	limit := time.Duration(patience*b.seconds*float64(time.Second)) + grace
	for control := false; ; control = true {
		var exit *exec.ExitError
		_, work, err := b.in.start(b.names, m, "", limit)
		switch {
		case errors.As(err, &exit):
			return "KILLED", nil
		case !errors.Is(err, context.DeadlineExceeded):
			return "", err
		case control || work > patience*b.work+grace/2:
			return "TIMED OUT", nil
		}
		if limit, err = b.control(limit); err != nil || limit == 0 {
			return unknown, err
		}
	}
}

// control runs the tests without a mutant, and returns a limit that they keep easily; 0 if the
// machine is too busy for any.
func (b *batch) control(limit time.Duration) (time.Duration, error) {
	for range attempts {
		begin := time.Now()
		_, _, err := b.in.start(b.names, -1, "", limit)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return 0, fmt.Errorf("%q of %s fail without a mutant: %w", b.names, b.in.dir, err)
		}
		if err == nil && time.Since(begin) < limit/2 {
			return limit, nil
		}
		limit *= 2
	}
	return 0, nil
}

// sample is some of so many mutants, in an order that a seed decides.
func sample(all []int, most int, seed uint64) []int {
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(len(all), most)]
}
