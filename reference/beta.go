package reference

import "math"

// philox is Philox4x32-10: four random words of a counter and a key.
func philox(counter [4]uint32, key [2]uint32) [4]uint32 {
	c, k := counter, key
	for range 10 {
		a, b := uint64(c[0])*0xd2511f53, uint64(c[2])*0xcd9e8d57
		c = [4]uint32{
			uint32(b>>32) ^ c[1] ^ k[0], uint32(b), uint32(a>>32) ^ c[3] ^ k[1], uint32(a),
		}
		k[0] += 0x9e3779b9
		k[1] += 0xbb67ae85
	}
	return c
}

// uniform is exact and inside (0, 1), and so is 1 less it.
func uniform(high, low uint32) float64 {
	return (float64(uint64(high)<<20|uint64(low)>>12) + 0.5) * 0x1p-52
}

// betaVariate is a variate of Beta(1+sp0, 1+sp1) at a step of a rollout, by Cheng's
// algorithm BB. A variate depends on nothing but what is given.
func betaVariate(sp [2]float32, seed, id uint64, step int) float32 {
	s, t := float64(sp[0]), float64(sp[1])
	swapped := s > t
	if swapped {
		s, t = t, s
	}
	a, b := 1+s, 1+t
	al := a + b
	lam := 1.0
	if q := s + t; q > 0 {
		lam = math.Sqrt(q / (q + 2*float64(s*t)))
	}
	ga := a + 1/lam
	x := a / al // should no attempt be accepted
	for attempt := range uint32(32) {
		words := philox(
			[4]uint32{attempt, uint32(step), uint32(id), uint32(id >> 32)},
			[2]uint32{uint32(seed), uint32(seed >> 32)},
		)
		u1, u2 := uniform(words[0], words[1]), uniform(words[2], words[3])
		v := min(float64(lam*log(u1/(1-u1))), 600)
		w := float64(a * exp(v))
		z := float64(float64(u1*u1) * u2)
		r := float64(ga*v) - 1.3862943611198906
		y := (a + r) - w
		lz := log(z)
		if y >= lz || r+float64(al*log(al/(b+w))) >= lz {
			x = w / (b + w)
			break
		}
	}
	if swapped {
		x = 1 - x
	}
	return min(max(float32(x), 1e-6), 0.999999)
}
