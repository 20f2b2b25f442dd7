//go:build cgo

package onnxruntime

import (
	"errors"
	"runtime"

	ort "github.com/yalue/onnxruntime_go"

	"lockstep"
)

// actor runs a policy's network, for one goroutine at a time.
type actor struct {
	ort      *ort.DynamicAdvancedSession
	in, out  []float32
	pinner   runtime.Pinner
	bindings []*binding // by the number of rows
}

// openActor makes a session of a model of policyfile.Encode.
func openActor(model []byte, capacity int) (*actor, error) {
	options, err := sessionOptions()
	if err != nil {
		return nil, err
	}
	defer options.Destroy()
	a := &actor{
		in:       make([]float32, capacity*lockstep.ObservationSize),
		out:      make([]float32, capacity*lockstep.ActorSize),
		bindings: make([]*binding, capacity+1),
	}
	a.ort, err = ort.NewDynamicAdvancedSessionWithONNXData(model, []string{"obs"}, []string{"logits"}, options)
	if err != nil {
		return nil, ortError(err)
	}
	a.pinner.Pin(&a.in[0])
	a.pinner.Pin(&a.out[0])
	return a, nil
}

// run computes n outputs of n observations.
func (a *actor) run(in, out []float32, n int) error {
	if a.bindings[n] == nil {
		b, err := a.bind(n)
		if err != nil {
			return ortError(err)
		}
		a.bindings[n] = b
	}
	copy(a.in, in)
	if err := a.ort.RunWithBinding(a.bindings[n].ort); err != nil {
		return ortError(err)
	}
	copy(out, a.out[:n*lockstep.ActorSize])
	return nil
}

func (a *actor) bind(n int) (b *binding, err error) {
	b = &binding{}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.ort, err = a.ort.CreateIoBinding(); err != nil {
		return nil, err
	}
	in, err := ort.NewTensor(ort.NewShape(int64(n), lockstep.ObservationSize), a.in)
	if err != nil {
		return nil, err
	}
	b.tensors = append(b.tensors, in)
	out, err := ort.NewTensor(ort.NewShape(int64(n), lockstep.ActorSize), a.out)
	if err != nil {
		return nil, err
	}
	b.tensors = append(b.tensors, out)
	return b, errors.Join(b.ort.BindInput("obs", in), b.ort.BindOutput("logits", out))
}

func (a *actor) close() {
	for _, b := range a.bindings {
		if b != nil {
			b.close()
		}
	}
	a.ort.Destroy()
	a.pinner.Unpin()
}
