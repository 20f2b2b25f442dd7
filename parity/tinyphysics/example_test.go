package tinyphysics_test

import (
	"fmt"

	"lockstep"
	"lockstep/parity/tinyphysics"
)

// The schema names the stages of a step in the order in which they are computed.
func ExampleSchema() {
	for _, stage := range tinyphysics.Schema(0).Stages {
		fmt.Println(stage.Name)
	}
	// Output:
	// observation
	// actor
	// raw
	// action
	// tokens
	// states
	// logits
	// probs
	// cdf
	// draw
	// sample
	// prediction
	// lataccel
}

func ExampleWords() {
	fmt.Println(tinyphysics.Words(lockstep.CostOnly))
	// Output:
	// [skip_warmup stop_at_cost_end last_position]
}
