package branches_test

import (
	"fmt"

	"lockstep/parity/branches"
)

func Example() {
	b := branches.TinyPhysics()[branches.Warmup]
	fmt.Println(b.Name+":", b.Is)
	// Output:
	// warm-up: a step before 100, whose command and lataccel are the route's
}
