package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"lockstep/internal/arm64"
)

// What arm64 alone computes so: other CPUs have plain Go for it.

// expLibrary emits Kernels.ExpLibrary: each vector is two of float64.
func (l level) expLibrary() {
	TEXT("expLibrary"+l.name, 0, "func(n int, y, x *float32, shift float32)")
	Pragma("noescape")
	Doc("expLibrary"+l.name+" computes n elements:", "", "\ty = ExpLibrary(x + shift)")
	shift, roots := l.vector(), GP64()
	VBROADCASTSS(argument("shift"), shift)
	LEAQ(NewDataAddr(Symbol{Name: "roots32"}, 0), roots)
	l.mapping(2, func(x vectors, _ func(int) Op) vectors {
		y := l.powers(x.plus(shift), roots)
		above := math.Nextafter32(0x1.62e42ep6, float32(math.Inf(1)))
		below := math.Nextafter32(-0x1.9fe368p6, float32(math.Inf(-1)))
		for i := range x {
			l.where(x[i], greaterOrEqual, above, float32(math.Inf(1)), y[i])
			l.where(x[i], lessOrEqual, below, 0, y[i])
		}
		return y
	})
}

// powers are e^x where that is in the range of float32.
func (l level) powers(x vectors, roots Register) vectors {
	Comment("x·32·log2(e) = k + r")
	r, k := append(l.like(x), x...), append(l.like(x), x...)
	for i, v := range x {
		low, high := l.vector(), l.vector()
		arm64.Special("FCVTL", []Op{v}, []Op{low})
		arm64.Special("FCVTL2", []Op{v}, []Op{high})
		r[2*i], r[2*i+1] = low, high
	}
	for i := range r {
		k[i] = l.vector()
		VMULPD(l.double(0x1.71547652b82fep+5), r[i], r[i])
		VADDPD(l.double(0x1.8p52), r[i], k[i])
	}
	scale := l.like(r)
	for i := range r {
		whole := l.vector()
		VSUBPD(l.double(0x1.8p52), k[i], whole)
		VSUBPD(whole, r[i], r[i])
		l.root(k[i], roots, scale[i])
	}
	Comment("2^(r/32), and both")
	y := l.like(x)
	for i := range r {
		const c0 = 0x1.c6af84b912394p-5 / 32 / 32 / 32
		const c1 = 0x1.ebfce50fac4f3p-3 / 32 / 32
		const c2 = 0x1.62e42ff0c52d6p-1 / 32
		p, q := l.vector(), l.vector()
		VMULPD(l.double(c0), r[i], p)
		VADDPD(l.double(c1), p, p)
		VMULPD(l.double(c2), r[i], q)
		VADDPD(l.double(1), q, q)
		VMULPD(r[i], r[i], r[i])
		VMULPD(r[i], p, p)
		VADDPD(q, p, p)
		VMULPD(scale[i], p, p)
		arm64.Special([]string{"FCVTN", "FCVTN2"}[i%2], []Op{p}, []Op{y[i/2]})
	}
	return y
}

// root emits 2^(k/32) of a table of 32 and k's other bits.
func (l level) root(k, roots, y Register) {
	low, high := l.vector(), l.vector()
	VPAND(l.integer(31), k, low)
	VPAND(l.integer(math.MaxUint64-31), k, high)
	VPSLLQ(Imm(47), high, high)
	first, second := GP64(), GP64()
	VMOVQ(low, first)
	arm64.Special("UPPER", []Op{low}, []Op{second})
	other := l.vector()
	VMOVSD(Mem{Base: roots, Index: first, Scale: 8}, y)
	VMOVSD(Mem{Base: roots, Index: second, Scale: 8}, other)
	VUNPCKLPD(other, y, y)
	VPADDQ(high, y, y)
}

// layerNormARM emits Kernels.LayerNormARM of rows, a multiple of 4: a row is one lane, since
// each number of it waits for the one before, through a division.
func (l level) layerNormARM() {
	TEXT("layerNormARM"+l.name, 0, "func(rows, n int, y, x, weight, bias *float32)")
	Pragma("noescape")
	Doc(
		"layerNormARM"+l.name+" normalises rows, a multiple of 4, of n elements, one of 8:",
		"",
		"\tvar mean, squares float32",
		"\tfor i, v := range x {",
		"\t\tt := v - mean",
		"\t\tmean += t / float32(i+1)",
		"\t\tsquares = FMA(t, v-mean, squares)",
		"\t}",
		"\tdeviation := sqrt(squares/float32(n) + Epsilon)",
		"\tfor i, v := range x {",
		"\t\ty[i] = FMA((v-mean)/deviation, weight[i], bias[i])",
		"\t}",
	)
	left, n, length := load("rows"), load("n"), loadBytes("n")
	SHRQ(Imm(2), n)
	x, y := load("x"), load("y")
	for _, side := range []int{4, 1} {
		label := map[int]string{4: "sixteen", 1: "four"}[side]
		Label(label)
		CMPQ(left, Imm(uint64(4*side)))
		JL(LabelRef(label + "_done"))
		mean, deviation := l.welford(label, side, n, length, x)
		for v := range mean {
			l.scaleFour(label+string(rune('0'+v)), n, length, x, y, mean[v], deviation[v])
		}
		SUBQ(Imm(uint64(4*side)), left)
		JMP(LabelRef(label))
		Label(label + "_done")
	}
	RET()
}

