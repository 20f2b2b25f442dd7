package engines

import (
	"fmt"
	"testing"

	"lockstep"
	"lockstep/internal/policytest"
	"lockstep/internal/simtest"
)

// TestBehindTheEnd: where rollouts end with their costs, what looks ahead sees the rows behind that
// step, however many a route has there: at the last steps each engine does what the reference does.
func TestBehindTheEnd(t *testing.T) {
	whole := wholeRoute(t, 0, "long")
	forward, err := lockstep.KindPIDFF.New([]float64{0.2, 0.1, 0, 0.1, 0.2, 0.3, 0.4, 0.1, 0, 0})
	if err != nil {
		t.Fatal(err)
	}
	sees, err := lockstep.ParseSees([]string{"target[49]", "roll[48]", "v[49]-20/10", "a[47]"})
	if err != nil {
		t.Fatal(err)
	}
	farSeeing, err := lockstep.NewSeeing(sees, []lockstep.Layer{{
		Inputs: 4, Outputs: 2, Bias: make([]float32, 2),
		Weights: []float32{1, 2, 3, 4, 4, 3, 2, 1},
	}}, 0.25)
	if err != nil {
		t.Fatal(err)
	}
	const last, ahead = lockstep.CostEndIdx - 1, lockstep.FuturePlanSteps
	var jobs []lockstep.Job
	for _, behind := range []int{0, 1, 2, ahead - 2, ahead - 1, ahead, ahead + 1} {
		route := cutRoute(whole, last+1+behind)
		route.Name = fmt.Sprint("rows behind its costs: ", behind)
		for _, p := range []lockstep.Policy{policytest.Network(t), farSeeing, forward} {
			jobs = append(jobs, lockstep.Job{Route: route, Policy: p})
		}
	}
	c := config(t)
	fast, err := ByName("batched")
	if err != nil {
		t.Fatal(err)
	}
	shot, err := planner(t, fast[0].ForTest(t, c), jobs, last-1).Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// What an engine steers and sees from there to the end.
	end := func(t *testing.T, e Engine) (lataccels [][]float64, seen []float32) {
		p := planner(t, e.ForTest(t, c), jobs, lockstep.ContextLength)
		if err := p.Restore(t.Context(), shot); err != nil {
			t.Fatal(err)
		}
		seen = make([]float32, lockstep.ObservationSize*len(jobs))
		for !p.Done() {
			if err := p.Observe(t.Context(), seen); err != nil {
				t.Fatal(err)
			}
			after := make([]float64, len(jobs))
			if err := p.Step(t.Context(), make([]float64, len(jobs)), after); err != nil {
				t.Fatal(err)
			}
			lataccels = append(lataccels, after)
		}
		return lataccels, seen
	}
	want, wantSeen := end(t, *Reference())
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			got, seen := end(t, e)
			if len(got) != 2 || len(want) != 2 {
				t.Fatalf("%d steps, and the reference has %d; want 2", len(got), len(want))
			}
			for step := range got {
				name := fmt.Sprint("lataccels of step ", last-1+step)
				if err := simtest.Same(name, got[step], want[step]); err != nil {
					t.Error(err)
				}
			}
			if err := simtest.Same("observations of the last step", seen, wantSeen); err != nil {
				t.Error(err)
			}
		})
	}
}
