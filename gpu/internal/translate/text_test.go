package translate

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockstep/gpu/internal/module"
	"lockstep/gpu/internal/module/classic"
	"lockstep/internal/simtest"
)

// TestText: what is made of each instruction, and of what is none, is what testdata says, one below
// the other. What that computes TestSemantics holds, on all that is shipped.
func TestText(t *testing.T) {
	held := func(name string, translated func(text string) (string, error)) {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "\t") {
				continue
			}
			if i+1 == len(lines) || !strings.HasPrefix(lines[i+1], "\t") {
				t.Fatalf("%s:%d: %s: does not say what is made of it", name, i+1, line)
			}
			got, err := translated(line)
			if err != nil {
				got = "refused: " + err.Error()
			}
			if want := lines[i+1][1:]; strings.TrimSpace(got) != want {
				t.Errorf("%s:%d: %s is made\n\t%s\nwant\n\t%s", name, i+1, line, got, want)
			}
		}
	}
	held("sass.txt", func(text string) (string, error) {
		k := &sassKernel{labels: map[string]int{".L_1": 0}}
		return k.instruction(2, parsed(t, text))
	})
	held("ptx.txt", func(text string) (string, error) {
		w := ptxWriter{
			module:    &ptxModule{shared: []string{"other", "buffer"}},
			kernel:    "kernel",
			function:  &ptxFunction{name: "attention_softmax"},
			registers: map[string]string{},
			places:    map[string]place{"a": {"a", 8}},
		}
		declarations := []string{
			".reg .b32 %r<5>", ".reg .b64 %rd<4>", ".reg .f32 %f<5>", ".reg .f64 %fd<4>",
			".reg .pred %p<3>", ".reg .b16 %rs<3>",
		}
		if strings.Contains(text, "__local_depot0") && !strings.HasPrefix(text, ".local") {
			declarations = append(declarations, ".local .align 16 .b8 __local_depot0[32]")
		}
		for _, d := range declarations {
			if _, err := w.statement(statement{1, d}); err != nil {
				t.Fatal(err)
			}
		}
		return w.statement(statement{7, text})
	})
}

// parsed is an instruction of a listing.
func parsed(t *testing.T, text string) code {
	t.Helper()
	i := sassCode.FindStringSubmatch(text)
	if i == nil {
		t.Fatalf("no instruction: %s", text)
	}
	return code{
		guard: i[1], opcode: i[2], operands: split(i[3]), word: 0x40000000, stall: 5, function: "f",
	}
}

// toyKernel has every way to go on: a loop, a table, a call, a barrier and an end.
func toyKernel(t *testing.T) *sassKernel {
	k := &sassKernel{
		labels: map[string]int{".L_1": 0, "$f": 3},
		table:  []byte{0x10, 0, 0, 0, 0x30, 0, 0, 0, 7},
		stack:  24,
	}
	for _, text := range []string{
		"@P1 FADD R1, R2, UR3", "BRX R2 -0x20", "CALL.REL.NOINC `($f)",
		"BAR.SYNC.DEFER_BLOCKING 0x0", "@!P2 EXIT", "BSSY B0, `(.L_1)", "LDC R3, c[0x2][R1]",
		"BRA `(.L_1)",
	} {
		k.codes = append(k.codes, parsed(t, text))
	}
	return k
}

const toyHead = `#include "machine.h"
using namespace machine;
`

const toyStart = `extern "C" void k(const void *argument) {
Thread t(argument);
t.frame = 24;
uint32_t where = 0;
`

const toyDispatch = `uint64_t B0 = 0;
bool P1 = false;
bool P2 = false;
uint32_t R1 = 0xdeadbeefu;
uint32_t R2 = 0xdeadbeefu;
uint32_t R3 = 0xdeadbeefu;
uint32_t UR3 = 0xdeadbeefu;
static const unsigned char table[] = {16,0,0,0,48,0,0,0,7,0};
goto start;
dispatch: switch (where) {
case 0x10: goto at_10;
case 0x30: goto at_30;
default: t.stop(kCode | where, "a jump to where no code is known to begin");
}
start:;
`

