//go:build !cgo

package onnxruntime

type actor struct{}

func openActor([]byte, int) (*actor, error) { return nil, errNoCgo }

func (a *actor) run(_, _ []float32, _ int) error { return errNoCgo }
func (a *actor) close()                          {}
