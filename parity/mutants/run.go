package mutants

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/internal/group"
	"lockstep/parity/verdict"
)

// A Sighting is what the harness says of one implementation.
type Sighting struct {
	Caught   bool   `json:"caught"`
	Stage    string `json:"stage"`    // the stage it names
	Check    string `json:"check"`    // what it was doing
	Rollouts int    `json:"rollouts"` // compared until then
	Steps    int    `json:"steps"`
	Detail   string `json:"detail"` // or the test that failed
}

// FindRoot is the folder of the module's source that holds a folder, found by its
// go.mod.
func FindRoot(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	for d, last := dir, ""; err == nil && d != last; d, last = filepath.Dir(d), d {
		if data, _ := os.ReadFile(filepath.Join(d, "go.mod")); bytes.HasPrefix(
			data, []byte("module lockstep\n"),
		) {
			return d, nil
		}
	}
	return "", cmp.Or(err, fmt.Errorf("%s is not inside lockstep's source", dir))
}

// Plant runs the harness first on the module as it is, which must find nothing, then
// with each fault, two at a time or as many as half of the cores. It calls report, which
// may be nil, for each as it is done. It plants nothing if one of the faults no longer
// fits the code; with another error comes the score of what was done until then. If keep
// names a file, that is kept there, and is not done again while the sources are the same.
func Plant(
	ctx context.Context, root string, faults []Fault, keep string, report func(verdict.Mutant),
) (*verdict.Score, error) {
	score := &verdict.Score{}
	if len(faults) == 0 {
		return score, errors.New("no fault is selected")
	}
	var stale []error
	for _, f := range faults {
		_, err := f.patched(root)
		stale = append(stale, err)
		score.Mutants = append(score.Mutants, f.mutant(Sighting{}, errors.New("it was not tried")))
	}
	if err := errors.Join(stale...); err != nil {
		return score, err
	}
	ledger, err := openLedger(keep, root)
	if err != nil {
		return score, err
	}
	score.Commit = commitOf(ctx, root)
	for _, f := range bare(faults) {
		if err := f.alarm(ctx, root, ledger); ctx.Err() != nil {
			return score, ctx.Err()
		} else if err != nil {
			score.Alarms = append(score.Alarms, err.Error())
		} else {
			score.Clean = append(score.Clean, f.Name)
		}
	}
	known := maps.Clone(ledger.Known)
	var mutex sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 2))
	for i, f := range faults {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			m, tried := known[f.Name]
			if !tried {
				m = f.plant(ctx, root)
			}
			mutex.Lock()
			defer mutex.Unlock()
			if score.Mutants[i] = m; tried {
				score.Known++
			} else {
				err = cmp.Or(err, ledger.add(m))
			}
			if report != nil {
				report(m)
			}
		})
	}
	group.Wait()
	return score, cmp.Or(ctx.Err(), err)
}

// commitOf names the commit of a module and says whether files differ from it; "" where Git
// does not know.
func commitOf(ctx context.Context, root string) string {
	command := exec.CommandContext(
		ctx, "git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty= with changes",
	)
	command.Dir = root
	name, err := command.Output()
	if err != nil {
		return ""
	}
	return "commit " + strings.TrimSpace(string(name))
}

// plant tries a fault.
func (f *Fault) plant(ctx context.Context, root string) verdict.Mutant {
	start := time.Now()
	v, err := f.try(ctx, root)
	m := f.mutant(v, err)
	m.Seconds = time.Since(start).Seconds()
	return m
}

// bare are what the faults are in, without a fault: engines, then packages by their names.
func bare(faults []Fault) (all []Fault) {
	for _, f := range faults {
		b := Fault{
			Name:   cmp.Or(f.Test, strings.TrimSpace(f.Probe+" "+f.Engine)),
			Test:   f.Test,
			Probe:  f.Probe,
			Engine: f.Engine,
		}
		if !slices.ContainsFunc(all, func(a Fault) bool { return a.Name == b.Name }) {
			all = append(all, b)
		}
	}
	slices.SortStableFunc(all, func(a, b Fault) int { return cmp.Compare(a.Test, b.Test) })
	return all
}

// alarm is what the harness finds where there is no fault, or that it compared nothing.
func (f *Fault) alarm(ctx context.Context, root string, l *ledger) error {
	if _, clean := l.Known[f.Name]; clean {
		return nil
	}
	v, err := f.try(ctx, root)
	if err := f.falseAlarm(v, err); err != nil {
		return err
	}
	return l.add(f.mutant(v, nil))
}

// falseAlarm is what a run without the fault finds, or nil.
func (f *Fault) falseAlarm(v Sighting, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", f.Name, err)
	case v.Caught && f.Test != "":
		return fmt.Errorf("%s, without a fault: %s fails", f.Name, v.Detail)
	case v.Caught:
		return fmt.Errorf(
			"%s, without a fault: stage %s, %s: %s", f.Name, v.Stage, v.Check, v.Detail,
		)
	case f.Test == "" && v.Steps == 0:
		return fmt.Errorf("%s: nothing was compared", f.Name)
	}
	return nil
}

