package gpu

import (
	"unsafe"

	"lockstep"
	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/kernels"
)

// kindOf is what the device knows of a policy: its kind, if it is native.
func kindOf(p lockstep.Policy) int64 {
	if n, ok := p.(lockstep.Native); ok {
		return int64(n.Kind())
	}
	return hostKind
}

// beyondPID reports whether a job wants the kernels that know every kind of policy, and
// expected values: the others know the challenge's own controllers, and commands of the
// host's.
func beyondPID(job *lockstep.Job) bool {
	switch kindOf(job.Policy) {
	case hostKind, int64(lockstep.KindZero), int64(lockstep.KindPID):
		return job.Expected
	}
	return true
}

// kind is what a job needs of a launch.
func (r *run) kind(job *lockstep.Job) kind {
	return kind{
		commands:   kindOf(job.Policy) == hostKind,
		policies:   beyondPID(job),
		teacher:    job.Teacher != nil,
		draws:      job.Draws != nil,
		traced:     job.Observe != nil,
		trajectory: r.opts.Trajectory,
		training:   r.training != nil,
		kept:       r.kept != nil,
	}
}

// btoi is 1 for true, as the kernels and an order by it want it.
func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// parameters writes the policies of a batch's jobs, which go up with the rest of it.
type parameters struct {
	*batch
	tables, networks, weights, sees int // that are written
	actors                          map[*lockstep.Network]driver.Pointer
}

// job is a job with its policy; its tables and weights are written where the device
// will have them.
func (p *parameters) job(job *lockstep.Job) jobBlock {
	b := jobBlock{Kind: kindOf(job.Policy)}
	if native, ok := job.Policy.(lockstep.Native); ok {
		copy(b.Gains[:], native.Gains())
	}
	if job.Expected {
		b.Expected = 1
	}
	if s := job.Sampling; s != nil {
		b.Sampled, b.Seed, b.ID = 1, s.Seed, s.ID
	}
	switch policy := job.Policy.(type) {
	case *lockstep.Table:
		from := p.tables * lockstep.TableSteps
		p.tables++
		copy(up[float64](p.batch, p.at.tables, p.tables*lockstep.TableSteps)[from:],
			policy.Actions[job.Route.Name])
		b.Table = p.device(p.at.tables + int64(8*from))
	case *lockstep.Network:
		if p.actors[policy] == 0 {
			p.actors[policy] = p.actor(policy)
		}
		b.Actor = p.actors[policy]
	}
	return b
}

// actor writes a network, and returns where the device will have it.
func (p *parameters) actor(n *lockstep.Network) driver.Pointer {
	at := p.networks
	p.networks++
	block := &up[actorBlock](p.batch, p.at.actors, p.networks)[at]
	*block = actorBlock{Scale: n.Scale, Layers: int64(len(n.Layers))}
	if n.Sees != nil {
		block.Declared, block.Sees = int64(len(n.Sees)), p.device(p.at.sees+int64(p.sees)*seenBytes)
		block.Contract = int64(btoi(lockstep.LooksAtObservation(n.Sees)))
		writeSees(up[seenBlock](p.batch, p.at.sees, p.sees+len(n.Sees))[p.sees:], n.Sees)
		p.sees += len(n.Sees)
	}
	for i := range n.Layers {
		tanh := btoi(n.Layers[i].Tanh)
		inputs, outputs, numbers := kernels.PackLayer(&n.Layers[i])
		block.Layer[i] = layerBlock{
			int64(inputs), int64(outputs), int64(tanh),
			p.device(p.at.weights + int64(4*p.weights)),
		}
		copy(up[float32](p.batch, p.at.weights, p.weights+len(numbers))[p.weights:], numbers)
		p.weights += len(numbers)
	}
	return p.device(p.at.actors + int64(at)*int64(unsafe.Sizeof(*block)))
}

// seenBytes is the size of what a network declares for a number.
const seenBytes = int64(unsafe.Sizeof(seenBlock{}))

// writeSees writes what a network declares.
func writeSees(to []seenBlock, sees []lockstep.Seen) {
	for i, e := range sees {
		to[i] = seenBlock{
			int64(e.Of), int64(e.At), int64(e.Less), int64(e.LessAt), e.Shift, e.Unit,
		}
	}
}
