// Command generate writes the assembly of package classic, one file and its stubs
// a run:
//
//	go run . -out FILE.s -stubs FILE.go -pkg classic LEVEL
//
// LEVEL is avx2, avx512 or neon. Formulas are written as formulas: a function of a level
// emits an instruction and returns a new register.
package main

import (
	"flag"
	"log"
	"math"

	"github.com/mmcloughlin/avo/attr"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"lockstep/internal/arm64"
)

// A level is an instruction set extension with its vector registers of float64.
type level struct {
	name  string
	bytes int // of a vector
}

func main() {
	flag.Parse()
	var l level
	switch flag.Arg(0) {
	case "avx2":
		l = level{"AVX2", 32}
	case "avx512":
		l = level{"AVX512", 64}
	case "neon":
		l = level{"NEON", 16} // of arm64: see package arm64
	default:
		log.Fatalf("no level %q", flag.Args())
	}
	ConstraintExpr("!noasm")
	l.cartPole()
	l.mountainCar()
	l.sincos()
	l.square()
	if l.name != "AVX2" {
		l.normal()
		l.pendulum()
	}
	if l.narrow() {
		value := func(name string) string { return flag.Lookup(name).Value.String() }
		arm64.Generate(value("out"), value("stubs"), value("pkg"))
		return
	}
	Generate()
}

// wide and narrow say how much of x86's longest vector a level's is.
func (l level) wide() bool   { return l.bytes == 64 }
func (l level) narrow() bool { return l.bytes == 16 }

// lanes is the number of float64 in a vector.
func (l level) lanes() int { return l.bytes / 8 }

func (l level) vector() VecVirtual {
	switch {
	case l.wide():
		return ZMM()
	case l.narrow():
		return XMM()
	}
	return YMM()
}

// half is a register of as many 32-bit values, or the lower half of one.
func (l level) half() VecVirtual {
	if l.wide() {
		return YMM()
	}
	return XMM()
}

func (l level) load(x Op) Register {
	r := l.vector()
	VMOVUPD(x, r)
	return r
}

// loadHalf and storeHalf move as many 32-bit values.
func (l level) loadHalf(x Mem) VecVirtual {
	r := l.half()
	if l.narrow() {
		VMOVSD(x, r)
	} else {
		VMOVUPS(x, r)
	}
	return r
}

func (l level) storeHalf(r Register, to Mem) {
	if l.narrow() {
		VMOVSD(r, to)
	} else {
		VMOVUPS(r, to)
	}
}

// unary emits an instruction of arm64's with one operand.
func (l level) unary(opcode string, x Op) Register {
	r := l.vector()
	arm64.Special(opcode, []Op{l.in(x)}, []Op{r})
	return r
}

// doubles are as many 32-bit integers as float64, singles as many float32.
func (l level) doubles(integers Op) Register {
	if l.narrow() {
		return l.unary("SCVTF2", l.unary("SXTL", integers))
	}
	r := l.vector()
	VCVTDQ2PD(integers, r)
	return r
}

func (l level) widened(singles Op) Register {
	if l.narrow() {
		return l.unary("FCVTL", singles)
	}
	r := l.vector()
	VCVTPS2PD(singles, r)
	return r
}

// in is x in a register.
func (l level) in(x Op) Op {
	if _, memory := x.(Mem); memory {
		return l.load(x)
	}
	return x
}

func (l level) binary(emit func(y, x, r Op), x, y Op) Register {
	r := l.vector()
	emit(y, l.in(x), r)
	return r
}

func (l level) add(x, y Op) Register { return l.binary(func(y, x, r Op) { VADDPD(y, x, r) }, x, y) }
func (l level) sub(x, y Op) Register { return l.binary(func(y, x, r Op) { VSUBPD(y, x, r) }, x, y) }
func (l level) mul(x, y Op) Register { return l.binary(func(y, x, r Op) { VMULPD(y, x, r) }, x, y) }
func (l level) div(x, y Op) Register { return l.binary(func(y, x, r Op) { VDIVPD(y, x, r) }, x, y) }
func (l level) and(x, y Op) Register { return l.binary(func(y, x, r Op) { VANDPD(y, x, r) }, x, y) }
func (l level) or(x, y Op) Register  { return l.binary(func(y, x, r Op) { VORPD(y, x, r) }, x, y) }
func (l level) xor(x, y Op) Register { return l.binary(func(y, x, r Op) { VXORPD(y, x, r) }, x, y) }

// fma is x·y + z, rounded once; fnma z - x·y; fms x·y - z.
func (l level) fma(x, y, z Op) Register {
	r := l.load(z)
	VFMADD231PD(y, l.in(x), r)
	return r
}