// welford emits mean and deviation of rows, four in each vector.
func (l level) welford(label string, side int, n, length, x Register) (mean, squares vectors) {
	mean, squares = make(vectors, side), make(vectors, side)
	for v := range mean {
		mean[v], squares[v] = l.vector(), l.vector()
		VXORPS(mean[v], mean[v], mean[v])
		VXORPS(squares[v], squares[v], squares[v])
	}
	count, one := l.vector(), l.load(1)
	VXORPS(count, count, count)
	rounds, p := clone(n), clone(x)
	repeat(label+"_mean", rounds, func() {
		row := clone(p)
		columns := make([]vectors, side)
		for v := range columns {
			columns[v] = l.four(row, length)
		}
		for e := range 4 {
			VADDPS(one, count, count)
			for v := range mean {
				t, part := l.vector(), l.vector()
				VSUBPS(mean[v], columns[v][e], t)
				VDIVPS(count, t, part)
				VADDPS(part, mean[v], mean[v])
				VSUBPS(mean[v], columns[v][e], part)
				VFMADD231PS(part, t, squares[v])
			}
		}
		ADDQ(Imm(16), p)
	})
	for v := range squares { // count is n
		VDIVPS(count, squares[v], squares[v])
		VADDPS(l.constant(0x1.4f8b58p-17), squares[v], squares[v])
		VSQRTPS(squares[v], squares[v])
	}
	return mean, squares
}

// four loads four elements of four rows, and turns them: a vector has an element of each. row
// goes on to the fifth.
func (l level) four(row, length Register) vectors {
	r := make(vectors, 4)
	for i := range r {
		r[i] = l.vector()
		VMOVUPS(Mem{Base: row}, r[i])
		ADDQ(length, row)
	}
	a, b, c, d := l.vector(), l.vector(), l.vector(), l.vector()
	VUNPCKLPS(r[1], r[0], a)
	VUNPCKHPS(r[1], r[0], b)
	VUNPCKLPS(r[3], r[2], c)
	VUNPCKHPS(r[3], r[2], d)
	VUNPCKLPD(c, a, r[0])
	VUNPCKHPD(c, a, r[1])
	VUNPCKLPD(d, b, r[2])
	VUNPCKHPD(d, b, r[3])
	return r
}

// scaleFour emits the end of four rows, and goes on to the next in x and y.
func (l level) scaleFour(label string, n, length, x, y Register, mean, deviation VecVirtual) {
	var means, deviations vectors
	for _, spread := range []string{"DUP0", "DUP1", "DUP2", "DUP3"} {
		m, d := l.vector(), l.vector()
		arm64.Special(spread, []Op{mean}, []Op{m})
		arm64.Special(spread, []Op{deviation}, []Op{d})
		means, deviations = append(means, m), append(deviations, d)
	}
	rounds, p, to, weight, bias := clone(n), clone(x), clone(y), load("weight"), load("bias")
	repeat(label+"_scale", rounds, func() {
		from, out, w, b := clone(p), clone(to), l.vector(), l.vector()
		VMOVUPS(Mem{Base: weight}, w)
		VMOVUPS(Mem{Base: bias}, b)
		for r := range means {
			v, sum := l.vector(), l.vector()
			VMOVUPS(Mem{Base: from}, v)
			VSUBPS(means[r], v, v)
			VDIVPS(deviations[r], v, v)
			VMOVUPS(b, sum)
			VFMADD231PS(w, v, sum)
			VMOVUPS(sum, Mem{Base: out})
			ADDQ(length, from)
			ADDQ(length, out)
		}
		for _, pointer := range []Register{p, to, weight, bias} {
			ADDQ(Imm(16), pointer)
		}
	})
	for range means {
		ADDQ(length, x)
		ADDQ(length, y)
	}
}

// double is the address of a vector of float64, integer of integers of 64 bits.
func (l level) double(v float64) Mem { return l.integer(math.Float64bits(v)) }

func (l level) integer(v uint64) Mem {
	return l.entry(fmt.Sprintf("%#x of 64 bits", v), 4, func(i int) uint32 {
		return uint32(v >> (32 * (i % 2)))
	})
}
