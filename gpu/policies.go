package gpu

import (
	"errors"
	"fmt"
	"slices"
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

// computable refuses networks for which the kernels have no code.
func computable(job *lockstep.Job) error {
	n, ok := job.Policy.(*lockstep.Network)
	if !ok {
		return nil
	}
	tanh := slices.ContainsFunc(n.Layers, func(l lockstep.Layer) bool { return l.Tanh })
	switch {
	case n.Sees != nil:
		return errors.New("a network that declares what it observes: the GPU's kernels compute " +
			"the observation of 256 numbers alone; reference and batched compute this")
	case n.Width() > lockstep.SumPanel:
		return fmt.Errorf("a network with a layer of %d: the GPU's kernels compute up to %d; "+
			"reference and batched compute this", n.Width(), lockstep.SumPanel)
	case tanh:
		return errors.New("a network with tanh: the GPU's kernels compute ReLU; " +
			"reference and batched compute this")
	}
	return nil
}

// kind is what a job needs of a launch, or why the kernels cannot compute it.
func (r *run) kind(job *lockstep.Job) (kind, error) {
	return kind{
		commands:   kindOf(job.Policy) == hostKind,
		policies:   beyondPID(job),
		teacher:    job.Teacher != nil,
		draws:      job.Draws != nil,
		traced:     job.Observe != nil,
		trajectory: r.opts.Trajectory,
		training:   r.training != nil,
		kept:       r.kept != nil,
	}, computable(job)
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
