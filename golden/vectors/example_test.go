package vectors_test

import (
	"fmt"

	"lockstep/golden/vectors"
)

// Two numbers that print alike may have other bits.
func ExampleDifference() {
	fmt.Println(vectors.Difference([]float32{0.1}, []float32{0.1}) == "")
	tenth, fifth := 0.1, 0.2
	fmt.Println(vectors.Difference([]float64{tenth + fifth}, []float64{0.3}))
	// Output:
	// true
	// element 0 is 0.30000000000000004 (0x3fd3333333333334), want 0.3 (0x3fd3333333333333); 1 of 1 differ
}
