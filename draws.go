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
	// RouteNoise is that of the route's draws, as the job has them. What is found with it knows the
	// draws, and every report says so. A fork of a fork goes on with the noise that the first one
	// was given.
	RouteNoise NoiseKind = iota + 1
	// SeededNoise is that of Draws(seed, ·), so that nothing is known of the route's.
	SeededNoise
	// ExpectedNoise is none: each prediction is its distribution's mean.
	ExpectedNoise
)

var noiseNames = []string{RouteNoise: "route", SeededNoise: "seeded", ExpectedNoise: "expected"}

func (k NoiseKind) String() string {
	if k < RouteNoise || k > ExpectedNoise {
		return fmt.Sprintf("noise %d", k)
	}
	return noiseNames[k]
}

// ParseNoise is the kind of a name: route, seeded or expected. Older files and commands
// say own for route.
func ParseNoise(name string) (NoiseKind, error) {
	if name == "own" {
		return RouteNoise, nil
	}
	for k := RouteNoise; k <= ExpectedNoise; k++ {
		if noiseNames[k] == name {
			return k, nil
		}
	}
	return 0, fmt.Errorf("noise %.30q: want route, seeded or expected", name)
}
