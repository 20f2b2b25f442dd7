package main

import (
	"fmt"
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"lockstep/internal/arm64"
)

// context is the number of columns of the softmax.
const context = 20

// softmaxes emits Kernels.Softmax512 and Kernels.Softmax256, and where vectors have four
// lanes Kernels.Softmax4.
func (l level) softmaxes() {
	l.softmax("softmax512", "Exp512", 16, l.exp512)
	l.softmax("softmax256", "Exp256", 8, l.exp256)
	if l.narrow() {
		l.softmax("softmax4", "Exp256", 4, l.exp256)
	}
}

// softmax emits a causal softmax. Rows are taken several at a time, where registers are
// there for it, in so many vectors as their last one's columns need.
func (l level) softmax(name, formula string, lanes int, exp func(vectors) vectors) {
	TEXT(name+l.name, 0, "func(rows int, s *float32, stride, first int)")
	Pragma("noescape")
	Doc(
		name+l.name+" computes rows of 20 columns, of which the first first+i+1 count in row i:",
		"",
		"\tm := Max(x)",
		"\te := "+formula+"(x - m), or 0 where x does not count",
		"\ty = e * (1 / sum(e))",
		"",
		fmt.Sprintf("with the sum in %d lanes.", lanes),
	)
	rows, s, stride, first := load("rows"), load("s"), loadBytes("stride"), load("first")
	most := (context + l.lanes() - 1) / l.lanes()
	type variant struct{ rows, vectors int }
	variants := []variant{{1, 1}, {1, 2}, {1, 3}}
	switch {
	case l.wide():
		variants = []variant{{4, 1}, {2, 2}, {1, 2}}
	case l.narrow():
		variants = append(variants, variant{1, 4}, variant{1, 5})
	}
	Label("next")
	TESTQ(rows, rows)
	JZ(LabelRef("done"))
	for _, v := range variants {
		skip := fmt.Sprintf("not_%dx%d", v.rows, v.vectors)
		if v.rows > 1 {
			CMPQ(rows, Imm(uint64(v.rows)))
			JL(LabelRef(skip))
		}
		if v.vectors < most {
			CMPQ(first, Imm(uint64(v.vectors*l.lanes()-v.rows)))
			JG(LabelRef(skip))
		}
		l.softmaxRows(v.rows, v.vectors, s, stride, first, lanes, exp)
		for range v.rows {
			ADDQ(stride, s)
		}
		ADDQ(Imm(uint64(v.rows)), first)
		SUBQ(Imm(uint64(v.rows)), rows)
		JMP(LabelRef("next"))
		Label(skip)
	}
	Label("done")
	VZEROUPPER()
	RET()
}

// softmaxRows emits the code for so many rows of so many vectors.
func (l level) softmaxRows(
	rows, count int, s, stride, first Register, lanes int, exp func(vectors) vectors,
) {
	at := make([]Register, rows)
	masks := make([][]Register, rows) // of the columns that count
	var all vectors                   // of row r: all[r*count:][:count]
	n := clone(first)
	for r := range rows {
		at[r] = s
		if r > 0 {
			at[r] = clone(at[r-1])
			ADDQ(stride, at[r])
		}
		INCQ(n)
		masks[r] = l.columns(n, count)
		for k := range count {
			v, mem := l.load(negativeInfinity), Mem{Base: at[r]}.Offset(k*l.bytes)
			switch x := l.vector(); {
			case l.wide():
				VMOVUPS(mem, masks[r][k], v)
			case l.narrow():
				VMOVUPS(mem, x) // all of a row is there
				VBLENDVPS(masks[r][k], x, v, v)
			default:
				VMASKMOVPS(mem, masks[r][k], x)
				VBLENDVPS(masks[r][k], x, v, v)
			}
			all = append(all, v)
		}
	}
	for r := range rows {
		row := all[r*count:][:count]
		m := l.vector()
		VMOVUPS(row[0], m)
		for _, v := range row[1:] {
			VMAXPS(m, v, m)
		}
		// A NaN makes all of the row NaN, whatever the maximum is then.
		h := l.highest(m)
		VBROADCASTSS(h.AsX(), m)
		for k, v := range row {
			VSUBPS(m, v, v)
			// e^0 where nothing counts: an exponential that is below the normal range
			// takes the CPU a hundred cycles.
			l.keep(masks[r][k], v)
		}
	}
	all = exp(all)
	for r := range rows {
		row := all[r*count:][:count]
		for k, v := range row {
			l.keep(masks[r][k], v)
		}
		q := l.vector()
		VBROADCASTSS(l.reciprocalSum(row, lanes).AsX(), q)
		for k, v := range row {
			VMULPS(q, v, v)
			l.keep(masks[r][k], v)
		}
		l.storeColumns(at[r], row)
	}
}

