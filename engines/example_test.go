package engines_test

import (
	"fmt"

	"lockstep/engines"
)

func ExampleByName() {
	list, err := engines.ByName("reference", "batched")
	for _, e := range list {
		fmt.Println(e.Name, e.Folder)
	}
	fmt.Println(err)
	_, err = engines.ByName("batched", "batched")
	fmt.Println(err)
	// Output:
	// reference reference
	// batched batched
	// <nil>
	// engine batched is named twice
}
