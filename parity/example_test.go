package parity_test

import (
	"fmt"

	"lockstep/parity"
)

// The first place at which two arrays differ.
func ExampleDiffer() {
	want := []float32{0.5, 1.25, 3}
	got := []float32{0.5, 1.2500001, 4}
	fmt.Println(parity.Differ(want, want) == nil)
	d := parity.Differ(want, got)
	fmt.Println(d.Index, d.Want, d.Got)
	// Output:
	// true
	// 1 1.25 (3fa00000) 1.2500001 (3fa00001)
}