// mutant is what became of the fault. Tests name what they see themselves.
func (f *Fault) mutant(v Sighting, err error) verdict.Mutant {
	m := verdict.Mutant{
		Name:     f.Name,
		Title:    f.Title,
		Engine:   f.Engine,
		Stage:    f.Stage,
		Caught:   v.Caught,
		Rollouts: v.Rollouts,
		Steps:    v.Steps,
	}
	if err != nil {
		m.Caught, m.Error = false, err.Error()
	}
	if m.Caught {
		m.Named = v.Stage
	}
	m.Right = m.Caught && m.Named == m.Stage
	if f.Test != "" {
		m.Stage, m.Named, m.Right = "tests", v.Detail, m.Caught
	}
	return m
}

// patience bounds one fault: one that makes a program hang must not hang the rest.
const patience = 10 * time.Minute

// variants lists the kernels that are made. A probe launches one, which compiles in a
// fifth of the time.
const (
	variants       = "gpu/internal/kernels/variants.h"
	probedVariants = "#define LOCKSTEP_VARIANTS(V) V(2)\n"
)

// try plants a fault in a copy and runs the tests that must see it: those of its
// package, or a TestProbe.
func (f *Fault) try(ctx context.Context, root string) (v Sighting, err error) {
	if err := ctx.Err(); err != nil {
		return v, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	dir, err := os.MkdirTemp("", "lockstep-fault-")
	if err != nil {
		return v, err
	}
	defer os.RemoveAll(dir)
	contents, err := f.patched(root)
	if err != nil {
		return v, err
	}
	folder, name, _ := strings.Cut(f.Test, " ")
	tests := []string{"-run=^(" + cmp.Or(name, ".*") + ")$", folder}
	if f.Test == "" {
		tests = []string{
			"-v", "-run=^TestProbe$", cmp.Or(f.Probe, "./parity/mutants"), "-args",
			"-engine=" + f.Engine,
		}
		if f.Kernels != "" {
			tests = append(tests, "-kernels="+f.Kernels)
		}
		contents[variants] = cmp.Or(contents[variants], probedVariants)
	}
	list, err := overlay(root, dir, contents)
	if err != nil {
		return v, err
	}
	words := []string{"test", "-overlay", list, "-count=1", "-failfast", "-vet=off", "-timeout=0"}
	command := group.Command(ctx, "go", append(words, tests...)...)
	command.Dir, command.Env = root, append(os.Environ(), "LOCKSTEP_WHOLE=1")
	out, err := command.CombinedOutput()
	if ctx.Err() != nil {
		return v, ctx.Err()
	}
	return f.judge(out, err)
}

// overlay writes the patched files to dir, and the list with which the go command takes
// them for the module's, also where it embeds them.
func overlay(root, dir string, contents map[string]string) (list string, err error) {
	replace, list := map[string]string{}, filepath.Join(dir, "overlay.json")
	for file, content := range contents {
		copied := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		replace[filepath.Join(root, filepath.FromSlash(file))] = copied
		err = errors.Join(err, os.WriteFile(copied, []byte(content), 0o666))
	}
	text, _ := json.Marshal(map[string]any{"Replace": replace}) // strings
	return list, errors.Join(err, os.WriteFile(list, text, 0o666))
}

// Lines of go test: of a test that failed, of a package whose tests ran and did not pass,
// and of one whose tests the machine did not start or ended.
var (
	failedTest    = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	failedPackage = regexp.MustCompile(`(?m)^FAIL\t\S+\t[0-9.]+s$`)
	notRun        = regexp.MustCompile(`(?m)^(fork/exec .*|signal: killed)\nFAIL\t`)
)

// verdictLine begins the line with a TestProbe's verdict.
const verdictLine = "verdict: "

// Print prints the verdict as Plant reads it.
func (v *Sighting) Print() error {
	text, err := json.Marshal(v)
	fmt.Printf("%s%s\n", verdictLine, text)
	return err
}

// judge reads what go test printed and ended with. The fault is caught if the tests ran
// and one failed, or their program did not end well. A go command that fails in another way,
// for the code or the machine, is an error, and so is a probe without a verdict.
func (f *Fault) judge(out []byte, err error) (v Sighting, _ error) {
	v.Check = "go test " + f.Test
	_, text, probed := bytes.Cut(out, []byte("\n"+verdictLine))
	failed := failedTest.FindSubmatch(out)
	switch {
	case probed:
		return v, json.NewDecoder(bytes.NewReader(text)).Decode(&v)
	case f.Test == "":
		return v, fmt.Errorf(
			"testing with the fault %s: no verdict: %w\n%s", f.Name,
			cmp.Or(err, errors.New("all tests passed")), out,
		)
	case err == nil:
	case failed != nil:
		v.Caught, v.Detail = true, string(failed[1])
	case failedPackage.Match(out) && !notRun.Match(out): // a panic outside of a test, or an exit
		v.Caught, v.Detail = true, f.Test+" does not end well"
	default:
		return v, fmt.Errorf(
			"testing with the fault %s: its tests did not run: %w\n%s", f.Name, err, out,
		)
	}
	return v, nil
}
