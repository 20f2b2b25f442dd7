package onnxruntime

import (
	"runtime"

	"lockstep/internal/model"
)

// backend is a session as a network of package batched. The session has room for as many
// sequences as a worker of batched holds.
type backend struct {
	session *session
	pool    *pool
	tokens  []int32
	states  []float32
	logits  []float32
	row     [model.Context]int64

	forgotten runtime.Cleanup
}

func open(p *pool, n network) (*backend, error) {
	session, err := p.get(n)
	if err != nil {
		return nil, err
	}
	b := &backend{
		session: session,
		pool:    p,
		tokens:  make([]int32, p.capacity*model.Context),
		states:  make([]float32, p.capacity*model.Context*model.StateSize),
		logits:  make([]float32, p.capacity*model.Vocabulary),
	}
	// A stepper that nobody closed gives its sessions back when it is garbage.
	b.forgotten = runtime.AddCleanup(b, p.put, session)
	return b, nil
}

func (b *backend) Tokens() []int32   { return b.tokens }
func (b *backend) States() []float32 { return b.states }
func (b *backend) Logits() []float32 { return b.logits }

// Run computes the logits of the first count sequences.
func (b *backend) Run(count int) error {
	const window = model.Context * model.StateSize
	for i := range count {
		for j, token := range b.tokens[i*model.Context:][:model.Context] {
			b.row[j] = int64(token)
		}
		b.session.enter(i, count, b.row[:], b.states[i*window:][:window])
	}
	if err := b.session.run(count); err != nil {
		return err
	}
	for i := range count {
		copy(b.logits[i*model.Vocabulary:], b.session.logits(i))
	}
	return nil
}

// Close gives the session back to the pool.
func (b *backend) Close() error {
	if b.session != nil {
		b.forgotten.Stop()
		b.pool.put(b.session)
		b.session = nil
	}
	return nil
}
