package mutants

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/internal/assets"
	"lockstep/parity/verdict"
)

// A Verdict is what the harness says of one implementation.
type Verdict struct {
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
	if err != nil {
		return "", err
	}
	for d := dir; ; d = filepath.Dir(d) {
		data, err := os.ReadFile(filepath.Join(d, "go.mod"))
		if err == nil && bytes.HasPrefix(data, []byte("module lockstep\n")) {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("%s is not inside lockstep's source, which faults are planted in", dir)
		}
	}
}

// A planter plants faults in the module in a folder.
type planter struct {
	root string

	// The official ones, if they are there: without them the harness has the project's
	// own network and its goldens.
	model, routes string
}

// Plant runs the harness first on the module as it is, which must find nothing, then
// with each fault, as many at a time as half of the cores. It calls report, which may be
// nil, for each as it is done. It plants nothing if one of the faults no longer fits the
// code; with another error comes the score of what was done until then.
func Plant(ctx context.Context, root string, faults []Fault, report func(verdict.Mutant)) (*verdict.Score, error) {
	score, p := &verdict.Score{}, &planter{root: root}
	if len(faults) == 0 {
		return score, errors.New("no fault is selected")
	}
	if model, err := assets.Find(assets.Model); err == nil {
		if routes, err := assets.Find(assets.Routes); err == nil {
			p.model, p.routes = model, routes
		}
	}
	var stale []error
	for _, f := range faults {
		_, err := f.patched(root)
		stale = append(stale, err)
		score.Mutants = append(score.Mutants, f.mutant(Verdict{}, errors.New("it was not tried")))
	}
	if err := errors.Join(stale...); err != nil {
		return score, err
	}
	for _, f := range bare(faults) {
		if err := p.alarm(ctx, &f); ctx.Err() != nil {
			return score, ctx.Err()
		} else if err != nil {
			score.Alarms = append(score.Alarms, err.Error())
		} else {
			score.Clean = append(score.Clean, cmp.Or(f.Test, f.Engine))
		}
	}
	var mutex sync.Mutex
	var group sync.WaitGroup
	queue := make(chan int)
	for range max(runtime.GOMAXPROCS(0)/2, 1) {
		group.Go(func() {
			for i := range queue {
				start := time.Now()
				v, err := p.try(ctx, &faults[i])
				m := faults[i].mutant(v, err)
				m.Seconds = time.Since(start).Seconds()
				mutex.Lock()
				score.Mutants[i] = m
				if report != nil {
					report(m)
				}
				mutex.Unlock()
			}
		})
	}
	for i := range faults {
		queue <- i
	}
	close(queue)
	group.Wait()
	return score, ctx.Err()
}

// bare are what the faults are in, without a fault: engines, then packages.
func bare(faults []Fault) (all []Fault) {
	for _, f := range faults {
		b := Fault{Engine: f.Engine}
		if f.Test != "" {
			b = Fault{Test: f.Test}
		}
		if !slices.ContainsFunc(all, func(a Fault) bool { return a.Engine == b.Engine && a.Test == b.Test }) {
			all = append(all, b)
		}
	}
	slices.SortStableFunc(all, func(a, b Fault) int { return cmp.Compare(min(len(a.Test), 1), min(len(b.Test), 1)) })
	return all
}

// alarm is what the harness finds where there is no fault, or that it compared nothing.
func (p *planter) alarm(ctx context.Context, f *Fault) error {
	v, err := p.try(ctx, f)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", cmp.Or(f.Test, f.Engine), err)
	case v.Caught && f.Test != "":
		return fmt.Errorf("%s, without a fault: %s fails", f.Test, v.Detail)
	case v.Caught:
		return fmt.Errorf("%s, without a fault: stage %s, %s: %s", f.Engine, v.Stage, v.Check, v.Detail)
	case f.Test == "" && v.Steps == 0:
		return fmt.Errorf("%s: nothing was compared", f.Engine)
	}
	return nil
}

