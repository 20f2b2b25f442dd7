package reference

import (
	"context"
	"math"
	"slices"
	"testing"

	"lockstep"
	"lockstep/internal/assets/assetstest"
)

// TestGivenDraws puts draws on the edges of the distributions and beside them:
// a draw on an edge belongs to the token above it, as with searchsorted's right
// side.
func TestGivenDraws(t *testing.T) {
	profile := HostProfile()
	s, route := load(t, profile), assetstest.Route(t, "00000", profile)
	own := lockstep.Draws(route.Seed, route.Len())
	job := lockstep.Job{Route: route, Policy: lockstep.DefaultPID(), Draws: slices.Clone(own)}
	free := simulate(
		t, s, lockstep.Job{Route: route, Policy: lockstep.DefaultPID()}, lockstep.CostOnly,
	)
	if got := simulate(t, s, job, lockstep.CostOnly); got.Costs != free.Costs {
		t.Errorf("with its own draws: costs %v, want %v", got.Costs, free.Costs)
	}
	var cdf []float64
	var sample int
	job.Observe = func(step *lockstep.Step) {
		if step.Index == 300 {
			cdf, sample = slices.Clone(step.CDF), step.Sample
		}
	}
	simulate(t, s, job, lockstep.CostOnly)
	const at = 300 - lockstep.ContextLength
	token := sample
	edge := cdf[token] // tokens are above 0 where the next edge is higher
	for _, c := range []struct {
		draw float64
		want int
	}{{math.Nextafter(edge, 0), token}, {edge, token + 1}, {math.Nextafter(edge, 1), token + 1}} {
		job.Draws[at] = c.draw
		simulate(t, s, job, lockstep.CostOnly)
		if sample != c.want {
			t.Errorf("draw %v beside edge %v: token %d, want %d", c.draw, edge, sample, c.want)
		}
	}
	job.Draws = own[:100]
	for _, r := range s.Simulate(context.Background(), []lockstep.Job{job}, lockstep.Options{}) {
		const want = "route 00000, controller pid, step 0: 100 draws are given, want 580"
		if r.Err == nil || r.Err.Error() != want {
			t.Errorf("error %v, want %s", r.Err, want)
		}
	}
}

// TestCumulateRefuses: probabilities are refused if one is NaN, or their sum is further from 1 than
// NumPy lets it be.
func TestCumulateRefuses(t *testing.T) {
	const most = 0x1.6a09e6p-12 // the square root of a float32's epsilon
	beyond := math.Nextafter32(most, 1)
	for _, c := range []struct {
		p    []float32
		want string
	}{
		{[]float32{1}, ""}, {[]float32{1, most}, ""}, {[]float32{1, -most}, ""},
		{[]float32{1, beyond}, "do not sum to 1"}, {[]float32{1, -beyond}, "do not sum to 1"},
		{[]float32{0}, "do not sum to 1"}, {[]float32{1, float32(math.NaN())}, "contain NaN"},
	} {
		if err := cumulate(make([]float64, len(c.p)), c.p); (err == nil) != (c.want == "") ||
			err != nil && err.Error() != "probabilities "+c.want {
			t.Errorf("probabilities %v: %v, want %q", c.p, err, c.want)
		}
	}
}
