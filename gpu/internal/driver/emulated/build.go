package emulated

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing/fstest"
	"time"

	"golang.org/x/sys/cpu"

	"lockstep/internal/fileio"
)

// compileTime is how long one compilation may take.
const compileTime = 10 * time.Minute

// keep is how long a program that is not used stays in the cache.
const keep = 30 * 24 * time.Hour

// flags are those of the compiler. The kernels' bits depend on the last two of
// common alone: nothing is contracted, and there is no fast math.
func flags(sanitize bool) []string {
	common := []string{
		"-std=c++17", "-fPIC", "-Wno-unknown-pragmas", "-ffp-contract=off", "-fno-math-errno",
	}
	if runtime.GOARCH == "amd64" {
		x := &cpu.X86
		common = append(common, "-march="+level(
			x.HasAVX512F, x.HasAVX512BW, x.HasAVX512CD, x.HasAVX512DQ, x.HasAVX512VL,
		))
	}
	if sanitize {
		return append(common, "-O1", "-g", "-fno-omit-frame-pointer",
			"-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all")
	}
	return append(common, "-O3")
}

// level is what the compiler may use of this CPU, v4 where it has all that this asks for: twice as
// many registers, and operands that are spread as they are read, spare a block of one route a sixth
// of its time. The bits are the same.
func level(has ...bool) string {
	if slices.Contains(has, false) {
		return "x86-64-v3"
	}
	return "x86-64-v4"
}

// parts are those in which a file that knows LOCKSTEP_ONLY is compiled: the
// kernels of variants.h.
func parts(sources fs.FS, source []byte) ([]string, error) {
	if !bytes.Contains(source, []byte("LOCKSTEP_ONLY")) {
		return nil, nil
	}
	list, err := fs.ReadFile(sources, "variants.h")
	if err != nil {
		return nil, err
	}
	_, list, _ = bytes.Cut(list, []byte("#define LOCKSTEP_VARIANTS(V)"))
	list, _, _ = bytes.Cut(list, []byte("\n"))
	found := regexp.MustCompile(`\d+`).FindAllString(string(list), -1)
	if found == nil {
		return nil, errors.New("variants.h lists no kernel")
	}
	return found, nil
}

// kernelFlags are those for a kernel of translated instructions, which is a library of
// its own. A higher level of optimisation takes minutes and makes it little faster.
func kernelFlags() []string {
	return append(flags(false), "-O1", "-w", "-fno-strict-aliasing", "-shared")
}

// watch has each access of a kernel to memory call a function first. The library that has these
// functions for other programs is not linked.
var watch = []string{"-O1", "-fsanitize=thread"}

// buildKernel returns the path of the library that a kernel in C++ makes.
func buildKernel(sources fs.FS, kernel string) (string, error) {
	all := fstest.MapFS{"kernel.cpp": {Data: []byte(kernel)}}
	header, err := fs.ReadFile(sources, KernelHeader)
	if err != nil {
		return "", err
	}
	all[path.Base(KernelHeader)] = &fstest.MapFile{Data: header}
	return buildProgram(all, kernelFlags(), "kernel")
}

// KernelHeader is what kernels of translated instructions include, in the program's sources.
const KernelHeader = "machine/machine.h"

// A unit is one call of the compiler.
type unit struct {
	source string
	part   string // of it, or all
}

// building keeps this process from compiling the same twice.
var building sync.Mutex

// build returns the path of the program that is the device, compiling it into the
// user's cache folder if it is not there. Two processes may do so at once.
func build(sources fs.FS, sanitize, watched bool) (string, error) {
	if watched {
		return buildProgram(sources, flags(sanitize), "device", watch...)
	}
	return buildProgram(sources, flags(sanitize), "device")
}

// buildProgram compiles sources, their kernels with further flags.
func buildProgram(sources fs.FS, flags []string, name string, kernels ...string) (string, error) {
	compiler, version, err := findCompiler()
	if err != nil {
		return "", err
	}
	key := sha256.New()
	fmt.Fprintf(key, "%s\n%s\n%q\n", compiler, version, append(slices.Clone(flags), kernels...))
	units, err := unitsOf(sources, key)
	if err != nil {
		return "", fmt.Errorf("sources of the kernels: %w", err)
	}

	sum := hex.EncodeToString(key.Sum(nil))[:32]
	building.Lock()
	defer building.Unlock()
	folder, err := fileio.ProgramDir("emulated")
	if err != nil {
		return "", fmt.Errorf("the compiled kernels have no place to be kept: %w", err)
	}
	folders := append(fileio.CacheDirs("emulated"), folder)
	if program := fileio.Kept(folders, sum); program != "" {
		return program, nil
	}
	// Compiled beside its place, so that renaming it is one step.
	work, err := os.MkdirTemp(folder, ".tmp-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := os.CopyFS(work, sources); err != nil {
		return "", err
	}
	c := compilation{compiler, version, flags, kernels, work, folder, folders}
	if err := c.compile(name, units); err != nil {
		return "", err
	}
	program, err := fileio.Keep(folder, sum, filepath.Join(work, name))
	if err != nil {
		return "", err
	}
	removeOld(folder)
	removeOld(c.objects(folder))
	return program, nil
}

