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

// Uniforms are the job's first n draws, the one way to them: those given, else the
// route's. Those kept with the route serve unless they are too few or, by their first,
// another seed's; then they are made anew.
func (j *Job) Uniforms(n int) []float64 {
	draws, seed := j.Route.Draws, j.Route.Seed
	switch {
	case j.Draws != nil:
		return j.Draws
	case len(draws) >= n && (n == 0 || draws[0] == Draws(seed, 1)[0]):
		return draws[:n:n]
	}
	return Draws(seed, n)
}
