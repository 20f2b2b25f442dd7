package gate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"lockstep"
	"lockstep/gpu/hardware"
	"lockstep/internal/defaults"
	"lockstep/internal/kernelhash"
	"lockstep/parity/verdict"
	"lockstep/reference"
)

// hardware holds the kernels to their recorded runs on GPUs. Runs of other kernels are
// no evidence; what only stands in for a GPU, and what found a difference, is refused.
func (g *run) hardware(ctx context.Context, c *verdict.Check) error {
	kernels, err := kernelhash.Sources(os.DirFS(filepath.Join(g.Root, "gpu/internal/kernels")))
	if err != nil {
		return err
	}
	manifest, err := os.ReadFile(filepath.Join(g.Root, "gpu/internal/module/manifest.json"))
	if err != nil {
		return err
	}
	compiled := fmt.Sprintf("%x", sha256.Sum256(manifest)) // module.Hash there
	folder := filepath.Join(g.Root, "gpu", "hardware")
	runs, err := hardware.Read(os.DirFS(folder))
	if err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	for _, file := range slices.Sorted(maps.Keys(runs)) {
		k := verdict.CheckCase{
			Class:   "hardware",
			Name:    file,
			Outcome: verdict.Passed,
			Message: fmt.Sprintf("%s ran these kernels, and %d recordings",
				runs[file].Device, runs[file].Recordings),
		}
		if ran := runs[file]; ran.Kernels != kernels || ran.Module != compiled {
			k.Outcome, k.Message = verdict.NotApplicable, fmt.Sprintf(
				"%s ran other kernels, %.12s, compiled to %.12s", ran.Device, ran.Kernels,
				ran.Module,
			)
		} else if want, err := answer(ctx, kernels); err != nil {
			return err
		} else if got := runs[file].Challenge; got != want {
			k.Outcome, k.Message = verdict.Failed, fmt.Sprintf("the answer to the challenge of "+
				"these kernels, %.12s, is not the reference's, %.12s: this was not computed, or "+
				"not rightly; run `make gpu-first` on %s again", got, want, runs[file].Device)
		}
		c.Cases = append(c.Cases, k)
	}
	if c.Count(verdict.Passed)+c.Count(verdict.Failed) > 0 {
		return nil
	}
	why := fmt.Sprintf(
		"no recorded run of these kernels, %.12s, on a GPU: run `make gpu-first` where one is",
		kernels,
	)
	if g.RequireHardware {
		return errors.New(why)
	}
	return leaving(why + "; not required")
}

// answer is the reference's to the challenge of kernels.
func answer(ctx context.Context, kernels string) (string, error) {
	dir, err := os.MkdirTemp("", "lockstep-gate-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	network, _, err := defaults.Write(dir)
	if err != nil {
		return "", err
	}
	sim, err := reference.New(network, lockstep.Profile{})
	if err != nil {
		return "", err
	}
	return hardware.Answer(ctx, sim, kernels)
}
