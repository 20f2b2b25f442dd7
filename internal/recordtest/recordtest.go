// Package recordtest makes recordings of steps that a test made up. With them tests hold the code
// that reads recordings.
package recordtest

import (
	"lockstep"
	"lockstep/golden"
	"lockstep/internal/npz"
)

// Record makes a recording of a route's steps, with all their logits and probabilities.
func Record(route *lockstep.Route, steps ...*lockstep.Step) *golden.Recording {
	r := &golden.Recording{Route: route.Name, RouteHash: golden.HashRoute(route)}
	for _, s := range steps {
		r.Tokens = append(r.Tokens, s.Tokens...)
		r.States = append(r.States, s.States...)
		r.LogitsHash = append(r.LogitsHash, golden.Hash(s.Logits))
		r.ProbsHash = append(r.ProbsHash, golden.Hash(s.Probs))
		r.CDFHash = append(r.CDFHash, golden.Hash(s.CDF))
		r.Draw = append(r.Draw, s.Draw)
		r.Sample = append(r.Sample, int64(s.Sample))
		r.Prediction = append(r.Prediction, s.Prediction)
		r.Lataccel = append(r.Lataccel, s.Lataccel)
		r.Action = append(r.Action, s.Action)
		r.FullSteps = append(r.FullSteps, int64(s.Index))
		r.Logits = append(r.Logits, s.Logits...)
		r.Probs = append(r.Probs, s.Probs...)
	}
	return r
}

// WriteFile writes recordings, each of another route, as generate.py does.
func WriteFile(path string, profile lockstep.Profile, recordings ...*golden.Recording) error {
	arrays := []npz.Array{
		npz.New("format", []int64{golden.FormatVersion}, 1), npz.Text("profile", profile.String()),
	}
	for _, r := range recordings {
		t, f := r.Steps(), len(r.FullSteps)
		name := func(stage string) string { return r.Route + "/" + stage }
		arrays = append(arrays,
			npz.New(name("tokens"), r.Tokens, t, lockstep.ContextLength),
			npz.New(name("states"), r.States, t, lockstep.ContextLength, 4),
			npz.New(name("logits_hash"), r.LogitsHash, t),
			npz.New(name("probs_hash"), r.ProbsHash, t),
			npz.New(name("cdf_hash"), r.CDFHash, t),
			npz.New(name("full_steps"), r.FullSteps, f),
			npz.New(name("logits"), r.Logits, f, lockstep.VocabSize),
			npz.New(name("probs"), r.Probs, f, lockstep.VocabSize),
			npz.New(name("draw"), r.Draw, t),
			npz.New(name("sample"), r.Sample, t),
			npz.New(name("prediction"), r.Prediction, t),
			npz.New(name("lataccel"), r.Lataccel, t),
			npz.New(name("action"), r.Action, t),
			npz.New(name("costs"), []float64{r.Costs.Lataccel, r.Costs.Jerk, r.Costs.Total}, 3),
			npz.New(name("route_hash"), r.RouteHash[:], len(r.RouteHash)),
		)
	}
	return npz.WriteFile(path, arrays)
}
