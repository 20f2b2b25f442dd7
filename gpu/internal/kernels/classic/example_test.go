package classic_test

import (
	"fmt"
	"io/fs"

	"lockstep/gpu/internal/kernels/classic"
)

// The sources of the kernels are in the program.
func Example() {
	names, err := fs.Glob(classic.Sources, "*.cu")
	fmt.Println(names, err)
	// Output:
	// [classic.cu] <nil>
}
