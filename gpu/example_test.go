package gpu_test

import (
	"fmt"

	"lockstep"
	"lockstep/gpu"
)

// The kernels have the arithmetic of x86-64; that of ARM they refuse.
func ExampleLacks() {
	for _, name := range []string{
		"ort1.30-avx2-expU-sinfma-csv2", "ort1.30arm-neon-expC-sinfma-csvexact",
	} {
		profile, err := lockstep.ParseProfile(name)
		fmt.Println(gpu.Lacks(profile) == nil, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}
