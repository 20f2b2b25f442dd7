package main

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/mmcloughlin/avo/attr"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// gelu emits Kernels.Gelu.
func (l level) gelu() {
	TEXT("gelu"+l.name, 0, "func(n int, y, x *float32)")
	Pragma("noescape")
	Doc(
		"gelu"+l.name+" computes n elements:",
		"",
		"\tc := x * x",
		"\tc = x * c",
		"\tc = 0x1.6e4e26p-5 * c",
		"\tc = x + c",
		"\th := Tanh(0x1.988454p-1 * c)",
		"\ty = x * (1 + h)",
	)
	l.mapping(func(x Register) Register {
		c := l.vector()
		VMULPS(x, x, c)
		VMULPS(c, x, c)
		VMULPS(l.constant(0x1.6e4e26p-5), c, c)
		VADDPS(c, x, c)
		VMULPS(l.constant(0x1.988454p-1), c, c)
		h := l.tanh(c)
		VADDPS(l.constant(1), h, h)
		VMULPS(h, x, h)
		return h
	})
}

// tanh emits Tanh.
func (l level) tanh(u Register) Register {
	Comment("z := min(max(u, -9), 9)")
	z := l.load(-9)
	VMAXPS(u, z, z)
	VMINPS(l.constant(9), z, z)
	y := l.vector()
	VMULPS(z, z, y)

	Comment("p")
	p := l.load(-0x1.3e4b8p-52)
	l.horner(p, y, 0x1.c266fcp-43, -0x1.7a6ffep-34, 0x1.b80082p-25, 0x1.f28694p-17, 0x1.4e1bdap-11, 0x1.40b3b8p-8)
	VMULPS(z, p, p)

	Comment("q")
	q := l.load(0x1.41a7bp-20)
	l.horner(q, y, 0x1.f12bacp-14, 0x1.29540ap-9, 0x1.40b3bap-8)

	VDIVPS(q, p, p)
	return p
}

// exps emits Kernels.Exp512, Kernels.Exp256 and both kinds of Kernels.ExpNumPy.
func (l level) exps() {
	l.exp("exp512", "Exp512(x + shift)", func(x Register) Register {
		p, m := l.expReduced(x, -0x1.9fe36ap+6)
		l.scale(p, m)
		return p
	})
	l.exp("exp256", "Exp256(x + shift)", func(x Register) Register {
		p, m := l.expReduced(x, -0x1.61814ap+6)
		VCVTPS2DQ(m, m)
		l.powerOfTwo(m)
		VMULPS(m, p, p)
		return p
	})
	l.exp("expNumPy", "ExpNumPy(x + shift, false)", func(x Register) Register { return l.expNumPy(x, false) })
	l.exp("expNumPyFused", "ExpNumPy(x + shift, true)", func(x Register) Register { return l.expNumPy(x, true) })
}

// exp emits one exponential.
func (l level) exp(name, formula string, body func(x Register) Register) {
	TEXT(name+l.name, 0, "func(n int, y, x *float32, shift float32)")
	Pragma("noescape")
	Doc(name+l.name+" computes n elements:", "", "\ty = "+formula)
	shift := l.vector()
	VBROADCASTSS(argument("shift"), shift)
	l.mapping(func(x Register) Register {
		VADDPS(shift, x, x)
		return body(x)
	})
}

// expReduced emits the function of that name after max(x, lowest).
func (l level) expReduced(x Register, lowest float32) (p, m Register) {
	Comment("x = max(x, lowest)")
	clamped := l.load(lowest)
	VMAXPS(x, clamped, clamped)
	x = clamped

	Comment("m, and x reduced by m·ln 2")
	m = l.load(log2e)
	VFMADD213PS(l.constant(magic), x, m)
	VSUBPS(l.constant(magic), m, m)
	l.reduce(x, m)

	Comment("p")
	p = l.load(0x1.694p-10)
	l.horner(p, x, 0x1.125edcp-7, 0x1.555b5ap-5, 0x1.55545p-3, 0x1.fffff6p-2, 1, 1)
	return p, m
}

// expNumPy emits ExpNumPy.
func (l level) expNumPy(x Register, fused bool) Register {
	Comment("q, and r = x - q·ln 2")
	q, r := l.load(log2e), l.vector()
	if fused {
		VFMADD213PS(l.constant(magic), x, q)
	} else {
		VMULPS(x, q, q)
		VADDPS(l.constant(magic), q, q)
	}
	VSUBPS(l.constant(magic), q, q)
	VMOVUPS(x, r)
	l.reduce(r, q)

	Comment("Numerator and denominator")
	n := l.load(math.Float32frombits(0x3a053dd8))
	l.horner(n, r, math.Float32frombits(0x3bdd7159), math.Float32frombits(0x3d517d8c),
		math.Float32frombits(0x3e7d4c58), math.Float32frombits(0x3f39cbd5), 1)
	d := l.load(math.Float32frombits(0x3cb0e832))
	l.horner(d, r, math.Float32frombits(0xbe8c6857), 1)
	VDIVPS(d, n, n)
	l.scale(n, q)

	Comment("Beyond the range of float32")
	l.where(x, greaterOrEqual, 0x1.62e43p+6, float32(math.Inf(1)), n)
	l.where(x, lessOrEqual, -0x1.9fe36ap+6, 0, n)
	return n
}