// mutant is what became of the fault. Tests name what they see themselves.
func (f *Fault) mutant(v Verdict, err error) verdict.Mutant {
	m := verdict.Mutant{Name: f.Name, Title: f.Title, Engine: f.Engine, Stage: f.Stage, Caught: v.Caught, Rollouts: v.Rollouts, Steps: v.Steps}
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

// kernelSources is the folder whose files, but for Go's, another compiler takes.
const kernelSources = "gpu/kernels/"

func isKernel(file string) bool {
	return strings.HasPrefix(file, kernelSources) && !strings.HasSuffix(file, ".go")
}

// try plants a fault in a copy and runs the harness on that.
func (p *planter) try(ctx context.Context, f *Fault) (v Verdict, err error) {
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
	contents, err := f.patched(p.root)
	if err != nil {
		return v, err
	}
	overlay, err := p.overlay(dir, contents, f.Test != "")
	if err != nil {
		return v, err
	}
	if f.Test != "" {
		return p.test(ctx, f, overlay)
	}
	args := []string{"-engine", f.Engine, "-kernels", f.Kernels, "-model", p.model, "-routes", p.routes}
	sources, err := p.kernels(dir, contents)
	if err != nil {
		return v, err
	}
	if sources != "" {
		args = append(args, "-sources", sources)
	}
	program := filepath.Join(dir, "probe")
	if out, err := p.command(ctx, "go", "build", "-overlay", overlay, "-o", program, "./parity/mutants/probe").CombinedOutput(); err != nil {
		return v, fmt.Errorf("building with the fault %s: %w\n%s", f.Name, err, out)
	}
	probe := p.command(ctx, program, args...)
	if sources != "" { // kernels are compiled into the cache folder
		probe.Env = append(os.Environ(), "XDG_CACHE_HOME="+dir)
	}
	var stderr bytes.Buffer
	probe.Stderr = &stderr
	out, err := probe.Output()
	if err == nil {
		err = json.Unmarshal(out, &v)
	}
	if err != nil {
		return v, fmt.Errorf("running with the fault %s: %w\n%s%s", f.Name, err, out, stderr.Bytes())
	}
	return v, nil
}

// command runs in the module's folder.
func (p *planter) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = p.root
	return c
}

// overlay writes the patched files of Go and of its assembler to dir, and the list with
// which the go command takes them for the module's; kernels, too, where tests embed them.
func (p *planter) overlay(dir string, contents map[string]string, kernels bool) (list string, err error) {
	replace := map[string]string{}
	for file, content := range contents {
		if isKernel(file) && !kernels {
			continue
		}
		copied := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(copied, []byte(content), 0o666); err != nil {
			return "", err
		}
		replace[filepath.Join(p.root, filepath.FromSlash(file))] = copied
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list = filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, data, 0o666)
}

// kernels makes a copy of the kernels if some are patched, with those alone that the
// probe launches: they compile in a fifth of the time.
func (p *planter) kernels(dir string, contents map[string]string) (string, error) {
	patched := map[string]string{"variants.h": "#define LOCKSTEP_VARIANTS(V) V(2)\n"}
	for file, content := range contents {
		if isKernel(file) {
			patched[strings.TrimPrefix(file, kernelSources)] = content
		}
	}
	if len(patched) == 1 {
		return "", nil
	}
	kernels := filepath.Join(dir, "kernels")
	if err := os.CopyFS(kernels, os.DirFS(filepath.Join(p.root, kernelSources))); err != nil {
		return "", err
	}
	for _, other := range []string{"testdata", "classic"} { // not of these kernels
		if err := os.RemoveAll(filepath.Join(kernels, other)); err != nil {
			return "", err
		}
	}
	for file, content := range patched {
		name := filepath.Join(kernels, file)
		if _, err := os.Stat(name); err != nil {
			return "", err
		}
		if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
			return "", err
		}
	}
	return kernels, nil
}

// failedTest is the line of a test that failed.
var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// test runs the ordinary tests of the fault's package with the fault in it. It is
// caught if a test fails; a package that does not compile is an error.
func (p *planter) test(ctx context.Context, f *Fault, overlay string) (Verdict, error) {
	out, err := p.command(ctx, "go", "test", "-overlay", overlay, "-count=1", "-failfast", f.Test).CombinedOutput()
	v := Verdict{Check: "go test " + f.Test}
	var exit *exec.ExitError
	switch m := failedTest.FindSubmatch(out); {
	case err == nil:
		return v, nil
	case ctx.Err() != nil:
		return v, ctx.Err()
	case !errors.As(err, &exit), bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
		return v, fmt.Errorf("testing with the fault %s: %w\n%s", f.Name, err, out)
	case m == nil: // a panic outside of a test, or a hang
		v.Caught, v.Detail = true, f.Test+" does not end well"
	default:
		v.Caught, v.Detail = true, string(m[1])
	}
	return v, nil
}
