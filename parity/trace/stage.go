package trace

import (
	"fmt"

	"lockstep"
)

// Stage is one value that every implementation computes at every step, or once for
// a rollout. Stages are ordered as they are computed, but for Draw, which depends on
// nothing.
type Stage uint8

const (
	Route      Stage = iota // the route's columns and seed, before the first step
	Action                  // steer command after clipping, float64
	Tokens                  // encoded past lataccels, 20 int64
	States                  // network input, 20×4 float32
	Logits                  // last position, 1024 float32
	Probs                   // 1024 float32
	CDF                     // 1024 float64
	Draw                    // uniform variate, float64
	Sample                  // token, int
	Prediction              // the token's bin, float64
	Lataccel                // after the step, float64
	Cost                    // the three costs, float64
	Steps                   // how far a rollout went: steps, errors
	NumStages
)

var stageNames = [NumStages]string{"route", "action", "tokens", "states", "logits", "probs", "cdf", "draw", "sample", "prediction", "lataccel", "costs", "steps"}

func (s Stage) String() string {
	if s >= NumStages {
		return fmt.Sprintf("Stage(%d)", uint8(s))
	}
	return stageNames[s]
}

// MarshalText and UnmarshalText make the name the JSON form.
func (s Stage) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (s *Stage) UnmarshalText(text []byte) error {
	for i, name := range stageNames {
		if name == string(text) {
			*s = Stage(i)
			return nil
		}
	}
	return fmt.Errorf("stage %.60q is not known, want one of %v", text, stageNames)
}

// Stages is a set of stages.
type Stages uint16

// Set is the set of the stages given.
func Set(stages ...Stage) (set Stages) {
	for _, s := range stages {
		set |= 1 << s
	}
	return set
}

// Has tells whether a stage is in the set.
func (set Stages) Has(s Stage) bool { return set>>s&1 == 1 }

// Arrays are the stages that a trace may hold as digests; AllStages all that a
// step has.
const (
	Arrays    Stages = 1<<Tokens | 1<<States | 1<<Logits | 1<<Probs | 1<<CDF
	AllStages Stages = Arrays | 1<<Action | 1<<Draw | 1<<Sample | 1<<Prediction | 1<<Lataccel
)

// lengths of the arrays, and bytes of an element.
var shapes = [NumStages]struct{ length, size int }{
	Tokens: {lockstep.ContextLength, 8},
	States: {4 * lockstep.ContextLength, 4},
	Logits: {lockstep.VocabSize, 4},
	Probs:  {lockstep.VocabSize, 4},
	CDF:    {lockstep.VocabSize, 8},
}