func (l level) fnma(x, y, z Op) Register {
	r := l.load(z)
	VFNMADD231PD(y, l.in(x), r)
	return r
}

func (l level) fms(x, y, z Op) Register {
	if l.narrow() {
		r := l.unary("FNEG2", z)
		VFMADD231PD(y, l.in(x), r)
		return r
	}
	r := l.load(z)
	VFMSUB231PD(y, l.in(x), r)
	return r
}

// horner is p·x + c for each coefficient in turn.
func (l level) horner(p, x Register, coefficients ...Mem) Register {
	for _, c := range coefficients {
		if l.narrow() { // a sum takes the place of its addend
			p = l.fma(p, x, c)
			continue
		}
		VFMADD213PD(c, x, p)
	}
	return p
}

func (l level) shiftLeft(x Op, bits uint64) Register {
	r := l.vector()
	VPSLLQ(Imm(bits), l.in(x), r)
	return r
}

// Predicates of VCMPPD, false for NaN but for notLess.
const (
	equal          = U8(0x00)
	less           = U8(0x11)
	notEqual       = U8(0x1c)
	notLess        = U8(0x15)
	greaterOrEqual = U8(0x1d)
	greater        = U8(0x1e)
)

// A mask is one bit for each lane: a mask register, or the signs of a vector, which on
// arm64 are all its bits.
func (l level) compare(x Op, predicate Constant, y Op) Register {
	if l.narrow() {
		return l.compareARM(x, predicate, y)
	}
	if l.wide() {
		k := K()
		VCMPPD(predicate, y, l.in(x), k)
		return k
	}
	m := l.vector()
	VCMPPD(predicate, y, l.in(x), m)
	return m
}

// compareARM is compare with what arm64 has, which is false for NaN.
func (l level) compareARM(x Op, predicate Constant, y Op) Register {
	m := l.vector()
	switch predicate {
	case equal, notEqual:
		arm64.Special("FCMEQ2", []Op{y, l.in(x)}, []Op{m})
	case less, notLess:
		arm64.Special("FCMGT2", []Op{x, l.in(y)}, []Op{m})
	case greater:
		arm64.Special("FCMGT2", []Op{y, l.in(x)}, []Op{m})
	case greaterOrEqual:
		arm64.Special("FCMGE2", []Op{y, l.in(x)}, []Op{m})
	}
	if predicate == notEqual || predicate == notLess {
		arm64.Special("NOT", []Op{m}, []Op{m})
	}
	return m
}

// bit is the mask of the lanes in which that bit of an integer is set.
func (l level) bit(x Op, n int) Register {
	if l.wide() {
		k := K()
		VPTESTMQ(l.word(uint64(1)<<n), x, k)
		return k
	}
	if l.narrow() {
		m := l.vector()
		arm64.Special("CMTST2", []Op{l.word(uint64(1) << n), x}, []Op{m})
		return m
	}
	return l.shiftLeft(x, uint64(63-n))
}

func (l level) both(a, b Register) Register {
	if l.wide() {
		k := K()
		KANDB(a, b, k)
		return k
	}
	return l.and(a, b)
}

func (l level) any(a, b Register) Register {
	if l.wide() {
		k := K()
		KORB(a, b, k)
		return k
	}
	return l.or(a, b)
}

// choose is x in the lanes of the mask and y in the others.
func (l level) choose(m Register, x, y Op) Register {
	if l.narrow() {
		r := l.load(y)
		arm64.Special("BIT", []Op{m, x}, []Op{r})
		return r
	}
	r := l.vector()
	if l.wide() {
		VBLENDMPD(x, l.in(y), m, r)
	} else {
		VBLENDVPD(m, x, l.in(y), r)
	}
	return r
}

// bits is the mask in an integer register.
func (l level) bits(m Register) Register {
	r := GP32()
	if l.wide() {
		KMOVB(m, r)
	} else {
		VMOVMSKPD(m, r)
	}
	return r
}

// stop ends a step before the vector that has a lane in the mask.
func (l level) stop(m Register) {
	if l.narrow() {
		any := GP64()
		VMOVQ(l.unary("XTN", m).(VecVirtual), any)
		TESTQ(any, any)
	} else {
		any := l.bits(m)
		TESTL(any, any)
	}
	JNZ(LabelRef("done"))
}

// flags writes one bool for each lane of a mask.
func (l level) flags(m Register, to Mem) {
	if l.narrow() {
		l.flagsARM(m, 8, to)
	} else {
		l.spread(l.bits(m), to)
	}
}

