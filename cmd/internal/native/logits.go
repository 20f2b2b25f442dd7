//go:build cgo

package native

import (
	"unsafe"

	"lockstep"
	"lockstep/reference"
)

// sequence is what one pass of the network reads and writes, as SEQUENCE in
// python/lockstep/tinyphysics.py has it.
type sequence struct {
	tokens [lockstep.ContextLength]int64
	states [lockstep.ContextLength * 4]float32
	logits [lockstep.ContextLength * lockstep.VocabSize]float32
}

// logits runs the network on each sequence of the buffer.
func logits(t *task, s *simulator, _ nothing, buffer []byte) (any, error) {
	engine, ok := s.Implementation.(*reference.Simulator)
	if !ok {
		return nil, usagef(
			"engine %s: single passes of the network are the engine reference's", s.Name(),
		)
	}
	const size = int(unsafe.Sizeof(sequence{}))
	for ; len(buffer) >= size && t.Err() == nil; buffer = buffer[size:] {
		q := (*sequence)(unsafe.Pointer(&buffer[0]))
		if err := engine.Logits(q.logits[:], q.states[:], q.tokens[:]); err != nil {
			return nil, usage(err)
		}
	}
	return nothing{}, t.Err()
}
