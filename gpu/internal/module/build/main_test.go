//go:build unix

package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockstep/gpu/internal/module"
)

const sources = "../../kernels"

func unpack(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// asDisassembled is the text of nvdisasm of which a listing was kept.
func asDisassembled(listing string) string {
	var b strings.Builder
	at := 0
	for line := range strings.Lines(listing) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "kernel "); ok {
			fmt.Fprintf(&b, "\t.section\t.text.%s,\"ax\",@progbits\n", name)
			at = 0
		} else if strings.HasSuffix(line, ":") {
			fmt.Fprintln(&b, line)
		} else if !strings.HasPrefix(line, "sha256 ") {
			fmt.Fprintf(&b, "        /*%04x*/                   %s ;\n", at, line)
			at += instructionBytes
		}
	}
	return b.String()
}

// TestReport: what report.txt says of the shipped machine code is what its listing comes to.
func TestReport(t *testing.T) {
	text := asDisassembled(unpack(t, "../rollout.sm_90.sass.gz"))
	report, err := os.ReadFile("../report.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(describe(map[string]string{"rollout": text}, nil), "\nMachine code")
	_, want, _ := strings.Cut(string(report), "\nMachine code")
	if want == "" || got != want {
		t.Errorf("report.txt has\n%s\nwant\n%s", want, got)
	}
}

// TestPerformance: the table of registers and machine code in PERFORMANCE.md is report.txt's, but
// for the shared memory, of which the report has nothing.
func TestPerformance(t *testing.T) {
	report, err := os.ReadFile("../report.txt")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../PERFORMANCE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| kernel | routes of a block | registers |")
	table, _, _ = strings.Cut(table, "\n\n")
	found := func(expression string) []string {
		t.Helper()
		m := regexp.MustCompile("(?m)^" + expression).FindStringSubmatch(string(report))
		if m == nil {
			t.Fatalf("report.txt has no line like %s", expression)
		}
		for i := range m { // from 1000 on with commas
			m[i] = regexp.MustCompile(`^(\d+)(\d{3})$`).ReplaceAllString(m[i], "$1,$2")
		}
		return m
	}
	kernel, rows := "", 0
	for _, line := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if kernel = cmp.Or(cells[0], kernel); len(cells) != 8 {
			t.Fatalf("a row of %d cells: %s", len(cells), line)
		}
		name := fmt.Sprintf("lockstep_%s_r%s", kernel, cells[1])
		used := found(name + ` sm_90: Used (\d+) registers`)
		spilled := found(name + ` sm_90: .* (\d+) bytes spill stores, (\d+) bytes spill loads`)
		code := found(name + `: (\d+) instructions, .* \d+ instructions, (.* KB)$`)
		most := found(name + `: .*\n  loop of (\d+): (\d+) FFMA (\(.* %\)),`)
		least := math.MaxInt
		loops := found(name + `: .*((?:\n  loop of .*)+)`)[1]
		for _, m := range regexp.MustCompile(`used (\d+) later`).FindAllStringSubmatch(loops, -1) {
			later, _ := strconv.Atoi(m[1])
			least = min(least, later)
		}
		want := []string{
			cells[0], cells[1], used[1], spilled[1] + " / " + spilled[2], cells[4],
			code[1] + ", " + code[2], most[2] + " of " + most[1] + " " + most[3],
			strconv.Itoa(least),
		}
		if !slices.Equal(cells, want) {
			t.Errorf("%s: PERFORMANCE.md has %q, the report %q", name, cells, want)
		}
		rows++
	}
	if variants := strings.Count(string(report), " sm_90: Used "); rows != variants-1 {
		t.Errorf("PERFORMANCE.md has %d kernels, the report %d beside lockstep_observe", rows,
			variants-1)
	}
}

// A toolchain has scripts in the places of nvcc, ptxas and nvdisasm: a compiler copies the shipped
// files, and says what is wanted of it; the other two copy what they are given.
type toolchain struct {
	t   *testing.T
	dir string
}

const said = "ptxas info    : Compiling entry function 'first' for 'sm_90'\n" +
	"ptxas info    : Function properties for first\n" +
	"    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n" +
	"ptxas info    : Used 40 registers\n" +
	"ptxas info    : Function properties for other\n" +
	"    0 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads\nnothing\n"

const firstCode = "\t.section\t.text.first,\"ax\",@progbits\n.L_x_1:\n" +
	"        /*0000*/                   FFMA R5, R4, R6, R5 ;\n" +
	"        /*0010*/                   LDG.E R8, [R2] ;\n" +
	"        /*0020*/                   FADD R9, R8, R4 ;\n" +
	"        /*0030*/                   BRA `(.L_x_1) ;\n"

func newToolchain(t *testing.T) toolchain {
	c := toolchain{t, t.TempDir()}
	c.put("version", "Cuda compilation tools, release 13.0, V13.0.48\n")
	c.put("said", said)
	c.put("code", firstCode)
	c.tool("nvcc", `[ "$1" = --version ] && exec cat DIR/version
for last; do [ "$before" = -o ] && to=$last; before=$last; done
case "$*" in *-cubin*) cat DIR/said;; esac
echo made > "$to"`)
	c.tool("ptxas", `for last; do [ "$before" = -o ] && to=$last; before=$last; done
echo assembled > "$to"`)
	c.tool("nvdisasm", "cat DIR/code")
	return c
}

func (c toolchain) put(name, text string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o700); err != nil {
		c.t.Fatal(err)
	}
}

