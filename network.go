package lockstep

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Network is a policy that a small network computes: from an observation of
// ObservationSize numbers the two parameters of a Beta distribution over the change
// of the steer command. It is read-only once made, and a function of route, step,
// lataccels and actions: it remembers nothing.
type Network struct {
	Name   string
	Layers []Layer // with ReLU between them

	// Scale is the largest change of the steer command in one step.
	Scale float64
}

// Layer is y = W·x + b.
type Layer struct {
	Inputs, Outputs int
	Weights         []float32 // (Outputs, Inputs)
	Bias            []float32 // (Outputs)
}

const (
	// ObservationSize is the length of a network's input, and bounds its layers:
	// longer sums have another order.
	ObservationSize = 256
	// ActorSize is the length of its output.
	ActorSize = 2
	// MaxLayers bounds the number of its layers.
	MaxLayers = 16
	// ObservationLimit is the largest magnitude in an observation.
	ObservationLimit = 5
	// DefaultScale is the published networks'.
	DefaultScale = 0.25
	// MaxChange bounds the change of the steer command in one step, whatever the scale.
	MaxChange = 0.5
)

// NewNetwork makes a network, which is named by what names it and its weights. It
// refuses what does not fit the observation and the actor, numbers that are not
// finite, and weights with which a layer may overflow.
func NewNetwork(layers []Layer, scale float64) (*Network, error) {
	if len(layers) == 0 || len(layers) > MaxLayers {
		return nil, fmt.Errorf("%d layers, want 1 to %d", len(layers), MaxLayers)
	}
	if !(scale > 0) || math.IsInf(scale, 0) {
		return nil, fmt.Errorf("scale %v, want a positive number", scale)
	}
	var numbers []float32
	inputs, largest := ObservationSize, float64(ObservationLimit)
	for i := range layers {
		l := &layers[i]
		var err error
		if largest, err = l.check(inputs, largest); err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		inputs = l.Outputs
		numbers = append(append(numbers, l.Weights...), l.Bias...)
	}
	if inputs != ActorSize {
		return nil, fmt.Errorf("layer %d: %d outputs, want %d", len(layers)-1, inputs, ActorSize)
	}
	return &Network{
		Name:   "network_" + fingerprint(numbers, scale),
		Layers: layers,
		Scale:  scale,
	}, nil
}

// check refuses a layer that does not fit so many inputs of a largest magnitude, and
// returns the largest magnitude of its outputs.
func (l *Layer) check(inputs int, largest float64) (float64, error) {
	if l.Inputs != inputs || l.Outputs < 1 || l.Outputs > ObservationSize {
		return 0, fmt.Errorf(
			"%d inputs and %d outputs, want %d and 1 to %d", l.Inputs, l.Outputs, inputs,
			ObservationSize,
		)
	}
	if len(l.Weights) != l.Inputs*l.Outputs || len(l.Bias) != l.Outputs {
		return 0, fmt.Errorf(
			"%d weights and %d biases, want %d and %d", len(l.Weights), len(l.Bias),
			l.Inputs*l.Outputs, l.Outputs,
		)
	}
	highest := 0.0
	for o := range l.Outputs {
		sum := math.Abs(float64(l.Bias[o]))
		for k, w := range l.Weights[o*l.Inputs:][:l.Inputs] {
			if x := float64(w); math.IsNaN(x) || math.IsInf(x, 0) {
				return 0, fmt.Errorf("weight [%d][%d] is %v", o, k, w)
			}
			sum += math.Abs(float64(w)) * largest
		}
		if x := float64(l.Bias[o]); math.IsNaN(x) || math.IsInf(x, 0) {
			return 0, fmt.Errorf("bias [%d] is %v", o, x)
		}
		highest = max(highest, sum)
	}
	if highest > math.MaxFloat32/2 {
		return 0, errors.New("the weights are so large that a sum may overflow")
	}
	return highest, nil
}

// Numbers are the network's, as a device wants them: layer by layer, weights, then
// biases.
func (n *Network) Numbers() []float32 {
	var numbers []float32
	for i := range n.Layers {
		numbers = append(append(numbers, n.Layers[i].Weights...), n.Layers[i].Bias...)
	}
	return numbers
}

// fingerprint is eight digits of a hash of some numbers.
func fingerprint(values ...any) string {
	h := sha256.New()
	for _, v := range values {
		binary.Write(h, binary.LittleEndian, v)
	}
	return hex.EncodeToString(h.Sum(nil)[:4])
}

// observationParts name the elements of an observation: a name for each, or a name
// and a number of elements.
var observationParts = []struct {
	name  string
	count int
}{
	{"target", 1}, {"lataccel", 1}, {"error", 1},
	{"target curvature", 1}, {"curvature", 1}, {"curvature error", 1},
	{"v ego", 1}, {"a ego", 1}, {"roll", 1},
	{"last action", 1}, {"error integral", 1},
	{"target change", 1}, {"lataccel change", 1}, {"action change", 1},
	{"grip", 1}, {"grip left", 1},
	{"action history", ContextLength}, {"lataccel history", ContextLength},
	{
		"target plan", FuturePlanSteps,
	}, {"roll plan", FuturePlanSteps}, {"v ego plan", FuturePlanSteps}, {"a ego plan", FuturePlanSteps},
}

// ObservationName names an element of an observation, such as "action change" or
// "roll plan 7".
func ObservationName(i int) string { return observationNames[i] }

var observationNames = func() (names [ObservationSize]string) {
	i := 0
	for _, p := range observationParts {
		for k := range p.count {
			names[i] = p.name
			if p.count > 1 {
				names[i] += " " + strconv.Itoa(k)
			}
			i++
		}
	}
	return names
}()

// ObservationElement is how an error names an element: observation[13] (action
// change).
func ObservationElement(i int) string {
	return "observation[" + strconv.Itoa(i) + "] (" + ObservationName(i) + ")"
}

// Sampling asks a network for a sampled action in place of the mean. The draws of a
// step are those of Philox4x32-10 with the key Seed and the counter (attempt, step,
// ID low, ID high): they depend on nothing else.
type Sampling struct {
	Seed uint64 // such as the epoch
	ID   uint64 // of the rollout
}
