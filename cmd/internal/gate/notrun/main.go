// Command notrun reads the logs of go test -json and names what was not run for want of
// something. With -run it runs what one thing was missing for, now that it is here; with
// -origin it prints the first line of a log that begins now, and with -together how many packages
// to test at once.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	"lockstep/cmd/internal/gate/internal/testlog"
	"lockstep/internal/want"
	"lockstep/parity/verdict"
)

func main() {
	run := flag.String("run", "", "run what was not run for want of this, which must be here now")
	out := flag.String("out", "", "with -run, the file for the log of it")
	origin := flag.Bool(
		"origin", false, "print the first line of a log of tests with the flags that are given",
	)
	together := flag.Bool(
		"together", false, "print how many packages to test at once: one more than there are "+
			"processors, since some wait",
	)
	flag.Parse()
	if *together {
		fmt.Println(runtime.GOMAXPROCS(0) + 1)
		return
	}
	if *origin {
		line, err := testlog.Here(context.Background(), ".", strings.Join(flag.Args(), " "))
		end(err)
		os.Stdout.Write(line)
		return
	}
	cases, _, err := testlog.ReadFiles("", flag.Args()...)
	switch {
	case err != nil:
	case *run == "":
		tell(os.Stdout, cases)
	default:
		err = again(os.Stdout, cases, *run, *out)
	}
	end(err)
}

// end ends the program if something went wrong.
func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "notrun:", err)
		os.Exit(1)
	}
}

// tell prints the names of what was not run, by want and by package.
func tell(w io.Writer, cases []verdict.CheckCase) {
	lacking := testlog.NotRun(cases)
	for _, of := range want.All {
		if len(lacking[of.Name]) == 0 {
			continue
		}
		fmt.Fprintf(
			w, "%d tests were not run for want of %s, %s: `lockstep doctor` says what is missing",
			len(lacking[of.Name]), of.Name, of.What,
		)
		last := ""
		for _, c := range lacking[of.Name] {
			if c.Class != last {
				fmt.Fprintf(w, "\n  %s:", strings.TrimPrefix(c.Class, "lockstep/"))
				last = c.Class
			}
			fmt.Fprint(w, " ", c.Name)
		}
		fmt.Fprintln(w)
	}
}

// again runs what was not run for want of one thing, and writes its log.
func again(w io.Writer, cases []verdict.CheckCase, name, out string) error {
	of := want.ByName(name)
	if of == nil || out == "" {
		return fmt.Errorf(
			"-run %q -out %q: want one of %s, and a file", name, out,
			strings.Join(want.Names(), ", "),
		)
	}
	where, err := of.Find()
	if err != nil {
		return fmt.Errorf("%s is not here: %w", of.What, err)
	}
	asked := testlog.NotRun(cases)[name]
	fmt.Fprintf(w, "%d tests wanted %s, and run now with %s\n", len(asked), name, where)
	if len(asked) == 0 {
		return errors.New("nothing was not run for want of " + name)
	}
	origin, err := testlog.Here(context.Background(), ".", "")
	if err != nil {
		return err
	}
	log, err := runAll(testlog.Again(asked), append(os.Environ(), of.Variable()+"=1"))
	err = errors.Join(err, os.WriteFile(out, append(origin, log...), 0o666))
	read, e := testlog.Read(bytes.NewReader(log))
	if e != nil {
		return errors.Join(err, e)
	}
	ran := read.Cases()
	check := verdict.Check{Cases: ran}
	check.Judge(errors.Join(err, testlog.Missing(asked, ran)), []string{name})
	check.Name, check.Title = "tests that wanted "+name, "in "+out
	if e := check.WriteText(w); e != nil {
		return e
	}
	if check.Outcome != verdict.Passed {
		return errors.New(check.Why)
	}
	return nil
}

// runAll runs the commands, as many at a time as there are processors, and returns what
// they print. One that fails says so in its log.
func runAll(commands []testlog.Command, env []string) (log []byte, err error) {
	var all sync.WaitGroup
	var mutex sync.Mutex
	turn := make(chan bool, runtime.GOMAXPROCS(0))
	for _, one := range commands {
		turn <- true
		all.Go(func() {
			defer func() { <-turn }()
			var stderr testlog.Capture
			c := exec.Command(
				"go", "test", "-json", "-count=1", "-timeout=30m", one.Package, "-run", one.Pattern,
			)
			c.Env, c.Stderr = env, &stderr
			printed, e := c.Output()
			mutex.Lock()
			defer mutex.Unlock()
			log = append(log, printed...)
			if e != nil {
				err = errors.Join(
					err, fmt.Errorf("%s: %w: %s", strings.Join(c.Args, " "), e, stderr.String()),
				)
			}
		})
	}
	all.Wait()
	return log, err
}
