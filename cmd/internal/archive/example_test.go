package archive_test

import (
	"fmt"
	"log"

	"lockstep/classic"
	"lockstep/cmd/internal/archive"
	reference "lockstep/reference/classic"
)

// A snapshot of environments is kept as bytes, and others go on from it.
func Example() {
	task, err := classic.Make("CartPole-v1", 2, nil)
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
	here, err := envs.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	data, err := archive.Marshal(here)
	if err != nil {
		log.Fatal(err)
	}
	read, err := archive.Unmarshal(data)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(envs.Restore(read), read.States[0] == here.States[0])
	// Output:
	// <nil> true
}
