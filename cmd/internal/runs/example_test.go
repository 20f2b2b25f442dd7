package runs_test

import (
	"fmt"
	"log"
	"os"

	"lockstep/cmd/internal/runs"
)

// A search writes its curve, and lockstep watch draws it.
func ExampleCurve() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	curve := runs.Curve{
		Names: []string{"generation", "best"},
		Rows:  [][]float64{{1, 90}, {2, 71}, {3, 64}},
	}
	if err := curve.Write(dir); err != nil {
		log.Fatal(err)
	}
	read, err := runs.ReadCurve(dir)
	if err != nil {
		log.Fatal(err)
	}
	read.WriteText(os.Stdout)
	fmt.Println(read.Columns()[1])
	// Output:
	// generation 3
	// best                        90 to        64  █▂▁
	// [90 71 64]
}
