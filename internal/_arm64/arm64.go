// Package arm64 prints what avo's functions have emitted as assembly of arm64.
package arm64

import (
	"bytes"
	"fmt"
	"log"
	"math/bits"
	"os"
	"strings"
	_ "unsafe" // for linkname

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"
)

// A printer writes x86's instructions as arm64's.
//
// NEON has vectors of 16 bytes, as XMM registers have, and 32 of them. So its kernels are
// described in the same instructions as the others, on XMM registers, and avo assigns
// them. This printer then writes each instruction as arm64 computes it, with the same
// bits. What has a better form there is an instruction of its own: see Special.
//
// Two rules make that right. General registers keep the x86 numbers, vectors too: R16, R17
// and V31 are for what one x86 instruction needs two for, R20 holds the constants'
// address. Flags are those that a jump directly follows: of CMPQ, TESTQ, ANDQ and DECQ.
type arm struct {
	cfg     printer.Config
	out     bytes.Buffer
	scratch bool // V31 was needed
}

const (
	lessOrEqual = U8(0x12) // a predicate of VCMPPS, false for NaN

	scratch    = 31
	tableIn    = "R20"
	address    = "R16"
	second     = "R17"
	cannotHold = 5 // BP: avo saves it on the stack, in x86 instructions
)

// generator is where avo's functions collect what they emit: nothing but Generate has it,
// which prints x86.
//
//go:linkname generator github.com/mmcloughlin/avo/build.ctx
var generator *build.Context

// Generate is build.Generate for arm64.
func Generate(out, stubs, pkg string) {
	cfg := printer.NewGoRunConfig()
	cfg.Pkg = pkg
	f, err := generator.Result()
	if err == nil {
		err = pass.Compile.Execute(f)
	}
	for path, p := range map[string]printer.Printer{
		out:   &arm{cfg: cfg},
		stubs: printer.NewStubs(cfg),
	} {
		var text []byte
		if err == nil {
			text, err = p.Print(f)
		}
		if err == nil {
			err = os.WriteFile(path, text, 0o644)
		}
	}
	if err != nil {
		log.Fatal(err)
	}
}

// Special emits an instruction that only arm64 has. It reads in, and out where it adds to
// what is there; it writes out. Operands are printed in that order.
func Special(opcode string, in, out []Op) {
	i := &ir.Instruction{
		Opcode:   opcode,
		Operands: append(append([]Op{}, in...), out...),
		Inputs:   in,
		Outputs:  out,
	}
	if strings.HasPrefix(opcode, "FMLA") || opcode == "BIT" || opcode == "FCVTN2" {
		i.Inputs = i.Operands
	}
	build.Instruction(i)
}

// Print writes the whole file.
func (a *arm) Print(f *ir.File) ([]byte, error) {
	a.line("// " + a.cfg.GeneratedWarning())
	a.line("\n//go:build !noasm")
	a.line("\n#include \"textflag.h\"")
	for _, s := range f.Sections {
		switch s := s.(type) {
		case *ir.Function:
			a.function(s)
		case *ir.Global:
			a.line("")
			for _, d := range s.Data {
				a.line("DATA %s/%d, %s", NewDataAddr(s.Symbol, d.Offset).Asm(), d.Value.Bytes(),
					d.Value.Asm())
			}
			a.line("GLOBL %s(SB), %s, $%d", s.Symbol, s.Attributes.Asm(), s.Size)
		}
	}
	return a.out.Bytes(), nil
}

func (a *arm) line(format string, args ...any) {
	if len(args) == 0 {
		a.out.WriteString(format + "\n")
		return
	}
	fmt.Fprintf(&a.out, format+"\n", args...)
}

// emit writes an instruction of Go's assembler, word one that it does not know.
func (a *arm) emit(format string, args ...any) { a.line("\t"+format, args...) }

func (a *arm) word(code uint32, format string, args ...any) {
	a.emit("WORD $0x%08x // "+format, append([]any{code}, args...)...)
}

