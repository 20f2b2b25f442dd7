// Package translate makes C++ of compiled kernels, instruction by instruction, so that
// what nvcc and ptxas made of the sources runs on the CPU: PTX, or machine code for sm_90.
//
// ptx.txt and sass.txt say what each instruction does, one a line, in C++ that is copied
// into what is made. What is not in them is refused, by name. cpp/machine.h has the
// operations for which C++ has no operator, and memory that is checked at every access:
// bounds, alignment, memory that nobody has written, races. Package emulated compiles a
// kernel when it is first launched, and runs it with the device of the kernels' sources. Those
// sources themselves can be checked for races by the same memory, see Watched.
//
// Whoever adds a row adds a specimen of it to specimens_test.go, and runs `make semantics`
// and `make semantics-faults`.
package translate

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing/fstest"

	"lockstep/gpu/internal/kernels"
)

//go:embed cpp races *.txt
var files embed.FS

// A Module is compiled kernels that are translated when they are asked for.
type Module interface {
	// Kernels are the names of the kernels.
	Kernels() []string
	// Kernel is a kernel in C++.
	Kernel(name string) (string, error)
	// Variables are those of the module in C++.
	Variables() string
}

// Program is the device without kernels, in C++: what kernels on the CPU have, checked
// memory, and the module's variables.
func Program(m Module) (fs.FS, error) {
	program := fstest.MapFS{"variables.cpp": {Data: []byte(m.Variables())}}
	return program, errors.Join(
		add(program, "cpu", kernels.Sources, "cpu"), add(program, "machine", files, "cpp"),
	)
}

// Watched are sources of kernels with what emulated.Options.Watched has them call: checked memory,
// which finds races.
func Watched(sources fs.FS) (fstest.MapFS, error) {
	program := fstest.MapFS{}
	err := errors.Join(
		add(program, ".", sources, "."), add(program, "machine", files, "cpp"),
		add(program, "races", files, "races"),
	)
	delete(program, "machine/machine.cpp") // of instructions
	return program, err
}

// add puts the files of a folder into one of a program.
func add(program fstest.MapFS, to string, all fs.FS, from string) error {
	folder, err := fs.Sub(all, from)
	if err != nil {
		return err
	}
	return fs.WalkDir(folder, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(folder, name)
		program[path.Join(to, name)] = &fstest.MapFile{Data: data, Mode: 0o444}
		return err
	})
}

// masked are functions, behind the kernel that calls them, that read shared memory which
// nobody has written, and do not use it: the scores of later positions, and what layers get of
// routes that have another network. The device fills memory with NaN, so that its use would
// show. Of global memory they read nothing that nobody has written.
var masked = regexp.MustCompile(`attention_softmax|lockstep_policy_.*compute_few_rows`)

// mark is what a function adds to the places of its instructions.
func mark(kernel, function string) string {
	if masked.MatchString(kernel + " " + function) {
		return " | kMasked"
	}
	return ""
}

// A row of a table is an instruction.
type row struct {
	opcode, types, operands, semantics, source string
}

var word = regexp.MustCompile(`\w+`)

// filled is a row's C++, in which words stand for what an instruction has.
func (r row) filled(words map[string]string) string {
	return word.ReplaceAllStringFunc(r.semantics, func(w string) string {
		if instead, ok := words[w]; ok {
			return instead
		}
		return w
	})
}

var columns = regexp.MustCompile(`\s{2,}`)

// readTable reads a table, whose rows have types or do not.
func readTable(name string, types bool) []row {
	data, err := files.ReadFile(name)
	if err != nil {
		panic(err)
	}
	var rows []row
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := columns.Split(line, -1)
		if !types {
			f = slices.Insert(f, 1, "")
		}
		if len(f) != 5 {
			panic(fmt.Sprintf("%s: %d columns: %s", name, len(f), line))
		}
		rows = append(rows, row{f[0], f[1], f[2], f[3], f[4]})
	}
	return rows
}

// variable is an array of bytes in C++.
func variable(name string, data []byte) string {
	var b strings.Builder
	fmt.Fprintf(&b, "extern \"C\" { alignas(16) unsigned char %s[] = {", name)
	for _, x := range data {
		fmt.Fprintf(&b, "%d,", x)
	}
	b.WriteString("}; }\n")
	return b.String()
}

// split cuts operands at commas that are in no brackets.
func split(text string) (parts []string) {
	depth, from := 0, 0
	for i, c := range text {
		switch c {
		case '{', '[', '(':
			depth++
		case '}', ']', ')':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, strings.TrimSpace(text[from:i]))
				from = i + 1
			}
		}
	}
	if last := strings.TrimSpace(text[from:]); last != "" {
		parts = append(parts, last)
	}
	return parts
}