const (
	log2e = 0x1.715476p+0
	magic = 0x1.8p23 // adding it rounds to an integer
)

// reduce emits x = FMA(m, -ln 2, x), ln 2 being the sum of two constants.
func (l level) reduce(x, m Register) {
	VFMADD231PS(l.constant(-0x1.62e4p-1), m, x)
	VFMADD231PS(l.constant(-0x1.7f7d1cp-20), m, x)
}

// scale emits p *= 2^m with one rounding, for integers m that no float32
// exponent holds. p·2^(m/2) is exact and the second product rounds.
func (l level) scale(p, m Register) {
	Comment("p·2^m, rounded once")
	if l.bytes == 64 {
		VSCALEFPS(m, p, p)
		return
	}
	half := l.vector()
	VCVTPS2DQ(m, m)
	VPSRAD(Imm(1), m, half)
	VPSUBD(half, m, m)
	l.powerOfTwo(half)
	l.powerOfTwo(m)
	VMULPS(half, p, p)
	VMULPS(m, p, p)
}

// powerOfTwo turns integers m into float32 2^m, from -126 to 127; -127 gives 0.
func (l level) powerOfTwo(m Register) {
	VPSLLD(Imm(23), m, m)
	VPADDD(l.constant(1), m, m)
}

// horner emits p = FMA(p, y, c) for each coefficient in turn.
func (l level) horner(p, y Register, coefficients ...float32) {
	for _, c := range coefficients {
		VFMADD213PS(l.constant(c), y, p)
	}
}

// Predicates of VCMPPS, false for NaN.
const (
	lessOrEqual    = U8(0x12)
	greaterOrEqual = U8(0x1d)
)

// where sets y to value where x compares to bound.
func (l level) where(x Register, predicate Constant, bound, value float32, y Register) {
	if l.bytes == 64 {
		mask := K()
		VCMPPS(predicate, l.constant(bound), x, mask)
		VMOVUPS(l.constant(value), mask, y)
		return
	}
	mask := l.vector()
	VCMPPS(predicate, l.constant(bound), x, mask)
	VBLENDVPS(mask, l.constant(value), y, y)
}

// mapping emits a loop that turns x into y vector by vector. Of the last one only
// the elements below n are read and written.
func (l level) mapping(body func(v Register) Register) {
	n, x, y := load("n"), load("x"), load("y")
	vectors := clone(n)
	SHRQ(Imm(uint64(bits.TrailingZeros(uint(l.lanes())))), vectors)
	repeat("vector", vectors, func() {
		v := l.vector()
		VMOVUPS(Mem{Base: x}, v)
		VMOVUPS(body(v), Mem{Base: y})
		ADDQ(Imm(uint64(l.bytes)), x)
		ADDQ(Imm(uint64(l.bytes)), y)
	})
	ANDQ(Imm(uint64(l.lanes()-1)), n)
	JZ(LabelRef("done"))
	Comment("The rest")
	rest, v := l.vector(), l.vector()
	VMOVQ(n, rest.AsX())
	VPBROADCASTD(rest.AsX(), rest)
	if l.bytes == 64 {
		mask := K()
		VPCMPGTD(l.lane(), rest, mask)
		VMOVUPS_Z(Mem{Base: x}, mask, v)
		VMOVUPS(body(v), mask, Mem{Base: y})
	} else {
		mask := rest
		VPCMPGTD(l.lane(), rest, mask)
		VMASKMOVPS(Mem{Base: x}, mask, v)
		VMASKMOVPS(body(v), mask, Mem{Base: y})
	}
	Label("done")
	VZEROUPPER()
	RET()
}

// The table holds the constants of the file, each filling a vector.
var (
	table   Mem
	offsets = map[string]int{}
)

// constant is the address of a vector whose elements are all v.
func (l level) constant(v float32) Mem {
	return l.entry(fmt.Sprint(v), func(int) uint32 { return math.Float32bits(v) })
}

// lane is the address of a vector of the integers 0, 1, 2, ...
func (l level) lane() Mem {
	return l.entry("lane", func(i int) uint32 { return uint32(i) })
}

func (l level) entry(name string, word func(i int) uint32) Mem {
	if len(offsets) == 0 {
		table = GLOBL("constants", attr.RODATA|attr.NOPTR)
	}
	offset, ok := offsets[name]
	if !ok {
		offset = len(offsets) * l.bytes
		offsets[name] = offset
		for i := range l.lanes() {
			DATA(offset+4*i, U32(word(i)))
		}
	}
	return table.Offset(offset)
}

// load returns a register with all elements v.
func (l level) load(v float32) Register {
	r := l.vector()
	VMOVUPS(l.constant(v), r)
	return r
}
