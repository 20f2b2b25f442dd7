package classic_test

import (
	"fmt"

	"lockstep/golden/classic"
	reference "lockstep/reference/classic"
)

// An engine is held to what Gymnasium answered.
func ExampleRecordedCase_Compare() {
	cases, err := classic.Goldens()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cases[0].Name(), cases[0].Compare(reference.Reference{}))
	// Output:
	// CartPole-v1/off/n1/seed0 <nil>
}
