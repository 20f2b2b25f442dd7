// Command generate writes the assembly of package f32, one file and its stubs a
// run:
//
//	go run . -out FILE.s -stubs FILE.go -pkg f32 KIND LEVEL
//
// KIND is matmul, elementwise, attention or probe; LEVEL is avx2, avx512 or neon.
package main

import (
	"flag"
	"log"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"lockstep/internal/arm64"
)

// A level is an instruction set extension with its vector registers.
type level struct {
	name   string // in the names of the functions
	bytes  int    // of a vector
	vector func() VecVirtual
	side   int // vectors that elementwise kernels compute side by side
}

var (
	avx2   = level{"AVX2", 32, YMM, 2}
	avx512 = level{"AVX512", 64, ZMM, 4}
	neon   = level{"NEON", 16, XMM, 4} // of arm64: see package arm64
)

// lanes is the number of float32 in a vector.
func (l level) lanes() int { return l.bytes / 4 }

// wide and narrow say how much of x86's longest vector a level's is.
func (l level) wide() bool   { return l.bytes == 64 }
func (l level) narrow() bool { return l.bytes == 16 }

func main() {
	flag.Parse()
	ConstraintExpr("!noasm")
	switch flag.Arg(0) + " " + flag.Arg(1) {
	case "matmul avx2":
		avx2.matMul(3, 2, 4)
		avx2.matMul(2, 2, 0)
		avx2.matMul(5, 1, 0)
		avx2.matMul(1, 4, 0)
		avx2.matMul(1, 1, 0)
	case "matmul avx512":
		avx512.matMul(6, 4, 2)
		avx512.matMul(5, 4, 2)
		avx512.matMul(2, 4, 0)
		avx512.matMul(10, 2, 0)
		avx512.matMul(10, 1, 0)
		avx512.matMul(1, 8, 0)
		avx512.matMul(1, 4, 0)
		avx512.matMul(1, 1, 0)
	case "elementwise avx2":
		avx2.layerNorm()
		avx2.gelu()
		avx2.exps()
		avx2.rest()
	case "elementwise avx512":
		avx512.gelu()
		avx512.exps()
		avx512.rest()
	case "attention avx2":
		avx2.transpose()
		avx2.softmaxes()
	case "attention avx512":
		avx512.softmaxes()
	case "probe avx2":
		fma()
		avx2.peak()
	case "probe avx512":
		avx512.peak()
	case "matmul neon":
		neon.product(6, 1)
		neon.product(5, 1)
		neon.product(2, 2)
		neon.product(1, 4)
		neon.product(1, 1)
	case "elementwise neon":
		neon.layerNorm()
		neon.gelu()
		neon.exps()
		neon.expLibrary()
		neon.layerNormARM()
		neon.rest()
	case "attention neon":
		neon.transpose()
		neon.softmaxes()
	case "probe neon":
		fma()
		neon.peak()
	default:
		log.Fatalf("no file %q", flag.Args())
	}
	if flag.Arg(1) == "neon" {
		value := func(name string) string { return flag.Lookup(name).Value.String() }
		arm64.Generate(value("out"), value("stubs"), value("pkg"))
		return
	}
	Generate()
}

func (l level) rest() {
	l.divide()
	l.add()
	l.maximum()
}

// load returns a register with an integer or pointer argument.
func load(name string) Register { return Load(Param(name), GP64()) }

// loadBytes returns a register with a length argument, in bytes.
func loadBytes(name string) Register {
	n := load(name)
	SHLQ(Imm(2), n)
	return n
}

// clone returns a new register with the value of r.
func clone(r Register) Register {
	c := GP64()
	MOVQ(r, c)
	return c
}

// triple returns a new register with three times r.
func triple(r Register) Register {
	t := GP64()
	LEAQ(Mem{Base: r, Index: r, Scale: 2}, t)
	return t
}

// advance adds n·stride to p.
func advance(p, stride Register, n int) {
	step := GP64()
	IMUL3Q(U32(n), stride, step)
	ADDQ(step, p)
}

// zero clears a vector.
func (l level) zero(v Register) {
	if l.wide() {
		VPXORD(v, v, v)
	} else {
		VXORPS(v, v, v)
	}
}

// repeat emits a loop of n rounds, which uses n up.
func repeat(label string, n Register, body func()) {
	TESTQ(n, n)
	JZ(LabelRef(label + "_done"))
	Label(label)
	body()
	DECQ(n)
	JNZ(LabelRef(label))
	Label(label + "_done")
}