// flagsARM writes a bool for each of two masks of so many bytes.
func (l level) flagsARM(m Register, size uint64, to Mem) {
	first := l.vector()
	arm64.Special("TBL", []Op{l.word(size << 8), m}, []Op{first})
	arm64.Special("USHR8", []Op{Imm(7), first}, []Op{first})
	arm64.Special("STH", []Op{first, to}, nil)
}

// spread writes one bool for each bit of an integer register.
func (l level) spread(bits Register, to Mem) {
	ones := GP64()
	MOVQ(U64(0x0101010101010101), ones)
	PDEPQ(ones, bits.(GPVirtual).As64(), ones)
	if l.wide() {
		MOVQ(ones, to)
	} else {
		MOVL(ones.As32(), to)
	}
}

// gather is the element at base+displacement of the rows of 4 float64 that the
// integers index.
func (l level) gather(base, index Register, displacement int) Register {
	if l.narrow() {
		var both [2]VecVirtual
		for k, at := range l.indices(index) {
			both[k] = l.vector()
			VMOVSD(Mem{Base: base, Index: at, Scale: 8, Disp: displacement}, both[k])
		}
		VUNPCKLPD(both[1], both[0], both[0])
		return both[0]
	}
	r := l.load(l.number(0)) // what is overwritten must not be waited for
	if l.wide() {
		k := K()
		KXNORB(K0, K0, k) // all ones
		VGATHERQPD(Mem{Base: base, Index: index, Scale: 8, Disp: displacement}, k, r)
		return r
	}
	VGATHERQPD(
		l.load(l.word(math.MaxUint64)), Mem{Base: base, Index: index, Scale: 8, Disp: displacement},
		r,
	)
	return r
}

// indices are the two integers of a vector of arm64's.
func (l level) indices(v Register) [2]Register {
	low, high := GP64(), GP64()
	VMOVQ(v.(VecVirtual), low)
	arm64.Special("UPPER", []Op{v}, []Op{high})
	return [2]Register{low, high}
}

// A row is what gather has of a row of the table, for each lane. On arm64 rows are read
// whole, and turned into columns.
type row struct {
	level
	base, index Register
	rows        [2][]VecVirtual
}

// row is the one of so many float64, 2 or 4, that the integers index.
func (l level) row(base, index Register, length int) *row {
	r := &row{level: l, base: base, index: index}
	if !l.narrow() {
		return r
	}
	for k, at := range l.indices(index) {
		from := Mem{Base: base, Index: at, Scale: 8}
		first, second := l.vector(), l.vector()
		if length == 4 {
			arm64.Special("LDP", []Op{from}, []Op{first, second})
		} else {
			VMOVUPD(from, first)
		}
		r.rows[k] = []VecVirtual{first, second}
	}
	return r
}

// at is column n of the row.
func (r *row) at(n int) Register {
	if !r.narrow() {
		return r.gather(r.base, r.index, 8*n)
	}
	column := r.vector()
	if n%2 == 0 {
		VUNPCKLPD(r.rows[1][n/2], r.rows[0][n/2], column)
	} else {
		VUNPCKHPD(r.rows[1][n/2], r.rows[0][n/2], column)
	}
	return column
}

// The table holds the constants of the file, each filling a vector.
var (
	table   Mem
	offsets = map[uint64]int{}
)

// number is the address of a vector whose elements are all x.
func (l level) number(x float64) Mem { return l.word(math.Float64bits(x)) }

// clip is x between two numbers; NaN stays NaN, since of operands that have no order these
// instructions give the second source, which stands first.
func (l level) clip(x Register, low, high float64) Register {
	r := l.load(l.number(high))
	VMINPD(x, r, r)
	x = l.load(l.number(low))
	VMAXPD(r, x, x)
	return x
}

// clipHalf is the same of float32 within ±most.
func (l level) clipHalf(x Register, most float32) VecVirtual {
	high := l.loadHalf(l.integers(math.Float32bits(most)))
	VMINPS(x, high, high)
	low := l.loadHalf(l.integers(math.Float32bits(-most)))
	VMAXPS(high, low, low)
	return low
}

func (l level) word(word uint64) Mem {
	if len(offsets) == 0 {
		table = GLOBL("constants", attr.RODATA|attr.NOPTR)
	}
	offset, ok := offsets[word]
	if !ok {
		offset = len(offsets) * l.bytes
		offsets[word] = offset
		for i := range l.lanes() {
			DATA(offset+8*i, U64(word))
		}
	}
	return table.Offset(offset)
}

