package lockstep

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Network is a policy that a network computes: from an observation the two parameters of
// a Beta distribution over the change of the steer command. It is read-only once made, and
// a function of route, step, lataccels and actions: it remembers nothing.
type Network struct {
	Name   string
	Layers []Layer // with ReLU between them, or tanh

	// Scale is the largest change of the steer command in one step.
	Scale float64

	// Sees declares what it observes, a number for each; nil is the observation of
	// ObservationSize numbers that ObservationName names.
	Sees []Seen

	// checked is the network itself, once NewSeeing has made it: one that was written down or
	// copied is checked by each job that it steers.
	checked *Network
}

// Layer is y = W·x + b. An output is p0 + b, to which p1, p2, … are added in turn, where p[i]
// is one chain of fused products from +0 over inputs i·SumPanel up to (i+1)·SumPanel, in their
// order. It is the order of ONNX Runtime.
type Layer struct {
	Inputs, Outputs int
	Weights         []float32 // (Outputs, Inputs)
	Bias            []float32 // (Outputs)

	// Tanh stands behind the layer in the place of ReLU. Behind the last one is neither.
	Tanh bool
}

const (
	// SumPanel is how many products are one chain.
	SumPanel = 256
	// ActorSize is the length of a network's output.
	ActorSize = 2
	// MaxLayers bounds the number of a network's layers.
	MaxLayers = 16
	// DefaultScale is the published networks'.
	DefaultScale = 0.25
	// MaxChange bounds the change of the steer command in one step, whatever the scale.
	MaxChange = 0.5
)

// NewNetwork makes a network with the observation that is not declared: see NewSeeing.
func NewNetwork(layers []Layer, scale float64) (*Network, error) {
	return NewSeeing(nil, layers, scale)
}

// NewSeeing makes a network, whose name comes of its layers' sizes, numbers and activations, its
// scale, and what it sees.
// It refuses what does not fit the observation and the actor, numbers that are not finite,
// and weights with which a layer may overflow.
func NewSeeing(sees []Seen, layers []Layer, scale float64) (*Network, error) {
	n := &Network{Layers: layers, Scale: scale, Sees: sees}
	if err := n.check(); err != nil {
		return nil, err
	}
	n.checked = n
	named := []any{n.Numbers(), scale}
	for i := range layers {
		named = append(named, int64(layers[i].Outputs))
		if layers[i].Tanh {
			named = append(named, int64(-1))
		}
	}
	for _, e := range sees {
		named = append(named, []byte(e.String()+"\n"))
	}
	n.Name = "network_" + fingerprint(named...)
	return n, nil
}

// check refuses what NewSeeing does.
func (n *Network) check() error {
	if n.checked == n {
		return nil
	}
	if len(n.Layers) == 0 || len(n.Layers) > MaxLayers {
		return fmt.Errorf("%d layers, want 1 to %d", len(n.Layers), MaxLayers)
	}
	if !(n.Scale > 0) || math.IsInf(n.Scale, 0) {
		return fmt.Errorf("scale %v, want a positive number", n.Scale)
	}
	if err := checkSeen(n.Sees); err != nil {
		return err
	}
	inputs, largest := n.Inputs(), float64(ObservationLimit)
	for i := range n.Layers {
		l := &n.Layers[i]
		var err error
		if largest, err = l.check(inputs, largest); err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
		if inputs = l.Outputs; l.Tanh {
			largest = 1
		}
	}
	last := len(n.Layers) - 1
	if inputs != ActorSize {
		return fmt.Errorf("layer %d: %d outputs, want %d", last, inputs, ActorSize)
	}
	if n.Layers[last].Tanh {
		return fmt.Errorf("layer %d: tanh, want nothing behind the last layer", last)
	}
	return nil
}

// Inputs is how many numbers the network sees.
func (n *Network) Inputs() int {
	if n.Sees == nil {
		return ObservationSize
	}
	return len(n.Sees)
}

// Width is the most numbers that a layer reads or writes.
func (n *Network) Width() int {
	width := n.Inputs()
	for i := range n.Layers {
		width = max(width, n.Layers[i].Outputs)
	}
	return width
}

