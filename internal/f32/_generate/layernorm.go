package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"lockstep/internal/arm64"
)

// layerNorm emits Kernels.LayerNorm: its lanes are those of AVX2, of which NEON has half in
// a vector. Four rows are computed side by side, since each sum waits for its own additions.
func (l level) layerNorm() {
	TEXT("layerNorm"+l.name, 0, "func(rows, n int, y, x, weight, bias *float32)")
	Pragma("noescape")
	Doc(
		"layerNorm"+l.name+" normalises rows of n elements, a multiple of 8:",
		"",
		"\tvar d [4]float64",
		"\tfor i, v := range x {",
		"\t\td[i%4] += float64(v)",
		"\t}",
		"\tmean := float32(((d[0] + d[2]) + (d[1] + d[3])) / float64(n))",
		"\tvar a [8]float32",
		"\tfor i, v := range x {",
		"\t\ta[i%8] = FMA(v-mean, v-mean, a[i%8])",
		"\t}",
		"\tr0, r1, r2, r3 := a[0]+a[4], a[1]+a[5], a[2]+a[6], a[3]+a[7]",
		"\tvariance := ((r0 + r2) + (r1 + r3)) / float32(n)",
		"\tinverse := 1 / sqrt(variance+Epsilon)",
		"\tfor i, v := range x {",
		"\t\ty[i] = FMA((v-mean)*inverse, weight[i], bias[i])",
		"\t}",
	)
	left, n := load("rows"), load("n")
	length := clone(n) // of a row, in bytes
	SHLQ(Imm(2), length)
	length3 := triple(length)
	x, y, weight, bias := load("x"), load("y"), load("weight"), load("bias")
	for _, rows := range []int{4, 1} {
		label := map[int]string{4: "four", 1: "one"}[rows]
		Label(label)
		CMPQ(left, Imm(uint64(rows)))
		JL(LabelRef(label + "_done"))
		block := &lines{l, label, rows, n, length, length3}
		block.normalise(x, y, weight, bias)
		for range rows {
			ADDQ(length, x)
			ADDQ(length, y)
		}
		SUBQ(Imm(uint64(rows)), left)
		JMP(LabelRef(label))
		Label(label + "_done")
	}
	VZEROUPPER()
	RET()
}

// normalise emits the code of all three passes.
func (l *lines) normalise(x, y, weight, bias Register) {
	Comment("Means: four sums in float64 each")
	mean, count := l.means(x)
	Comment("Variances: eight chains each")
	a := l.inverses(x, mean, count)

	// The offset of y, weight and bias from x, of the same place in a row.
	toY, toWeight, toBias := clone(y), clone(weight), clone(bias)
	SUBQ(x, toY)
	SUBQ(x, toWeight)
	SUBQ(x, toBias)
	yRow := GP64()
	l.eights("scale", x, func(at func(int) Mem, p Register) {
		for part := 0; part < 32; part += l.bytes {
			w, b := l.vector(), l.vector()
			VMOVUPS(Mem{Base: p, Index: toWeight, Scale: 1}.Offset(part), w)
			VMOVUPS(Mem{Base: p, Index: toBias, Scale: 1}.Offset(part), b)
			LEAQ(Mem{Base: p, Index: toY, Scale: 1}, yRow)
			for r := range a {
				v := l.vector()
				VMOVUPS(at(r).Offset(part), v)
				VSUBPS(mean[r], v, v)
				VMULPS(a[r], v, v)
				VFMADD213PS(b, w, v)
				to := at(r).Offset(part)
				to.Base = yRow
				VMOVUPS(v, to)
			}
		}
	})
}

// lines are rows that are normalised side by side.
type lines struct {
	level
	label           string // of the code's loops
	rows            int
	n               Register // elements of a row
	length, length3 Register // bytes of one row, and of three
}

// eights emits a loop over a row. at is the address of eight elements of row r.
func (l *lines) eights(name string, from Register, body func(at func(r int) Mem, base Register)) {
	count, p := clone(l.n), clone(from)
	SHRQ(Imm(3), count)
	repeat(l.label+"_"+name, count, func() {
		body(func(r int) Mem {
			if r == 3 {
				return Mem{Base: p, Index: l.length3, Scale: 1}
			}
			if r == 0 {
				return Mem{Base: p}
			}
			return Mem{Base: p, Index: l.length, Scale: uint8(r)}
		}, p)
		ADDQ(Imm(32), p)
	})
}

