package translate

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/driver/emulated"
	"lockstep/internal/want"
)

// toolkit is the folder with ptxas and nvdisasm: `make semantics` assembles the specimens.
var toolkit = flag.String("toolkit", "", "folder of ptxas and nvdisasm: write testdata/specimens.*")

// plant makes each row wrong, too, and looks whether that shows: `make semantics-faults`.
var plant = flag.Bool("plant", false, "make each row wrong, and want the results to show it")

const specimenFiles = "testdata/specimens"

var edges = map[string][]uint64{
	"pred": {0, 1},
	"u16":  {0, 1, 0x7fff, 0x8000, 0xffff, 0xfff8, 255, 256},
	"u32": {
		0, 1, 2, 3, 7, 0xffffffff, 0xfffffffe, 0x7fffffff, 0x80000000, 0x80000001, 0x7ffffffe,
		0xffff, 0x10000, 0x55555555, 0xaaaaaaab, 0x12345678, 0xdeadbeef, 624, 0xfffffd90,
	},
	"shift": {
		0, 1, 7, 8, 15, 16, 25, 30, 31, 32, 33, 47, 63, 64, 65, 127, 128, 254, 255, 256, 257,
		0x7fffffff, 0x80000000, 0xffffffff,
	},
	"u64": {
		0, 1, 2, 7, math.MaxUint64, math.MaxUint64 - 1, math.MaxInt64, 1 << 63, 1<<63 + 1,
		0xffffffff, 0x100000000, 0xffffffff00000000, 0xffffffff80000000, 0x7fffffff, 0x80000000,
		0x123456789abcdef0, 0xfedcba9876543210, 1 << 53, 1<<53 + 1,
	},
	"f32": {
		0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x00800001, 0x3f800000,
		0xbf800000, 0x3f7fffff, 0x3f800001, 0x3f9d70a4, 0x40490fdb, 0x4b7fffff, 0x4f000000,
		0x4effffff, 0xcf000000, 0xcf000001, 0x4f800000, 0x5effffff, 0x5f000000, 0xdf000000,
		0xdf000001, 0x7f7fffff, 0xff7fffff, 0x7f000000, 0x7f800000, 0xff800000, 0x7fc00000,
		0xffc12345, 0x7f800001,
	},
	"f64": {
		0, 1 << 63, 1, 1<<63 | 1, 0x000fffffffffffff, 0x0010000000000000, 0x3ff0000000000000,
		0xbff0000000000000, 0x3fefffffffffffff, 0x3ff0000000000001, 0x400921fb54442d18,
		0x3fb999999999999a, 0x41dfffffffc00000, 0x41e0000000000000, 0xc1e0000000200000,
		0x43dfffffffffffff, 0x43e0000000000000, 0xc3e0000000000000, 0xc3e0000000000001,
		0x7fefffffffffffff, 0xffefffffffffffff, 0x36a0000000000000, 0x3690000000000001,
		0x47efffffe0000000, 0x47effffff0000000, 0x7ff0000000000000, 0xfff0000000000000,
		0x7ff8000000000000, 0xfff8000012345678, 0x7ff0000000000001,
	},
}

// register is the type that a specimen's operand is kept in.
func register(t string) string {
	if t == "pred" || t[0] == 'f' {
		return t
	}
	return "u" + t[1:]
}

const (
	specimenThreads = 64
	operandBytes    = 32 // of a thread: four operands of eight bytes
	specimenShared  = 16 * specimenThreads
	mostValues      = 4096
	randomValues    = 512
)

