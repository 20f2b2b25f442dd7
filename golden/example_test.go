package golden_test

import (
	"fmt"
	"log"

	"lockstep/golden"
)

// The recordings of one set, and what the first one's drive cost in Python.
func Example() {
	set, err := golden.OpenSet("testdata/default/ort1.30-avx2-expU-sinfma-csv2")
	if err != nil {
		log.Fatal(err)
	}
	entry := set.Recordings[0]
	recording, err := set.Read(entry)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(entry.Route, entry.Name, recording.Steps(), recording.Costs.Total)
	// Output:
	// g00002 zero 580 3477.477186576071
}
