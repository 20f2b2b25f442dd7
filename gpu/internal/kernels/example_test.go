package kernels_test

import (
	"fmt"

	"lockstep"
	"lockstep/gpu/internal/kernels"
)

// How many numbers of the device's memory a network takes that steers.
func ExampleActorSize() {
	network := &lockstep.Network{Layers: []lockstep.Layer{
		{
			Inputs: 256, Outputs: 2,
			Weights: make([]float32, 2*256), Bias: make([]float32, 2),
		},
	}}
	fmt.Println(kernels.ActorSize(network))
	// Output:
	// 16448
}