// inputs are all combinations of edge values, or some where those are too many, and numbers
// at random. Their count is a multiple of a block's threads.
func (s specimen) inputs() (all [][]uint64) {
	random := rand.New(rand.NewPCG(1, uint64(len(s.name))))
	lists := make([][]uint64, len(s.from))
	combinations := 1
	for i, t := range s.from {
		lists[i] = edges[register(t)]
		if shifts(s, i) {
			lists[i] = edges["shift"]
			if strings.HasPrefix(s.name, "s_bfi") { // ptxas takes no byte of them
				lists[i] = slices.DeleteFunc(
					slices.Clone(lists[i]), func(n uint64) bool { return n > 255 },
				)
			}
		}
		combinations *= len(lists[i])
	}
	add := func(x []uint64) {
		if s.open(x) {
			return
		}
		all = append(all, x)
	}
	for n := range min(combinations, mostValues) {
		if combinations > mostValues {
			n = random.IntN(combinations)
		}
		var x []uint64
		for _, list := range lists {
			x = append(x, list[n%len(list)])
			n /= len(list)
		}
		add(x)
	}
	for len(all)%specimenThreads != 0 || len(all) < min(combinations, mostValues)+randomValues {
		var x []uint64
		for i, t := range s.from {
			v := random.Uint64() >> (64 - 8*size(t))
			if t == "pred" {
				v &= 1
			}
			if random.IntN(3) == 0 || shifts(s, i) {
				v = lists[i][random.IntN(len(lists[i]))]
			}
			x = append(x, v)
		}
		add(x)
	}
	return all
}

// open tells whether PTX leaves open what becomes of operands: of a quotient by zero, and of
// one that is beyond its type.
func (s specimen) open(x []uint64) bool {
	divides := strings.HasPrefix(s.body, "div.") || strings.HasPrefix(s.body, "rem.")
	if !divides || len(x) != 2 || s.to[0] == 'f' {
		return false
	}
	return x[1] == 0 || s.from[0] == "s32" && x[0] == 1<<31 && x[1] == math.MaxUint32
}

// shifts tells whether an operand is a number of places.
func shifts(s specimen, operand int) bool {
	if strings.HasPrefix(s.name, "s_bfi") {
		return operand > 1
	}
	return operand == 1 && strings.HasPrefix(s.name, "s_sh") && len(s.from) == 2
}

// entry is the specimen in PTX: its argument is where the operands are, where the results
// go, and which of the rows is to be wrong.
func (s specimen) entry() string {
	var b strings.Builder
	p := s.name + "_param_0"
	fmt.Fprintf(&b, ".visible .entry %s(\n\t.param .align 8 .b8 %s[24]\n)\n{\n", s.name, p)
	b.WriteString(".reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n.reg .b16 %none;\n")
	for i, t := range append(slices.Clone(s.from), s.to) {
		fmt.Fprintf(
			&b, ".reg .%s %%%c;\n", register(t), append([]byte("abce")[:len(s.from)], 'd')[i],
		)
	}
	fmt.Fprintf(&b, "ld.param.u64 %%rd1, [%s];\nld.param.u64 %%rd2, [%s+8];\n", p, p)
	b.WriteString("cvta.to.global.u64 %rd1, %rd1;\ncvta.to.global.u64 %rd2, %rd2;\n")
	b.WriteString(
		"mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\nmad.lo.s32 %r1, " +
			"%r1, %r2, %r3;\n",
	)
	b.WriteString(
		"mul.wide.u32 %rd3, %r1, 32;\nadd.s64 %rd1, %rd1, %rd3;\nmul.wide.u32 %rd3, %r1, " +
			"8;\nadd.s64 %rd2, %rd2, %rd3;\n",
	)
	for i, t := range s.from {
		name, at := "abce"[i:i+1], 8*i
		switch register(t) {
		case "pred":
			fmt.Fprintf(
				&b, "ld.global.u32 %%r4, [%%rd1+%d];\nsetp.ne.s32 %%%s, %%r4, 0;\n", at, name,
			)
		case "u16":
			fmt.Fprintf(&b, "ld.global.u32 %%r4, [%%rd1+%d];\ncvt.u16.u32 %%%s, %%r4;\n", at, name)
		default:
			fmt.Fprintf(&b, "ld.global.%s %%%s, [%%rd1+%d];\n", register(t), name, at)
		}
	}
	b.WriteString("{\n" + s.body + "\n}\n")
	switch register(s.to) {
	case "pred":
		b.WriteString("selp.u32 %r5, 1, 0, %d;\nst.global.u32 [%rd2], %r5;\n")
	case "u16":
		b.WriteString("mov.u16 %none, 0;\nmov.b32 %r5, {%d, %none};\nst.global.u32 [%rd2], %r5;\n")
	default:
		fmt.Fprintf(&b, "st.global.%s [%%rd2], %%d;\n", register(s.to))
	}
	b.WriteString("ret;\n}\n")
	return b.String()
}

