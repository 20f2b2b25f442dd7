package hardware_test

import (
	"fmt"
	"testing/fstest"

	"lockstep/gpu/hardware"
)

// A GPU on which one step ran is no evidence yet.
func ExampleRead() {
	const events = `{"Action":"pass","Package":"memcheck","Test":"TestShort"}
{"Action":"pass","Package":"memcheck"}
`
	_, err := hardware.Read(fstest.MapFS{"H200/memcheck.json": {Data: []byte(events)}})
	fmt.Println(err)
	// Output:
	// H200/cuda.json: it is not there: run `make gpu-first` there again
}
