package generate

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// random draws numbers by operations that are exact or rounded once, so that
// they are the same everywhere. rand.Rand's NormFloat64 and ExpFloat64 are not: they use math.Exp
// and math.Log.
type random struct{ *rand.Rand }

// newRandom is the source of one route.
func newRandom(seed, route uint64) random {
	var key [32]byte
	copy(key[:], "lockstep route")
	binary.LittleEndian.PutUint64(key[16:], seed)
	binary.LittleEndian.PutUint64(key[24:], route)
	return random{rand.New(rand.NewChaCha8(key))}
}

// span is uniform between two bounds.
func (r random) span(s span) float64 {
	return s[0] + float64((s[1]-s[0])*r.Float64())
}

// normal has mean 0, standard deviation 1 and lies within ±6: a sum of twelve
// uniform numbers.
func (r random) normal() float64 {
	sum := -6.0
	for range 12 {
		sum += r.Float64()
	}
	return sum
}

// drift is an Ornstein-Uhlenbeck process of standard deviation 1.
type drift struct {
	random
	keep, kick float64
	value      float64
}

func newDrift(r random, seconds float64) *drift {
	keep := 1 - step/seconds
	return &drift{random: r, keep: keep, kick: math.Sqrt(1 - float64(keep*keep)), value: r.normal()}
}

func (d *drift) step() float64 {
	d.value = float64(d.keep*d.value) + float64(d.kick*d.normal())
	return d.value
}

// smooth is three first-order lags in a row.
type smooth struct {
	alpha  float64
	stages [3]float64
}

func newSmooth(seconds, start float64) *smooth {
	return &smooth{alpha: step / (step + seconds), stages: [3]float64{start, start, start}}
}

func (s *smooth) step(x float64) float64 {
	for i, y := range s.stages {
		x = y + float64(s.alpha*(x-y))
		s.stages[i] = x
	}
	return x
}
