package onnxruntime

import "lockstep/internal/model"

// enter copies the first 20 tokens and states into the place of sequence i of n.
func (s *session) enter(i, n int, tokens []int64, states []float32) {
	const rows, size = model.Context, model.StateSize
	if !s.positionsFirst {
		copy(s.tokens[i*rows:(i+1)*rows], tokens)
		copy(s.states[i*rows*size:(i+1)*rows*size], states)
		return
	}
	for j := range rows {
		s.tokens[j*n+i] = tokens[j]
		copy(s.states[(j*n+i)*size:][:size], states[j*size:])
	}
}

// logits are a sequence's, of its last position.
func (s *session) logits(sequence int) []float32 {
	end := (sequence + 1) * s.positions * model.Vocabulary
	return s.output[end-model.Vocabulary : end : end]
}
