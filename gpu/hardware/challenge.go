package hardware

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"lockstep"
	"lockstep/internal/generate"
	"lockstep/routefile"
)

// challenged is how many rollouts a challenge has: the gate computes them on the CPU.
const challenged = 2

// challenge are rollouts whose routes, draws and gains follow from the hash of kernels, so that
// nobody knows what they come to before there are these kernels.
func challenge(kernels string) ([]lockstep.Job, error) {
	var jobs []lockstep.Job
	for i := range challenged {
		sum := sha256.Sum256(fmt.Appendf(nil, "rollout %d of %s", i, kernels))
		word := func(k int) uint32 { return binary.LittleEndian.Uint32(sum[4*k:]) }
		csv := generate.Route(uint64(word(0))<<32|uint64(word(1)), i)
		route, err := routefile.Loader{}.Read(
			bytes.NewReader(csv), fmt.Sprintf("challenge%d.csv", i),
		)
		if err != nil {
			return nil, err
		}
		route.Seed, route.Draws = word(2), nil
		gain := func(k int) float64 { return float64(word(k)) / math.MaxUint32 }
		policy := lockstep.PID{P: gain(3), I: 0.1 * gain(4), D: -0.1 * gain(5)}
		jobs = append(jobs, lockstep.Job{Route: route, Policy: policy})
	}
	return jobs, nil
}

// Answer is the SHA-256 of every lataccel and cost of the challenge of some kernels. All engines
// with the project's own network and the profile lockstep.Profile{} give the same.
func Answer(ctx context.Context, sim lockstep.Simulator, kernels string) (string, error) {
	jobs, err := challenge(kernels)
	if err != nil {
		return "", err
	}
	results := make([]lockstep.Result, len(jobs))
	for i, r := range sim.Simulate(ctx, jobs, lockstep.Options{
		Shortcuts:  lockstep.CostOnly,
		Trajectory: true,
	}) {
		if r.Err != nil {
			return "", r.Err
		}
		results[i] = r
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, r := range results {
		numbers := []float64{r.Costs.Lataccel, r.Costs.Jerk, r.Costs.Total}
		for _, x := range append(numbers, r.Trajectory.Lataccel...) {
			hash.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)))
		}
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
