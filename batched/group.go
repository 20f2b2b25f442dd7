package batched

import "time"

// groups are how many sequences a layer may compute together: more of them read the
// weights less often, fewer leave what they compute in a cache nearer to the core.
var groups = []int{1, 2, 4}

// fastestGroup measures once which of groups suits this CPU's caches. No bit depends on
// it. Plain Go is limited by its arithmetic.
func (s *Simulator) fastestGroup() int {
	s.measured.Do(func() {
		s.group = groups[0]
		if s.kernels.Peak == nil {
			return
		}
		const sequences, repetitions = 4, 3
		var best time.Duration
		for _, group := range groups {
			n := newNetwork(s.weights, s.kernels, s.profile, sequences, group)
			for range repetitions {
				start := time.Now()
				n.run(sequences)
				if took := time.Since(start); best == 0 || took < best {
					best, s.group = took, group
				}
			}
		}
	})
	return s.group
}
