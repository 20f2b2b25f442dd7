package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"lockstep/internal/assets"
	"lockstep/parity/mutants"
	"lockstep/parity/verdict"
)

// Mutants runs the harness first on the engines as they are, which must find nothing,
// then with each fault. It calls report, which may be nil, for each as it is done. With
// an error comes the score of what was done until then.
func Mutants(ctx context.Context, root string, faults []mutants.Fault, report func(verdict.Mutant)) (*verdict.Score, error) {
	s := &verdict.Score{}
	if len(faults) == 0 {
		return s, errors.New("no fault is selected")
	}
	runner := mutants.Runner{Root: root}
	// Without these the harness has the project's own network and its goldens.
	if model, err := assets.Find(assets.Model); err == nil {
		if routes, err := assets.Find(assets.Routes); err == nil {
			runner.Model, runner.Routes = model, routes
		}
	}
	var engines, tested []string
	for _, f := range faults {
		if f.Test != "" {
			if !slices.Contains(tested, f.Test) {
				tested = append(tested, f.Test)
			}
		} else if !slices.Contains(engines, f.Engine) {
			engines = append(engines, f.Engine)
		}
	}
	for _, engine := range engines {
		v, err := runner.Unmutated(ctx, engine)
		switch {
		case ctx.Err() != nil:
			return s, ctx.Err()
		case err != nil:
			s.Alarms = append(s.Alarms, fmt.Sprintf("%s: %v", engine, err))
		case v.Caught:
			s.Alarms = append(s.Alarms, fmt.Sprintf("%s, without a fault: stage %s, %s: %s", engine, v.Stage, v.Check, v.Detail))
		case v.Rollouts == 0 && v.Steps == 0:
			s.Alarms = append(s.Alarms, engine+": nothing was compared")
		default:
			s.Clean = append(s.Clean, engine)
		}
	}
	for _, pkg := range tested {
		v, err := runner.Untouched(ctx, pkg)
		switch {
		case ctx.Err() != nil:
			return s, ctx.Err()
		case err != nil:
			s.Alarms = append(s.Alarms, fmt.Sprintf("%s: %v", pkg, err))
		case v.Caught:
			s.Alarms = append(s.Alarms, fmt.Sprintf("%s, without a fault: %s fails", pkg, v.Detail))
		default:
			s.Clean = append(s.Clean, pkg)
		}
	}
	byName := map[string]verdict.Mutant{}
	err := runner.Run(ctx, faults, func(o mutants.Outcome) {
		m := verdict.Mutant{
			Name: o.Fault.Name, Title: o.Fault.Title, Engine: o.Fault.Engine, Stage: o.Fault.Stage,
			Caught: o.Caught && o.Err == nil, Right: o.Right() && o.Err == nil, Rollouts: o.Rollouts, Steps: o.Steps, Seconds: o.Time.Seconds(),
		}
		if m.Caught {
			m.Named = o.Verdict.Stage
		}
		if o.Fault.Test != "" {
			m.Stage, m.Named = "tests", o.Verdict.Detail
		}
		if o.Err != nil {
			m.Error = o.Err.Error()
		}
		byName[m.Name] = m
		if report != nil {
			report(m)
		}
	})
	for _, f := range faults {
		m, ok := byName[f.Name]
		if !ok {
			m = verdict.Mutant{Name: f.Name, Title: f.Title, Engine: f.Engine, Stage: f.Stage, Error: "it was not tried"}
		}
		if f.Test != "" {
			m.Stage = "tests"
		}
		s.Mutants = append(s.Mutants, m)
	}
	return s, err
}
