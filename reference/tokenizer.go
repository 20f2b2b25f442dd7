package reference

import (
	"sort"

	"lockstep"
)

// LataccelTokenizer turns lateral accelerations into tokens and back.
type LataccelTokenizer struct {
	bins [lockstep.VocabSize]float64 // m/s², increasing
}

// NewLataccelTokenizer makes the bins of np.linspace(-5, 5, 1024): product and
// sum are rounded one after the other, and the last bin is 5 exactly.
func NewLataccelTokenizer() *LataccelTokenizer {
	t := &LataccelTokenizer{}
	const step = (lockstep.LataccelMax - lockstep.LataccelMin) / (lockstep.VocabSize - 1)
	for i := range t.bins {
		t.bins[i] = float64(float64(i)*step) + lockstep.LataccelMin
	}
	t.bins[len(t.bins)-1] = lockstep.LataccelMax
	return t
}

// Encode is np.digitize(clip(value), bins, right=True): the smallest i with
// value <= bins[i]. NaN gives 1024, which is no token.
func (t *LataccelTokenizer) Encode(value float64) int64 {
	value = t.clip(value)
	return int64(sort.Search(len(t.bins), func(i int) bool { return value <= t.bins[i] }))
}

// Decode returns a token's bin.
func (t *LataccelTokenizer) Decode(token int) float64 { return t.bins[token] }

func (t *LataccelTokenizer) clip(value float64) float64 {
	return clip(value, lockstep.LataccelMin, lockstep.LataccelMax)
}
