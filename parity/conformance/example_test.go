package conformance_test

import (
	"fmt"
	"log"
	"os"

	"lockstep/defaults"
	"lockstep/parity/conformance"
	"lockstep/reference"
)

// A simulator is held to the contract outside of a test.
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
	if err := conformance.Check(sim); err != nil {
		fmt.Println("does not conform:")
		fmt.Println(err)
	}
}