// field loads a field of the lanes that the only argument points to.
func field(lanes Register, n int) Register {
	r := GP64()
	MOVQ(Mem{Base: lanes, Disp: 8 * n}, r)
	return r
}

// Fields of type lanes.
const (
	fieldN = iota
	fieldState
	fieldObservation
	fieldAction
	fieldReward
	fieldTotal
	fieldTerminated
	fieldTruncated
	fieldElapsed
	fieldTable
	fieldLimit
	fieldGoing
	fieldEnd
	fieldGoal
	fieldForce
	fieldSine
	fieldNormalSquare
	fieldSpeedSquare
	fieldPull
	fieldLogs
	fieldExps
)

// broadcast fills a vector with a field.
func (l level) broadcast(lanes Register, n int) Register {
	r := l.vector()
	if l.narrow() {
		VMOVDDUP(Mem{Base: lanes, Disp: 8 * n}, r)
	} else {
		VBROADCASTSD(Mem{Base: lanes, Disp: 8 * n}, r)
	}
	return r
}

// step emits a function over the vectors of lanes, from a first lane on, that
// returns the lane after the last vector it did; see stop.
func (l level) step(name string, doc []string, body func(p, i, n Register)) {
	TEXT(name+l.name, 0, "func(l *int64, from int) (next int)")
	Pragma("noescape")
	Doc(append([]string{name + l.name + " " + doc[0]}, doc[1:]...)...)
	p, i := Load(Param("l"), GP64()), Load(Param("from"), GP64())
	n := field(p, fieldN)
	Label("loop")
	CMPQ(i, n)
	JGE(LabelRef("done"))
	body(p, i, n)
	ADDQ(Imm(uint64(l.lanes())), i)
	JMP(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	Store(i, ReturnIndex(0))
	RET()
}

// columns are the addresses of element i in columns of n elements of so many bytes.
func columns(base, i, n Register, count, size int) []Mem {
	var all []Mem
	for k := range count {
		p := GP64()
		if k == 0 {
			MOVQ(base, p)
		} else {
			stride := GP64()
			MOVQ(n, stride)
			if k > 1 {
				IMUL3Q(U32(k), n, stride)
			}
			LEAQ(Mem{Base: base, Index: stride, Scale: uint8(size)}, p)
		}
		all = append(all, Mem{Base: p, Index: i, Scale: uint8(size)})
	}
	return all
}

// observe writes float64 as float32.
func (l level) observe(x Op, to Mem) {
	l.storeHalf(l.narrowed(x), to)
}

// narrowed are float64 as float32.
func (l level) narrowed(x Op) Register {
	h := l.half()
	switch {
	case l.narrow():
		return l.unary("FCVTN", x)
	case l.wide():
		VCVTPD2PS(x, h)
	default:
		VCVTPD2PSY(x, h)
	}
	return h
}

// finish writes flags and reward, counts the step and adds the reward up.
func (l level) finish(p, i Register, terminated Register, reward Register) {
	l.flags(terminated, Mem{Base: field(p, fieldTerminated), Index: i, Scale: 1})

	Comment("Limit of steps")
	elapsed := Mem{Base: field(p, fieldElapsed), Index: i, Scale: 4}
	count, limit := l.loadHalf(elapsed), l.half()
	VPADDD(l.word(1<<32|1), count, count)
	l.storeHalf(count, elapsed)
	VPBROADCASTD(Mem{Base: p, Disp: 8 * fieldLimit}, limit)
	l.truncate(count, limit, Mem{Base: field(p, fieldTruncated), Index: i, Scale: 1})

	VMOVUPD(reward, Mem{Base: field(p, fieldReward), Index: i, Scale: 8})
	total := Mem{Base: field(p, fieldTotal), Index: i, Scale: 8}
	VMOVUPD(l.add(reward, total), total)
}

// truncate writes one bool for each lane whose count has come to the limit.
func (l level) truncate(count, limit VecVirtual, to Mem) {
	if l.narrow() {
		reached := l.vector()
		arm64.Special("CMGE", []Op{limit, count}, []Op{reached})
		l.flagsARM(reached, 4, to)
		return
	}
	truncated := GP32()
	if l.wide() {
		below := K()
		VPCMPGTD(count, limit, below)
		KMOVB(below, truncated)
		XORL(Imm(0xff), truncated)
	} else {
		below := XMM()
		VPCMPGTD(count, limit, below)
		VMOVMSKPS(below, truncated)
		XORL(Imm(0xf), truncated)
	}
	l.spread(truncated, to)
}
