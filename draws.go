package lockstep

import "gonum.org/v1/gonum/mathext/prng"

// Draws returns the first n uniform variates of NumPy's generator after
// np.random.seed(seed): MT19937, and for each variate 53 bits of two of its
// words. Draw k is consumed at step ContextLength + k, whether or not the
// network runs there.
func Draws(seed uint32, n int) []float64 {
	mt := prng.NewMT19937()
	mt.Seed(uint64(seed))
	draws := make([]float64, n)
	for i := range draws {
		a, b := mt.Uint32()>>5, mt.Uint32()>>6
		draws[i] = (float64(float64(a)*(1<<26)) + float64(b)) / (1 << 53)
	}
	return draws
}

// Uniforms returns the route's first n draws: those in Draws, unless they are too
// few or, by their first, another seed's; then they are made anew.
func (r *Route) Uniforms(n int) []float64 {
	if len(r.Draws) >= n && (n == 0 || r.Draws[0] == Draws(r.Seed, 1)[0]) {
		return r.Draws[:n:n]
	}
	return Draws(r.Seed, n)
}
