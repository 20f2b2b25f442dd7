package reference

import (
	"errors"
	"math"
	"sort"

	"gonum.org/v1/gonum/mathext/prng"
)

// Random is NumPy's global generator, np.random: MT19937 with one seed word, or
// variates that are given.
type Random struct {
	mt    *prng.MT19937
	given []float64
}

// NewRandom is np.random.seed(seed).
func NewRandom(seed uint32) *Random {
	r := &Random{mt: prng.NewMT19937()}
	r.mt.Seed(uint64(seed))
	return r
}

// Random is np.random.random_sample(): 53 random bits from two draws, in [0, 1).
func (r *Random) Random() float64 {
	if r.mt == nil {
		u := r.given[0]
		r.given = r.given[1:]
		return u
	}
	a, b := r.mt.Uint32()>>5, r.mt.Uint32()>>6
	return (float64(float64(a)*67108864) + float64(b)) / 9007199254740992
}

// sumTolerance is how far from 1 np.random.choice lets the probabilities sum:
// the square root of float32's machine epsilon.
const sumTolerance = 0.0003452669770922512

// cumulate writes the cumulative distribution of p as np.random.choice does:
// one running float64 sum, then each divided by the last.
//
// choice sums p once more, compensated, and refuses what is not a distribution.
// The running sum serves for that here: softmax gives sums within 1e-5 of 1 or
// NaN, so that the two never decide differently.
func cumulate(cdf []float64, p []float32) error {
	var total float64
	for i, x := range p {
		total += float64(x)
		cdf[i] = total
	}
	if math.IsNaN(total) {
		return errors.New("probabilities contain NaN")
	}
	if math.Abs(total-1) > sumTolerance {
		return errors.New("probabilities do not sum to 1")
	}
	for i := range cdf {
		cdf[i] /= total
	}
	return nil
}

// search is cdf.searchsorted(u, side='right'): the first i with u < cdf[i].
func search(cdf []float64, u float64) int {
	return sort.Search(len(cdf), func(i int) bool { return u < cdf[i] })
}
