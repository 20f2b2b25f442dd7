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
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"lockstep/gpu/internal/kernels"
	"lockstep/gpu/internal/module"
	"lockstep/gpu/internal/translate"
	"lockstep/internal/fileio"
	"lockstep/internal/kernelhash"
)

func main() {
	nvcc := flag.String("nvcc", "nvcc", "the compiler")
	folder := flag.String("sources", "gpu/internal/kernels", "folder of the sources")
	out := flag.String("out", "gpu/internal/module", "folder of what is made")
	check := flag.Bool("check", false, "compare with what is there and write nothing")
	cubin := flag.String("list", "", "print the listing of a cubin and compile nothing")
	assembled := flag.String(
		"assemble", "", "with -list: assemble this PTX, and want the cubin's instructions",
	)
	hash := flag.Bool("hash", false, "print the hash of the sources and compile nothing")
	flag.Parse()
	if *hash {
		sum, err := kernelhash.Sources(os.DirFS(*folder))
		if err != nil {
			fmt.Fprintln(os.Stderr, "kernels:", err)
			os.Exit(1)
		}
		fmt.Println(sum)
		return
	}
	if *assembled != "" {
		if err := assemble(*nvcc, *assembled, *cubin); err != nil {
			fmt.Fprintln(os.Stderr, "kernels:", err)
			os.Exit(1)
		}
		return
	}
	if *cubin != "" {
		if err := list(*nvcc, *cubin); err != nil {
			fmt.Fprintln(os.Stderr, "kernels:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(*nvcc, *folder, *out, *check); err != nil {
		fmt.Fprintln(os.Stderr, "kernels:", err)
		os.Exit(1)
	}
}

func run(nvcc, folder, out string, check bool) error {
	m := module.Manifest{Flags: module.AllFlags(), Files: map[string]string{}}
	var err error
	if m.Sources, err = kernelhash.Sources(os.DirFS(folder)); err != nil {
		return err
	}
	if embedded, _ := kernelhash.Sources(kernels.Sources); embedded != m.Sources {
		return errors.New("this program was built from other sources than those of the folder")
	}
	version, err := exec.Command(nvcc, "--version").Output()
	if err != nil {
		return fmt.Errorf(
			"no CUDA compiler: leave CUDA_HOME unset and `make kernels` fetches it: %w", err,
		)
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
	messages := make([]string, len(module.Targets()))
	errs := make([]error, len(module.Targets()))
	var all sync.WaitGroup
	for i, t := range module.Targets() {
		all.Go(
			func() {
				messages[i], errs[i] = compile(nvcc, folder, filepath.Join(work, t.Name), t)
			},
		)
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}

	files := map[string][]byte{}
	for _, t := range module.Targets() {
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
	texts := map[string]string{} // of what is machine code, as nvdisasm prints it
	for _, t := range module.Targets() {
		name, ok := strings.CutSuffix(t.Name, ".cubin")
		if !ok {
			continue
		}
		cubin := filepath.Join(work, t.Name)
		if texts[t.Name], err = disassembly(nvcc, cubin); err != nil {
			return err
		}
		listing, err := listingOf(cubin, texts[t.Name])
		if err != nil {
			return err
		}
		files[name+".sass.gz"] = pack([]byte(listing))
	}
	ptx, machineCode := filepath.Join(work, module.Targets()[0].Name),
		filepath.Join(work, module.Targets()[1].Name)
	if err := assemble(nvcc, ptx, machineCode); err != nil {
		return err
	}
	report := describe(texts, messages)
	files["report.txt"] = []byte(report)
	fmt.Print(report)
	return keep(files, folder, out, check)
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
	args := append(append([]string{}, module.Flags()...), t.Flags...)
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

// disassembly is what the nvdisasm beside nvcc says of a cubin.
func disassembly(nvcc, cubin string) (string, error) {
	disassembler := filepath.Join(filepath.Dir(nvcc), "nvdisasm")
	if _, err := os.Stat(disassembler); err != nil {
		return "", fmt.Errorf("no nvdisasm beside nvcc: %w", err)
	}
	text, err := exec.Command(disassembler, cubin).Output()
	if err != nil {
		return "", fmt.Errorf("nvdisasm: %w", err)
	}
	return string(text), nil
}

// listingOf is what of that is kept beside the cubin.
func listingOf(cubin, text string) (string, error) {
	data, err := os.ReadFile(cubin)
	if err != nil {
		return "", err
	}
	return translate.Listing(data, text)
}

// list prints the listing of a cubin.
func list(nvcc, cubin string) error {
	text, err := disassembly(nvcc, cubin)
	if err != nil {
		return err
	}
	listing, err := listingOf(cubin, text)
	fmt.Print(listing)
	return err
}

// assemble makes machine code of PTX, and holds it to a cubin that was made of the sources:
// what is executed where PTX is compiled by the driver has the same instructions.
func assemble(nvcc, ptx, cubin string) error {
	again := ptx + ".cubin"
	defer os.Remove(again)
	out, err := exec.Command(
		filepath.Join(filepath.Dir(nvcc), "ptxas"), "-arch=sm_90", "-o", again, ptx,
	).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ptxas: %w\n%s", err, out)
	}
	var texts [2]string
	for i, file := range []string{cubin, again} {
		text, err := disassembly(nvcc, file)
		if err != nil {
			return err
		}
		listing, err := listingOf(file, text)
		if err != nil {
			return err
		}
		_, texts[i], _ = strings.Cut(listing, "\n") // without the cubin's hash
	}
	if texts[0] == texts[1] {
		return nil
	}
	lines := strings.Split(texts[1], "\n")
	for i, line := range strings.Split(texts[0], "\n") {
		if i >= len(lines) || line != lines[i] {
			return fmt.Errorf(
				"%s assembled is not %s: line %d of its listing is not %q", filepath.Base(ptx),
				filepath.Base(cubin), i+2, line,
			)
		}
	}
	return fmt.Errorf("%s assembled has more than %s", filepath.Base(ptx), filepath.Base(cubin))
}

// describe is the compiler's report on each kernel, and what its machine code is
// made of.
func describe(texts map[string]string, messages []string) string {
	var out strings.Builder
	kernel, function := "", "" // the function is empty for the kernel itself
	entry := regexp.MustCompile(`Compiling entry function '(\w+)' for '(\w+)'`)
	properties := regexp.MustCompile(`Function properties for (\w+)`)
	fmt.Fprintln(
		&out, "What ptxas says of each kernel (shared memory is dynamic: see lockstep_layout)",
	)
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
			fmt.Fprintf(&out, "%s%s: %s\n", kernel, function,
				strings.TrimSpace(strings.TrimPrefix(line, "ptxas info    :")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintln(
			&out,
			"\nMachine code: a step with the functions that it calls; the innermost loops that "+
				"hold most of a kernel's FFMA instructions;",
		)
		fmt.Fprintln(
			&out,
			"how many instructions a loop's loads of weights come before their use, at least; "+
				"loads and stores of spilled registers in it",
		)
		for _, k := range disassemble(texts[name]) {
			fmt.Fprintf(
				&out, "%s: %d instructions, %d FFMA; a step %d instructions, %.1f KB\n", k.name,
				k.all.total, k.all.fma, k.step, float64(k.step*instructionBytes)/1024,
			)
			for _, l := range k.loops {
				fmt.Fprintf(
					&out, "  loop of %d: %d FFMA (%.1f %%), %d LDS, %d LDG, %d other", l.total,
					l.fma, 100*float64(l.fma)/float64(l.total), l.lds, l.ldg,
					l.total-l.fma-l.lds-l.ldg,
				)
				if l.ldg > 0 {
					fmt.Fprintf(&out, "; used %d later", l.use)
				}
				fmt.Fprintf(&out, "; %d spilled\n", l.local)
			}
		}
	}
	return out.String()
}
