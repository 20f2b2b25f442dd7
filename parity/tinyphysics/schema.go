// Package tinyphysics tells package parity of comma.ai's simulator: the stages of its
// steps, how its engines and the recordings of the Python program are sides of a
// comparison, why a token came out otherwise, and how its cases are kept and shrunk.
//
// The schema says what each stage is computed from; schema.json is the same for other
// languages, and lockstep's traces carry it.
package tinyphysics

import (
	"slices"

	"lockstep"
	"lockstep/parity/schema"
)

// Names of the stages, of the inputs and of the outcome.
const (
	Route       = "route"       // the route's columns and seed, before the first step
	Observation = "observation" // what a network that steers sees
	Actor       = "actor"       // what it answers
	Raw         = "raw"         // its action, mean or sampled, before the scale
	Action      = "action"      // steer command after clipping
	Tokens      = "tokens"      // encoded past lataccels
	States      = "states"      // network input
	Logits      = "logits"      // last position
	Probs       = "probs"       // their softmax
	CDF         = "cdf"         // their running sum
	Draw        = "draw"        // uniform variate
	Sample      = "sample"      // token
	Prediction  = "prediction"  // the token's bin, m/s²
	Lataccel    = "lataccel"    // after the step, m/s²
	Costs       = "costs"
)

// view is the schema of a step of which the network is run, and where its values lie.
var view = schema.NewView(
	schema.Schema{
		Name: "tinyphysics", Key: []string{Route, "controller"},
		First: lockstep.ContextLength, Warmup: lockstep.ControlStartIdx,
		Outcome: schema.Outcome{
			Name: Costs, Elements: []string{"lataccel", "jerk", "total"},
			From: []string{Lataccel}, Begin: lockstep.ControlStartIdx, End: lockstep.CostEndIdx,
		},
	},
	schema.Array(
		schema.Stage{
			Name:     Observation,
			Shape:    []int{lockstep.ObservationSize},
			Optional: true,
			Varies:   true,
			From:     from(schema.Before(Lataccel), schema.Before(Action)),
			Elements: observationElements(),
		},
		func(s *lockstep.Step) []float32 { return s.Observation },
	),
	schema.Array(
		schema.Stage{
			Name:     Actor,
			Shape:    []int{lockstep.ActorSize},
			Optional: true,
			From:     from(schema.Same(Observation)),
		},
		func(s *lockstep.Step) []float32 { return s.Actor },
	),
	schema.Number(schema.Stage{Name: Raw, Optional: true, From: from(schema.Same(Actor))},
		func(s *lockstep.Step) (float64, bool) { return s.Raw, s.Actor != nil }),
	schema.Number(
		schema.Stage{
			Name:  Action,
			Given: true,
			Teach: true,
			From:  from(schema.Before(Lataccel), schema.Same(Raw)),
		},
		func(s *lockstep.Step) (float64, bool) { return s.Action, true },
	),
	schema.Array(
		schema.Stage{
			Name:  Tokens,
			Shape: []int{lockstep.ContextLength},
			From:  from(schema.Last(lockstep.ContextLength, Lataccel)),
		},
		func(s *lockstep.Step) []int64 { return s.Tokens },
	),
	schema.Array(
		schema.Stage{
			Name:  States,
			Shape: []int{lockstep.ContextLength, 4},
			From:  from(schema.Same(Action), schema.Last(lockstep.ContextLength-1, Action)),
			Elements: []schema.Element{
				{Name: "action", Count: 1}, {Name: "roll lataccel", Count: 1},
				{Name: "v ego", Count: 1}, {Name: "a ego", Count: 1},
			},
		},
		func(s *lockstep.Step) []float32 { return s.States },
	),
	schema.Array(
		schema.Stage{
			Name:  Logits,
			Shape: []int{lockstep.VocabSize},
			Soft:  true,
			From:  from(schema.Same(Tokens), schema.Same(States)),
		},
		func(s *lockstep.Step) []float32 { return s.Logits },
	),
	schema.Array(
		schema.Stage{
			Name:  Probs,
			Shape: []int{lockstep.VocabSize},
			Soft:  true,
			From:  from(schema.Same(Logits)),
		},
		func(s *lockstep.Step) []float32 { return s.Probs },
	),
	schema.Array(
		schema.Stage{
			Name:  CDF,
			Shape: []int{lockstep.VocabSize},
			Soft:  true,
			From:  from(schema.Same(Probs)),
		},
		func(s *lockstep.Step) []float64 { return s.CDF },
	),
	schema.Number(schema.Stage{Name: Draw},
		func(s *lockstep.Step) (float64, bool) { return s.Draw, true }),
	schema.Number(
		schema.Stage{Name: Sample, Effect: true, From: from(schema.Same(CDF), schema.Same(Draw))},
		func(s *lockstep.Step) (int64, bool) { return int64(s.Sample), ran(s) },
	),
	schema.Number(schema.Stage{Name: Prediction, From: from(schema.Same(Sample))},
		func(s *lockstep.Step) (float64, bool) { return s.Prediction, ran(s) }),
	schema.Number(
		schema.Stage{
			Name:   Lataccel,
			Given:  true,
			Teach:  true,
			Effect: true,
			From:   from(schema.Same(Prediction), schema.Last(1, Lataccel)),
		},
		func(s *lockstep.Step) (float64, bool) { return s.Lataccel, true },
	),
)

// observationElements are the names of an observation's elements.
func observationElements() (all []schema.Element) {
	for i := range lockstep.ObservationSize {
		name := lockstep.ObservationName(i)
		if n := len(all); n > 0 && all[n-1].Name == name {
			all[n-1].Count++
		} else {
			all = append(all, schema.Element{Name: name, Count: 1})
		}
	}
	return all
}

func from(inputs ...schema.Input) []schema.Input { return inputs }

// ran reports whether the network was run at a step.
func ran(s *lockstep.Step) bool { return s.Sample >= 0 || s.Logits != nil }

// skipped are the stages that SkipWarmup leaves out.
var skipped = []string{Tokens, States, Logits, Probs, CDF, Sample, Prediction}

// Schema describes the rollouts of engines that take these shortcuts.
func Schema(shortcuts lockstep.Shortcuts) *schema.Schema {
	s := view.Schema
	s.Stages = slices.Clone(s.Stages)
	if shortcuts&lockstep.SkipWarmup != 0 {
		for _, name := range skipped {
			s.Stages[s.Index(name)].Skipped = true
		}
	}
	if shortcuts&lockstep.StopAtCostEnd != 0 {
		s.End = lockstep.CostEndIdx
	}
	return &s
}

// Expose sets a step to what an engine's own holds, see schema.View.
func Expose(from *lockstep.Step, to *schema.Step) { view.Expose(from.Index, from, to) }

// Arrays are the stages that traces may hold as digests.
func Arrays() schema.StageSet { return view.Arrays() }