// TestKernelText: a kernel is one function with its registers, its table, and the places to which
// registers may jump; one that is counted notes each block of instructions that is entered.
func TestKernelText(t *testing.T) {
	var m Module = &sassModule{kernels: map[string]*sassKernel{"k": toyKernel(t)}}
	got, err := m.Kernel("k")
	if err != nil {
		t.Fatal(err)
	}
	const want = toyHead + toyStart + toyDispatch + `L_L_1:;
if (P1) { float a = f32(R2); float b = f32(UR3); float d; d = a + b; R1 = bits<uint32_t>(d); }
at_10:;
{ where = R2; t.branch((int)where, true); goto dispatch; }
goto L_f;
L_f:;
at_30:;
t.barrier(kCode | 0x30);
if (!P2) return;
B0 = t.path;
{ uint32_t a = t.constant2(table, sizeof table, R1, kCode | 0x60); uint32_t d; d = a; R3 = d; }
goto L_L_1;
}
`
	sameLines(t, "kernel", got, want)
	plain := m
	if m, err = Counted(m); err != nil {
		t.Fatal(err)
	}
	if got, err = plain.Kernel("k"); err != nil {
		t.Fatal(err)
	}
	sameLines(t, "kernel that is counted elsewhere", got, want)
	if got, err = m.Kernel("k"); err != nil {
		t.Fatal(err)
	}
	const costs = `enum { kBlocks = 6 };
static const int costs[kBlocks][9] = {{1, 5, 0, 0, 0, 0, 0, 1, 0},{1, 5, 0, 0, 0, 0, 0, 0, 0},` +
		`{1, 5, 0, 0, 0, 0, 0, 0, 0},{1, 5, 0, 0, 0, 0, 0, 0, 0},{1, 5, 0, 0, 0, 0, 0, 0, 0},` +
		`{3, 15, 0, 0, 0, 0, 1, 0, 0},};
`
	header, err := files.ReadFile("cpp/count.h")
	if err != nil {
		t.Fatal(err)
	}
	counted := strings.NewReplacer(
		toyHead, toyHead+costs+string(header),
		toyStart, toyStart+"uint32_t *const counted = counts[t.tid];\nconst End end{t.ntid};\n",
		"L_L_1:;\n", "L_L_1:;\ncounted[0]++;\n",
		"at_10:;\n", "at_10:;\ncounted[1]++;\n",
		"goto L_f;\n", "counted[2]++;\ngoto L_f;\n",
		"at_30:;\n", "at_30:;\ncounted[3]++;\n",
		"if (!P2)", "counted[4]++;\nif (!P2)",
		"B0 = t.path", "counted[5]++;\nB0 = t.path",
	).Replace(want)
	sameLines(t, "counted kernel", got, counted)
	two := toyKernel(t)
	two.labels[".L_2"], two.labels[".L_0"] = 0, 0
	plain.(*sassModule).kernels["k"] = two
	for range 5 { // a map has another order each time
		if got, err = plain.Kernel("k"); err != nil {
			t.Fatal(err)
		}
		const all = "L_L_0:;\nL_L_1:;\nL_L_2:;\n"
		sameLines(t, "kernel with three names of a place", got,
			strings.Replace(want, "L_L_1:;\n", all, 1))
	}
}

// sameLines holds a text to another, line by line.
func sameLines(t *testing.T, what, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("%s, line %d is\n\t%s\nwant\n\t%s", what, i+1, g[i], w[i])
		}
	}
	if len(g) != len(w) {
		t.Fatalf("%s has %d lines, want %d", what, len(g), len(w))
	}
}

// TestTargets: what a table has is the place of an instruction, the first and the last too, and
// behind a last call there is none.
func TestTargets(t *testing.T) {
	for _, c := range []struct {
		table   []uint32
		unused  bool // nothing jumps by the table
		last    string
		want    []int
		refused string
	}{
		{[]uint32{0, 0x10}, false, "EXIT", []int{0, 1}, ""},
		{[]uint32{0x10}, false, "CALL.REL.NOINC `($f)", []int{1}, ""},
		{[]uint32{0, 0x10}, true, "EXIT", nil, ""},
		{nil, false, "EXIT", nil, ""},
		{[]uint32{0, 0x20}, false, "EXIT", nil, "has 0x20, which is no instruction"},
		{[]uint32{0x18}, false, "EXIT", nil, "has 0x18, which is no instruction"},
	} {
		first := "BRX R2 -0x10"
		if c.unused {
			first = "NOP"
		}
		k := &sassKernel{codes: []code{parsed(t, first), parsed(t, c.last)}}
		for _, x := range c.table {
			k.table = binary.LittleEndian.AppendUint32(k.table, x)
		}
		targets, err := k.targets()
		if c.refused != "" {
			simtest.Refused(t, "a table", err, c.refused)
			continue
		}
		if got := slices.Sorted(maps.Keys(targets)); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v: targets %v, %v; want %v", c.table, got, err, c.want)
		}
	}
}

