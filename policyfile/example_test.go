package policyfile_test

import (
	"fmt"
	"log"

	"lockstep"
	"lockstep/policyfile"
)

// A policy is written and read again.
func Example() {
	data, err := policyfile.Marshal(lockstep.PID{P: 0.3, I: 0.05, D: -0.1})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", data)
	p, err := policyfile.Unmarshal(data, ".json")
	fmt.Println(p, err)
	_, err = policyfile.Unmarshal([]byte(`{"policy": "pid", "gains": [0.3]}`), ".json")
	fmt.Println(err)
	// Output:
	// {"policy":"pid","gains":[0.3,0.05,-0.1]}
	// pid_0.3_0.05_-0.1 <nil>
	// pid: 1 gains, want 3 (P,I,D)
}
