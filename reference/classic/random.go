package classic

import "math/bits"

// A generator is np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed))).
type generator struct {
	state, inc uint128
}

type uint128 struct{ hi, lo uint64 }

func (a uint128) add(b uint128) uint128 {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(a.hi, b.hi, carry)
	return uint128{hi, lo}
}

func (a uint128) mul(b uint128) uint128 {
	hi, lo := bits.Mul64(a.lo, b.lo)
	return uint128{hi + a.hi*b.lo + a.lo*b.hi, lo}
}

// seedSequence is SeedSequence(seed).generate_state(4, np.uint64).
func seedSequence(seed uint64) [4]uint64 {
	entropy := [4]uint32{uint32(seed), uint32(seed >> 32)}
	constant := uint32(0x43b0d7e5)
	hashmix := func(value uint32) uint32 {
		value ^= constant
		constant *= 0x931e8875
		value *= constant
		return value ^ value>>16
	}
	mix := func(x, y uint32) uint32 {
		result := 0xca01f9dd*x - 0x4973f715*y
		return result ^ result>>16
	}
	var pool [4]uint32
	for i := range pool {
		pool[i] = hashmix(entropy[i])
	}
	for src := range pool {
		for dst := range pool {
			if src != dst {
				pool[dst] = mix(pool[dst], hashmix(pool[src]))
			}
		}
	}
	var state [4]uint64
	constant = 0x8b51f9dd
	for i := range 8 {
		value := pool[i%4] ^ constant
		constant *= 0x58f38ded
		value *= constant
		value ^= value >> 16
		state[i/2] |= uint64(value) << (32 * (i % 2))
	}
	return state
}

func newGenerator(seed int64) *generator {
	q := seedSequence(uint64(seed))
	g := &generator{inc: uint128{q[2]<<1 | q[3]>>63, q[3]<<1 | 1}}
	g.advance()
	g.state = g.state.add(uint128{q[0], q[1]})
	g.advance()
	return g
}

func (g *generator) advance() {
	g.state = g.state.mul(uint128{0x2360ed051fc65da4, 0x4385df649fccf645}).add(g.inc)
}

// next64 is PCG64's output function XSL-RR.
func (g *generator) next64() uint64 {
	g.advance()
	return bits.RotateLeft64(g.state.hi^g.state.lo, -int(g.state.hi>>58))
}

// uniform is Generator.uniform(low, high).
func (g *generator) uniform(low, high float64) float64 {
	u := float64(g.next64()>>11) * 0x1p-53
	return low + float64((high-low)*u)
}

// philox is one block of Philox4x32-10.
func philox(counter [4]uint32, key uint64) [4]uint32 {
	k0, k1 := uint32(key), uint32(key>>32)
	for range 10 {
		hi0, lo0 := bits.Mul32(0xd2511f53, counter[0])
		hi1, lo1 := bits.Mul32(0xcd9e8d57, counter[2])
		counter = [4]uint32{hi1 ^ counter[1] ^ k0, lo1, hi0 ^ counter[3] ^ k1, lo0}
		k0 += 0x9e3779b9
		k1 += 0xbb67ae85
	}
	return counter
}
