// Package policies holds what exported controllers do in the unmodified Python
// program: for each route their actions, the lataccels and costs that follow, and of a
// network what it saw and answered. Record.py recorded them.
package policies

import (
	"embed"
	"fmt"
	"math/rand/v2"
	"strings"

	"lockstep"
	"lockstep/internal/npz"
)

// Challenge is the file of recordings with the challenge's network and routes. It is of one
// profile.
const Challenge = "recordings.npz"

// Default are files of recordings with the network and a route of package defaults, each of
// one profile.
func Default() []string { return []string{"default.npz", "default-avx2.npz"} }

//go:embed *.npz
var files embed.FS

// PolicyRecording is one controller on one route, from step ContextLength on; what a network
// computed is from ControlStartIdx on.
type PolicyRecording struct {
	Route, Policy string

	Action, Lataccel []float64
	Costs            lockstep.Costs
	RouteHash        []uint64 // see golden.HashRoute

	Observation []uint64  // golden.Hash of each
	Actor       []float32 // (·, 2)
	Raw         []float64
}

// Read reads a file of recordings, and the profile of the program that made them.
func Read(file string) (lockstep.Profile, []PolicyRecording, error) {
	data, err := files.ReadFile(file)
	if err != nil {
		return lockstep.Profile{}, nil, err
	}
	arrays, err := npz.Read(data)
	if err != nil {
		return lockstep.Profile{}, nil, err
	}
	names, err := npz.Strings(arrays["names"])
	if err != nil || len(names) < 2 {
		return lockstep.Profile{}, nil, fmt.Errorf("names: %d, %w", len(names), err)
	}
	profile, err := lockstep.ParseProfile(names[0])
	if err != nil {
		return profile, nil, err
	}
	var all []PolicyRecording
	for _, name := range names[1:] {
		r := PolicyRecording{}
		r.Route, r.Policy, _ = strings.Cut(name, ".")
		var costs []float64
		for _, err := range []error{
			read(arrays, name+"/action", &r.Action), read(arrays, name+"/lataccel", &r.Lataccel),
			read(arrays, name+"/costs", &costs), read(arrays, name+"/route_hash", &r.RouteHash),
			read(arrays, name+"/observation_hash", &r.Observation),
			read(arrays, name+"/actor", &r.Actor), read(arrays, name+"/raw", &r.Raw),
		} {
			if err != nil {
				return profile, nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		r.Costs = lockstep.Costs{Lataccel: costs[0], Jerk: costs[1], Total: costs[2]}
		all = append(all, r)
	}
	return profile, all, nil
}

func read[T npz.Number](arrays map[string]npz.Array, name string, into *[]T) (err error) {
	a, ok := arrays[name]
	if !ok {
		return fmt.Errorf("no array %s", name)
	}
	*into, err = npz.Elements[T](a)
	return err
}

// PIDFF is the recorded controller with feed-forward: every gain has a part.
func PIDFF() lockstep.PIDFF {
	return lockstep.PIDFF{
		P: 0.21, I: 0.09, D: -0.07, FF: [4]float64{0.17, 0.11, -0.06, 0.13}, FFV: -0.15,
		Smooth: 0.1, Leak: 0.02,
	}
}

// Network is the recorded network: random numbers, and among them rows that make it a
// controller, which steers by the errors that it sees.
func Network() (*lockstep.Network, error) {
	layers, set := random(lockstep.ObservationSize, 64, 32, lockstep.ActorSize)
	for _, sign := range []int{0, 1} { // of what a hidden unit sees: ReLU has one side
		s := float32(1 - 2*sign)
		set(0, sign, 2, s)      // the error
		set(0, sign, 11, s/10)  // the target's change
		set(0, sign, 12, -s/10) // the lataccel's change
		set(1, sign, sign, 1)
		set(2, sign, sign, 6)
		set(2, 1-sign, sign, -6)
	}
	return lockstep.NewNetwork(layers, lockstep.DefaultScale)
}

// Wide is the recorded network of more than 256 numbers a layer, so that sums have several
// chains, with tanh, and with an observation of its own, which looks at all that there is.
func Wide() (*lockstep.Network, error) {
	texts := []string{
		"target[0]-lataccel[-1]", "target[0]-target[-1]", "lataccel[-1]-lataccel[-2]",
		"v[0]-20/15", "target[7]-roll[7]/0.3", "observation[13]-observation[2]",
	}
	for i := range 60 {
		texts = append(
			texts, fmt.Sprintf("action[-%d]/2", i+1), fmt.Sprintf("lataccel[-%d]", i+1),
			fmt.Sprintf("target[%d]-lataccel[-1]/5", i-12), fmt.Sprintf("roll[%d]/0.7", i-30),
			fmt.Sprintf("v[%d]-15/9", 49-i), fmt.Sprintf("a[%d]-a[%d]", i-10, i-11),
			fmt.Sprintf("observation[%d]", 4*i), fmt.Sprintf("target[%d]-roll[%d]", i-80, i-79),
			fmt.Sprintf("lataccel[-%d]-1e-3/3", 80-i),
		)
	}
	sees, err := lockstep.ParseSees(texts)
	if err != nil {
		return nil, err
	}
	layers, set := random(len(sees), 300, 40, lockstep.ActorSize)
	layers[0].Tanh = true
	set(0, 0, 0, 1)
	set(0, 0, 1, 0.1)
	set(0, 0, 2, -0.1)
	for _, sign := range []int{0, 1} {
		set(1, sign, 0, float32(1-2*sign))
		set(2, sign, sign, 6)
		set(2, 1-sign, sign, -6)
	}
	return lockstep.NewSeeing(sees, layers, lockstep.DefaultScale)
}

// random are layers of random numbers, and what sets a weight of theirs.
func random(sizes ...int) ([]lockstep.Layer, func(layer, output, input int, w float32)) {
	random := rand.New(rand.NewPCG(2026, 11))
	var layers []lockstep.Layer
	for i := range len(sizes) - 1 {
		l := lockstep.Layer{Inputs: sizes[i], Outputs: sizes[i+1]}
		for range l.Inputs * l.Outputs {
			l.Weights = append(l.Weights, float32(random.IntN(2001)-1000)/1000*0.02)
		}
		for range l.Outputs {
			l.Bias = append(l.Bias, float32(random.IntN(2001)-1000)/1000*0.02)
		}
		layers = append(layers, l)
	}
	return layers, func(layer, output, input int, w float32) {
		layers[layer].Weights[output*layers[layer].Inputs+input] = w
	}
}
