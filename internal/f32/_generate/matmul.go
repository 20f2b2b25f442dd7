package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	panelBytes = 16 * 4
	unroll     = 4 // steps of k in a round
	lineBytes  = 64
	perBase    = 5 // rows that one base register reaches: see rows.at
	fewPanels  = 2 // so many have a base register each: see panels.at
)

// matMul emits a tile of Kernels.MatMul: so many rows of so many panels, for
// every block of so many rows in turn.
//
// All chains of the tile stay in registers. A tile has at least 8 where it can, better 12:
// two multiply-adds start each cycle and each takes four. Where another thread runs on the
// core, it is loads that multiply-adds wait for: the nearer a tile is to a square of
// vectors, the fewer it needs. Where rows are many, what follows
// the tile's panels in memory is fetched ahead to the second cache: a product would wait
// for weights that come from the last one. An address that holds nothing does no harm.
//
// fetch is the number of steps for a line; 0 if nothing is fetched ahead.
func (l level) matMul(rowCount, panels, fetch int) {
	l.declare(rowCount, panels)
	blocks := load("blocks")
	a, lda := load("a"), loadBytes("lda")
	c := load("c")
	stride := loadBytes("stride")
	var lda3, panel, panel3 Register // where needed
	if rowCount > 3 {
		lda3 = triple(lda)
	}
	if panels > 1 || fetch > 0 {
		panel = loadBytes("panel")
	}
	if panels > 3 {
		panel3 = triple(panel)
	}
	var ahead Register // the next line to fetch
	if fetch > 0 {
		ahead = load("b")
		advance(ahead, panel, panels)
	}
	t := l.tile(rowCount, panels*panelBytes/l.bytes)

	repeat("block", blocks, func() {
		for _, row := range t.acc {
			for _, v := range row {
				l.zero(v)
			}
		}
		t.x, t.y = newRows(clone(a), lda, lda3, rowCount),
			newPanels(load("b"), stride, panel, panel3, panels)
		Comment("k, four steps at a time")
		k := load("k")
		SHRQ(Imm(2), k)
		repeat("steps", k, func() {
			for u := range unroll {
				t.step(u)
				if fetch > 0 && u%fetch == 0 {
					PREFETCHT1(Mem{Base: ahead}.Offset(u / fetch * lineBytes))
				}
			}
			t.x.move(Imm(unroll * 4))
			t.y.moved(unroll)
			if fetch > 0 {
				ADDQ(U32(uint32(unroll/fetch*lineBytes)), ahead)
			}
		})
		Comment("The rest of k")
		k = load("k")
		ANDQ(Imm(unroll-1), k)
		repeat("step", k, func() {
			t.step(0)
			t.x.move(Imm(4))
			t.y.moved(1)
		})
		ldc := t.finish(c)
		advance(a, lda, rowCount)
		advance(c, ldc, rowCount)
	})
	VZEROUPPER()
	RET()
}

// declare begins the function, and says what it computes.
func (l level) declare(rowCount, panels int) {
	name := fmt.Sprintf("matMul%dx%d%s", rowCount, panels, l.name)
	TEXT(
		name, 0,
		"func(blocks, k int, a *float32, lda int, b *float32, stride, panel int, c *float32, "+
			"ldc int, alpha float32, accumulate bool)",
	)
	Pragma("noescape")
	Doc(
		fmt.Sprintf("%s computes blocks of %d rows and %d columns:", name, rowCount, 16*panels),
		"",
		fmt.Sprintf("\tfor i := range %d * blocks {", rowCount),
		fmt.Sprintf("\t\tfor j := range %d {", 16*panels),
		"\t\t\tvar acc float32",
		"\t\t\tfor p := range k {",
		"\t\t\t\tacc = FMA(a[i*lda+p], b[j/16*panel+p*stride+j%16], acc)",
		"\t\t\t}",
		"\t\t\tif accumulate {",
		"\t\t\t\tc[i*ldc+j] = FMA(acc, alpha, c[i*ldc+j])",
		"\t\t\t} else {",
		"\t\t\t\tc[i*ldc+j] = acc * alpha",
		"\t\t\t}",
		"\t\t}",
		"\t}",
	)
}

// tile is a block of the product in registers: its chains, and where the factors are read.
type tile struct {
	level
	acc [][]VecVirtual // rows of vectors
	x   rows
	y   panels
}

func (l level) tile(rowCount, columns int) *tile {
	t := &tile{level: l, acc: make([][]VecVirtual, rowCount)}
	for i := range t.acc {
		t.acc[i] = make([]VecVirtual, columns)
		for j := range t.acc[i] {
			t.acc[i][j] = l.vector()
		}
	}
	return t
}

