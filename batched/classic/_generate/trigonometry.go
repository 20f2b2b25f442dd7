package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	sn3 = -1.66666666666664880952546298448555e-01
	sn5 = 8.33333214285722277379541354343671e-03
	cs2 = 4.99999999999999999999950396842453e-01
	cs4 = -4.16666666666664434524222570944589e-02
	cs6 = 1.38888874007937613028114285595617e-03

	halfPi     = 0x1.921fb54442d18p0
	halfPiRest = 0x1.1a62633145c07p-54

	signBit = 1 << 63
)

func (l level) abs(x Op) Register    { return l.and(x, l.word(signBit-1)) }
func (l level) signOf(x Op) Register { return l.and(x, l.word(signBit)) }

// taylor is sin(a + da) for |a| < 0.126; da may be nil.
func (l level) taylor(a, da Register) Register {
	xx := l.mul(a, a)
	p := l.horner(l.load(l.word(0xbe5addffc2fcdf59)), xx,
		l.word(0x3ec71de27b9a7ed9), l.word(0xbf2a01a019db08b8),
		l.word(0x3f81111111110ece), l.word(0xbfc5555555555555))
	if da == nil {
		return l.add(a, l.mul(xx, l.mul(p, a)))
	}
	return l.add(a, l.fma(xx, l.fms(p, a, l.mul(da, l.number(0.5))), da))
}

// nearest is the place in the table of the point k/128 nearest to a, and |a| less it.
func (l level) nearest(a Op) (index, h Register) {
	abs := l.abs(a)
	u := l.add(abs, l.number(0x1.8p45))
	h = l.sub(abs, l.sub(u, l.number(0x1.8p45)))
	return l.shiftLeft(l.and(u, l.word(127)), 2), h
}

// cosine is the cosine of h less 1, and negative.
func (l level) cosine(xx Register) Register {
	return l.mul(xx, l.horner(l.load(l.number(cs6)), xx, l.number(cs4), l.number(cs2)))
}

// sinSum is sin(a + da).
func (l level) sinSum(a, da Register, table Register) Register {
	index, h := l.nearest(a)
	row := l.row(table, index, 4)
	xx := l.mul(h, h)
	signed := l.xor(da, l.signOf(a))
	s := l.add(h, l.fma(l.mul(h, xx), l.fma(xx, l.number(sn5), l.number(sn3)), signed))
	c := l.fma(h, signed, l.cosine(xx))
	cor := l.fma(row.at(3), s, row.at(1))
	sn := row.at(0)
	cor = l.fnma(c, sn, cor)
	cor = l.fma(s, row.at(2), cor)
	y := l.or(l.abs(l.add(sn, cor)), l.signOf(a))
	small := l.compare(l.abs(a), less, l.number(0.126))
	return l.choose(small, l.taylor(a, da), y)
}

// cosSum is cos(a + da).
func (l level) cosSum(a, da Register, table Register) Register {
	index, h := l.nearest(a)
	row := l.row(table, index, 4)
	h = l.add(h, l.xor(da, l.signOf(a)))
	xx := l.mul(h, h)
	s := l.fma(l.mul(h, xx), l.fma(xx, l.number(sn5), l.number(sn3)), h)
	c := l.cosine(xx)
	sn := row.at(0)
	cs := row.at(2)
	cor := l.fnma(row.at(1), s, row.at(3))
	cor = l.fnma(c, cs, cor)
	cor = l.fnma(s, sn, cor)
	return l.add(cs, cor)
}

// small is sine and cosine of |x| < 0.855469, which share the table's rows.
func (l level) small(x Register, table Register) (sin, cos Register) {
	index, h := l.nearest(x)
	row := l.row(table, index, 4)
	xx := l.mul(h, h)
	hxx := l.mul(h, xx)
	poly := l.fma(xx, l.number(sn5), l.number(sn3))
	c := l.cosine(xx)
	sn, ssn := row.at(0), row.at(1)
	cs, ccs := row.at(2), row.at(3)

	Comment("cos")
	s := l.fma(hxx, poly, h)
	cor := l.fnma(ssn, s, ccs)
	cor = l.fnma(c, cs, cor)
	cor = l.fnma(s, sn, cor)
	cos = l.add(cs, cor)

	Comment("sin")
	s = l.add(h, l.mul(hxx, poly))
	cor = l.fma(ccs, s, ssn)
	cor = l.fnma(c, sn, cor)
	cor = l.fma(s, cs, cor)
	sin = l.or(l.abs(l.add(sn, cor)), l.signOf(x))
	sin = l.choose(l.compare(l.abs(x), less, l.number(0.126)), l.taylor(x, nil), sin)
	return sin, cos
}

// reduce is x - n·π/2 in two parts, and the bits of n.
func (l level) reduce(x Register) (a, da, n Register) {
	n = l.fma(x, l.number(0x1.45f306dc9c883p-1), l.number(0x1.8p52))
	k := l.sub(n, l.number(0x1.8p52))
	y := l.fnma(k, l.number(0x1.921fb58p0), x)
	y = l.fnma(k, l.number(-0x1.dde973cp-27), y)
	t2 := l.fnma(k, l.number(-0x1.cb3b398p-55), y)
	d1 := l.fnma(k, l.number(-0x1.cb3b398p-55), l.sub(y, t2))
	a = l.fnma(k, l.number(-0x1.d747f23e32ed7p-83), t2)
	d2 := l.fnma(k, l.number(-0x1.d747f23e32ed7p-83), l.sub(t2, a))
	return a, l.add(d1, d2), n
}

