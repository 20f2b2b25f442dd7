package driver_test

import (
	"fmt"

	"lockstep/gpu/internal/driver"
)

// What a rollout cost is the difference of two counts.
func ExampleCounts_Sub() {
	before := driver.Counts{Launches: 3, Uploads: 4}
	after := driver.Counts{Launches: 4, Uploads: 5, UploadBytes: 4096}
	spent := after.Sub(before)
	fmt.Println(spent.Launches, spent.Uploads, spent.UploadBytes)
	// Output:
	// 1 1 4096
}
