package snapshotfile_test

import (
	"fmt"

	"lockstep"
	"lockstep/snapshotfile"
)

// A snapshot moves to another machine as bytes.
func Example() {
	data, err := snapshotfile.Marshal(&lockstep.Snapshot{Step: 20})
	fmt.Println(err)
	s, err := snapshotfile.Unmarshal(data)
	fmt.Println(s.Step, err)
	// Output:
	// <nil>
	// 20 <nil>
}