// TestKernelRefused: an instruction that has no translation is named with its kernel and place.
func TestKernelRefused(t *testing.T) {
	k := toyKernel(t)
	k.codes[3] = parsed(t, "WARPSYNC R1, R2")
	m := &sassModule{kernels: map[string]*sassKernel{"k": k}}
	_, err := m.Kernel("k")
	simtest.Refused(t, "an opcode", err,
		"k at 0x0030: WARPSYNC R1, R2: the opcode is not in sass.txt")
	k.table[0] = 1
	_, err = m.Kernel("k")
	simtest.Refused(t, "a table", err, "k: constant bank 2 has 0x1, which is no instruction")
}

// TestStacks: a kernel's local memory is as large as ptxas reported when it was made.
func TestStacks(t *testing.T) {
	report := regexp.MustCompile(`(?m)^'?(\w+)(?: sm_90|'): .*?(\d+) bytes stack frame`)
	for path, cubin := range map[string]map[string]Kernels{
		"../module/report.txt":         Shipped("", module.PTX, module.Cubin, module.Listing),
		"../module/classic/report.txt": Shipped("", classic.PTX, classic.Cubin, classic.Listing),
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := cubin["sass"].Read()
		if err != nil {
			t.Fatal(err)
		}
		kernels, compared := m.(*sassModule).kernels, 0
		for _, r := range report.FindAllStringSubmatch(string(text), -1) {
			want, err := strconv.Atoi(r[2])
			if err != nil {
				t.Fatal(err)
			}
			k := kernels[r[1]]
			if k == nil {
				continue
			}
			compared++
			for i, c := range k.codes {
				if c.function != r[1] && (i == 0 || c.function[0] != '$') {
					t.Fatalf("instruction %d of %s is in %s", i, r[1], c.function)
				}
			}
			if k.stack != want {
				t.Errorf("%s has %d bytes of local memory, %s says %d", r[1], k.stack, path, want)
			}
		}
		if compared != len(kernels) {
			t.Errorf("%s speaks of %d of %d kernels", path, compared, len(kernels))
		}
	}
}

// A change is of a section's bytes.
type change = func(data []byte)

// altered is the classic kernels' cubin with sections that were changed, and its listing.
func altered(t *testing.T, changes map[string]change) (Module, error) {
	t.Helper()
	text, err := classic.Cubin()
	if err != nil {
		t.Fatal(err)
	}
	listing, err := classic.Listing()
	if err != nil {
		t.Fatal(err)
	}
	cubin := []byte(text)
	file, err := elf.NewFile(bytes.NewReader(cubin))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range changes {
		s := file.Section(name)
		change(cubin[s.Offset : s.Offset+s.Size])
	}
	_, rest, _ := strings.Cut(listing, "\n")
	return MachineCode(cubin, fmt.Sprintf("sha256 %x\n%s", sha256.Sum256(cubin), rest))
}

