package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"lockstep/internal/arm64"
)

// normal emits the angles of a pendulum within a turn, see remainder.
func (l level) normal() {
	TEXT("normal"+l.name, 0, "func(n int, x, y *float64)")
	Pragma("noescape")
	Doc("normal" + l.name + " computes n elements, a multiple of 8: see normal.")
	n, x, y := Load(Param("n"), GP64()), Load(Param("x"), GP64()), Load(Param("y"), GP64())
	i := GP64()
	XORQ(i, i)
	Label("loop")
	CMPQ(i, n)
	JGE(LabelRef("done"))
	turn := 2 * pi
	v := l.add(l.load(Mem{Base: x, Index: i, Scale: 8}), l.number(pi))
	k := l.truncated(l.mul(v, l.number(1/turn)))
	m := l.fnma(k, l.number(turn), v)
	m = l.choose(l.compare(m, less, l.number(0)), l.add(m, l.number(turn)), m)
	VMOVUPD(l.sub(m, l.number(pi)), Mem{Base: y, Index: i, Scale: 8})
	ADDQ(Imm(uint64(l.lanes())), i)
	JMP(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}

// truncated is x rounded to an integer, towards zero.
func (l level) truncated(x Register) Register {
	if l.narrow() {
		return l.unary("FRINTZ2", x)
	}
	k := l.vector()
	VRNDSCALEPD(Imm(3), x, k)
	return k
}

// lessHalf is the mask of lanes whose float32 is less than a constant.
func (l level) lessHalf(x Register, c Mem) Register {
	if l.narrow() {
		m := l.vector()
		arm64.Special("FCMGT", []Op{x, l.in(c)}, []Op{m})
		return l.unary("SXTL", m)
	}
	k := K()
	VCMPPS(less, c, x, k)
	return k
}

// never is the mask of no lane.
func (l level) never() Register {
	if l.narrow() {
		m := l.vector()
		VXORPD(m, m, m)
		return m
	}
	k := K()
	KXORB(k, k, k)
	return k
}

// unsigned are as many integers of 64 bits as those of 32.
func (l level) unsigned(half Register) Register {
	if l.narrow() {
		return l.unary("UXTL", half)
	}
	r := l.vector()
	VPMOVZXDQ(half, r)
	return r
}

// integers is a half vector of x in all elements.
func (l level) integers(x uint32) Mem { return l.word(uint64(x)<<32 | uint64(x)) }

// andHalf is for any register: VPAND reaches but 16 of AVX-512's 32.
func (l level) andHalf(mask Mem, x, to Register) {
	if l.wide() {
		VPANDD(mask, x, to)
	} else {
		VPAND(mask, x, to)
	}
}

// power32 is glibc's powf(u, 2) of a half vector, as float32: see power32.
func (l level) power32(u, logs, exps Register) Register {
	word := func() VecVirtual { return l.half() }
	bits, tm, high, z := word(), word(), word(), word()
	l.andHalf(l.integers(1<<31-1), u, bits)
	tiny := l.lessHalf(bits, l.integers(0x0d800000))
	VPSUBD(l.integers(0x3f330000), bits, tm)
	VPSRLD(Imm(23), tm, high)
	VPSLLD(Imm(23), high, high)
	VPSUBD(high, bits, z)
	wide := l.widened(z)
	VPSRAD(Imm(23), tm, high)
	k := l.doubles(high)
	VPSRLD(Imm(19), tm, tm)
	l.andHalf(l.integers(15), tm, tm)
	row := l.row(logs, l.shiftLeft(l.unsigned(tm), 1), 2)

	r := l.fma(wide, row.at(0), l.number(-1))
	y0 := l.add(row.at(1), k)
	r2 := l.mul(r, r)
	q := l.fma(r, l.number(0x1.ec70a6ca7baddp-2), l.number(-0x1.7154748bef6c8p-1))
	q = l.fma(q, r2, l.fma(r, l.number(0x1.71547652ab82bp0), y0))
	e := l.fma(r, l.number(0x1.27616c9496e0bp-2), l.number(-0x1.71969a075c67ap-2))
	e = l.mul(l.fma(e, l.mul(r2, r2), q), l.number(2))
	t := l.add(e, l.number(0x1.8p47))
	f := l.sub(e, l.sub(t, l.number(0x1.8p47)))
	p := l.fma(f, l.number(0x1.c6af84b912394p-5), l.number(0x1.ebfce50fac4f3p-3))
	p = l.fma(p, l.mul(f, f), l.fma(f, l.number(0x1.62e42ff0c52d6p-1), l.number(1)))
	scale := l.vector()
	VPADDQ(l.gather(exps, l.and(t, l.word(31)), 0), l.shiftLeft(t, 47), scale)
	return l.narrowed(l.choose(tiny, l.number(0), l.mul(p, scale)))
}

// pendulum emits a step of Pendulum.
func (l level) pendulum() {
	l.step("pendulum", []string{
		"computes pendulumLane for vectors of lanes, and stops at one with an angle",
		"beyond what trig reduces.",
	}, func(p, i, n Register) {
		at := func(f int) Mem { return Mem{Base: field(p, f), Index: i, Scale: 8} }
		state := columns(field(p, fieldState), i, n, 2, 8)
		u, third := l.loadHalf(Mem{Base: field(p, fieldForce), Index: i, Scale: 4}), l.half()
		u = l.clipHalf(u, 2)
		effort := l.power32(u, field(p, fieldLogs), field(p, fieldExps))
		small := l.half()
		VMULPS(l.integers(0x3a83126f), effort, small) // float32(0.001)
		cost := l.widened(small)
		VMULPS(l.integers(0x40400000), u, third) // 3
		torque := l.widened(third)

		Comment("Speed and angle")
		pull := l.mul(l.broadcast(p, fieldPull), at(fieldSine))
		change := l.mul(l.add(pull, torque), l.number(0.05))
		speed := l.add(l.load(state[1]), change)
		speed = l.clip(speed, -8, 8)
		theta := l.add(l.load(state[0]), l.mul(speed, l.number(0.05)))
		l.stop(l.compare(l.abs(theta), notLess, l.number(edge3)))

		Comment("Reward")
		squares := l.add(
			l.load(at(fieldNormalSquare)), l.mul(l.load(at(fieldSpeedSquare)), l.number(0.1)),
		)
		reward := l.xor(l.add(squares, cost), l.word(signBit))
		VMOVUPD(theta, state[0])
		VMOVUPD(speed, state[1])
		l.finish(p, i, l.never(), reward)

		Comment("Observation")
		sin, cos := l.trig(theta, field(p, fieldTable), true)
		VMOVUPD(sin, at(fieldSine))
		observation := columns(field(p, fieldObservation), i, n, 3, 4)
		for k, v := range []Register{cos, sin, l.load(state[1])} {
			l.observe(v, observation[k])
		}
	})
}
