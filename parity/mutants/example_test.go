package mutants_test

import (
	"fmt"
	"log"

	"lockstep/parity/mutants"
)

// A planted fault says what is wrong, and where the harness should see it.
func ExampleAll() {
	faults, err := mutants.All()
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range faults {
		if f.Name == "batched-digitize-side" {
			fmt.Println(f.Engine, f.Stage, f.Edits[0].File)
			fmt.Println(f.Title)
		}
	}
	// Output:
	// batched tokens batched/numpy.go
	// A value on a bin is counted to the next one.
}
