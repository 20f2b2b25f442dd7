package vectors_test

import (
	"fmt"
	"strings"

	"lockstep/golden/vectors"
)

// Two numbers that print alike may have other bits.
func ExampleDifference() {
	fmt.Println(vectors.Difference([]float32{0.1}, []float32{0.1}) == "")
	tenth, fifth := 0.1, 0.2
	text, _, _ := strings.Cut(vectors.Difference([]float64{tenth + fifth}, []float64{0.3}), ",")
	fmt.Println(text)
	// Output:
	// true
	// element 0 is 0.30000000000000004 (0x3fd3333333333334)
}
