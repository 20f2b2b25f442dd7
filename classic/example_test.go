package classic_test

import (
	"fmt"
	"log"

	"lockstep/classic"
	reference "lockstep/reference/classic"
)

// Two pendulums are stepped once.
func Example() {
	task, err := classic.Make("Pendulum-v1", 2, map[string]string{"g": "9.81"})
	if err != nil {
		log.Fatal(err)
	}
	envs, err := reference.Reference{}.Make(task)
	if err != nil {
		log.Fatal(err)
	}
	defer envs.Close()
	if err := envs.Reset(classic.Reset{Seed: 1}); err != nil {
		log.Fatal(err)
	}
	answer := classic.NewTransition(task)
	if err := envs.Step(classic.Actions{Continuous: []float32{0, 1}}, &answer); err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Rewards)
	fmt.Println(task.Observation[0], answer.Observations[:2])
	// Output:
	// [-0.08668415754263699 -2.260752420882628]
	// cos_theta [0.9925607 0.023618482]
}
