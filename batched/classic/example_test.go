package classic_test

import (
	"context"
	"fmt"
	"log"

	batched "lockstep/batched/classic"
	"lockstep/classic"
)

// Two environments take 200 steps with actions drawn at random, column by column.
func Example() {
	task, err := classic.Make("CartPole-v1", 2, nil)
	if err != nil {
		log.Fatal(err)
	}
	envs, err := batched.Batched{Workers: 1}.Make(task)
	if err != nil {
		log.Fatal(err)
	}
	defer envs.Close()
	if err := envs.Reset(classic.Reset{Seed: 1}); err != nil {
		log.Fatal(err)
	}
	seed := uint64(7)
	err = envs.Run(context.Background(), classic.Policy{Uniform: &seed}, 200, nil)
	fmt.Println(envs.Totals().Episodes, err)
	// Output:
	// [8 9] <nil>
}