// unitsOf are the calls of the compiler that make a program of sources, all of which it
// writes to a hash.
func unitsOf(sources fs.FS, key io.Writer) (units []unit, err error) {
	err = fs.WalkDir(sources, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(sources, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(key, "%q %d\n%s\n", name, len(data), data)
		switch filepath.Ext(name) {
		case ".cpp":
			units = append(units, unit{source: name})
		case ".cu":
			parts, err := parts(sources, data)
			if err != nil {
				return err
			}
			for _, p := range parts {
				units = append(units, unit{name, p})
			}
			if parts == nil {
				units = append(units, unit{source: name})
			}
		}
		return nil
	})
	return units, err
}

// removeOld removes what has not been used for a long time: programs of other
// versions of the sources, and, much earlier, what compilations left that were killed.
func removeOld(folder string) {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		unused := keep
		if strings.HasPrefix(e.Name(), ".tmp-") {
			unused = 6 * compileTime
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > unused {
			os.RemoveAll(filepath.Join(folder, e.Name()))
		}
	}
}

// A compilation is that of one program. What its units compile to is kept, too: programs have
// most of their units in common, above all the device.
type compilation struct {
	compiler, version string
	flags             []string
	kernels           []string // flags of kernels alone
	work              string   // the folder with the sources
	folder            string   // where something new is kept
	folders           []string // where it may be kept already
}

// objects is the folder of what units compile to.
func (c compilation) objects(folder string) string { return filepath.Join(folder, "objects") }

// compile compiles the units, several at once, and links them.
func (c compilation) compile(name string, units []unit) error {
	ctx, cancel := context.WithTimeout(context.Background(), compileTime)
	defer cancel()
	if err := os.MkdirAll(c.objects(c.folder), 0o755); err != nil {
		return err
	}
	errs := make([]error, len(units))
	objects := make([]string, len(units))
	slots := make(chan struct{}, runtime.NumCPU())
	var all sync.WaitGroup
	for i, u := range units {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			objects[i], errs[i] = c.object(ctx, u, fmt.Sprint(i))
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	link := append(slices.Clone(c.flags), "-rdynamic", "-pthread", "-o", name)
	return run(ctx, c.work, c.compiler, append(append(link, objects...), "-ldl"))
}

// object returns the path of what a unit compiles to. It depends on the compiler, its flags and
// the preprocessed source.
func (c compilation) object(ctx context.Context, u unit, name string) (string, error) {
	flags := append(slices.Clone(c.flags), "-pthread")
	if path.Ext(u.source) == ".cu" {
		flags = append(flags, c.kernels...)
	}
	preprocess := append(slices.Clone(flags), "-E", "-o", name+".ii")
	if u.part != "" {
		preprocess = append(preprocess, "-DLOCKSTEP_ONLY="+u.part)
	}
	preprocess = append(preprocess, "-x", "c++", filepath.FromSlash(u.source))
	if err := run(ctx, c.work, c.compiler, preprocess); err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(c.work, name+".ii"))
	if err != nil {
		return "", err
	}
	key := sha256.New()
	fmt.Fprintf(key, "%s\n%s\n%q\n%s", c.compiler, c.version, flags, text)
	sum := hex.EncodeToString(key.Sum(nil))[:32]
	var folders []string
	for _, f := range c.folders {
		folders = append(folders, c.objects(f))
	}
	if kept := fileio.Kept(folders, sum); kept != "" {
		return kept, nil
	}
	args := append(flags, "-c", "-o", name+".o", "-x", "c++-cpp-output", name+".ii")
	if err := run(ctx, c.work, c.compiler, args); err != nil {
		return "", err
	}
	return fileio.Keep(c.objects(c.folder), sum, filepath.Join(c.work, name+".o"))
}

func run(ctx context.Context, work, compiler string, args []string) error {
	c := exec.CommandContext(ctx, compiler, args...)
	c.Dir = work
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf(
			"%s %s: %w\n%s", compiler, strings.Join(args, " "), err, bytes.TrimSpace(out.Bytes()),
		)
	}
	return nil
}

// Available is why kernels cannot run on the CPU here, or nil. It compiles nothing.
func Available() error {
	_, _, err := findCompiler()
	return err
}

// findCompiler returns the C++ compiler, $CXX or g++, and what it says it is.
func findCompiler() (path, version string, err error) {
	name := os.Getenv("CXX")
	if name == "" {
		name = "g++"
	}
	path, err = exec.LookPath(name)
	if err != nil {
		return "", "", fmt.Errorf(
			"running the kernels on the CPU needs a C++ compiler: install g++ (Debian, Ubuntu: "+
				"apt install g++) or name another in CXX: %w",
			err,
		)
	}
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return "", "", fmt.Errorf("%s --version: %w", path, err)
	}
	return path, string(out), nil
}