func (a *arm) function(f *ir.Function) {
	a.line("\n// " + f.Stub())
	a.line("TEXT ·%s(SB), NOSPLIT, $%d-%d", f.Name, f.FrameBytes(), f.ArgumentBytes())
	a.scratch = false
	held, symbol := map[reg.Index]bool{}, ""
	for _, i := range f.Instructions() {
		for _, op := range i.Operands {
			if m, ok := op.(Mem); ok && m.Symbol.Static {
				symbol = m.Symbol.String()
			}
		}
		for _, r := range i.Registers() {
			if r.Kind() == reg.KindVector {
				held[number(r)] = true
			} else if number(r) == cannotHold {
				panic(f.Name + " needs too many registers")
			}
		}
	}
	if symbol != "" {
		a.emit("MOVD $%s(SB), %s", symbol, tableIn)
	}
	for _, node := range f.Nodes {
		switch n := node.(type) {
		case ir.Label:
			a.line("\n%s:", string(n))
		case *ir.Comment:
			for _, l := range n.Lines {
				a.emit("// %s", l)
			}
		case *ir.Instruction:
			a.instruction(n)
		}
	}
	if a.scratch && held[scratch] {
		panic(f.Name + " needs a register that its constants are loaded to")
	}
}

func number(r reg.Register) reg.Index { return r.(reg.Physical).PhysicalIndex() }

// v is the number of a vector register; a vector in memory is loaded first.
func (a *arm) v(op Op) uint32 {
	if m, ok := op.(Mem); ok {
		a.scratch = true
		a.emit("FMOVQ %s, F%d", a.mem(m), scratch)
		return scratch
	}
	return uint32(number(op.(reg.Register)))
}

// one is v of the first element alone.
func (a *arm) one(op Op) uint32 {
	if m, ok := op.(Mem); ok {
		a.scratch = true
		a.emit("FMOVS %s, F%d", a.mem(m), scratch)
		return scratch
	}
	return a.v(op)
}

// r is a general register, or a number.
func (a *arm) r(op Op) string {
	if c, ok := op.(Constant); ok {
		return c.Asm()
	}
	return fmt.Sprintf("R%d", number(op.(reg.Register)))
}

// mem is an address, of which what no instruction adds up is added up first.
func (a *arm) mem(m Mem) string {
	switch {
	case m.Symbol.Static:
		return fmt.Sprintf("%d(%s)", m.Disp, tableIn)
	case m.Base == reg.FramePointer:
		return m.Asm()
	case m.Index == nil:
		return fmt.Sprintf("%d(%s)", m.Disp, a.r(m.Base))
	}
	a.emit("ADD %s<<%d, %s, %s", a.r(m.Index), bits.TrailingZeros8(m.Scale), a.r(m.Base), address)
	return fmt.Sprintf("%d(%s)", m.Disp, address)
}

func isMem(op Op) bool { _, ok := op.(Mem); return ok }

// An encoding is an arm64 instruction d = n op m on vectors.
type encoding struct {
	name  string
	code  uint32
	shape string
}

func (e encoding) emit(a *arm, m, n, d uint32) {
	a.word(
		e.code|m<<16|n<<5|d,
		"%s v%d.%s, v%d.%s, v%d.%s",
		e.name,
		d,
		e.shape,
		n,
		e.shape,
		m,
		e.shape,
	)
}

var (
	fmla  = encoding{"fmla", 0x4e20cc00, "4s"}
	fcmge = encoding{"fcmge", 0x6e20e400, "4s"}
)

// binary are the x86 instructions d = a op b, written b, a, d.
var binary = map[string]encoding{
	"VADDPS": {"fadd", 0x4e20d400, "4s"}, "VADDPD": {"fadd", 0x4e60d400, "2d"},
	"VSUBPS": {"fsub", 0x4ea0d400, "4s"}, "VSUBPD": {"fsub", 0x4ee0d400, "2d"},
	"VMULPS": {"fmul", 0x6e20dc00, "4s"}, "VMULPD": {"fmul", 0x6e60dc00, "2d"},
	"VDIVPS": {"fdiv", 0x6e20fc00, "4s"}, "VDIVPD": {"fdiv", 0x6e60fc00, "2d"},
	"VMAXPS": {"fmax", 0x4e20f400, "4s"}, "VMAXPD": {"fmax", 0x4e60f400, "2d"},
	"VMINPS": {"fmin", 0x4ea0f400, "4s"}, "VMINPD": {"fmin", 0x4ee0f400, "2d"},
	"VPADDD": {"add", 0x4ea08400, "4s"}, "VPADDQ": {"add", 0x4ee08400, "2d"},
	"VPSUBD": {"sub", 0x6ea08400, "4s"}, "VPCMPGTD": {"cmgt", 0x4ea03400, "4s"},
	"VXORPS": {"eor", 0x6e201c00, "16b"}, "VXORPD": {"eor", 0x6e201c00, "16b"},
	"VPAND": {"and", 0x4e201c00, "16b"}, "VANDPD": {"and", 0x4e201c00, "16b"},
	"VORPD":     {"orr", 0x4ea01c00, "16b"},
	"VUNPCKLPS": {"zip1", 0x4e803800, "4s"}, "VUNPCKHPS": {"zip2", 0x4e807800, "4s"},
	"VUNPCKLPD": {"zip1", 0x4ec03800, "2d"}, "VUNPCKHPD": {"zip2", 0x4ec07800, "2d"},
	"FADDP": {"faddp", 0x6e20d400, "4s"}, "FMAXNMP": {"fmaxnmp", 0x6e20c400, "4s"},
	"FCMGT": {"fcmgt", 0x6ea0e400, "4s"}, "FCMGT2": {"fcmgt", 0x6ee0e400, "2d"},
	"FCMGE2": {"fcmge", 0x6e60e400, "2d"}, "FCMEQ2": {"fcmeq", 0x4e60e400, "2d"},
	"CMGE": {"cmge", 0x4ea03c00, "4s"}, "CMTST2": {"cmtst", 0x4ee08c00, "2d"},
	"VFMADD231PS": fmla, "VFMADD231SS": fmla, "VFMADD231PD": {"fmla", 0x4e60cc00, "2d"},
	"VFNMADD231PD": {"fmls", 0x4ee0cc00, "2d"}, // d - n·m
	"TBL":          {"tbl", 0x4e000000, "16b"}, // the bytes of n that m names
}

