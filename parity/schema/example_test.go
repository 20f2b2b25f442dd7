package schema_test

import (
	"fmt"

	"lockstep/parity/schema"
)

// A ball that falls: its speed follows from the speed before, its height from both.
func Example() {
	type ball struct{ speed, height float64 }
	view := schema.NewView(
		schema.Schema{
			Name:    "ball",
			Key:     []string{"start"},
			Outcome: schema.Outcome{Name: "time", From: []string{"height"}},
		},
		schema.Number(schema.Stage{Name: "speed", From: []schema.Input{schema.Last(1, "speed")}},
			func(b ball) (float64, bool) { return b.speed, true }),
		schema.Number(schema.Stage{
			Name: "height",
			From: []schema.Input{schema.Same("speed"), schema.Last(1, "height")},
		}, func(b ball) (float64, bool) { return b.height, true }),
	)
	step := view.NewStep()
	view.Expose(0, ball{speed: 9.81, height: 100}, step)
	for i, stage := range view.Stages {
		fmt.Println(stage.Name, stage.Type.Show(step.Bits[i]))
	}
	// Output:
	// speed 9.81 (40239eb851eb851f)
	// height 100 (4059000000000000)
}
