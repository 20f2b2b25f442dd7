package reference

import (
	"fmt"

	"lockstep"
	"lockstep/internal/f32"
	"lockstep/internal/model"
)

// tinyPhysicsModel predicts the next lateral acceleration from the last 20
// steps. It holds the stages of its last prediction.
type tinyPhysicsModel struct {
	tokenizer *LataccelTokenizer
	gpt       *gpt
	random    *Random
	first     int // first position whose logits are computed

	tokens []int64   // (20)
	states []float32 // (20, 4)
	output []float32 // (20 - first, 1024)
	probs  []float32 // (1024), last position
	cdf    []float64 // (1024)
	draw   float64
	sample int
}

func newTinyPhysicsModel(
	p *parameters, profile lockstep.Profile, kernels *f32.Kernels, shortcuts lockstep.Shortcuts,
) *tinyPhysicsModel {
	m := &tinyPhysicsModel{
		tokenizer: NewLataccelTokenizer(),
		gpt:       newGPT(p, profile, kernels),
		tokens:    make([]int64, positions),
		states:    make([]float32, positions*model.StateSize),
		probs:     make([]float32, lockstep.VocabSize),
		cdf:       make([]float64, lockstep.VocabSize),
	}
	if shortcuts&lockstep.LastPosition != 0 {
		m.first = positions - 1
	}
	m.output = make([]float32, (positions-m.first)*lockstep.VocabSize)
	return m
}

// logits are the network's answer for the last position.
func (m *tinyPhysicsModel) logits() []float32 {
	return m.output[len(m.output)-lockstep.VocabSize:]
}

// softmax is the Python program's, of x / temperature in float32.
func (m *tinyPhysicsModel) softmax(x []float32, temperature float32) {
	e := m.probs
	var highest float32
	for i, v := range x {
		e[i] = v / temperature
		if i == 0 || e[i] > highest || e[i] != e[i] {
			highest = e[i]
		}
	}
	m.gpt.arithmetic.Exp(e, e, -highest)
	total := sum(e)
	for i := range e {
		e[i] /= total
	}
}

// predict runs the network on tokens and states and samples a token.
func (m *tinyPhysicsModel) predict(temperature float32) (int, error) {
	m.gpt.forward(m.output, m.states, m.tokens, m.first)
	m.softmax(m.logits(), temperature)
	// np.random.choice
	if err := cumulate(m.cdf, m.probs); err != nil {
		return 0, err
	}
	m.draw = m.random.Random()
	return search(m.cdf, m.draw), nil
}

// getCurrentLataccel predicts from the last 20 states and actions and the 20
// lataccels before them.
func (m *tinyPhysicsModel) getCurrentLataccel(
	simStates []lockstep.State, actions, pastPreds []float64,
) (float64, error) {
	for i, x := range pastPreds {
		m.tokens[i] = m.tokenizer.Encode(x)
		if m.tokens[i] >= lockstep.VocabSize {
			return 0, fmt.Errorf("lataccel %v has no token", x)
		}
	}
	for i, s := range simStates {
		row := m.states[i*model.StateSize:]
		row[0] = float32(actions[i])
		row[1] = float32(s.RollLataccel)
		row[2] = float32(s.VEgo)
		row[3] = float32(s.AEgo)
	}
	var err error
	if m.sample, err = m.predict(lockstep.Temperature); err != nil {
		return 0, err
	}
	return m.tokenizer.Decode(m.sample), nil
}

// expectation is the mean of the last prediction's distribution, in m/s².
func (m *tinyPhysicsModel) expectation() float64 {
	var mean float64
	for i, p := range m.probs {
		mean += float64(float64(p) * m.tokenizer.Decode(i))
	}
	return mean
}