// TestEncoding: an instruction's constant and stall count are bits 32 to 63 and 105 to 108 of it.
func TestEncoding(t *testing.T) {
	const name = "lockstep_reset_shared"
	m, err := altered(t, map[string]change{".text." + name: func(data []byte) {
		binary.LittleEndian.PutUint64(data[16:], 0x1122334455667788)
		binary.LittleEndian.PutUint64(data[24:], 0xfff<<45|11<<41|0x1ff<<32)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if c := m.(*sassModule).kernels[name].codes[1]; c.word != 0x11223344 || c.stall != 11 {
		t.Errorf("constant 0x%x, stall %d; want 0x11223344, 11", c.word, c.stall)
	}
}

// TestInfo: what .nv.info says of what is no kernel, or not of its stack, is passed over; its end
// is where its last word is.
func TestInfo(t *testing.T) {
	const name = "lockstep_steps_acrobot"
	said := func(words ...uint32) change { // behind words that stand for themselves
		return func(data []byte) {
			begin := len(data) - 4*len(words)
			for at := 0; at < begin; at += 4 {
				binary.LittleEndian.PutUint32(data[at:], 0x1203) // not another format's stack
			}
			for i, w := range words {
				binary.LittleEndian.PutUint32(data[begin+4*i:], w)
			}
		}
	}
	m, err := altered(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := m.(*sassModule).cubin.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	number := uint32(1 + slices.IndexFunc(symbols, func(s elf.Symbol) bool {
		return s.Name == name
	}))
	const stack, frame = 0x81204, 0x81104 // the heads of eight bytes about each
	for _, c := range []struct {
		what    string
		words   []uint32
		want    int
		refused string
	}{
		{"a stack", []uint32{stack, number, 77}, 77, ""},
		{"another attribute", []uint32{frame, number, 77}, 0, ""},
		{"another length", []uint32{0xc1204, number, 77, 0}, 0, ""},
		{"no symbol", []uint32{stack, 0, 77}, 0, ""},
		{"a symbol that there is not", []uint32{stack, uint32(len(symbols)) + 1, 77}, 0, ""},
		{"a symbol that is no kernel", []uint32{stack, 1, 77}, 0, ""},
		{"the middle", []uint32{stack, number}, 0, "ends in the middle"},
		{"the head alone", []uint32{stack}, 0, "ends in the middle"},
	} {
		m, err := altered(t, map[string]change{".nv.info": said(c.words...)})
		if c.refused != "" {
			simtest.Refused(t, c.what, err, c.refused)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		} else if got := m.(*sassModule).kernels[name].stack; got != c.want {
			t.Errorf("%s: %s has %d bytes of local memory, want %d", c.what, name, got, c.want)
		}
	}
	// A kernel may be the first symbol.
	const entry = 24
	if m, err = altered(t, map[string]change{
		".nv.info": said(stack, 1, 77),
		".symtab":  func(data []byte) { copy(data[entry:2*entry], data[entry*number:]) },
	}); err != nil {
		t.Fatal(err)
	}
	if got := m.(*sassModule).kernels[name].stack; got != 77 {
		t.Errorf("%s as the first symbol has %d bytes of local memory, want 77", name, got)
	}
}

// TestVariables: only objects that lie in their section are variables.
func TestVariables(t *testing.T) {
	const entry = 24
	m, err := altered(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	cubin := m.(*sassModule).cubin
	symbols, err := cubin.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	at := entry * (1 + slices.IndexFunc(symbols, func(s elf.Symbol) bool {
		return s.Name == "lockstep_classic_layout"
	}))
	const want = "lockstep_classic_layout[]"
	for _, c := range []struct {
		what   string
		change func(symbol []byte)
		is     bool
	}{
		{"as it is", func([]byte) {}, true},
		{"a function", func(s []byte) { s[4] = s[4]&0xf0 | byte(elf.STT_FUNC) }, false},
		{"in another section", func(s []byte) { s[6]++ }, false},
		{"in no section", func(s []byte) {
			binary.LittleEndian.PutUint16(s[6:], uint16(len(cubin.Sections)))
		}, false},
		{"beyond its section", func(s []byte) { s[8]++ }, false},
	} {
		m, err := altered(t, map[string]change{
			".symtab": func(data []byte) { c.change(data[at : at+entry]) },
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Variables(); strings.Contains(got, want) != c.is {
			t.Errorf("a symbol %s: variables %q; %s among them: want %v", c.what, got, want, c.is)
		}
	}
}

// TestListing: kernels, labels and instructions are kept of what nvdisasm writes, without what it
// says beside, and an address that does not follow is refused.
func TestListing(t *testing.T) {
	const text = "\t.section\t.nv.info,\"\",@\"SHT_CUDA_INFO\"\n" +
		"before:\n        /*0000*/                   NOP ;\n" +
		"\t.section\t.text.k,\"ax\",@progbits\n.text.k:\n" +
		"        /*0000*/                   MOV R1, c[0x0][0x28] ;\n" +
		".L_x_1:\n" +
		"        /*0010*/              @!P0 FADD  R1.reuse, R2,  R3.reuse ;\n" +
		"        /*0020*/                   BRX R2 -0x30 (*\"BRANCH_TARGETS .L_1\"*) ;\n" +
		"\t.section\t.text.second\n        /*0000*/                   EXIT ;\n"
	got, err := Listing([]byte("cubin"), text)
	if err != nil {
		t.Fatal(err)
	}
	sameLines(t, "listing", got, fmt.Sprintf("sha256 %x\n", sha256.Sum256([]byte("cubin")))+
		"kernel k\n.text.k:\nMOV R1, c[0x0][0x28]\n.L_x_1:\n@!P0 FADD R1, R2, R3\n"+
		"BRX R2 -0x30\nkernel second\nEXIT\n")
	for _, at := range []string{"0010", "0018", "0030"} {
		_, err := Listing(nil, strings.Replace(text, "/*0020*/", "/*"+at+"*/", 1))
		simtest.Refused(t, "an address that does not follow", err, "not at 20: ")
	}
}

// TestStatements: PTX is cut at semicolons, labels and braces that are no operands, and each
// statement knows the line of its first word.
func TestStatements(t *testing.T) {
	const text = `// a comment; with { what } cuts
.version 9.0
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 buffer[];
.func f(
  .param .b64 p)
{
  mov.b64 {%r1,
    %r2}, %rd1; // behind; it
$L_1: add.s32 %r1, %r2,
      3;
  { ret; }
}
`
	want := []statement{
		{5, ".extern .shared .align 16 .b8 buffer[]"}, {6, ".func f( .param .b64 p) {"},
		{9, "mov.b64 {%r1, %r2}, %rd1"}, {11, "$L_1:"}, {11, "add.s32 %r1, %r2, 3"}, {13, "{"},
		{13, "ret"}, {13, "}"}, {14, "}"},
	}
	sameLines(t, "statements", lined(statements(text)), lined(want))
}

// lined are statements as text, one a line.
func lined(all []statement) (text string) {
	for _, s := range all {
		text += fmt.Sprintf("line %d: %s\n", s.line, s.text)
	}
	return text
}

// TestPTXText: a kernel in C++, with what it calls before it, and the variables of its module.
func TestPTXText(t *testing.T) {
	const text = `.version 9.0
.global .align 16 .b8 zeros[3];
.visible .global .align 8 .b8 some[3] = {255, 2};
.func (.param .b32 r) g(.param .b64 p);
.func (.param .b32 r) g(.param .b64 p, .param .align 4 .b8 q[12])
{ { ret; } }
.func f() { call.uni g, (a); ret; }
.visible .entry k(.param .u64 k_param_0) {
.reg .b64 %rd<2>; ld.param.u64 %rd1, [k_param_0+8]; call.uni f; call.uni f; ret; }
`
	m, err := PTX(text)
	if err != nil {
		t.Fatal(err)
	}
	const want = toyHead + `static __attribute__((noinline)) void f(Thread &t);
static __attribute__((noinline)) void g(Thread &t, unsigned char *r, unsigned char *p, ` +
		`unsigned char *q);
extern "C" void k(const void *argument) {
Thread t(argument);
uint64_t rd0_, rd1_;
{ const uint8_t *q = t.read_global((uint64_t)(uint64_t)t.argument + 8, 8, 9); ` +
		`rd1_ = load<uint64_t>(q + 0); }
f(t);
f(t);
return;
}
static __attribute__((noinline)) void f(Thread &t) {
g(t, a);
return;
}
static __attribute__((noinline)) void g(Thread &t, unsigned char *r, unsigned char *p, ` +
		`unsigned char *q) {
{
return;
}
}
`
	got, err := m.Kernel("k")
	if err != nil {
		t.Fatal(err)
	}
	sameLines(t, "kernel", got, want)
	// Shared memory has as many names as a module gives it, in whichever order.
	const names = ".extern .shared .align 16 .b8 one[];\n.extern .shared .align 16 .b8 two[];\n"
	for _, name := range []string{"one", "two"} {
		named, err := PTX(names + strings.Replace(text, "call.uni f; call.uni f;",
			"mov.u64 %rd0, "+name+";", 1))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := named.Kernel("k"); err != nil || !strings.Contains(got, "kSharedStart") {
			t.Errorf("shared memory that is named %s: %v in %s", name, err, got)
		}
	}
	sameLines(t, "variables", m.Variables(),
		`extern "C" { alignas(16) unsigned char zeros[] = {0,0,0,}; }
extern "C" { alignas(16) unsigned char some[] = {255,2,0,}; }
`)
	if got := m.Kernels(); !slices.Equal(got, []string{"k"}) {
		t.Errorf("kernels %q, want k", got)
	}
	for _, c := range []struct{ old, new, want string }{
		{"{255, 2}", "{255, 256}", "line 3 of the PTX: some: no 3 bytes"},
		{"{255, 2}", "{255, 2, 1, 0}", "line 3 of the PTX: some: no 3 bytes"},
		{".visible .entry", ".func", "the PTX has no kernel"},
		{"ret; }\n", "ret; } }\n", "line 7 of the PTX: not known: }"},
	} {
		_, err := PTX(strings.Replace(text, c.old, c.new, 1))
		simtest.Refused(t, c.new, err, c.want)
	}
	for _, c := range []struct{ old, new, want string }{
		{"call.uni g, (a)", "call.uni h, (a)", "the PTX has no function h"},
		{"call.uni f; call.uni f;", ".local .align 8 .b8 d[8]; .local .align 8 .b8 e[8];",
			"k, line 9 of the PTX: .local .align 8 .b8 e[8]: no frame"},
		{"[k_param_0+8]", "k_param_0", "k, line 9 of the PTX: ld.param.u64 %rd1, k_param_0: no"},
		{".param .b64 p, .param", ".param .c, .param", "g, no parameter: .param .c"},
	} {
		m, err := PTX(strings.Replace(text, c.old, c.new, 1))
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Kernel("k")
		simtest.Refused(t, c.new, err, c.want)
	}
}

// TestTypes: how many bytes types have, what a letter of the table stands for, and what fits what.
func TestTypes(t *testing.T) {
	for name, want := range map[string]int{"pred": 1, "u8": 1, "b16": 2, "f32": 4, "s64": 8} {
		if got := size(name); got != want {
			t.Errorf("%s has %d bytes, want %d", name, got, want)
		}
	}
	o := operation{t: "s32", v: "f64"}
	for letter, want := range map[rune]string{
		't': "s32", 'u': "u32", 'v': "f64", 'w': "s64", 'r': "u32", 'p': "pred",
	} {
		if got := o.kind(letter); got != want {
			t.Errorf("%c of s32 with f64 is %s, want %s", letter, got, want)
		}
	}
	for _, c := range []struct{ from, to, want string }{
		{"b32", "u32", "x"}, {"f32", "f32", "x"}, {"f32", "b32", "bits<uint32_t>(x)"},
		{"b64", "f64", "bits<double>(x)"}, {"u64", "s32", "(int32_t)x"}, {"f32", "b64", ""},
		{"b16", "f32", ""}, {"f64", "f32", ""}, {"pred", "u8", ""}, {"u8", "pred", ""},
		{"pred", "pred", "x"},
	} {
		if got, err := convert("x", c.from, c.to); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s as %s is %q, %v; want %q", c.from, c.to, got, err, c.want)
		}
	}
}

// TestSplit: operands are cut at commas that are in no brackets, of whichever kind.
func TestSplit(t *testing.T) {
	for text, want := range map[string][]string{
		"":                            nil,
		"a":                           {"a"},
		"a, {b, c} , [d,e], (f, (g))": {"a", "{b, c}", "[d,e]", "(f, (g))"},
		", a,":                        {"", "a"},
	} {
		if got := split(text); !slices.Equal(got, want) {
			t.Errorf("the operands of %q are %q, want %q", text, got, want)
		}
	}
}

// TestRowsApart: no instruction fits two rows of sass.txt, so that their order says nothing.
func TestRowsApart(t *testing.T) {
	for opcode, rows := range codes {
		seen := map[string]string{}
		for _, r := range rows {
			places := regexp.MustCompile(`[^p!-]`).ReplaceAllString(
				strings.Replace(r.operands, "=", "", 1), "v",
			)
			places = strings.NewReplacer("!", "p", "-", "p").Replace(places)
			if other := seen[places]; other != "" {
				t.Errorf("%s: rows %s and %s fit the same operands", opcode, other, r.operands)
			}
			seen[places] = r.operands
		}
	}
}

// TestRegisters: the register behind another keeps its kind, and behind RZ there is none.
func TestRegisters(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int
		want string
	}{{"R9", 1, "R10"}, {"UR4", 3, "UR7"}, {"R0", 0, "R0"}, {"RZ", 1, "RZ"}, {"URZ", 2, "URZ"}} {
		if got := next(c.name, c.n); got != c.want {
			t.Errorf("%d behind %s is %s, want %s", c.n, c.name, got, c.want)
		}
	}
	for i := range 255 {
		for _, kind := range []string{"R", "UR"} {
			for n := range 4 {
				of, want := fmt.Sprint(kind, i), fmt.Sprint(kind, i+n)
				if got := next(of, n); got != want {
					t.Errorf("%d behind %s is %s, want %s", n, of, got, want)
				}
			}
		}
	}
}
