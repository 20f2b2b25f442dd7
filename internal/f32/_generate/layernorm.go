package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// layerNorm emits Kernels.LayerNorm: its lanes are those of AVX2.
func layerNorm() {
	TEXT("layerNormAVX2", 0, "func(n int, y, x, weight, bias *float32)")
	Pragma("noescape")
	Doc(
		"layerNormAVX2 normalises one row of n elements, a multiple of 8:",
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
	n := load("n")
	// eights emits a loop over the row, at being the offset of eight elements.
	eights := func(label string, body func(at func(base Register) Mem)) {
		count, offset := clone(n), GP64()
		SHRQ(Imm(3), count)
		XORQ(offset, offset)
		repeat(label, count, func() {
			body(func(base Register) Mem { return Mem{Base: base, Index: offset, Scale: 1} })
			ADDQ(Imm(32), offset)
		})
	}
	x := load("x")

	Comment("Mean: four sums in float64")
	d := YMM()
	VXORPD(d, d, d)
	eights("sum", func(at func(Register) Mem) {
		for half := range 2 {
			v := YMM()
			VCVTPS2PD(at(x).Offset(16*half), v)
			VADDPD(v, d, d)
		}
	})
	high := XMM()
	VEXTRACTF128(Imm(1), d, high)
	VADDPD(high, d.AsX(), d.AsX())
	VUNPCKHPD(d.AsX(), d.AsX(), high)
	VADDSD(high, d.AsX(), d.AsX())
	count := XMM()
	VXORPS(count, count, count)
	VCVTSI2SDQ(n, count, count)
	VDIVSD(count, d.AsX(), d.AsX())
	VCVTSD2SS(d.AsX(), d.AsX(), d.AsX())
	mean := YMM()
	VBROADCASTSS(d.AsX(), mean)

	Comment("Variance: eight chains")
	a := YMM()
	VXORPS(a, a, a)
	eights("square", func(at func(Register) Mem) {
		t := YMM()
		VMOVUPS(at(x), t)
		VSUBPS(mean, t, t)
		VFMADD231PS(t, t, a)
	})
	high = XMM()
	VEXTRACTF128(Imm(1), a, high)
	VADDPS(high, a.AsX(), a.AsX())
	VMOVHLPS(a.AsX(), a.AsX(), high)
	VADDPS(high, a.AsX(), a.AsX())
	VMOVSHDUP(a.AsX(), high)
	VADDSS(high, a.AsX(), a.AsX())
	VCVTSI2SSQ(n, count, count)
	VDIVSS(count, a.AsX(), a.AsX())

	Comment("1 / sqrt(variance + Epsilon)")
	VADDSS(avx2.constant(0x1.4f8b58p-17), a.AsX(), a.AsX())
	VSQRTSS(a.AsX(), a.AsX(), a.AsX())
	one := XMM()
	VMOVSS(avx2.constant(1), one)
	VDIVSS(a.AsX(), one, a.AsX())
	inverse := YMM()
	VBROADCASTSS(a.AsX(), inverse)

	y, weight, bias := load("y"), load("weight"), load("bias")
	eights("scale", func(at func(Register) Mem) {
		v, w := YMM(), YMM()
		VMOVUPS(at(x), v)
		VSUBPS(mean, v, v)
		VMULPS(inverse, v, v)
		VMOVUPS(at(weight), w)
		VFMADD213PS(at(bias), w, v)
		VMOVUPS(v, at(y))
	})
	VZEROUPPER()
	RET()
}