// scalar are those of Go's assembler on a first element, unary those of a vector.
var (
	scalar = map[string]string{
		"VADDSS": "FADDS",
		"VADDSD": "FADDD",
		"VDIVSS": "FDIVS",
		"VDIVSD": "FDIVD",
	}
	unary = map[string]encoding{
		"VCVTPS2DQ": {"fcvtns", 0x4e21a800, "4s"},
		"FCVTL":     {"fcvtl", 0x0e617800, "2d"},
		"FCVTL2":    {"fcvtl2", 0x4e617800, "2d"},
		"FADDPS":    {"faddp", 0x7e30d800, "2s"},
		"FADDPD":    {"faddp", 0x7e70d800, "2d"},
		"FCVTN":     {"fcvtn", 0x0e616800, "2d"},
		"FCVTN2":    {"fcvtn2", 0x4e616800, "2d"},
		"SXTL":      {"sxtl", 0x0f20a400, "2s"},
		"UXTL":      {"uxtl", 0x2f20a400, "2s"},
		"XTN":       {"xtn", 0x0ea12800, "2d"},
		"SCVTF2":    {"scvtf", 0x4e61d800, "2d"},
		"FRINTZ2":   {"frintz", 0x4ee19800, "2d"},
		"FNEG2":     {"fneg", 0x6ee0f800, "2d"},
		"NOT":       {"not", 0x6e205800, "16b"},
		"VSQRTPS":   {"fsqrt", 0x6ea1f800, "4s"},
	}
	// shifts are by a number that the code counts from a number of its own, up or down.
	shifts = map[string]struct {
		encoding
		from uint32
		left bool
	}{
		"VPSLLD": {encoding{"shl", 0x4f005400, "4s"}, 32, true},
		"VPSLLQ": {encoding{"shl", 0x4f005400, "2d"}, 64, true},
		"VPSRAD": {encoding{"sshr", 0x4f000400, "4s"}, 64, false},
		"VPSRLD": {encoding{"ushr", 0x6f000400, "4s"}, 64, false},
		"USHR8":  {encoding{"ushr", 0x6f000400, "16b"}, 16, false},
	}
	jumps = map[string]string{
		"JZ":  "BEQ",
		"JE":  "BEQ",
		"JNZ": "BNE",
		"JNE": "BNE",
		"JL":  "BLT",
		"JGE": "BGE",
		"JG":  "BGT",
		"JMP": "B",
	}
)

func (a *arm) instruction(i *ir.Instruction) {
	o := i.Operands
	if e, ok := binary[i.Opcode]; ok {
		m, n := a.v(o[0]), a.v(o[1])
		e.emit(a, m, n, a.v(o[2]))
	} else if name, ok := scalar[i.Opcode]; ok {
		m := a.one(o[0])
		a.emit("%s F%d, F%d, F%d", name, m, a.v(o[1]), a.v(o[2]))
	} else if e, ok := unary[i.Opcode]; ok {
		a.word(e.code|a.v(o[0])<<5|a.v(o[1]), "%s v%d, v%d.%s", e.name, a.v(o[1]), a.v(o[0]),
			e.shape)
	} else if jump, ok := jumps[i.Opcode]; ok {
		a.emit("%s %s", jump, o[0].Asm())
	} else if s, ok := shifts[i.Opcode]; ok {
		n := uint32(o[0].(U8))
		by := s.from - n
		if s.left {
			by = s.from + n
		}
		to, from := a.v(o[2]), a.v(o[1])
		a.word(s.code|by<<16|from<<5|to, "%[2]s v%[3]d.%[4]s, v%[5]d.%[4]s, #%[6]d", s.name, to,
			s.shape, from, n)
	} else if !a.general(i.Opcode, o) && !a.vector(i.Opcode, o) &&
		!a.transfer(i.Opcode, o) {
		panic("arm64 has no " + i.Opcode)
	}
}

