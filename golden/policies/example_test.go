package policies_test

import (
	"fmt"
	"log"

	"lockstep/golden/policies"
)

// Recordings of drives that policies of every kind steered.
func ExampleRead() {
	profile, recordings, err := policies.Read(policies.Default()[0])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(profile)
	for _, r := range recordings {
		fmt.Println(r.Route, r.Policy, len(r.Action))
	}
	// Output:
	// ort1.30-avx512-expU-sinfma-csv2
	// g00002 pidff 580
	// g00002 network 580
	// g00002 wide 580
}