// step adds one product to each chain: of column u of A and row u of B, counted from where
// x and y are. What fewer registers hold is loaded first.
func (t *tile) step(u int) {
	if len(t.acc) < len(t.acc[0]) {
		held := make([]Op, len(t.acc))
		for i := range held {
			held[i] = t.broadcast(i, u)
		}
		for j := range t.acc[0] {
			v := t.load(j, u)
			for i, row := range t.acc {
				VFMADD231PS(v, held[i], row[j])
			}
		}
	} else {
		held := make([]Op, len(t.acc[0]))
		for j := range held {
			held[j] = t.load(j, u)
		}
		for i, row := range t.acc {
			v := t.broadcast(i, u)
			for j, chain := range row {
				VFMADD231PS(held[j], v, chain)
			}
		}
	}
	t.y.stepped()
}

// broadcast is an element of A in all places of a vector.
func (t *tile) broadcast(i, u int) Op {
	v := t.vector()
	VBROADCASTSS(t.x.at(i).Offset(4*u), v)
	return v
}

// load is a vector of B.
func (t *tile) load(j, u int) Op {
	b := t.y.at(j*t.bytes/panelBytes, u).Offset(j * t.bytes % panelBytes)
	if len(t.acc) == 1 { // used once
		return b
	}
	v := t.vector()
	VMOVUPS(b, v)
	return v
}

// finish scales the chains, or adds them scaled to what is at c, and stores them
// there, in rows ldc bytes apart.
func (t *tile) finish(c Register) (ldc Register) {
	ldc = loadBytes("ldc")
	var ldc3 Register
	if len(t.acc) > 3 {
		ldc3 = triple(ldc)
	}
	alpha := t.vector()
	VBROADCASTSS(argument("alpha"), alpha)
	out := newRows(clone(c), ldc, ldc3, len(t.acc))
	store := func(last func(c Mem, chain Register)) {
		for i, row := range t.acc {
			for j, chain := range row {
				at := out.at(i).Offset(j * t.bytes)
				last(at, chain)
				VMOVUPS(chain, at)
			}
		}
	}
	CMPB(argument("accumulate"), Imm(0))
	JNE(LabelRef("accumulate"))
	CMPL(argument("alpha"), U32(math.Float32bits(1)))
	JE(LabelRef("one"))
	store(func(_ Mem, chain Register) { VMULPS(alpha, chain, chain) })
	JMP(LabelRef("next"))
	Label("one")
	store(func(Mem, Register) {})
	JMP(LabelRef("next"))
	Label("accumulate")
	store(func(c Mem, chain Register) { VFMADD213PS(c, alpha, chain) })
	Label("next")
	return ldc
}

// rows addresses rows, or panels, that lie a stride apart.
type rows struct {
	base            []Register // of rows 0, 5, 10, ...
	stride, stride3 Register
}

func newRows(first, stride, stride3 Register, count int) rows {
	r := rows{[]Register{first}, stride, stride3}
	for n := perBase; n < count; n += perBase {
		next := GP64()
		LEAQ(Mem{Base: r.base[len(r.base)-1], Index: stride, Scale: 4}, next)
		ADDQ(stride, next)
		r.base = append(r.base, next)
	}
	return r
}

// at is the address of row i.
func (r rows) at(i int) Mem {
	m := Mem{Base: r.base[i/perBase]}
	switch i % perBase {
	case 1, 2, 4:
		return m.Idx(r.stride, uint8(i%perBase))
	case 3:
		return m.Idx(r.stride3, 1)
	}
	return m
}

// move moves all rows by so many bytes.
func (r rows) move(bytes Op) {
	for _, base := range r.base {
		ADDQ(bytes, base)
	}
}

// panels addresses rows of panels.
type panels struct {
	stride Register
	each   []rows // of few: the rows of each
	all    rows   // of more: the panels, at the row of a step
}

func newPanels(first, stride, panel, panel3 Register, count int) panels {
	if count > fewPanels {
		return panels{stride: stride, all: newRows(first, panel, panel3, count)}
	}
	p := panels{stride: stride}
	stride3 := triple(stride)
	for range count {
		p.each = append(p.each, newRows(first, stride, stride3, unroll))
		if len(p.each) < count {
			first = clone(first)
			ADDQ(panel, first)
		}
	}
	return p
}

// at is the address of panel q at step u of a round.
func (p panels) at(q, u int) Mem {
	if p.each != nil {
		return p.each[q].at(u)
	}
	return p.all.at(q)
}

// stepped follows a step, moved one or four of them.
func (p panels) stepped() {
	if p.each == nil {
		p.all.move(p.stride)
	}
}

func (p panels) moved(steps uint8) {
	for _, rows := range p.each {
		LEAQ(Mem{Base: rows.base[0], Index: p.stride, Scale: steps}, rows.base[0])
	}
}

// argument is the address of an argument.
func argument(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}