// The edges of glibc's branches.
var (
	edge1 = math.Float64frombits(0x3feb6000 << 32)
	edge2 = math.Float64frombits(0x400368fd << 32)
	edge3 = math.Float64frombits(0x419921fb << 32)
)

// trig is sine, if asked for, and cosine of |x| < 105414336. Elsewhere the cosine is NaN, and
// farAngles computes both.
func (l level) trig(x, table Register, sine bool) (sin, cos Register) {
	a, da, n := l.reduce(x)
	Comment("Below 0.855469 there is nothing to reduce, below 2.426265 π/2 - |x|")
	y := l.sub(l.number(halfPi), l.abs(x))
	sum := l.add(y, l.number(halfPiRest))
	near := l.compare(l.abs(x), less, l.number(edge2))
	nearest := l.compare(l.abs(x), less, l.number(edge1))
	aS := l.choose(near, sum, a)
	daS := l.choose(near, l.add(l.sub(y, sum), l.number(halfPiRest)), da)
	if sine { // the cosine alone has no use for vS of the nearest
		// Zero is made twice: kept, it would be a seventeenth vector, which AVX2 does not have.
		aS, daS = l.choose(nearest, x, aS), l.choose(nearest, l.sub(x, x), daS)
	}
	Comment("sin(a + da)")
	vS := l.sinSum(aS, daS, table)
	aC := l.choose(nearest, x, l.choose(near, y, a))
	daC := l.choose(nearest, l.sub(x, x), l.choose(near, l.number(halfPiRest), da))
	Comment("cos(a + da)")
	vC := l.cosSum(aC, daC, table)

	beyond := l.compare(l.abs(x), notLess, l.number(edge3))
	nan := l.number(math.NaN())
	one := l.load(l.word(1))
	next := l.vector()
	VPADDQ(one, n, next)
	far := l.turn(next, vS, vC)
	cos = l.choose(beyond, nan, l.choose(nearest, vC, l.choose(near, vS, far)))
	if sine {
		Comment("Sine")
		middle := l.or(l.abs(vC), l.signOf(x))
		far := l.turn(n, vS, vC)
		sin = l.choose(nearest, vS, l.choose(near, middle, far))
		sin = l.choose(l.compare(l.abs(x), less, l.number(0x1p-26)), x, sin)
	}
	return sin, cos
}

// turn is the sine n quarters of a turn on.
func (l level) turn(n, vS, vC Register) Register {
	v := l.choose(l.bit(n, 0), vC, vS)
	return l.xor(v, l.and(l.shiftLeft(n, 62), l.word(signBit)))
}

// sincos emits sine and cosine of arrays.
func (l level) sincos() {
	TEXT("sincos"+l.name, 0, "func(n int, x, sin, cos, table *float64)")
	Pragma("noescape")
	Doc("sincos" + l.name + " computes n elements, a multiple of 8: see sincos.")
	n, x := Load(Param("n"), GP64()), Load(Param("x"), GP64())
	sin, cos := Load(Param("sin"), GP64()), Load(Param("cos"), GP64())
	table := Load(Param("table"), GP64())
	i := GP64()
	XORQ(i, i)
	Label("loop")
	CMPQ(i, n)
	JGE(LabelRef("done"))
	s, c := l.trig(l.load(Mem{Base: x, Index: i, Scale: 8}), table, true)
	VMOVUPD(s, Mem{Base: sin, Index: i, Scale: 8})
	VMOVUPD(c, Mem{Base: cos, Index: i, Scale: 8})
	ADDQ(Imm(uint64(l.lanes())), i)
	JMP(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}

// square emits the squares that are sure to be pow(x, 2).
func (l level) square() {
	TEXT("square"+l.name, 0, "func(n int, x, y *float64, sure *bool)")
	Pragma("noescape")
	Doc("square" + l.name + " computes n elements, a multiple of 8: see certain.")
	n, x := Load(Param("n"), GP64()), Load(Param("x"), GP64())
	y, sure := Load(Param("y"), GP64()), Load(Param("sure"), GP64())
	i := GP64()
	XORQ(i, i)
	Label("loop")
	CMPQ(i, n)
	JGE(LabelRef("done"))
	v := l.load(Mem{Base: x, Index: i, Scale: 8})
	h := l.mul(v, v)
	rest := l.fms(v, v, h)
	d := l.mul(h, l.number(0x1p-58))
	ok := l.compare(h, equal, l.add(h, l.add(rest, d)))
	ok = l.both(ok, l.compare(h, equal, l.add(h, l.sub(rest, d))))
	ok = l.both(ok, l.compare(h, greater, l.number(0x1p-200)))
	ok = l.both(ok, l.compare(h, less, l.number(0x1p200)))
	VMOVUPD(h, Mem{Base: y, Index: i, Scale: 8})
	l.flags(ok, Mem{Base: sure, Index: i, Scale: 1})
	ADDQ(Imm(uint64(l.lanes())), i)
	JMP(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}
