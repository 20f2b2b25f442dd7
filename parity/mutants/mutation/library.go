package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// library is the package that is loaded by Python, whose tests judge it.
const library = "cmd/internal/native"

// python is a program of the Python package's tests, beside a library that has the mutants. A file
// of them is one test.
func (b *build) python(overlay string) (program, error) {
	interpreter := os.Getenv("LOCKSTEP_PYTHON")
	if interpreter == "" {
		return program{}, unfit("LOCKSTEP_PYTHON is not set: to a Python that the " +
			"package's tests run with, as make test-python installs it")
	}
	interpreter, err := filepath.Abs(interpreter)
	if err != nil {
		return program{}, err
	}
	told, err := exec.Command(interpreter, "-c",
		"import lockstep; print(lockstep.__version__); print(*lockstep.__path__)").Output()
	if err != nil {
		return program{}, unfit(fmt.Sprintf("%s has no package lockstep: make test-python: %v",
			interpreter, err))
	}
	version, installed, _ := strings.Cut(strings.TrimSpace(string(told)), "\n")
	beside := filepath.Join(b.work, "python")
	if err := os.CopyFS(filepath.Join(beside, "lockstep"), os.DirFS(installed)); err != nil {
		return program{}, err
	}
	path := filepath.Join(beside, "lockstep", "liblockstep.so")
	if err := os.Remove(path); err != nil {
		return program{}, err
	}
	if out, err := b.command(
		"build", "-tags", strings.TrimPrefix(b.tags+",library", ","), "-buildmode=c-shared",
		"-ldflags", "-X "+b.pkg.ImportPath+".version="+version,
		"-overlay", overlay, "-o", path, "./cmd/lockstep",
	).CombinedOutput(); err != nil {
		return program{}, fmt.Errorf("the library with mutants: %w: %s", err, out)
	}
	p := program{path: filepath.Join(b.work, "pytests"), dir: b.root}
	if strings.Contains(b.tags, "cuda") {
		p.flags = []string{"-standin", filepath.Join(b.root, "build", "standin", "libcuda.so.1")}
	}
	return p, os.WriteFile(p.path, fmt.Appendf(nil,
		"#!/bin/sh\nPYTHONDONTWRITEBYTECODE=1 PYTHONPATH=%q exec %q %q \"$@\"\n", beside,
		interpreter, filepath.Join(b.root, "parity", "mutants", "mutation", "pytests.py"),
	), 0o700)
}
