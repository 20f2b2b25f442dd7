package module_test

import (
	"fmt"
	"strings"

	"lockstep/gpu/internal/module"
)

// The kernels were compiled without fusing products into sums.
func ExampleReadManifest() {
	manifest, err := module.ReadManifest()
	fmt.Println(strings.Contains(strings.Join(manifest.Flags, " "), "-fmad=false"), err)
	// Output:
	// true <nil>
}
