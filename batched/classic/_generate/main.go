// Command generate writes the assembly of package classic, one file and its stubs
// a run:
//
//	go run . -out FILE.s -stubs FILE.go -pkg classic LEVEL
//
// LEVEL is avx2 or avx512. Formulas are written as formulas: a function of a level
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
	default:
		log.Fatalf("no level %q", flag.Args())
	}
	ConstraintExpr("!noasm")
	l.cartPole()
	l.mountainCar()
	l.sincos()
	l.square()
	if l.wide() {
		l.normal()
		l.pendulum()
	}
	Generate()
}

func (l level) wide() bool { return l.bytes == 64 }

// lanes is the number of float64 in a vector.
func (l level) lanes() int { return l.bytes / 8 }

func (l level) vector() VecVirtual {
	if l.wide() {
		return ZMM()
	}
	return YMM()
}

// half is a register of as many 32-bit values.
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
	r := l.load(z)
	VFMSUB231PD(y, l.in(x), r)
	return r
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

// A mask is one bit for each lane: a mask register, or the signs of a vector.
func (l level) compare(x Op, predicate Constant, y Op) Register {
	if l.wide() {
		k := K()
		VCMPPD(predicate, y, l.in(x), k)
		return k
	}
	m := l.vector()
	VCMPPD(predicate, y, l.in(x), m)
	return m
}

// bit is the mask of the lanes in which that bit of an integer is set.
func (l level) bit(x Op, n int) Register {
	if l.wide() {
		k := K()
		VPTESTMQ(l.word(uint64(1)<<n), x, k)
		return k
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

// flags writes one bool for each lane of a mask in an integer register.
func (l level) flags(bits Register, to Mem) {
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

// The table holds the constants of the file, each filling a vector.
var (
	table   Mem
	offsets = map[uint64]int{}
)

// number is the address of a vector whose elements are all x.
func (l level) number(x float64) Mem { return l.word(math.Float64bits(x)) }

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
	VBROADCASTSD(Mem{Base: lanes, Disp: 8 * n}, r)
	return r
}

// step emits a function over the vectors of lanes, from a first lane on, that
// returns the lane after the last vector it did. leave, given to the body, goes to
// the end without that vector.
func (l level) step(name string, doc []string, body func(p, i, n Register, leave func())) {
	TEXT(name+l.name, 0, "func(l *int64, from int) (next int)")
	Pragma("noescape")
	Doc(append([]string{name + l.name + " " + doc[0]}, doc[1:]...)...)
	p, i := Load(Param("l"), GP64()), Load(Param("from"), GP64())
	n := field(p, fieldN)
	Label("loop")
	CMPQ(i, n)
	JGE(LabelRef("done"))
	body(p, i, n, func() { JMP(LabelRef("done")) })
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
	h := l.half()
	if l.wide() {
		VCVTPD2PS(x, h)
	} else {
		VCVTPD2PSY(x, h)
	}
	VMOVUPS(h, to)
}

// finish writes flags and reward, counts the step and adds the reward up.
func (l level) finish(p, i Register, terminated Register, reward Register) {
	l.flags(l.bits(terminated), Mem{Base: field(p, fieldTerminated), Index: i, Scale: 1})

	Comment("Limit of steps")
	elapsed := Mem{Base: field(p, fieldElapsed), Index: i, Scale: 4}
	count, limit := l.half(), l.half()
	VMOVUPS(elapsed, count)
	VPADDD(l.word(1<<32|1), count, count)
	VMOVUPS(count, elapsed)
	VPBROADCASTD(Mem{Base: p, Disp: 8 * fieldLimit}, limit)
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
	l.flags(truncated, Mem{Base: field(p, fieldTruncated), Index: i, Scale: 1})

	VMOVUPD(reward, Mem{Base: field(p, fieldReward), Index: i, Scale: 8})
	total := Mem{Base: field(p, fieldTotal), Index: i, Scale: 8}
	VMOVUPD(l.add(reward, total), total)
}
