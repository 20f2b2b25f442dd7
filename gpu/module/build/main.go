// Command build compiles the kernels with nvcc. It is what `make kernels` and
// `make kernels-check` run.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"lockstep/gpu/kernels"
	"lockstep/gpu/module"
	"lockstep/internal/fileio"
)

func main() {
	nvcc := flag.String("nvcc", "nvcc", "the compiler")
	sources := flag.String("sources", "gpu/kernels", "folder of the sources")
	out := flag.String("out", "gpu/module", "folder of what is made")
	check := flag.Bool("check", false, "compare with what is there and write nothing")
	flag.Parse()
	if err := run(*nvcc, *sources, *out, *check); err != nil {
		fmt.Fprintln(os.Stderr, "kernels:", err)
		os.Exit(1)
	}
}

func run(nvcc, sources, out string, check bool) error {
	m := module.Manifest{Flags: module.AllFlags(), Files: map[string]string{}}
	var err error
	if m.Sources, err = module.HashSources(os.DirFS(sources)); err != nil {
		return err
	}
	if embedded, _ := module.HashSources(kernels.Sources); embedded != m.Sources {
		return errors.New("this program was built from other sources than those of the folder")
	}
	version, err := exec.Command(nvcc, "--version").Output()
	if err != nil {
		return fmt.Errorf("no CUDA compiler: leave CUDA_HOME unset and `make kernels` fetches it: %w", err)
	}
	if m.Compiler = regexp.MustCompile(`V[0-9.]+`).FindString(string(version)); m.Compiler == "" {
		return fmt.Errorf("%s says no version", nvcc)
	}
	m.Compiler = "nvcc " + m.Compiler

	work, err := os.MkdirTemp("", "lockstep-kernels-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	messages := make([]string, len(module.Targets))
	errs := make([]error, len(module.Targets))
	var all sync.WaitGroup
	for i, t := range module.Targets {
		all.Go(func() { messages[i], errs[i] = compile(nvcc, sources, filepath.Join(work, t.Name), t) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}

	files := map[string][]byte{}
	for _, t := range module.Targets {
		data, err := os.ReadFile(filepath.Join(work, t.Name))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		m.Files[t.Name] = hex.EncodeToString(sum[:])
		files[t.Name+".gz"] = pack(data)
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	files["manifest.json"] = append(text, '\n')
	report, err := describe(nvcc, work, messages)
	if err != nil {
		return err
	}
	files["report.txt"] = []byte(report)
	fmt.Print(report)
	return keep(files, sources, out, check)
}

// keep writes files to a folder, or holds those that are there to them.
func keep(files map[string][]byte, sources, out string, check bool) error {
	for name, data := range files {
		path := filepath.Join(out, name)
		if check {
			if old, err := os.ReadFile(path); err != nil {
				return err
			} else if !bytes.Equal(old, data) {
				return fmt.Errorf("%s is not what its sources make: run `make kernels`", path)
			}
			continue
		}
		err := fileio.WriteFile(path, data)
		if err != nil {
			return err
		}
	}
	if check {
		fmt.Printf("\n%s is what %s make\n", out, sources)
	}
	return nil
}

// compile runs the compiler in the folder of the sources, so that no other path
// gets into what it makes, and returns what it says.
func compile(nvcc, sources, to string, t module.Target) (string, error) {
	if strings.ContainsRune(nvcc, filepath.Separator) {
		absolute, err := filepath.Abs(nvcc)
		if err != nil {
			return "", err
		}
		nvcc = absolute
	}
	args := append(append([]string{}, module.Flags...), t.Flags...)
	c := exec.Command(nvcc, append(args, "-o", to, module.Source)...)
	c.Dir = sources
	text, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, text)
	}
	return string(text), nil
}

func pack(data []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	w.Write(data)
	w.Close()
	return b.Bytes()
}

// describe is the compiler's report on each kernel, and what its machine code is
// made of.
func describe(nvcc, work string, messages []string) (string, error) {
	var out strings.Builder
	kernel, function := "", "" // the function is empty for the kernel itself
	entry := regexp.MustCompile(`Compiling entry function '(\w+)' for '(\w+)'`)
	properties := regexp.MustCompile(`Function properties for (\w+)`)
	fmt.Fprintln(&out, "What ptxas says of each kernel (shared memory is dynamic: see lockstep_layout)")
	for _, line := range strings.Split(strings.Join(messages, "\n"), "\n") {
		if m := entry.FindStringSubmatch(line); m != nil {
			kernel = m[1] + " " + m[2]
			function = ""
		} else if m := properties.FindStringSubmatch(line); m != nil {
			function = " " + m[1]
			if strings.HasPrefix(kernel, m[1]+" ") {
				function = ""
			}
		} else if strings.Contains(line, "spill") || strings.Contains(line, "Used") {
			fmt.Fprintf(&out, "%s%s: %s\n", kernel, function, strings.TrimSpace(strings.TrimPrefix(line, "ptxas info    :")))
		}
	}
	disassembler := filepath.Join(filepath.Dir(nvcc), "nvdisasm")
	if _, err := os.Stat(disassembler); err != nil {
		return "", fmt.Errorf("no nvdisasm beside nvcc: %w", err)
	}
	for _, t := range module.Targets {
		if !strings.HasSuffix(t.Name, ".cubin") {
			continue
		}
		text, err := exec.Command(disassembler, filepath.Join(work, t.Name)).Output()
		if err != nil {
			return "", fmt.Errorf("nvdisasm: %w", err)
		}
		fmt.Fprintln(&out, "\nMachine code: a step with the functions that it calls; the innermost loops that hold most of a kernel's FFMA instructions;")
		fmt.Fprintln(&out, "how many instructions a loop's loads of weights come before their use, at least; loads and stores of spilled registers in it")
		for _, k := range disassemble(string(text)) {
			fmt.Fprintf(&out, "%s: %d instructions, %d FFMA; a step %d instructions, %.1f KB\n", k.name, k.all.total, k.all.fma,
				k.step, float64(k.step*instructionBytes)/1024)
			for _, l := range k.loops {
				fmt.Fprintf(&out, "  loop of %d: %d FFMA (%.1f %%), %d LDS, %d LDG, %d other", l.total, l.fma,
					100*float64(l.fma)/float64(l.total), l.lds, l.ldg, l.total-l.fma-l.lds-l.ldg)
				if l.ldg > 0 {
					fmt.Fprintf(&out, "; used %d later", l.use)
				}
				fmt.Fprintf(&out, "; %d spilled\n", l.local)
			}
		}
	}
	return out.String(), nil
}