// specimenText is the module.
func specimenText(all []specimen) string {
	var b strings.Builder
	b.WriteString(
		".version 9.0\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 buffer[];\n" +
			helper,
	)
	for _, s := range all {
		b.WriteString(s.entry())
	}
	return b.String()
}

// assemble writes testdata.
func assemble(t *testing.T, text string) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll("testdata", 0o755))
	work := t.TempDir()
	ptx, cubin := filepath.Join(work, "specimens.ptx"), filepath.Join(work, "specimens.cubin")
	must(os.WriteFile(ptx, []byte(text), 0o644))
	ptxas := exec.Command(filepath.Join(*toolkit, "ptxas"), "-arch=sm_90", "-o", cubin, ptx)
	out, err := ptxas.CombinedOutput()
	if err != nil {
		t.Fatalf("ptxas: %v\n%s", err, out)
	}
	listed, err := exec.Command(filepath.Join(*toolkit, "nvdisasm"), cubin).Output()
	must(err)
	data, err := os.ReadFile(cubin)
	must(err)
	listing, err := Listing(data, string(listed))
	must(err)
	for name, data := range map[string][]byte{
		"ptx":   []byte(text),
		"cubin": data,
		"sass":  []byte(listing),
	} {
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		w.Write(data)
		must(w.Close())
		must(os.WriteFile(specimenFiles+"."+name+".gz", b.Bytes(), 0o644))
	}
}

