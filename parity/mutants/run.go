package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// A Verdict is what the harness says of one implementation.
type Verdict struct {
	Caught   bool   `json:"caught"`
	Stage    string `json:"stage"`    // the stage it names
	Check    string `json:"check"`    // what it was doing
	Rollouts int    `json:"rollouts"` // compared until then
	Steps    int    `json:"steps"`
	Detail   string `json:"detail"`
}

// An Outcome is what became of one fault.
type Outcome struct {
	Fault Fault
	Verdict
	Time time.Duration
	Err  error // why the fault could not be tried
}

// Right reports whether the stage named is the one that the fault is in. Tests name
// what they see themselves.
func (o *Outcome) Right() bool {
	return o.Caught && (o.Fault.Test != "" || o.Stage == o.Fault.Stage)
}

// A Runner tries faults on the module in a folder.
type Runner struct {
	Root    string // of the module
	Workers int    // faults at a time; half of GOMAXPROCS if 0

	// Model and Routes are the official ones, if they are there: the harness then
	// also has the recordings of those.
	Model, Routes string
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

// Run tries every fault and calls report for each as it is done. It plants
// nothing if one of the faults no longer fits the code.
func (r *Runner) Run(ctx context.Context, faults []Fault, report func(Outcome)) error {
	var stale []error
	for _, f := range faults {
		if _, err := f.patched(r.Root); err != nil {
			stale = append(stale, err)
		}
	}
	if err := errors.Join(stale...); err != nil {
		return err
	}
	workers := r.Workers
	if workers <= 0 {
		workers = max(runtime.GOMAXPROCS(0)/2, 1)
	}
	var mutex sync.Mutex
	var group sync.WaitGroup
	queue := make(chan Fault)
	for range workers {
		group.Go(func() {
			for f := range queue {
				start := time.Now()
				o := Outcome{Fault: f}
				o.Verdict, o.Err = r.try(ctx, &f)
				o.Time = time.Since(start)
				mutex.Lock()
				report(o)
				mutex.Unlock()
			}
		})
	}
	for _, f := range faults {
		queue <- f
	}
	close(queue)
	group.Wait()
	return ctx.Err()
}

// Untouched runs a package's tests on the code as it is, which must pass.
func (r *Runner) Untouched(ctx context.Context, pkg string) (Verdict, error) {
	return r.try(ctx, &Fault{Test: pkg})
}

// Unmutated runs the harness on the code as it is, which must find nothing.
func (r *Runner) Unmutated(ctx context.Context, engine string) (Verdict, error) {
	return r.try(ctx, &Fault{Engine: engine})
}

// patience bounds one fault: one that makes a program hang must not hang the rest.
const patience = 10 * time.Minute

// kernelSources is the folder whose files, but for Go's, another compiler takes.
const kernelSources = "gpu/kernels/"

const variantsSource = "variants.h"

// narrow leaves of a copy of the kernels those that the probe launches, which
// compile in a fifth of the time.
func narrow(kernels string) error {
	name := filepath.Join(kernels, variantsSource)
	if _, err := os.Stat(name); err != nil {
		return err
	}
	return os.WriteFile(name, []byte("#define LOCKSTEP_VARIANTS(V) V(2)\n"), 0o666)
}

func isKernel(file string) bool {
	return strings.HasPrefix(file, kernelSources) && !strings.HasSuffix(file, ".go")
}

// try plants a fault in a copy and runs the harness on that.
func (r *Runner) try(ctx context.Context, f *Fault) (Verdict, error) {
	if err := ctx.Err(); err != nil {
		return Verdict{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	dir, err := os.MkdirTemp("", "lockstep-fault-")
	if err != nil {
		return Verdict{}, err
	}
	defer os.RemoveAll(dir)
	contents, err := f.patched(r.Root)
	if err != nil {
		return Verdict{}, err
	}

	if f.Test != "" {
		return r.test(ctx, f, dir, contents)
	}

	overlay := struct{ Replace map[string]string }{map[string]string{}}
	args := []string{"-engine", f.Engine, "-kernels", f.Kernels, "-model", r.Model, "-routes", r.Routes}
	for file, content := range contents {
		if isKernel(file) {
			continue
		}
		copied := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(copied, []byte(content), 0o666); err != nil {
			return Verdict{}, err
		}
		overlay.Replace[filepath.Join(r.Root, filepath.FromSlash(file))] = copied
	}
	if len(overlay.Replace) < len(contents) {
		kernels := filepath.Join(dir, "kernels")
		if err := os.CopyFS(kernels, os.DirFS(filepath.Join(r.Root, kernelSources))); err != nil {
			return Verdict{}, err
		}
		for _, other := range []string{"testdata", "classic"} { // not of these kernels
			if err := os.RemoveAll(filepath.Join(kernels, other)); err != nil {
				return Verdict{}, err
			}
		}
		if err := narrow(kernels); err != nil {
			return Verdict{}, err
		}
		for file, content := range contents {
			if !isKernel(file) {
				continue
			}
			if err := os.WriteFile(filepath.Join(kernels, strings.TrimPrefix(file, kernelSources)), []byte(content), 0o666); err != nil {
				return Verdict{}, err
			}
		}
		args = append(args, "-sources", kernels)
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		return Verdict{}, err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, data, 0o666); err != nil {
		return Verdict{}, err
	}

	program := filepath.Join(dir, "probe")
	build := exec.CommandContext(ctx, "go", "build", "-overlay", list, "-o", program, "./parity/mutants/probe")
	build.Dir = r.Root
	if out, err := build.CombinedOutput(); err != nil {
		return Verdict{}, fmt.Errorf("building with the fault %s: %w\n%s", f.Name, err, out)
	}
	probe := exec.CommandContext(ctx, program, args...)
	probe.Dir = r.Root
	if len(overlay.Replace) < len(contents) { // kernels are compiled into the cache folder
		probe.Env = append(os.Environ(), "XDG_CACHE_HOME="+dir)
	}
	var stderr bytes.Buffer
	probe.Stderr = &stderr
	out, err := probe.Output()
	if err != nil {
		return Verdict{}, fmt.Errorf("running with the fault %s: %w\n%s", f.Name, err, stderr.Bytes())
	}
	var v Verdict
	if err := json.Unmarshal(out, &v); err != nil {
		return Verdict{}, fmt.Errorf("running with the fault %s: %w in %q", f.Name, err, out)
	}
	return v, nil
}
