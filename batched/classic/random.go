package classic

import "math/bits"

// A generator is NumPy's PCG64.
type generator struct{ hi, lo, incHi, incLo uint64 }

// seeded is PCG64(SeedSequence(seed)).
func seeded(seed uint64) generator {
	var pool [4]uint32
	h := uint32(0x43b0d7e5)
	hash := func(v uint32) uint32 {
		v ^= h
		h *= 0x931e8875
		v *= h
		return v ^ v>>16
	}
	pool[0], pool[1], pool[2], pool[3] = hash(uint32(seed)), hash(uint32(seed>>32)), hash(0),
		hash(0)
	for i := range 16 {
		from, to := i/4, i%4
		if from == to {
			continue
		}
		r := pool[to]*0xca01f9dd - hash(pool[from])*0x4973f715
		pool[to] = r ^ r>>16
	}
	var w [8]uint32
	h = 0x8b51f9dd
	for i := range w {
		v := pool[i&3] ^ h
		h *= 0x58f38ded
		v *= h
		w[i] = v ^ v>>16
	}
	word := func(i int) uint64 { return uint64(w[2*i]) | uint64(w[2*i+1])<<32 }
	g := generator{incHi: word(2)<<1 | word(3)>>63, incLo: word(3)<<1 | 1}
	g.next()
	var carry uint64
	g.lo, carry = bits.Add64(g.lo, word(1), 0)
	g.hi, _ = bits.Add64(g.hi, word(0), carry)
	g.next()
	return g
}

// next is 64 bits.
func (g *generator) next() uint64 {
	const mHi, mLo = 0x2360ed051fc65da4, 0x4385df649fccf645
	hi, lo := bits.Mul64(g.lo, mLo)
	hi += g.hi*mLo + g.lo*mHi
	var carry uint64
	g.lo, carry = bits.Add64(lo, g.incLo, 0)
	g.hi, _ = bits.Add64(hi, g.incHi, carry)
	return bits.RotateLeft64(g.hi^g.lo, -int(g.hi>>58))
}

// uniform is in [low, low+width).
func (g *generator) uniform(low, width float64) float64 {
	return low + float64(width*(float64(g.next()>>11)*0x1p-53))
}

// philox is a block of Philox4x32-10 of counter (env, 0, block, 0).
func philox(env, block uint32, key uint64) (a, b, c, d uint32) {
	a, c = env, block
	k, l := uint32(key), uint32(key>>32)
	for range 10 {
		p, q := uint64(a)*0xd2511f53, uint64(c)*0xcd9e8d57
		a, b, c, d = uint32(q>>32)^b^k, uint32(q), uint32(p>>32)^d^l, uint32(p)
		k += 0x9e3779b9
		l += 0xbb67ae85
	}
	return a, b, c, d
}
