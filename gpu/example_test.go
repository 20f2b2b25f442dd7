package gpu_test

import (
	"fmt"

	"lockstep"
	"lockstep/gpu"
)

// The kernels have the arithmetic of x86-64; that of ARM they refuse by name.
func ExampleLacks() {
	for _, name := range []string{
		"ort1.30-avx2-expU-sinfma-csv2", "ort1.30arm-neon-expC-sinfma-csvexact",
	} {
		profile, err := lockstep.ParseProfile(name)
		fmt.Println(gpu.Lacks(profile), err)
	}
	// Output:
	// <nil> <nil>
	// profile ort1.30arm-neon-expC-sinfma-csvexact: the GPU's kernels have no ort1.30arm, no neon, no expC: take another engine, or a profile of x86-64 <nil>
}
