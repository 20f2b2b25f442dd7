package lockstep

import (
	"crypto/md5"
	"fmt"

	"gonum.org/v1/gonum/mathext/prng"
)

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

// Seed is the seed of a route's random draws: the MD5 of its path as the Python
// program was given it, read as a 128-bit big-endian number, modulo 10,000.
func Seed(path string) uint32 {
	var seed uint32
	for _, b := range md5.Sum([]byte(path)) {
		seed = (seed<<8 | uint32(b)) % 10_000
	}
	return seed
}

// NoiseKind is a kind of noise.
type NoiseKind uint8

const (
	// OwnNoise is the job's: of a route its own, and what is found with that knows the draws,
	// and every report says so; of a fork the noise that it was given.
	OwnNoise NoiseKind = iota + 1
	// SeededNoise is that of Draws(seed, ·), so that nothing is known of the route's.
	SeededNoise
	// ExpectedNoise is none: each prediction is its distribution's mean.
	ExpectedNoise
)

var noiseNames = []string{OwnNoise: "own", SeededNoise: "seeded", ExpectedNoise: "expected"}

func (k NoiseKind) String() string {
	if k < OwnNoise || k > ExpectedNoise {
		return fmt.Sprintf("noise %d", k)
	}
	return noiseNames[k]
}

// ParseNoise is the kind of a name: own, seeded or expected.
func ParseNoise(name string) (NoiseKind, error) {
	for k := OwnNoise; k <= ExpectedNoise; k++ {
		if noiseNames[k] == name {
			return k, nil
		}
	}
	return 0, fmt.Errorf("noise %.30q: want own, seeded or expected", name)
}
