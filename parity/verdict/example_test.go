package verdict_test

import (
	"fmt"

	"lockstep/parity/verdict"
)

// A check in which something failed has failed, whatever else passed.
func ExampleCheck_Judge() {
	check := verdict.Check{Cases: []verdict.CheckCase{
		{Name: "TestA", Outcome: verdict.Passed}, {Name: "TestB", Outcome: verdict.Failed},
	}}
	check.Judge(nil, nil)
	fmt.Println(check.Outcome, check.Why)
	// Output:
	// failed 1 of 2 cases failed
}
