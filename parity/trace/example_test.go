package trace_test

import (
	"bytes"
	"fmt"
	"log"

	"lockstep/parity/schema"
	"lockstep/parity/trace"
)

// A trace of one rollout of one step is written and read.
func Example() {
	s := schema.Schema{
		Name:    "counter",
		Key:     []string{"start"},
		Stages:  []schema.Stage{{Name: "count", Type: schema.TypeOf[int64]()}},
		Outcome: schema.Outcome{Name: "sum", Elements: []string{"sum"}, From: []string{"count"}},
	}
	var file bytes.Buffer
	w, err := trace.NewWriter(&file, trace.Header{Producer: "example", Schema: s}, 0)
	if err != nil {
		log.Fatal(err)
	}
	rollout := w.Begin(trace.Rollout{Key: []string{"7"}})
	step := s.NewStep()
	step.Bits[0], step.Has = 7, 1
	rollout.Observe(step)
	rollout.End([]float64{7}, nil)
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	f, err := trace.NewFile(bytes.NewReader(file.Bytes()), "counter.trace")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Header.Producer, f.Rollouts[0].Name(), f.Rollouts[0].End.Outcome)
	// Output:
	// example 7 [7]
}