// columns returns masks of the first n columns, in so many vectors.
func (l level) columns(n Register, count int) []Register {
	masks := make([]Register, count)
	if l.wide() {
		ones, bits := GP64(), GP64()
		MOVQ(U32(1<<context-1), ones)
		BZHIQ(n, ones, bits)
		for k := range masks {
			if k > 0 {
				SHRQ(Imm(16), bits)
			}
			masks[k] = K()
			KMOVW(bits.As32(), masks[k])
		}
		return masks
	}
	count32 := l.vector()
	VMOVQ(n, count32.AsX())
	VPBROADCASTD(count32.AsX(), count32)
	for k := range masks {
		mask := l.vector()
		VMOVUPS(l.lanesFrom(k*l.lanes()), mask)
		VPCMPGTD(mask, count32, mask)
		masks[k] = mask
	}
	return masks
}

// keep makes the elements that do not count +0.
func (l level) keep(mask, v Register) {
	if l.wide() {
		VMOVAPS_Z(v, mask, v)
		return
	}
	VPAND(mask, v, v)
}

// reciprocalSum emits 1 / sum(e) of a row whose elements beyond the last are +0: what is not there
// changes no sum.
func (l level) reciprocalSum(row vectors, lanes int) VecVirtual {
	if l.narrow() {
		return l.reciprocalFours(row, lanes)
	}
	// Elements 0-7, 8-15 and 16-19.
	parts := make([]Register, 0, 3)
	for _, v := range row {
		parts = append(parts, v.AsY())
		if l.wide() && len(parts) == 1 {
			high := YMM()
			VEXTRACTF64X4(Imm(1), v, high)
			parts = append(parts, high)
		}
	}
	if lanes == 16 && len(parts) > 2 {
		parts[1], parts[2] = parts[2], parts[1]
	}
	c := YMM()
	VMOVUPS(parts[0], c)
	for _, p := range parts[1:] {
		VADDPS(p, c, c)
	}
	t := YMM()
	VMOVSHDUP(c, t)
	VADDPS(t, c, c)
	VPERMILPD(Imm(5), c, t)
	VADDPS(t, c, c)
	VEXTRACTF128(Imm(1), c, t.AsX())
	VADDSS(t.AsX(), c.AsX(), c.AsX())
	one := XMM()
	VMOVSS(l.constant(1), one)
	VDIVSS(c.AsX(), one, c.AsX())
	return c
}

// reciprocalFours is that of vectors of four: of eight lanes, low and high are four each.
func (l level) reciprocalFours(row vectors, lanes int) VecVirtual {
	order := map[int][][]int{
		16: {{0, 4, 2}, {1, 3}},
		8:  {{0, 2, 4}, {1, 3}},
		4:  {{0, 1, 2, 3, 4}},
	}[lanes]
	var sums vectors
	for _, parts := range order {
		sum := l.vector()
		if parts[0] < len(row) {
			VMOVUPS(row[parts[0]], sum)
		} else {
			l.zero(sum)
		}
		for _, k := range parts[1:] {
			if k < len(row) {
				VADDPS(row[k], sum, sum)
			}
		}
		sums = append(sums, sum)
	}
	c, one := sums[0], l.vector()
	if len(sums) > 1 {
		arm64.Special("FADDP", []Op{sums[1], c}, []Op{c})
	}
	arm64.Special("FADDP", []Op{c, c}, []Op{c})
	arm64.Special("FADDPS", []Op{c}, []Op{c})
	VMOVSS(l.constant(1), one)
	VDIVSS(c, one, c)
	return c
}

