package main

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/mmcloughlin/avo/attr"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"lockstep/internal/arm64"
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
	l.mapping(l.side, func(x vectors, _ func(i int) Op) vectors {
		c := l.like(x)
		for i := range x {
			VMULPS(x[i], x[i], c[i])
		}
		for i := range x {
			VMULPS(c[i], x[i], c[i])
		}
		for i := range x {
			l.with(0x1.6e4e26p-5, VMULPS, VMULPS_BCST, c[i], c[i])
		}
		for i := range x {
			VADDPS(c[i], x[i], c[i])
		}
		for i := range x {
			l.with(0x1.988454p-1, VMULPS, VMULPS_BCST, c[i], c[i])
		}
		h := l.tanh(c)
		for i := range x {
			l.with(1, VADDPS, VADDPS_BCST, h[i], h[i])
		}
		for i := range x {
			VMULPS(h[i], x[i], h[i])
		}
		return h
	})
}

// tanh emits Tanh.
func (l level) tanh(u vectors) vectors {
	Comment("z := min(max(u, -9), 9)")
	z, y := u, l.like(u)
	lowest := l.load(-9)
	for i := range u {
		VMAXPS(u[i], lowest, z[i])
	}
	for i := range z {
		l.with(9, VMINPS, VMINPS_BCST, z[i], z[i])
	}
	for i := range z {
		VMULPS(z[i], z[i], y[i])
	}

	Comment("p")
	p := l.filled(u, -0x1.3e4b8p-52)
	l.horner(
		p, y, 0x1.c266fcp-43, -0x1.7a6ffep-34, 0x1.b80082p-25, 0x1.f28694p-17, 0x1.4e1bdap-11,
		0x1.40b3b8p-8,
	)
	for i := range p {
		VMULPS(z[i], p[i], p[i])
	}

	Comment("q")
	q := l.filled(u, 0x1.41a7bp-20)
	l.horner(q, y, 0x1.f12bacp-14, 0x1.29540ap-9, 0x1.40b3bap-8)
	for i := range p {
		VDIVPS(q[i], p[i], p[i])
	}
	return p
}

// exps emits Kernels.Exp512, Kernels.Exp256 and both kinds of Kernels.ExpNumPy.
func (l level) exps() {
	l.scalarMapping(
		"exp512", "Exp512(x + shift)", "shift",
		func(x vectors, shift Register) vectors {
			return l.exp512(x.plus(shift))
		},
	)
	l.scalarMapping(
		"exp256", "Exp256(x + shift)", "shift",
		func(x vectors, shift Register) vectors {
			return l.exp256(x.plus(shift))
		},
	)
	l.scalarMapping(
		"expNumPy", "ExpNumPy(x + shift, false)", "shift",
		func(x vectors, shift Register) vectors {
			return l.expNumPy(x.plus(shift), false)
		},
	)
	l.scalarMapping(
		"expNumPyFused", "ExpNumPy(x + shift, true)", "shift",
		func(x vectors, shift Register) vectors {
			return l.expNumPy(x.plus(shift), true)
		},
	)
}

// divide emits Kernels.Divide.
func (l level) divide() {
	l.scalarMapping("divide", "x / divisor", "divisor", func(x vectors, divisor Register) vectors {
		for _, v := range x {
			VDIVPS(divisor, v, v)
		}
		return x
	})
}

// add emits Kernels.Add.
func (l level) add() {
	TEXT("add"+l.name, 0, "func(n int, y, x *float32)")
	Pragma("noescape")
	Doc("add"+l.name+" computes n elements:", "", "\ty = y + x")
	l.mapping(l.side, func(x vectors, y func(i int) Op) vectors {
		for i, v := range x {
			VADDPS(y(i), v, v)
		}
		return x
	})
}

