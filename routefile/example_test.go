package routefile_test

import (
	"fmt"
	"strings"

	"lockstep/routefile"
)

// A file that is no route is refused, with the line and the column.
func ExampleLoader_Read() {
	text := "t,vEgo,aEgo,roll,targetLateralAcceleration,steerCommand\n" +
		strings.Repeat("0,20,0,0,0.5,0.1\n", 119) + "0,fast,0,0,0.5,0.1\n"
	_, err := routefile.Loader{}.Read(strings.NewReader(text), "data/00000.csv")
	fmt.Println(err)
	text = strings.ReplaceAll(text, "fast", "20")
	route, err := routefile.Loader{}.Read(strings.NewReader(text), "data/00000.csv")
	fmt.Println(route.Name, len(route.VEgo), err)
	// Output:
	// data/00000.csv:121:3: vEgo: "fast" is not a number
	// 00000 120 <nil>
}
