// Package fuzzing makes the fuzz targets of a package work as one types them:
// `go test -fuzz FuzzX`, without the flags that one would have to know of.
package fuzzing

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// minimize is how many executions may go into shortening one input. Go's own default is a
// minute for each, and a property that draws from the input finds new coverage all the time:
// then nothing else is done.
const minimize = "10x"

// mark is the flag by which a worker process knows the file that says that an execution ended.
const mark = "fuzzing.ended"

var endedFile = flag.String(mark, "", "internal: a file to be made when an execution has ended")

// Main is m.Run for the TestMain of a package with fuzz targets. With -fuzz it runs the one
// target that is meant and not the package's tests before it, unless -run asks for them. It
// fails if the pattern means no target or several, and if no execution came to its end.
func Main(m *testing.M) int {
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["test.fuzz"] || given["test.fuzzworker"] || given["test.list"] {
		return m.Run()
	}
	status, err := fuzz(m, flag.Lookup("test.fuzz").Value.String(), given)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

func fuzz(m *testing.M, pattern string, given map[string]bool) (int, error) {
	targets, err := matching(pattern)
	if err != nil {
		return 0, err
	}
	if len(targets) != 1 {
		return 0, choose(pattern, targets)
	}
	for name, value := range map[string]string{
		"test.fuzzminimizetime": minimize,
		"test.run":              "^$",
	} {
		if given[name] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			return 0, err
		}
	}
	if !given["test.run"] {
		fmt.Fprintf(
			os.Stderr,
			"fuzzing %s; the tests of its package are not run before it (-run . runs them)\n",
			targets[0])
	}
	dir, err := os.MkdirTemp("", "lockstep-fuzzing-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	// Go starts its workers with the arguments of this process.
	ended := filepath.Join(dir, "ended")
	os.Args = slices.Insert(slices.Clone(os.Args), 1, "-"+mark+"="+ended)
	status := m.Run()
	if _, err := os.Stat(ended); err != nil { // Go ends with either status when time has run out
		return 0, fmt.Errorf(
			"%s: no execution came to its end: if none failed, nothing was found out: give it "+
				"more time with -fuzztime",
			targets[0],
		)
	}
	return status, nil
}

// matching are the fuzz targets of this program that a pattern of -fuzz means.
func matching(pattern string) (targets []string, err error) {
	name, _, _ := strings.Cut(pattern, "/") // what follows would be of subtests
	list := exec.Command(os.Args[0], "-test.list="+name)
	var problem bytes.Buffer
	list.Stderr = &problem
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("-fuzz %s: %w: %s", pattern, err, bytes.TrimSpace(problem.Bytes()))
	}
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "Fuzz") {
			targets = append(targets, line)
		}
	}
	return targets, nil
}

// choose says what to type where a pattern does not mean one target.
func choose(pattern string, targets []string) error {
	if len(targets) > 0 {
		return fmt.Errorf(
			"-fuzz %s means %d targets, and go test fuzzes one at a time: type -fuzz '^%s$', or "+
				"another of %s; make fuzz runs all",
			pattern, len(targets), targets[0], strings.Join(targets[1:], ", "),
		)
	}
	all, err := matching(".")
	if err != nil {
		return err
	}
	return fmt.Errorf("-fuzz %s means no target: there are %s", pattern, strings.Join(all, ", "))
}

// Ended says that an execution of a fuzz target has come to its end.
var Ended = sync.OnceFunc(func() {
	if *endedFile == "" {
		return
	}
	if err := os.WriteFile(*endedFile, nil, 0o666); err != nil {
		panic(err)
	}
})