// general emits an instruction on general registers.
func (a *arm) general(opcode string, o []Op) bool {
	switch opcode {
	case "RET", "VZEROUPPER":
		a.emit("%s", map[string]string{"RET": "RET", "VZEROUPPER": "// no upper halves"}[opcode])
	case "MOVQ":
		if isMem(o[0]) {
			a.emit("MOVD %s, %s", a.mem(o[0].(Mem)), a.r(o[1]))
		} else if isMem(o[1]) {
			a.emit("MOVD %s, %s", a.r(o[0]), a.mem(o[1].(Mem)))
		} else {
			a.emit("MOVD %s, %s", a.r(o[0]), a.r(o[1]))
		}
	case "XORQ": // of a register with itself
		a.emit("MOVD $0, %s", a.r(o[1]))
	case "ADDQ", "SUBQ", "SHLQ", "SHRQ", "ANDQ":
		name := map[string]string{"ADDQ": "ADD", "SUBQ": "SUB", "SHLQ": "LSL", "SHRQ": "LSR",
			"ANDQ": "ANDS"}[opcode]
		a.emit("%s %s, %s", name, a.r(o[0]), a.r(o[1]))
	case "INCQ":
		a.emit("ADD $1, %s", a.r(o[0]))
	case "DECQ":
		a.emit("SUBS $1, %s", a.r(o[0]))
	case "IMUL3Q":
		a.emit("MOVD %s, %s", a.r(o[0]), second)
		a.emit("MUL %s, %s, %s", second, a.r(o[1]), a.r(o[2]))
	case "LEAQ":
		m := o[0].(Mem)
		if m.Base == reg.StaticBase && !m.Symbol.Static {
			a.emit("MOVD $·%s(SB), %s", m.Symbol.Name, a.r(o[1]))
			return true
		}
		if m.Index == nil || m.Disp != 0 {
			panic("LEAQ of " + m.Asm())
		}
		a.emit(
			"ADD %s<<%d, %s, %s",
			a.r(m.Index),
			bits.TrailingZeros8(m.Scale),
			a.r(m.Base),
			a.r(o[1]),
		)
	case "TESTQ":
		a.emit("TST %s, %s", a.r(o[0]), a.r(o[1]))
	case "CMPQ":
		a.emit("CMP %s, %s", a.r(o[1]), a.r(o[0]))
	case "CMPB", "CMPL": // of an argument with a number
		a.emit(
			"%s %s, %s",
			map[string]string{"CMPB": "MOVBU", "CMPL": "MOVWU"}[opcode],
			a.mem(o[0].(Mem)),
			address,
		)
		a.emit("MOVD %s, %s", a.r(o[1]), second)
		a.emit("CMPW %s, %s", second, address)
	default:
		return false
	}
	return true
}

// vector emits an instruction on vectors.
func (a *arm) vector(opcode string, o []Op) bool {
	switch opcode {
	case "VFMADD213PS":
		a.multiplyAdd(a.v(o[0]), a.v(o[1]), a.v(o[2]))
	case "VCMPPS":
		b, x := a.v(o[1]), a.v(o[2])
		if o[0] == lessOrEqual {
			b, x = x, b
		}
		fcmge.emit(a, b, x, a.v(o[3]))
	case "VBLENDVPS", "BIT": // d = mask ? x : d
		if opcode == "VBLENDVPS" && o[2] != o[3] {
			panic("VBLENDVPS chooses from a third register")
		}
		x := a.v(o[1])
		a.emit("VBIT V%d.B16, V%d.B16, V%d.B16", a.v(o[0]), x, a.v(o[len(o)-1]))
	case "VSQRTSS":
		a.emit("FSQRTS F%d, F%d", a.v(o[0]), a.v(o[2]))
	case "VCVTSI2SSQ", "VCVTSI2SDQ":
		a.emit(
			"%s %s, F%d",
			map[string]string{"VCVTSI2SSQ": "SCVTFS", "VCVTSI2SDQ": "SCVTFD"}[opcode],
			a.r(o[0]),
			a.v(o[2]),
		)
	case "VCVTSD2SS":
		a.emit("FCVTDS F%d, F%d", a.v(o[0]), a.v(o[2]))
	case "EXT": // the upper half of a vector
		a.emit("VEXT $8, V%d.B16, V%d.B16, V%d.B16", a.v(o[0]), a.v(o[0]), a.v(o[1]))
	case "FMLA0", "FMLA1", "FMLA2", "FMLA3": // d += n·m[element]
		m, n, d, element := a.v(o[0]), a.v(o[1]), a.v(o[2]), uint32(opcode[4]-'0')
		a.word(
			0x4f801000|element&1<<21|element>>1<<11|m<<16|n<<5|d,
			"fmla v%d.4s, v%d.4s, v%d.s[%d]",
			d,
			n,
			m,
			element,
		)
	default:
		return false
	}
	return true
}