// maximum emits Kernels.Max.
func (l level) maximum() {
	TEXT("max"+l.name, 0, "func(n int, x *float32) float32")
	Pragma("noescape")
	Doc(
		"max"+l.name+" is the largest of n numbers:",
		"",
		"\tm = -Inf",
		"\tif x > m {",
		"\t\tm = x",
		"\t}",
	)
	n, x := load("n"), load("x")
	m := make(vectors, 4)
	for i := range m {
		m[i] = l.load(negativeInfinity)
	}
	l.blocks(n, len(m), func(count int) {
		for i := range count {
			v := l.vector()
			VMOVUPS(Mem{Base: x}.Offset(i*l.bytes), v)
			l.greater(v, m[i])
		}
		ADDQ(U32(uint32(count*l.bytes)), x)
	})
	ANDQ(Imm(uint64(l.lanes()-1)), n)
	JZ(LabelRef("fold"))
	if l.narrow() {
		repeat("one", n, func() {
			v := l.vector()
			VBROADCASTSS(Mem{Base: x}, v)
			l.greater(v, m[0])
			ADDQ(Imm(4), x)
		})
	} else {
		l.greaterRest(x, n, m[0])
	}
	Label("fold")
	VMAXPS(m[1], m[0], m[0])
	VMAXPS(m[3], m[2], m[2])
	VMAXPS(m[2], m[0], m[0])
	Store(l.highest(m[0]).AsX(), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// greater emits m = v > m ? v : m, which NaN is not.
func (l level) greater(v, m Register) {
	if l.narrow() {
		mask := l.vector()
		arm64.Special("FCMGT", []Op{m, v}, []Op{mask})
		arm64.Special("BIT", []Op{mask, v}, []Op{m})
		return
	}
	VMAXPS(m, v, m)
}

// greaterRest emits greater for the elements below n.
func (l level) greaterRest(x, n, m Register) {
	v := l.load(negativeInfinity)
	if l.wide() {
		mask := l.below(n)
		VMOVUPS(Mem{Base: x}, mask, v)
	} else {
		mask, rest := l.below(n), l.vector()
		VMASKMOVPS(Mem{Base: x}, mask, rest)
		VBLENDVPS(mask, rest, v, v)
	}
	l.greater(v, m)
}

// highest emits the largest element of a vector, in its first place.
func (l level) highest(v Register) VecVirtual {
	w := v.(VecVirtual)
	if l.narrow() {
		m := l.vector()
		arm64.Special("FMAXNMP", []Op{v, v}, []Op{m})
		arm64.Special("FMAXNMP", []Op{m, m}, []Op{m})
		return m
	}
	if l.wide() {
		high := YMM()
		VEXTRACTF64X4(Imm(1), w, high)
		low := YMM()
		VMAXPS(high, w.AsY(), low)
		w = low
	}
	high, m := XMM(), XMM()
	VEXTRACTF128(Imm(1), w.AsY(), high)
	VMAXPS(high, w.AsX(), m)
	VMOVHLPS(m, m, high)
	VMAXPS(high, m, m)
	VMOVSHDUP(m, high)
	VMAXPS(high, m, m)
	return m
}

// scalarMapping emits a mapping with one number besides.
func (l level) scalarMapping(
	name, formula, scalar string, body func(x vectors, scalar Register) vectors,
) {
	TEXT(name+l.name, 0, "func(n int, y, x *float32, "+scalar+" float32)")
	Pragma("noescape")
	Doc(name+l.name+" computes n elements:", "", "\ty = "+formula)
	s := l.vector()
	VBROADCASTSS(argument(scalar), s)
	l.mapping(l.side, func(x vectors, _ func(int) Op) vectors { return body(x, s) })
}

// plus emits x += y.
func (x vectors) plus(y Register) vectors {
	for _, v := range x {
		VADDPS(y, v, v)
	}
	return x
}

// exp512 emits Exp512.
func (l level) exp512(x vectors) vectors {
	p, m := l.expReduced(x, -0x1.9fe36ap+6)
	l.scale(p, m)
	return p
}

// exp256 emits Exp256.
func (l level) exp256(x vectors) vectors {
	p, m := l.expReduced(x, -0x1.61814ap+6)
	for i := range m {
		VCVTPS2DQ(m[i], m[i])
	}
	for i := range m {
		l.powerOfTwo(m[i])
	}
	for i := range m {
		VMULPS(m[i], p[i], p[i])
	}
	return p
}

// expReduced emits the function of that name after max(x, lowest).
func (l level) expReduced(x vectors, lowest float32) (p, m vectors) {
	Comment("x = max(x, lowest)")
	for i := range x {
		clamped := l.load(lowest)
		VMAXPS(x[i], clamped, x[i])
	}

	Comment("m, and x reduced by m·ln 2")
	m = l.filled(x, log2e)
	for i := range x {
		l.with(magic, VFMADD213PS, VFMADD213PS_BCST, x[i], m[i])
	}
	for i := range x {
		l.with(magic, VSUBPS, VSUBPS_BCST, m[i], m[i])
	}
	l.reduce(x, m)

	Comment("p")
	p = l.filled(x, 0x1.694p-10)
	l.horner(p, x, 0x1.125edcp-7, 0x1.555b5ap-5, 0x1.55545p-3, 0x1.fffff6p-2, 1, 1)
	return p, m
}

// expNumPy emits ExpNumPy.
func (l level) expNumPy(x vectors, fused bool) vectors {
	Comment("q, and r = x - q·ln 2")
	q, r := l.filled(x, log2e), l.like(x)
	if fused {
		for i := range x {
			l.with(magic, VFMADD213PS, VFMADD213PS_BCST, x[i], q[i])
		}
	} else {
		for i := range x {
			VMULPS(x[i], q[i], q[i])
		}
		for i := range x {
			l.with(magic, VADDPS, VADDPS_BCST, q[i], q[i])
		}
	}
	for i := range x {
		l.with(magic, VSUBPS, VSUBPS_BCST, q[i], q[i])
	}
	for i := range x {
		VMOVUPS(x[i], r[i])
	}
	l.reduce(r, q)

	Comment("Numerator and denominator")
	n := l.filled(x, math.Float32frombits(0x3a053dd8))
	l.horner(n, r, math.Float32frombits(0x3bdd7159), math.Float32frombits(0x3d517d8c),
		math.Float32frombits(0x3e7d4c58), math.Float32frombits(0x3f39cbd5), 1)
	d := l.filled(x, math.Float32frombits(0x3cb0e832))
	l.horner(d, r, math.Float32frombits(0xbe8c6857), 1)
	for i := range x {
		VDIVPS(d[i], n[i], n[i])
	}
	l.scale(n, q)

	Comment("Beyond the range of float32")
	for i := range x {
		l.where(x[i], greaterOrEqual, 0x1.62e43p+6, float32(math.Inf(1)), n[i])
		l.where(x[i], lessOrEqual, -0x1.9fe36ap+6, 0, n[i])
	}
	return n
}

const (
	log2e = 0x1.715476p+0
	magic = 0x1.8p23 // adding it rounds to an integer
)

// reduce emits x = FMA(m, -ln 2, x), ln 2 being the sum of two constants.
func (l level) reduce(x, m vectors) {
	for _, part := range []float32{-0x1.62e4p-1, -0x1.7f7d1cp-20} {
		for i := range x {
			l.with(part, VFMADD231PS, VFMADD231PS_BCST, m[i], x[i])
		}
	}
}

// scale emits p *= 2^m with one rounding, for integers m that no float32
// exponent holds. p·2^(m/2) is exact and the second product rounds.
func (l level) scale(p, m vectors) {
	Comment("p·2^m, rounded once")
	for i := range p {
		if l.wide() {
			VSCALEFPS(m[i], p[i], p[i])
			continue
		}
		half := l.vector()
		VCVTPS2DQ(m[i], m[i])
		VPSRAD(Imm(1), m[i], half)
		VPSUBD(half, m[i], m[i])
		l.powerOfTwo(half)
		l.powerOfTwo(m[i])
		VMULPS(half, p[i], p[i])
		VMULPS(m[i], p[i], p[i])
	}
}

// powerOfTwo turns integers m into float32 2^m, from -126 to 127; -127 gives 0.
func (l level) powerOfTwo(m Register) {
	VPSLLD(Imm(23), m, m)
	l.with(1, VPADDD, VPADDD_BCST, m, m)
}

// horner emits p = FMA(p, y, c) for each coefficient in turn.
func (l level) horner(p, y vectors, coefficients ...float32) {
	for _, c := range coefficients {
		for i := range p {
			if l.narrow() { // a sum takes the place of its addend
				next := l.load(c)
				VFMADD231PS(y[i], p[i], next)
				p[i] = next
				continue
			}
			l.with(c, VFMADD213PS, VFMADD213PS_BCST, y[i], p[i])
		}
	}
}

var negativeInfinity = float32(math.Inf(-1))

// Predicates of VCMPPS, false for NaN.
const (
	lessOrEqual    = U8(0x12)
	greaterOrEqual = U8(0x1d)
)

// where sets y to value where x compares to bound.
func (l level) where(x Register, predicate Constant, bound, value float32, y Register) {
	if l.wide() {
		mask := K()
		VCMPPS(predicate, l.load(bound), x, mask)
		VMOVUPS(l.load(value), mask, y)
		return
	}
	mask := l.vector()
	VCMPPS(predicate, l.constant(bound), x, mask)
	VBLENDVPS(mask, l.constant(value), y, y)
}

// vectors are computed side by side: each instruction comes for all of them before the
// next one, so that the CPU need not look far for work while it waits for a result.
type vectors []VecVirtual

// like returns as many new registers as x has.
func (l level) like(x vectors) vectors {
	v := make(vectors, len(x))
	for i := range v {
		v[i] = l.vector()
	}
	return v
}

// filled returns as many new registers as x has, with all elements c.
func (l level) filled(x vectors, c float32) vectors {
	v := make(vectors, len(x))
	for i := range v {
		v[i] = l.load(c)
	}
	return v
}

// mapping emits loops that turn x and y into y, side vectors at a time, then one by one.
// Of the last one only the elements below n are read and written.
func (l level) mapping(side int, body func(x vectors, y func(i int) Op) vectors) {
	n, x, y := load("n"), load("x"), load("y")
	l.blocks(n, side, func(count int) {
		in := make(vectors, count)
		for i := range in {
			in[i] = l.vector()
			VMOVUPS(Mem{Base: x}.Offset(i*l.bytes), in[i])
		}
		for i, v := range body(in, func(i int) Op { return Mem{Base: y}.Offset(i * l.bytes) }) {
			VMOVUPS(v, Mem{Base: y}.Offset(i*l.bytes))
		}
		ADDQ(U32(uint32(count*l.bytes)), x)
		ADDQ(U32(uint32(count*l.bytes)), y)
	})
	ANDQ(Imm(uint64(l.lanes()-1)), n)
	JZ(LabelRef("done"))
	Comment("The rest")
	if l.narrow() {
		repeat("one", n, func() { l.mapOne(x, y, body) })
		Label("done")
		RET()
		return
	}
	v, w := l.vector(), l.vector()
	other := func(int) Op { return w }
	if l.wide() {
		mask := l.below(n)
		VMOVUPS_Z(Mem{Base: x}, mask, v)
		VMOVUPS_Z(Mem{Base: y}, mask, w)
		VMOVUPS(body(vectors{v}, other)[0], mask, Mem{Base: y})
	} else {
		mask := l.below(n)
		VMASKMOVPS(Mem{Base: x}, mask, v)
		VMASKMOVPS(Mem{Base: y}, mask, w)
		VMASKMOVPS(body(vectors{v}, other)[0], mask, Mem{Base: y})
	}
	Label("done")
	VZEROUPPER()
	RET()
}

// mapOne emits a mapping of one element, and goes on to the next.
func (l level) mapOne(x, y Register, body func(x vectors, y func(i int) Op) vectors) {
	v, w := l.vector(), l.vector()
	VMOVSS(Mem{Base: x}, v)
	VMOVSS(Mem{Base: y}, w)
	VMOVSS(body(vectors{v}, func(int) Op { return w })[0], Mem{Base: y})
	ADDQ(Imm(4), x)
	ADDQ(Imm(4), y)
}

// blocks emits loops over the whole vectors of n elements: side of them at a time, then
// one by one.
func (l level) blocks(n Register, side int, body func(count int)) {
	size := clone(n)
	SHRQ(Imm(uint64(bits.TrailingZeros(uint(l.lanes())))), size)
	if side > 1 {
		Label("vectors")
		CMPQ(size, Imm(uint64(side)))
		JL(LabelRef("vectors_done"))
		body(side)
		SUBQ(Imm(uint64(side)), size)
		JMP(LabelRef("vectors"))
		Label("vectors_done")
	}
	repeat("vector", size, func() { body(1) })
}

// below returns a mask of the elements before the n-th.
func (l level) below(n Register) Register {
	rest := l.vector()
	VMOVQ(n, rest.AsX())
	VPBROADCASTD(rest.AsX(), rest)
	if l.wide() {
		mask := K()
		VPCMPGTD(l.lane(), rest, mask)
		return mask
	}
	VPCMPGTD(l.lane(), rest, rest)
	return rest
}

// The table holds the constants of the file.
var (
	table     Mem
	tableSize int // bytes so far
	offsets   = map[string]int{}
)

// constant is the address of a vector whose elements are all v; with AVX-512 of one
// element, which instructions spread themselves. Vectors of 64 bytes would lie across
// two cache lines each, since the linker aligns the table to 32.
func (l level) constant(v float32) Mem {
	lanes := l.lanes()
	if l.wide() {
		lanes = 1
	}
	return l.entry(fmt.Sprint(v), lanes, func(int) uint32 { return math.Float32bits(v) })
}

// with emits an instruction whose first operand is a constant.
func (l level) with(c float32, instruction, broadcasting func(...Op), operands ...Op) {
	if l.wide() {
		instruction = broadcasting
	}
	instruction(append([]Op{l.constant(c)}, operands...)...)
}

// lane is the address of a vector of the integers 0, 1, 2, ...
func (l level) lane() Mem { return l.lanesFrom(0) }

// lanesFrom is that of the integers from first on.
func (l level) lanesFrom(first int) Mem {
	return l.entry(
		fmt.Sprint("lane ", first), l.lanes(), func(i int) uint32 { return uint32(first + i) },
	)
}

func (l level) entry(name string, lanes int, word func(i int) uint32) Mem {
	if tableSize == 0 {
		table = GLOBL("constants", attr.RODATA|attr.NOPTR)
	}
	offset, ok := offsets[name]
	if !ok {
		offset = tableSize
		offsets[name] = offset
		for i := range lanes {
			DATA(offset+4*i, U32(word(i)))
		}
		tableSize += 4 * lanes
	}
	return table.Offset(offset)
}

// load returns a register with all elements v.
func (l level) load(v float32) VecVirtual {
	r := l.vector()
	if l.wide() {
		VBROADCASTSS(l.constant(v), r)
	} else {
		VMOVUPS(l.constant(v), r)
	}
	return r
}
