package batched

import "time"

// shape is how many rollouts a worker holds and how many of their sequences a layer
// computes together. More rollouts read the network from far caches less often; more
// sequences read a layer's weights less often, fewer leave what they compute in a cache
// nearer to the core. No bit depends on it.
type shape struct{ chunk, group int }

// What is measured where the chunk is not given: first the groups for the least chunk,
// then the other chunks for the fastest group.
var (
	chunks = []int{20, 40, 80}
	groups = []int{1, 3} // 60 rows are whole blocks of three and of six
)

// fastest is the fastest shape that is known on this CPU for workers with so many
// rollouts each. What is not known is measured, which takes some hundredths of the time
// that so many rollouts take.
func (s *Simulator) fastest(rollouts int) shape {
	s.measuring.Lock()
	defer s.measuring.Unlock()
	least := chunks[0]
	if s.config.Chunk > 0 {
		least = s.config.Chunk
	}
	if s.config.Open != nil {
		return shape{least, 1}
	}
	if rollouts < least || s.kernels.Peak == nil { // plain Go is limited by its arithmetic
		return shape{least, groups[0]}
	}
	best := shape{least, groups[0]}
	for _, g := range groups {
		if other := (shape{least, g}); s.took(other) < s.took(best) {
			best = other
		}
	}
	if s.config.Chunk > 0 {
		return best
	}
	for _, c := range chunks {
		if other := (shape{c, best.group}); c <= rollouts && s.took(other) < s.took(best) {
			best = other
		}
	}
	return shape{even(rollouts, best.chunk), best.group}
}

// even enlarges a chunk, to less than two, so that chunks of one size take all rollouts.
// Rollouts that begin together end together, and a last chunk of a few would cost like a whole one.
func even(rollouts, chunk int) int {
	passes := rollouts / chunk
	return (rollouts + passes - 1) / passes
}

// took is the time that the network takes for a sequence, the least of a few.
func (s *Simulator) took(of shape) time.Duration {
	best, known := s.times[of]
	if known {
		return best
	}
	n := newNetwork(s.weights, s.kernels, s.profile, of.chunk, of.group)
	n.alone = true // its sequences are equal
	for range 3 {
		start := time.Now()
		n.Run(of.chunk)
		if took := time.Since(start) / time.Duration(of.chunk); best == 0 || took < best {
			best = took
		}
	}
	s.times[of] = best
	return best
}
