package translate_test

import (
	"fmt"

	"lockstep/gpu/internal/translate"
)

// What a kernel executed between two barriers adds up to its whole.
func ExampleSum() {
	sum := translate.Sum([]translate.Interval{
		{Address: 0x100, Times: 1, Cycles: 400}, {Address: 0x280, Times: 1, Cycles: 250},
	})
	fmt.Println(sum.Cycles)
	// Output:
	// 650
}