// storeColumns writes a row's 20 columns, those beyond its vectors being +0.
func (l level) storeColumns(at Register, row vectors) {
	for column := 0; column < context; column += l.lanes() {
		k, to := column/l.lanes(), Mem{Base: at}.Offset(4*column)
		left := context - column
		switch {
		case left >= l.lanes():
			if k < len(row) {
				VMOVUPS(row[k], to)
			} else {
				zero := l.vector()
				l.zero(zero)
				VMOVUPS(zero, to)
			}
		case k < len(row): // four columns
			VMOVUPS(row[k].AsX(), to)
		default:
			zero := XMM()
			VXORPS(zero, zero, zero)
			VMOVUPS(zero, to)
		}
	}
}

// transpose emits Kernels.Transpose: four rows of as many columns as a vector has at a time.
func (l level) transpose() {
	TEXT("transpose"+l.name, 0, "func(rows, columns int, y, x *float32, stride int)")
	Pragma("noescape")
	Doc(
		"transpose"+l.name+" transposes rows, a multiple of 4, of columns, a multiple of 8:",
		"",
		"\ty[j/16*16*columns+p*16+j%16] = x[j*stride+p]",
	)
	rows, columns := load("rows"), load("columns")
	y, x, stride := load("y"), load("x"), loadBytes("stride")
	stride3 := triple(stride)
	SHRQ(Imm(2), rows)
	j := GP64() // row of the panel, in fours
	XORQ(j, j)
	SHRQ(Imm(uint64(bits.TrailingZeros(uint(l.lanes())))), columns)
	repeat("rows", rows, func() {
		groups, from, to := clone(columns), clone(x), clone(y)
		repeat("columns", groups, func() {
			a, b, c, d := l.vector(), l.vector(), l.vector(), l.vector()
			VMOVUPS(Mem{Base: from}, a)
			VMOVUPS(Mem{Base: from, Index: stride, Scale: 1}, b)
			VMOVUPS(Mem{Base: from, Index: stride, Scale: 2}, c)
			VMOVUPS(Mem{Base: from, Index: stride3, Scale: 1}, d)
			low, high, low2, high2 := l.vector(), l.vector(), l.vector(), l.vector()
			VUNPCKLPS(b, a, low)
			VUNPCKHPS(b, a, high)
			VUNPCKLPS(d, c, low2)
			VUNPCKHPS(d, c, high2)
			VUNPCKLPD(low2, low, a)
			VUNPCKHPD(low2, low, b)
			VUNPCKLPD(high2, high, c)
			VUNPCKHPD(high2, high, d)
			for p, v := range []VecVirtual{a, b, c, d} {
				VMOVUPS(v.AsX(), Mem{Base: to}.Offset(64*p))
				if !l.narrow() {
					VEXTRACTF128(Imm(1), v, Mem{Base: to}.Offset(64*(p+4)))
				}
			}
			ADDQ(Imm(uint64(l.bytes)), from)
			ADDQ(U32(uint32(l.lanes()*64)), to)
		})
		LEAQ(Mem{Base: x, Index: stride, Scale: 4}, x)
		ADDQ(Imm(16), y)
		INCQ(j)
		TESTQ(U32(3), j)
		JNZ(LabelRef("same_panel"))
		Comment("The next panel begins where this one's columns end")
		MOVQ(to, y)
		SUBQ(Imm(48), y)
		Label("same_panel")
	})
	VZEROUPPER()
	RET()
}
