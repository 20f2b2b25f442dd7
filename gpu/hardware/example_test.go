package hardware_test

import (
	"fmt"

	"lockstep/gpu/hardware"
)

// Evidence of a GPU on which nothing passed yet is incomplete.
func ExampleEvidence_Judge() {
	evidence := hardware.Evidence{Device: "NVIDIA H200"}
	evidence.Judge()
	fmt.Println(hardware.FileName(evidence.Device), evidence.Verdict)
	// Output:
	// NVIDIA-H200.json incomplete
}
