package gpu

import (
	"unsafe"

	"lockstep"
	"lockstep/gpu/driver"
	"lockstep/gpu/kernels"
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

// parameters writes the policies of a batch's jobs, which go up with the rest of it.
type parameters struct {
	*batch
	tables, networks, weights int // that are written
	actors                    map[*lockstep.Network]driver.Pointer
}

// job is a job with its policy; its tables and weights are written where the device
// will have them.
func (p *parameters) job(job *lockstep.Job) jobBlock {
	b := jobBlock{Kind: kindOf(job.Policy)}
	copy(b.Gains[:], lockstep.GainsOf(job.Policy))
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
		copy(up[float64](p.batch, p.at.tables, p.tables*lockstep.TableSteps)[from:], policy.Actions[job.Route.Name])
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
	for i := range n.Layers {
		inputs, outputs, numbers := kernels.PackLayer(&n.Layers[i])
		block.Layer[i] = layerBlock{
			int64(inputs), int64(outputs), p.device(p.at.weights + int64(4*p.weights)),
		}
		copy(up[float32](p.batch, p.at.weights, p.weights+len(numbers))[p.weights:], numbers)
		p.weights += len(numbers)
	}
	return p.device(p.at.actors + int64(at)*int64(unsafe.Sizeof(*block)))
}
