//go:build !cgo

package onnxruntime

// Built tells whether this program was built with cgo, which ONNX Runtime needs.
const Built = false

func loadLibrary(string) (string, error) { return "", errNoCgo }

func runRow([]byte, []float32, int) ([]float32, error) { return nil, errNoCgo }

type session struct {
	network
	states []float32
	tokens []int64
	output []float32
}

func openSession(network, int) (*session, error) { return nil, errNoCgo }

func (s *session) run(int) error { return errNoCgo }
func (s *session) close()        {}
