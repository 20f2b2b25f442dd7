package gymnasium_test

import (
	"context"
	"fmt"
	"log"

	batched "lockstep/batched/classic"
	"lockstep/parity"
	"lockstep/parity/gymnasium"
	reference "lockstep/reference/classic"
)

// Every stage of every step of two engines is compared.
func ExampleEpisodes_Compare() {
	seed := uint64(3)
	episodes := gymnasium.Episodes{
		Environment: "MountainCar-v0", Num: 2, Autoreset: "next-step",
		Seeds: []int64{1, 2}, Steps: 50, Uniform: &seed,
	}
	report, err := episodes.Compare(
		context.Background(), reference.Reference{}, batched.Batched{Workers: 1},
		parity.CompareOptions{},
	)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Steps, report.OK(), report.Err())
	// Output:
	// 50 true <nil>
}
