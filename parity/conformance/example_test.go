package conformance_test

import (
	"fmt"
	"log"
	"os"

	"lockstep/internal/defaults"
	"lockstep/parity/conformance"
	"lockstep/reference"
)

// A simulator is held to the contract outside of a test. What is left out is said, so
// that it is not taken for what conforms.
func ExampleCheck() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	model, _, err := defaults.Write(dir)
	if err != nil {
		log.Fatal(err)
	}
	sim, err := reference.New(model, reference.HostProfile())
	if err != nil {
		log.Fatal(err)
	}
	leftOut, err := conformance.Check(sim, conformance.Brief())
	for _, line := range leftOut {
		fmt.Println(line)
	}
	if err != nil {
		fmt.Println("does not conform:")
		fmt.Println(err)
	}
	// Output:
	// branches: left out: whole routes, which Brief leaves to other tests
	// lengths: left out: whole routes, which Brief leaves to other tests
	// reference: left out: whole routes, which Brief leaves to other tests
	// goldens: left out: whole routes, which Brief leaves to other tests
}