func (c toolchain) tool(name, script string) {
	c.t.Helper()
	c.put(name, "#!/bin/sh\n"+strings.ReplaceAll(script, "DIR", c.dir)+"\n")
}

// run makes the kernels, or checks those that are there.
func (c toolchain) run(out string, check bool) error {
	return run(filepath.Join(c.dir, "nvcc"), sources, out, check)
}

// TestRun: what is made is written with its hashes, its listing and a report, and is then what is
// there; of what is not, its file is named.
func TestRun(t *testing.T) {
	c, out := newToolchain(t), t.TempDir()
	if err := c.run(out, false); err != nil {
		t.Fatal(err)
	}
	if err := c.run(out, true); err != nil {
		t.Errorf("checked: %v", err)
	}
	report, err := os.ReadFile(filepath.Join(out, "report.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\nfirst sm_90: 8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n" +
			"first sm_90: Used 40 registers\n" +
			"first sm_90 other: 0 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads\n\n",
		"\nfirst: 4 instructions, 1 FFMA; a step 4 instructions, 0.1 KB\n" +
			"  loop of 4: 1 FFMA (25.0 %), 0 LDS, 1 LDG, 2 other; used 1 later; 0 spilled\n",
	} {
		if !strings.Contains(string(report), want) {
			t.Errorf("the report lacks %q: %s", want, report)
		}
	}
	var m module.Manifest
	data, err := os.ReadFile(filepath.Join(out, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &m); err != nil || m.Compiler != "nvcc V13.0.48" ||
		len(m.Files) != 2 || m.Sources == "" {
		t.Errorf("%+v, %v", m, err)
	}
	const listing = "\nkernel first\n.L_x_1:\nFFMA R5, R4, R6, R5\n"
	if got := unpack(t, filepath.Join(out, "rollout.sm_90.sass.gz")); !strings.Contains(got,
		listing) {
		t.Errorf("the listing is %q", got)
	}
	path := filepath.Join(out, "rollout.ptx.gz")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 9), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.run(out, true); err == nil ||
		err.Error() != path+" is not what its sources make: run `make kernels`" {
		t.Errorf("checked with another file: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := c.run(out, true); !os.IsNotExist(err) {
		t.Errorf("checked without a file: %v", err)
	}
	if err := c.run(filepath.Join(out, "none"), false); err == nil {
		t.Error("written into no folder")
	}
}

// TestRefused: each tool that is not there, fails, or makes something else is told of.
func TestRefused(t *testing.T) {
	const twice = "case \"$1\" in *.ptx.cubin) sed s/FADD/FMUL/ DIR/code;; *) cat DIR/code;; esac"
	for _, b := range []struct{ tool, script, want string }{
		{"nvcc", "exit 3", "no CUDA compiler: leave CUDA_HOME unset and `make kernels` fetches it"},
		{"version", "", "nvcc says no version"},
		{"nvcc", `[ "$1" = --version ] && exec cat DIR/version; echo wrong; exit 1`,
			"exit status 1\nwrong\n"},
		{"nvcc", `[ "$1" = --version ] && exec cat DIR/version; exit 0`, "no such file"},
		{"ptxas", "echo wrong; exit 1", "ptxas: exit status 1\nwrong\n"},
		{"ptxas", "exit 0", "no such file"},
		{"nvdisasm", "exit 2", "nvdisasm: exit status 2"},
		{"nvdisasm", "", "no nvdisasm beside nvcc: "},
		{"code", strings.Replace(firstCode, "0010", "0018", 1), "nvdisasm: first: not at 10: "},
		{"nvdisasm", twice, "line 6 of its listing is not \"FADD R9, R8, R4\""},
		{"nvdisasm", strings.Replace(twice, "sed s/FADD/FMUL/", "head -3", 1),
			"line 5 of its listing is not \"LDG.E R8, [R2]\""},
		{"nvdisasm", strings.Replace(twice, "; *) cat", "; *) head -5", 1), "line 6 of its"},
		{"nvdisasm", strings.Replace(twice, "sed s/FADD/FMUL/ DIR/code",
			"cat DIR/code; echo '        /*0040*/ NOP ;'", 1), "line 8 of its listing is not \"\""},
	} {
		c := newToolchain(t)
		switch {
		case b.tool == "version" || b.tool == "code":
			c.put(b.tool, b.script)
		case b.script == "":
			if err := os.Remove(filepath.Join(c.dir, b.tool)); err != nil {
				t.Fatal(err)
			}
		default:
			c.tool(b.tool, b.script)
		}
		if err := c.run(t.TempDir(), false); err == nil || !strings.Contains(err.Error(), b.want) {
			t.Errorf("%s is %q: %v, want %s", b.tool, b.script, err, b.want)
		}
	}
	if err := run("nvcc", ".", t.TempDir(), false); err == nil ||
		!strings.Contains(err.Error(), "from other sources") {
		t.Errorf("other sources: %v", err)
	}
	c := newToolchain(t)
	c.put("a.cubin", "x")
	if err := list(filepath.Join(c.dir, "nvcc"), filepath.Join(c.dir, "a.cubin")); err != nil {
		t.Errorf("listed: %v", err)
	}
	c.tool("nvdisasm", "exit 2")
	if err := list(filepath.Join(c.dir, "nvcc"), filepath.Join(c.dir, "a.cubin")); err == nil {
		t.Error("what cannot be disassembled is listed")
	}
}
