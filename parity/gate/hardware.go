package gate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"lockstep/gpu/hardware"
	"lockstep/gpu/module"
	"lockstep/parity/verdict"
)

// hardware holds the kernels to their recorded runs on GPUs. Runs of other kernels are
// no evidence; what only stands in for a GPU, and what found a difference, is refused.
func (g *run) hardware(_ context.Context, c *verdict.Check) error {
	kernels, err := module.HashSources(os.DirFS(filepath.Join(g.Root, "gpu", "kernels")))
	if err != nil {
		return err
	}
	folder := filepath.Join(g.Root, "gpu", "hardware")
	runs, err := hardware.Read(os.DirFS(folder))
	if err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	for _, file := range slices.Sorted(maps.Keys(runs)) {
		k := verdict.Case{Class: "hardware", Name: file, Outcome: verdict.Passed, Message: runs[file].Device + " ran these kernels"}
		if ran := runs[file].Kernels; ran != kernels {
			k.Outcome, k.Message = verdict.NotApplicable, fmt.Sprintf("%s ran other kernels, %.12s", runs[file].Device, ran)
		}
		c.Cases = append(c.Cases, k)
	}
	if c.Count(verdict.Passed) > 0 {
		return nil
	}
	why := fmt.Sprintf("no recorded run of these kernels, %.12s, on a GPU: run `make gpu-test` where one is", kernels)
	if g.RequireHardware {
		return errors.New(why)
	}
	return leaving(why + "; not required")
}
