package parity

import "lockstep/parity/trace"

// Stage is one value that every implementation computes; see package trace.
type Stage = trace.Stage

// The stages.
const (
	Route      = trace.Route
	Action     = trace.Action
	Tokens     = trace.Tokens
	States     = trace.States
	Logits     = trace.Logits
	Probs      = trace.Probs
	CDF        = trace.CDF
	Draw       = trace.Draw
	Sample     = trace.Sample
	Prediction = trace.Prediction
	Lataccel   = trace.Lataccel
	Cost       = trace.Cost
	Steps      = trace.Steps
)
