package batched

import (
	"context"

	"lockstep"
	"lockstep/internal/policies"
)

// Collect rolls jobs out that networks drive, and keeps what training needs.
func (s *Simulator) Collect(
	ctx context.Context, jobs []lockstep.Job,
) (*lockstep.Experience, error) {
	return policies.Collect(ctx, s.simulate, jobs)
}

// Observe computes observations of collected rollouts.
func (s *Simulator) Observe(e *lockstep.Experience, places []lockstep.Place, into []float32) error {
	return policies.Observe(e, places, into)
}
