package gpu

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"lockstep"
	"lockstep/gpu/driver/emulated"
)

// network is a random one with hidden layers of these widths.
func network(hidden ...int) *lockstep.Network {
	random := rand.New(rand.NewPCG(12, uint64(len(hidden))))
	var layers []lockstep.Layer
	inputs := lockstep.ObservationSize
	for _, outputs := range append(hidden, lockstep.ActorSize) {
		l := lockstep.Layer{Inputs: inputs, Outputs: outputs, Weights: make([]float32, inputs*outputs), Bias: make([]float32, outputs)}
		for i := range l.Weights {
			l.Weights[i] = 0.4 * (random.Float32() - 0.5)
		}
		for i := range l.Bias {
			l.Bias[i] = 0.4 * (random.Float32() - 0.5)
		}
		layers = append(layers, l)
		inputs = outputs
	}
	n, err := lockstep.NewNetwork(layers, lockstep.DefaultScale)
	if err != nil {
		panic(err)
	}
	return n
}

// everyKind is a job of each kind, and two networks; one samples, one expects.
func everyKind(route *lockstep.Route) []lockstep.Job {
	actions := make([]float64, lockstep.TableSteps)
	for i := range actions {
		actions[i] = float64(i%7-3) / 2
	}
	table, err := lockstep.NewTable(map[string][]float64{route.Name: actions})
	if err != nil {
		panic(err)
	}
	wide, narrow := network(256, 40), network(3)
	pidff := lockstep.PIDFF{P: 0.2, I: 0.1, D: -0.05, FF: [4]float64{0.1, 0.2, -0.1, 0.05}, FFV: 0.3, Smooth: 0.2, Leak: 0.05}
	return []lockstep.Job{
		{Route: route, Policy: wide}, {Route: route, Policy: pidff}, {Route: route, Policy: narrow, Sampling: &lockstep.Sampling{Seed: 1 << 40, ID: 7}},
		{Route: route, Policy: table}, {Route: route, Policy: lockstep.DefaultPID, Expected: true}, {Route: route, Policy: wide},
	}
}

// TestEveryKind has all kinds in blocks of every size and with few threads, each as it
// is in the reference; they are one upload, one launch and one download.
func TestEveryKind(t *testing.T) {
	route := shorten(routes()[0], 103)
	jobs := everyKind(route)
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	var want []*trace
	for _, c := range []struct{ size, threads int }{{1, 256}, {2, 96}, {6, 256}, {6, 32}} {
		t.Run(fmt.Sprintf("blocks of %d, %d threads", c.size, c.threads), func(t *testing.T) {
			s := newSimulatorOn(t, Config{RoutesPerBlock: c.size, Threads: c.threads}, emulated.Options{Order: emulated.Shuffled})
			if want == nil {
				want = traces(t, newReference(t, s.Profile()), jobs, opts)
			}
			for i, got := range traces(t, s, jobs, opts) {
				if d := got.difference(want[i]); d != "" {
					t.Errorf("job %d, %v: %s", i, jobs[i].Policy, d)
				}
			}
			before := s.Stats()
			for i, got := range results(t, s, context.Background(), jobs, opts) {
				if d := resultDifference(got, want[i].result); d != "" {
					t.Errorf("job %d, %v: %s", i, jobs[i].Policy, d)
				}
			}
			if c := s.Stats().Sub(before); c.Uploads != 1 || c.Launches != 1 || c.Downloads != 1 || c.Synchronisations != 1 {
				t.Errorf("%+v, want one upload, launch, synchronisation and download", c.Counts)
			}
		})
	}
}