// transfer moves vectors and their elements.
func (a *arm) transfer(opcode string, o []Op) bool {
	switch opcode {
	case "VMOVUPS", "VMOVUPD", "VMOVSS", "MOVSS", "VMOVSD":
		a.move(opcode, o[0], o[1])
	case "VBROADCASTSS", "VPBROADCASTD":
		a.broadcast(o[0], a.v(o[1]))
	case "VMOVDDUP":
		a.emit("FMOVD %s, F%d", a.mem(o[0].(Mem)), a.v(o[1]))
		a.emit("VDUP V%d.D[0], V%[1]d.D2", a.v(o[1]))
	case "DUP0", "DUP1", "DUP2", "DUP3":
		a.emit("VDUP V%d.S[%c], V%d.S4", a.v(o[0]), opcode[3], a.v(o[1]))
	case "VMOVQ":
		if o[1].(reg.Register).Kind() == reg.KindGP {
			a.emit("FMOVD F%d, %s", a.v(o[0]), a.r(o[1]))
		} else {
			a.emit("FMOVD %s, F%d", a.r(o[0]), a.v(o[1]))
		}
	case "UPPER": // of two integers
		a.emit("VMOV V%d.D[1], %s", a.v(o[0]), a.r(o[1]))
	case "STH": // the first two bytes
		m := o[1].(Mem)
		a.emit(
			"ADD %s<<%d, %s, %s",
			a.r(m.Index),
			bits.TrailingZeros8(m.Scale),
			a.r(m.Base),
			address,
		)
		a.emit("VST1 V%d.H[0], (%s)", a.v(o[0]), address)
	case "LDP": // two vectors in memory
		a.emit("FLDPQ %s, (F%d, F%d)", a.mem(o[0].(Mem)), a.v(o[1]), a.v(o[2]))
	case "LDNEXT", "LDNEXT1": // a vector, or one element, and on
		a.emit(
			"%s(%s), F%d",
			map[string]string{"LDNEXT": "FMOVQ.P 16", "LDNEXT1": "FMOVS.P 4"}[opcode],
			a.r(o[0]),
			a.v(o[1]),
		)
	default:
		return false
	}
	return true
}

// multiplyAdd is d = n·d + c. NEON has d += n·m alone.
func (a *arm) multiplyAdd(c, n, d uint32) {
	a.scratch = true
	if c != scratch {
		a.emit("VMOV V%d.B16, V%d.B16", c, scratch)
	}
	fmla.emit(a, d, n, scratch)
	a.emit("VMOV V%d.B16, V%d.B16", scratch, d)
}

// broadcast fills a vector with one number, of memory or a vector's first.
func (a *arm) broadcast(from Op, d uint32) {
	element := d
	if m, ok := from.(Mem); ok {
		a.emit("FMOVS %s, F%d", a.mem(m), d)
	} else {
		element = a.v(from)
	}
	a.emit("VDUP V%d.S[0], V%d.S4", element, d)
}

// move emits a load, a store, or a copy.
func (a *arm) move(opcode string, from, to Op) {
	name := map[string]string{"VMOVUPS": "FMOVQ", "VMOVUPD": "FMOVQ", "VMOVSD": "FMOVD"}[opcode]
	if name == "" {
		name = "FMOVS"
	}
	switch {
	case isMem(from):
		a.emit("%s %s, F%d", name, a.mem(from.(Mem)), a.v(to))
	case isMem(to):
		a.emit("%s F%d, %s", name, a.v(from), a.mem(to.(Mem)))
	case a.v(from) != a.v(to):
		a.emit("VMOV V%d.B16, V%d.B16", a.v(from), a.v(to))
	}
}