func specimenFile(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(specimenFiles + "." + name + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// together is a module whose kernels are compiled at once, and translated once.
type together struct {
	Module
	kernels func() (string, error)
}

func newTogether(m Module, names []string) Module {
	return together{m, sync.OnceValues(func() (string, error) {
		var b strings.Builder
		for _, name := range names {
			text, err := m.Kernel(name)
			if err != nil {
				return "", err
			}
			b.WriteString(text)
		}
		return b.String(), nil
	})}
}

func (m together) Kernel(string) (string, error) { return m.kernels() }

// cases are operands of a specimen, and what PTX says that becomes of them.
type cases struct {
	inputs [][]uint64
	is     []uint64
}

// A laboratory runs specimens on one of the two executors.
type laboratory struct {
	engine  string
	kernels Kernels
	most    int // threads of a launch
	cases   map[string]cases
	device  driver.Device
	in, out driver.Pointer
}

func newLaboratory(t *testing.T, engine string, m Module, all []specimen) *laboratory {
	t.Helper()
	most := 0
	var names []string
	for _, s := range all {
		most, names = max(most, len(s.inputs())), append(names, s.name)
	}
	once := newTogether(m, names)
	kernels := Kernels{
		Sources: "specimens", Read: func() (Module, error) { return once, nil },
	}
	l := &laboratory{engine: engine, kernels: kernels, most: most, cases: map[string]cases{}}
	l.open(t)
	t.Cleanup(func() { l.device.Close() })
	return l
}

func (l *laboratory) open(t *testing.T) {
	t.Helper()
	var err error
	if l.device, err = l.kernels.Open(l.engine, emulated.Options{}); err != nil {
		t.Fatal(err)
	}
	for p, bytes := range map[*driver.Pointer]int{&l.in: operandBytes, &l.out: 8} {
		if *p, err = l.device.Allocate(int64(bytes * l.most)); err != nil {
			t.Fatal(err)
		}
	}
}

// run returns what a specimen makes of operands, with a row of the tables made wrong.
func (l *laboratory) run(s specimen, inputs [][]uint64, fault int) ([]uint64, error) {
	var in []byte
	for _, x := range inputs {
		for i := range operandBytes / 8 {
			v := uint64(0)
			if i < len(x) {
				v = x[i]
			}
			in = binary.LittleEndian.AppendUint64(in, v)
		}
	}
	var argument []byte
	for _, x := range []uint64{uint64(l.in), uint64(l.out), uint64(fault)} {
		argument = binary.LittleEndian.AppendUint64(argument, x)
	}
	out := make([]byte, 8*len(inputs))
	for _, err := range []error{
		l.device.Upload(l.in, in),
		l.device.Fill(l.out, 0, int64(len(out))),
		l.device.Launch(s.name, len(inputs)/specimenThreads, specimenThreads, specimenShared,
			argument),
		l.device.Download(out, l.out),
		l.device.Synchronize(context.Background()),
	} {
		if err != nil {
			return nil, err
		}
	}
	results := make([]uint64, len(inputs))
	for i := range results {
		results[i] = binary.LittleEndian.Uint64(out[8*i:])
	}
	return results, nil
}

// differs is the first operands of which something else was made than PTX says. Which NaN a
// result is PTX leaves open.
func (s specimen) differs(c cases, got []uint64) string {
	for i, is := range c.is {
		nan := func(x uint64) bool { return s.to[0] == 'f' && math.IsNaN(number(s.to, x)) }
		if got[i] == is || nan(got[i]) && nan(is) {
			continue
		}
		return fmt.Sprintf("of %#x it makes %#x, want %#x", c.inputs[i], got[i], is)
	}
	return ""
}

// hold says what is wrong with a specimen's results. Where a launch fails, as it does when an
// address is wrong, the device begins anew.
func (l *laboratory) hold(t *testing.T, s specimen, fault int) string {
	t.Helper()
	c, ok := l.cases[s.name]
	if !ok {
		c.inputs = s.inputs()
		for _, x := range c.inputs {
			c.is = append(c.is, s.is(x))
		}
		l.cases[s.name] = c
	}
	got, err := l.run(s, c.inputs, fault)
	if err != nil {
		l.device.Close()
		l.open(t)
		return err.Error()
	}
	return s.differs(c, got)
}

// known are the specimens whose instructions are all in the table.
func known(m Module, all []specimen) []specimen {
	return slices.DeleteFunc(slices.Clone(all), func(s specimen) bool {
		_, err := m.Kernel(s.name)
		return err != nil
	})
}

// A fault makes a row wrong in what is executed, if the kernel's argument says its number.
type fault struct {
	row    row
	breaks string // C++, which follows the row's own
	number int
}

func (f fault) cpp() string {
	return fmt.Sprintf("; if (load<uint32_t>(t.argument + 16) == %d) { %s; }", f.number, f.breaks)
}

// flips change the lowest bit of what is written.
func flips(kind string) []string {
	switch kind {
	case "p":
		return []string{"p = !p"}
	case "pp":
		return []string{"p = !p", "q = !q"}
	case "bool":
		return []string{"d = !d"}
	case "f", "float":
		return []string{"d = f32(bits<uint32_t>(d) ^ 1)"}
	case "d", "double":
		return []string{"d = f64(bits<uint64_t>(d) ^ 1)"}
	}
	return []string{"d ^= 1"}
}

// coarse are rows whose lowest bit what follows corrects, or nobody reads: what shows
// instead.
var coarse = map[string][]string{
	"MUFU.RSQ f=f":                {"d = negated(d)"},
	"MUFU.RCP64H i=h":             {"d ^= 1u << 31"},
	"MUFU.RSQ64H i=h":             {"d ^= 1u << 31"},
	"DFMA.RP d=ddd":               {"d = negated(d)"},
	"I2F.RP f=s":                  {"d = negated(d)"},
	"I2F.U32.RP f=i":              {"d = negated(d)"},
	"IMAD.SHL.U32 i=iii":          {"d = ~d"},
	"LOP3.LUT ULOP3.LUT pi=iiikp": {"p = !p"},
}

// wrongs are what rows might have said, had whoever wrote them not known better.
var wrongs = map[string][]string{
	"max.f32":         {"d = a > b ? a : b"},
	"max.f64":         {"d = a > b ? a : b"},
	"fma.rn.f32":      {"d = a * b; d = d + c"},
	"fma.rn.f64":      {"d = a * b; d = d + c"},
	"div.rn.f32":      {"d = a * (1 / b)"},
	"shl.b32":         {"d = a << (b & 31)"},
	"shr.u32":         {"d = a >> (b & 31)"},
	"shr.s64":         {"d = a >> (b & 63)"},
	"cvt.rzi.s32.f32": {"d = a != a ? INT32_MIN : d", "d = __builtin_rintf(a)"},
	"cvt.rzi.s64.f64": {"d = a != a ? 0 : d"},
	"setp.leu.f32":    {"d = a <= b"},
	"setp.neu.f64":    {"d = a < b || a > b"},
	"mul.hi.s32":      {"d = (uint64_t)(uint32_t)a * (uint32_t)b >> 32"},
	"bfi.b32":         {"d = insert(a, b, c, e & 31)"},
	"copysign.f64":    {"d = copysign(b, a)"},
	"cvta.param.u64":  {"d = a + 8"},

	"FADD f=ff":            {"d = ftz(a) + ftz(b)"},
	"FFMA f=fff":           {"d = a * b; d = d + c"},
	"DFMA d=ddd":           {"d = a * b; d = d + c"},
	"FMNMX f=ffp":          {"d = (a < b) == x ? a : b"},
	"FMNMX.NAN f=ffp":      {"d = extreme(a, b, x)"},
	"FCHK p=ff":            {"p = false"},
	"DSETP.MAX.AND pp=ddp": {"p = a > b || (a == a && b != b)"},
	"DSETP.LT.OR p-=ddp":   {"p = (a < b) && x"},
	"FSETP.GEU.AND p-=ffp": {"p = (a >= b) && x"},
	"ISETP.GE.AND.EX UISETP.GE.AND.EX p-=sspp": {"p = (a >= b) && x"},
	"ISETP.LT.U32.AND p-=iip":                  {"p = ((int32_t)a < (int32_t)b) && x"},
	"IADD3.X UIADD3.X i=iiipp":                 {"d = a + b + c"},
	"IMAD.WIDE UIMAD.WIDE l=ssl":               {"d = (uint64_t)(uint32_t)a * (uint32_t)b + c"},
	"LOP3.LUT ULOP3.LUT i=iiik!":               {"d = lookup(e, c, b, a)"},
	"PRMT i=iii":                               {"d = permuted(a, b & 0x7777, c)"},
	"SGXT i=ik":                                {"d = a & ((1u << b) - 1)"},
	"SHF.L.U64.HI USHF.L.U64.HI i=iii":         {"d = left(c, b)"},
	"SHF.R.U32.HI USHF.R.U32.HI i=iii":         {"d = c >> (b & 31)"},
	"SHF.R.S32.HI USHF.R.S32.HI i=iii":         {"d = (int32_t)c >> (b & 31)"},
	"SHF.R.W.U32.HI i=iii":                     {"d = right(c, b)"},
	"VIADDMNMX.U32 i=iiip": {
		"d = ((int32_t)(a + b) < (int32_t)c) == x ? a + b : c",
	},
	"F2I.TRUNC.NTZ i=f": {"d = truncated<int32_t>(a, INT32_MIN)"},
	"F2I.S64.TRUNC l=f": {"d = truncated<int64_t>(a, 0)"},
	"I2F.F64.U64 d=l":   {"d = (double)(int64_t)a"},
}

// breakPTX returns operations of which each can be made wrong.
func breakPTX() (broken map[string]operation, faults []fault) {
	if !*plant {
		return operations, nil
	}
	broken = maps.Clone(operations)
	for _, opcode := range slices.Sorted(maps.Keys(broken)) {
		o := broken[opcode]
		to, _, computes := strings.Cut(o.operands, "=")
		if !computes {
			continue
		}
		o.row.opcode = opcode
		r := o.row
		for _, b := range append(flips(cpp[o.kind(rune(to[0]))]), wrongs[opcode]...) {
			f := fault{r, b, len(faults) + 1}
			faults = append(faults, f)
			o.semantics += f.cpp()
		}
		broken[opcode] = o
	}
	return broken, faults
}

// breakSASS returns rows of which each can be made wrong.
func breakSASS() (broken map[string][]row, faults []fault) {
	if !*plant {
		return codes, nil
	}
	broken = map[string][]row{}
	for _, r := range readTable("sass.txt", false) {
		changed := r
		if to, _, computes := strings.Cut(r.operands, "="); computes {
			var all []string
			if kind := strings.Trim(to, "p-"); kind != "" {
				all = flips(kind)
			}
			if n := strings.Count(to, "p"); n > 0 {
				all = append(all, flips("pp"[:n])...)
			}
			if instead, ok := coarse[r.opcode+" "+r.operands]; ok {
				all = instead
			}
			for _, b := range append(all, wrongs[r.opcode+" "+r.operands]...) {
				f := fault{r, b, len(faults) + 1}
				faults = append(faults, f)
				changed.semantics += f.cpp()
			}
		}
		for opcode := range strings.FieldsSeq(r.opcode) {
			broken[opcode] = append(broken[opcode], changed)
		}
	}
	return broken, faults
}

// hold runs all specimens, and then, with each fault, those that have the row until one
// shows it. It returns the faults that none showed.
func hold(t *testing.T, engine string, m Module, all []specimen, faults []fault,
	uses func(specimen) map[row]bool) (unseen []fault) {
	l := newLaboratory(t, engine, m, all)
	held := map[row][]specimen{}
	for _, s := range all {
		if d := l.hold(t, s, 0); d != "" {
			t.Errorf("%s: %s", s.name, d)
		}
		for r := range uses(s) {
			held[r] = append(held[r], s)
		}
	}
	for _, f := range faults {
		if !slices.ContainsFunc(held[f.row], func(s specimen) bool {
			return l.hold(t, s, f.number) != ""
		}) {
			unseen = append(unseen, f)
		}
	}
	return unseen
}

// TestSemantics holds what both tables say of each instruction to what PTX says, on edge
// values and others at random: PTX as it is written in a specimen, and the machine code that
// ptxas made of it. With -plant each row is then made wrong, and the wrong result must show.
func TestSemantics(t *testing.T) {
	if os.Getenv("LOCKSTEP_ENGINE") == "" && *toolkit == "" && !*plant {
		t.Skip("about the engines ptx and sass: `make test-compiled`")
	}
	all := specimens()
	text := specimenText(all)
	if *toolkit != "" {
		assemble(t, text)
	}
	if specimenFile(t, "ptx") != text {
		t.Fatal("the specimens are not those that were assembled: run `make semantics`")
	}
	plantedInRows(t)
	want.Compiler.Need(t)
	t.Run("ptx", func(t *testing.T) { semanticsOfPTX(t, text, all) })
	t.Run("sass", func(t *testing.T) { semanticsOfSASS(t, all) })
}

// plantedInRows: every fault is planted in a row that there is.
func plantedInRows(t *testing.T) {
	t.Helper()
	rows := map[string]bool{}
	for opcode := range operations {
		rows[opcode] = true
	}
	for _, r := range readTable("sass.txt", false) {
		rows[r.opcode+" "+r.operands] = true
	}
	for _, planted := range []map[string][]string{coarse, wrongs} {
		for name := range planted {
			if !rows[name] {
				t.Errorf("a fault is planted in %s, which is no row", name)
			}
		}
	}
}

// semanticsOfPTX holds PTX as it is written in specimens, which have every opcode of the table.
func semanticsOfPTX(t *testing.T, text string, all []specimen) {
	right := operations
	t.Cleanup(func() { operations = right })
	var faults []fault
	operations, faults = breakPTX()
	m, err := PTX(text)
	if err != nil {
		t.Fatal(err)
	}
	both := slices.DeleteFunc(slices.Clone(all), func(s specimen) bool { return s.only })
	used := map[string]bool{}
	for _, f := range hold(t, "ptx", m, both, faults, func(s specimen) map[row]bool {
		uses := map[row]bool{}
		for _, opcode := range ptxOpcodes(s) {
			used[opcode] = true
			r := right[opcode].row
			r.opcode = opcode
			uses[r] = true
		}
		return uses
	}) {
		t.Errorf("%s: nothing shows %s", f.row.opcode, f.breaks)
	}
	for _, opcode := range slices.Sorted(maps.Keys(right)) {
		if !used[opcode] {
			t.Errorf("%s: no specimen has it", opcode)
		}
	}
}

// semanticsOfSASS holds the machine code that ptxas made of them, and each row's source.
func semanticsOfSASS(t *testing.T, all []specimen) {
	right := codes
	t.Cleanup(func() { codes = right })
	var faults []fault
	m, err := MachineCode([]byte(specimenFile(t, "cubin")), specimenFile(t, "sass"))
	if err != nil {
		t.Fatal(err)
	}
	by := map[row][]specimen{}
	translated := known(m, all)
	codes, faults = breakSASS()
	unseen := hold(t, "sass", m, translated, faults, func(s specimen) map[row]bool {
		uses := rowsOf(m.(*sassModule).kernels[s.name].codes, right)
		for r := range uses {
			by[r] = append(by[r], s)
		}
		return uses
	})
	for _, r := range readTable("sass.txt", false) {
		holdSource(t, r, by[r])
	}
	for _, f := range unseen {
		if f.row.source != "recordings" {
			t.Errorf("%s %s: nothing shows %s", f.row.opcode, f.row.operands, f.breaks)
		}
	}
}

// rowsOf are the rows by which instructions are translated: the first that fits each.
func rowsOf(instructions []code, right map[string][]row) map[row]bool {
	uses := map[row]bool{}
	for _, c := range instructions {
		for _, r := range right[c.opcode] {
			if r.operands == "memory" || r.operands == "control" || c.fits(r) {
				uses[r] = true
				break
			}
		}
	}
	return uses
}

// holdSource holds what sass.txt says a row is held by, specimens of some PTX or recordings alone,
// to the specimens that have it.
func holdSource(t *testing.T, r row, held []specimen) {
	t.Helper()
	named := strings.Split(r.source, ", ")
	switch {
	case r.source == "recordings" && held != nil:
		t.Errorf("%s %s is held by %s, and sass.txt says by recordings alone",
			r.opcode, r.operands, held[0].name)
	case r.source != "recordings" && !slices.ContainsFunc(held, func(s specimen) bool {
		return slices.ContainsFunc(named,
			func(opcode string) bool { return strings.Contains(s.entry(), opcode) })
	}):
		var names []string
		for _, s := range held {
			names = append(names, s.name)
		}
		t.Errorf(
			"%s %s: no specimen of %s has it, but %v", r.opcode, r.operands, r.source,
			names,
		)
	}
}

// ptxOpcodes are those of a specimen and of what it calls.
func ptxOpcodes(s specimen) (all []string) {
	text := s.entry()
	if strings.Contains(text, "s_helper") {
		text += helper
	}
	for _, s := range statements(text) {
		if i := ptxInstruction.FindStringSubmatch(s.text); i != nil {
			all = append(all, i[3])
		}
	}
	return all
}

// TestNoQuotient: a quotient of integers that PTX leaves open ends the launch, by name.
func TestNoQuotient(t *testing.T) {
	want.Compiler.Need(t)
	all := slices.DeleteFunc(
		specimens(),
		func(s specimen) bool { return s.name != "s_div_s32" && s.name != "s_rem_u32" },
	)
	m, err := PTX(specimenText(all))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		l := newLaboratory(t, "ptx", m, all)
		b, wants := uint64(0), "divides an integer by zero"
		if s.name == "s_div_s32" {
			b, wants = math.MaxUint32, "divides the least integer by -1"
		}
		_, err := l.run(s, slices.Repeat([][]uint64{{1 << 31, b}}, specimenThreads), 0)
		if err == nil || !strings.Contains(err.Error(), wants) ||
			!strings.Contains(err.Error(), "at line ") {
			t.Errorf("%s: %v, want %q and its line", s.name, err, wants)
		}
	}
}
