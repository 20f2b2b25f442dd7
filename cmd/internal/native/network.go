//go:build cgo

package native

import (
	"lockstep"
	"lockstep/internal/fileio"
	"lockstep/policyfile"
)

type policyAnswer struct {
	Handle int64  `json:"handle"`
	Name   string `json:"name"`
}

// network makes a network. The buffer has for each layer the weights (outputs, inputs),
// then the biases, in float32.
func network(_ *task, _ int64, request, buffer []byte) (any, error) {
	var q struct {
		Sizes []int // of the input, and of each layer's output
		Scale float64
		Tanh  []bool   // of each layer; none is ReLU
		Sees  []string // lockstep.Seen; none is the observation of 256 numbers
	}
	if err := parse(request, &q); err != nil {
		return nil, err
	}
	n := 0
	for i := 1; i < len(q.Sizes); i++ {
		n += (q.Sizes[i-1] + 1) * q.Sizes[i]
	}
	numbers, err := floats[float32](buffer, n)
	if err != nil {
		return nil, err
	}
	numbers = append([]float32(nil), numbers...)
	var layers []lockstep.Layer
	for i := 1; i < len(q.Sizes); i++ {
		l := lockstep.Layer{Inputs: q.Sizes[i-1], Outputs: q.Sizes[i]}
		l.Weights, numbers = numbers[:l.Inputs*l.Outputs], numbers[l.Inputs*l.Outputs:]
		l.Bias, numbers = numbers[:l.Outputs], numbers[l.Outputs:]
		l.Tanh = i <= len(q.Tanh) && q.Tanh[i-1]
		layers = append(layers, l)
	}
	sees, err := lockstep.ParseSees(q.Sees)
	if err != nil {
		return nil, usage(err)
	}
	p, err := lockstep.NewSeeing(sees, layers, q.Scale)
	if err != nil {
		return nil, usage(err)
	}
	return policyAnswer{put(p), p.Name}, nil
}

// save writes a network to a file that any engine and the command line read.
func save(_ *task, p *lockstep.Network, q struct{ File string }, _ []byte) (any, error) {
	return nothing{}, policyfile.Write(q.File, p)
}

// exported writes a network as a controller of the challenge, one Python file.
func exported(_ *task, p *lockstep.Network, q struct{ File string }, _ []byte) (any, error) {
	source, err := policyfile.Export(p)
	if err != nil {
		return nil, err
	}
	return nothing{}, fileio.WriteFile(q.File, source)
}