// vectors are one for each row.
func (l *lines) vectors() vectors {
	v := make(vectors, l.rows)
	for r := range v {
		v[r] = l.vector()
	}
	return v
}

// means emits the means of the rows, spread. What it leaves in count is n, in float64.
func (l *lines) means(x Register) (mean vectors, count VecVirtual) {
	d, mean := l.vectors(), l.vectors()
	for r := range d {
		VXORPD(d[r], d[r], d[r])
	}
	if l.narrow() {
		l.sumsInPairs(x, d)
	} else {
		l.eights("sum", x, func(at func(int) Mem, _ Register) {
			for half := range 2 {
				for r := range d {
					v := YMM()
					VCVTPS2PD(at(r).Offset(16*half), v)
					VADDPD(v, d[r], d[r])
				}
			}
		})
	}
	count = XMM()
	VXORPS(count, count, count)
	VCVTSI2SDQ(l.n, count, count)
	for r := range d {
		high := XMM()
		if !l.narrow() {
			VEXTRACTF128(Imm(1), d[r], high)
			VADDPD(high, d[r].AsX(), d[r].AsX())
		}
		VUNPCKHPD(d[r].AsX(), d[r].AsX(), high)
		VADDSD(high, d[r].AsX(), d[r].AsX())
		VDIVSD(count, d[r].AsX(), d[r].AsX())
		VCVTSD2SS(d[r].AsX(), d[r].AsX(), d[r].AsX())
		VBROADCASTSS(d[r].AsX(), mean[r])
	}
	return mean, count
}

// sumsInPairs leaves in d the sums 0 + 2 and 1 + 3 of the four of each row.
func (l *lines) sumsInPairs(x Register, d vectors) {
	upper := l.vectors()
	for r := range d {
		VXORPD(upper[r], upper[r], upper[r])
	}
	l.eights("sum", x, func(at func(int) Mem, _ Register) {
		for half := range 2 {
			for r := range d {
				v, low := l.vector(), l.vector()
				VMOVUPS(at(r).Offset(16*half), v)
				arm64.Special("FCVTL", []Op{v}, []Op{low})
				VADDPD(low, d[r], d[r])
				arm64.Special("FCVTL2", []Op{v}, []Op{v})
				VADDPD(v, upper[r], upper[r])
			}
		}
	})
	for r := range d {
		VADDPD(upper[r], d[r], d[r])
	}
}

// inverses emits 1 / sqrt(variance + Epsilon) of the rows, spread.
func (l *lines) inverses(x Register, mean vectors, count VecVirtual) vectors {
	chains := []vectors{l.vectors()} // eight of each row, in one vector or two
	if l.narrow() {
		chains = append(chains, l.vectors())
	}
	for _, part := range chains {
		for r := range part {
			VXORPS(part[r], part[r], part[r])
		}
	}
	l.eights("square", x, func(at func(int) Mem, _ Register) {
		for k, part := range chains {
			for r := range part {
				t := l.vector()
				VMOVUPS(at(r).Offset(k*l.bytes), t)
				VSUBPS(mean[r], t, t)
				VFMADD231PS(t, t, part[r])
			}
		}
	})
	a := chains[0]
	VCVTSI2SSQ(l.n, count, count)
	one := XMM()
	VMOVSS(l.constant(1), one)
	for r := range a {
		Comment("1 / sqrt(variance + Epsilon)")
		high := XMM()
		if l.narrow() {
			VADDPS(chains[1][r], a[r], a[r])
			arm64.Special("EXT", []Op{a[r]}, []Op{high})
			VADDPS(high, a[r], a[r])
			arm64.Special("FADDPS", []Op{a[r]}, []Op{a[r]})
		} else {
			VEXTRACTF128(Imm(1), a[r], high)
			VADDPS(high, a[r].AsX(), a[r].AsX())
			VMOVHLPS(a[r].AsX(), a[r].AsX(), high)
			VADDPS(high, a[r].AsX(), a[r].AsX())
			VMOVSHDUP(a[r].AsX(), high)
			VADDSS(high, a[r].AsX(), a[r].AsX())
		}
		VDIVSS(count, a[r].AsX(), a[r].AsX())
		VADDSS(l.constant(0x1.4f8b58p-17), a[r].AsX(), a[r].AsX())
		VSQRTSS(a[r].AsX(), a[r].AsX(), a[r].AsX())
		VDIVSS(a[r].AsX(), one, a[r].AsX())
		VBROADCASTSS(a[r].AsX(), a[r])
	}
	return a
}