// Element is how an error names an element of what the network sees.
func (n *Network) Element(i int) string {
	if n.Sees == nil {
		return ObservationElement(i)
	}
	return "observation[" + strconv.Itoa(i) + "] (" + n.Sees[i].String() + ")"
}

// check refuses a layer that does not fit so many inputs of a largest magnitude, and
// returns the largest magnitude of its outputs.
func (l *Layer) check(inputs int, largest float64) (float64, error) {
	if l.Inputs != inputs || l.Outputs < 1 || l.Outputs > MaxWidth {
		return 0, fmt.Errorf(
			"%d inputs and %d outputs, want %d and 1 to %d", l.Inputs, l.Outputs, inputs, MaxWidth,
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
	{"target", 1},
	{"lataccel", 1},
	{"error", 1},
	{"target curvature", 1},
	{"curvature", 1},
	{"curvature error", 1},
	{"v ego", 1},
	{"a ego", 1},
	{"roll", 1},
	{"last action", 1},
	{"error integral", 1},
	{"target change", 1},
	{"lataccel change", 1},
	{"action change", 1},
	{"grip", 1},
	{"grip left", 1},
	{"action history", ContextLength},
	{"lataccel history", ContextLength},
	{"target plan", FuturePlanSteps},
	{"roll plan", FuturePlanSteps},
	{"v ego plan", FuturePlanSteps},
	{"a ego plan", FuturePlanSteps},
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

// Seen declares one number that a network observes at step t:
//
//	float32(((Of[t+At] - Less[t+LessAt]) - Shift) / Unit), clipped to ±ObservationLimit
//
// in float64 up to the cast, each operation rounded. Its text is such as
// "target[0]-lataccel[-1]", "v[7]-20/15" or "observation[13]".
type Seen struct {
	Of, Less    Source // of nothing, nothing is subtracted
	At, LessAt  int
	Shift, Unit float64
}

// Source is where a number of an observation comes from.
type Source int

const (
	SourceNone        Source = iota
	SourceObservation        // an element of the observation that is not declared: At is its index
	SourceAction             // the controller's own, after clipping; 0 before ControlStartIdx
	SourceLataccel           // m/s²
	SourceTarget             // and so for the rows of the plan
	SourceRoll
	SourceSpeed
	SourceAcceleration
)

const (
	// ObservationSize is the length of an observation that is not declared.
	ObservationSize = 256
	// MaxWidth bounds an observation, and a layer's inputs and outputs.
	MaxWidth = 1024
	// ObservationLimit is the largest magnitude in an observation.
	ObservationLimit = 5
)

// SeenBack is how far back a network sees: a controller is first asked at step
// ContextLength, and a network acts from ControlStartIdx on. SeenAhead is how far a plan
// reaches. Rows beyond the last are the last.
const (
	SeenBack  = ControlStartIdx - ContextLength
	SeenAhead = FuturePlanSteps - 1
)

// sources are the names of sources, and the places that each has.
var sources = [...]struct {
	name      string
	from, end int
}{
	SourceNone:         {"", 0, 0},
	SourceObservation:  {"observation", 0, ObservationSize},
	SourceAction:       {"action", -SeenBack, 0},
	SourceLataccel:     {"lataccel", -SeenBack, 0},
	SourceTarget:       {"target", -SeenBack, SeenAhead + 1},
	SourceRoll:         {"roll", -SeenBack, SeenAhead + 1},
	SourceSpeed:        {"v", -SeenBack, SeenAhead + 1},
	SourceAcceleration: {"a", -SeenBack, SeenAhead + 1},
}

// seenText is the text of a Seen.
var seenText = func() *regexp.Regexp {
	const place, number = `([a-z]+)\[(-?\d{1,4})\]`, `([-+]?[0-9.]+(?:e[-+]?\d+)?)`
	return regexp.MustCompile(
		`^` + place + `(?:-` + place + `)?(?:-` + number + `)?(?:/` + number + `)?$`,
	)
}()

// ParseSeen reads the text of a Seen; spaces do not count.
func ParseSeen(text string) (s Seen, err error) {
	m := seenText.FindStringSubmatch(strings.ReplaceAll(text, " ", ""))
	if m == nil {
		return s, fmt.Errorf(
			"observation %.60q: want such as target[0]-lataccel[-1], v[7]-20/15 or observation[13]",
			text,
		)
	}
	numbers := [2]float64{0, 1}
	for i, word := range m[5:] {
		if word == "" {
			continue
		}
		if numbers[i], err = strconv.ParseFloat(word, 64); err != nil {
			return s, fmt.Errorf("observation %.60q: %.30q is not a number", text, word)
		}
	}
	s.Of, s.At = parsePlace(m[1], m[2])
	s.Less, s.LessAt = parsePlace(m[3], m[4])
	s.Shift, s.Unit = numbers[0], numbers[1]
	if s.Of < 0 || s.Less < 0 {
		var names []string
		for _, source := range sources[1:] {
			names = append(names, source.name)
		}
		return s, fmt.Errorf(
			"observation %.60q: want one of %s", text, strings.Join(names, ", "),
		)
	}
	return s, s.valid()
}

// parsePlace finds a source by its name: negative if there is none.
func parsePlace(name, at string) (Source, int) {
	i := -1
	for k, source := range sources {
		if source.name == name {
			i = k
		}
	}
	n, _ := strconv.Atoi(at)
	return Source(i), n
}

// String is its text.
func (s Seen) String() string {
	text := s.Of.at(s.At)
	if s.Less != SourceNone {
		text += "-" + s.Less.at(s.LessAt)
	}
	if s.Shift != 0 {
		text += "-" + shortest(s.Shift)
	}
	if s.Unit != 1 {
		text += "/" + shortest(s.Unit)
	}
	return text
}

func (s Source) at(at int) string { return fmt.Sprintf("%s[%d]", sources[s].name, at) }

// valid refuses places that a source does not have, and numbers that are not finite.
func (s Seen) valid() error {
	for i, p := range []struct {
		of Source
		at int
	}{{s.Of, s.At}, {s.Less, s.LessAt}} {
		if p.of < 0 || int(p.of) >= len(sources) || i == 0 && p.of == SourceNone {
			return fmt.Errorf("observation: no source %d", int(p.of))
		}
		if has := sources[p.of]; p.of != SourceNone && (p.at < has.from || p.at >= has.end) {
			return fmt.Errorf(
				"observation %v: %s has %d to %d", s, has.name, has.from, has.end-1,
			)
		}
	}
	if math.IsNaN(s.Shift+s.Unit) || math.IsInf(s.Shift, 0) || math.IsInf(s.Unit, 0) ||
		s.Unit == 0 {
		return fmt.Errorf("observation %v: want finite numbers, and a divisor that is not 0", s)
	}
	if s.Shift == 0 && math.Signbit(s.Shift) { // its text, and so a network's name, is that of 0
		return fmt.Errorf("observation %v: -0 is subtracted, want 0 or another number", s)
	}
	return nil
}

// checkSeen refuses what no network can be declared to see; nil is nothing declared.
func checkSeen(all []Seen) error {
	if all != nil && (len(all) == 0 || len(all) > MaxWidth) {
		return fmt.Errorf("%d numbers to observe, want 1 to %d", len(all), MaxWidth)
	}
	for _, s := range all {
		if err := s.valid(); err != nil {
			return err
		}
	}
	return nil
}

// ParseSees reads texts of Seen; none is nil.
func ParseSees(texts []string) (all []Seen, err error) {
	for _, text := range texts {
		s, err := ParseSeen(text)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, checkSeen(all)
}

// LooksAtObservation reports whether some of these need the observation that is not declared.
func LooksAtObservation(all []Seen) bool {
	return slices.ContainsFunc(all, func(s Seen) bool {
		return s.Of == SourceObservation || s.Less == SourceObservation
	})
}

// shortest formats x with the fewest digits that read back as x.
func shortest(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
