package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"lockstep/internal/arm64"
)

// product emits a tile of Kernels.MatMul for NEON: what matMul emits, whose multiply-adds
// take an element of A from a vector of four. So a step of four k loads A once for each
// row, and needs no broadcast; each row has a pointer, because no load adds two registers
// and a number.
//
// A core starts up to four multiply-adds in a cycle and each takes four: a tile has 16
// chains where it can, better 24. With six rows of a panel these, the factors of six rows
// and half a row of the panel fill all 32 registers.
func (l level) product(rowCount, panels int) {
	l.declare(rowCount, panels)
	blocks, a, lda, c := load("blocks"), load("a"), loadBytes("lda"), load("c")
	t := l.tile(rowCount, panels*panelBytes/l.bytes)
	repeat("block", blocks, func() {
		for _, row := range t.acc {
			for _, v := range row {
				l.zero(v)
			}
		}
		p := l.pointers(a, lda, panels, rowCount)
		Comment("k, four steps at a time")
		k := load("k")
		SHRQ(Imm(2), k)
		repeat("steps", k, func() {
			factors := p.factors("LDNEXT")
			for u := range unroll {
				t.multiply(p, factors, u)
			}
		})
		Comment("The rest of k")
		k = load("k")
		ANDQ(Imm(unroll-1), k)
		repeat("step", k, func() { t.multiply(p, p.factors("LDNEXT1"), 0) })
		l.deliver(t, c)
		advance(a, lda, rowCount)
		advance(c, loadBytes("ldc"), rowCount)
	})
	RET()
}

// pointers are where a tile's rows of A and its panels of B are read.
type pointers struct {
	level
	rows, panels []Register
	stride       Register
}

func (l level) pointers(a, lda Register, panels, rows int) pointers {
	p := pointers{
		level:  l,
		rows:   []Register{clone(a)},
		panels: []Register{load("b")},
		stride: loadBytes("stride"),
	}
	for len(p.rows) < rows {
		next := clone(p.rows[len(p.rows)-1])
		ADDQ(lda, next)
		p.rows = append(p.rows, next)
	}
	if panels > 1 {
		panel := loadBytes("panel")
		for len(p.panels) < panels {
			next := clone(p.panels[len(p.panels)-1])
			ADDQ(panel, next)
			p.panels = append(p.panels, next)
		}
	}
	return p
}

// factors loads of each row of A what comes next: four elements, or one.
func (p pointers) factors(opcode string) []Register {
	factors := make([]Register, len(p.rows))
	for i, row := range p.rows {
		factors[i] = p.vector()
		arm64.Special(opcode, []Op{row}, []Op{factors[i], row})
	}
	return factors
}

// multiply adds one product to each chain: of element u of the factors and a row of B.
func (t *tile) multiply(p pointers, factors []Register, u int) {
	opcode := "FMLA" + string(rune('0'+u))
	for j := 0; j < len(t.acc[0]); j += 2 {
		at := Mem{Base: p.panels[j*t.bytes/panelBytes]}.Offset(j * t.bytes % panelBytes)
		b, next := t.vector(), t.vector()
		arm64.Special("LDP", []Op{at}, []Op{b, next})
		for i, row := range t.acc {
			arm64.Special(opcode, []Op{factors[i], b}, []Op{row[j]})
			arm64.Special(opcode, []Op{factors[i], next}, []Op{row[j+1]})
		}
	}
	for _, panel := range p.panels {
		ADDQ(p.stride, panel)
	}
}

// deliver scales the chains, or adds them scaled to what is at c, and stores them there.
func (l level) deliver(t *tile, c Register) {
	alpha, ldc := l.vector(), loadBytes("ldc")
	VBROADCASTSS(argument("alpha"), alpha)
	store := func(last func(c Mem, chain VecVirtual) Register) {
		out := clone(c)
		for _, row := range t.acc {
			for j, chain := range row {
				at := Mem{Base: out}.Offset(j * l.bytes)
				VMOVUPS(last(at, chain), at)
			}
			ADDQ(ldc, out)
		}
	}
	CMPB(argument("accumulate"), Imm(0))
	JNE(LabelRef("accumulate"))
	store(func(_ Mem, chain VecVirtual) Register {
		VMULPS(alpha, chain, chain)
		return chain
	})
	JMP(LabelRef("next"))
	Label("accumulate")
	store(func(c Mem, chain VecVirtual) Register {
		sum := l.vector()
		VMOVUPS(c, sum)
		VFMADD231PS(alpha, chain, sum)
		return sum
	})
	Label("next")
}
