package parity_test

import (
	"context"
	"fmt"

	"lockstep"
	"lockstep/parity"
	"lockstep/parity/trace"
)

// Hold an engine to a trace that somebody's simulator wrote (trace/writer.py), whose
// network need not be exact.
func ExampleCompare() {
	check := func(ctx context.Context, engine lockstep.Simulator, jobs []lockstep.Job) error {
		file, err := trace.Open("mine.trace")
		if err != nil {
			return err
		}
		defer file.Close()
		report, err := parity.Compare(ctx, parity.Live(engine), parity.Recorded(file), jobs, parity.CompareOptions{
			Shortcuts: lockstep.AllSteps,
			Inexact:   true,
			Budget:    parity.Budget{Flips: 3},
		})
		if err != nil {
			return err
		}
		fmt.Printf("%d of %d rollouts equal, %d explained flips\n", report.Equal(), len(report.Rollouts), report.Flips.Explained)
		return report.Err()
	}
	_ = check
}
