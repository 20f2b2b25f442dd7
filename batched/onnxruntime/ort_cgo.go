//go:build cgo

package onnxruntime

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"

	ort "github.com/yalue/onnxruntime_go"

	"lockstep/batched/onnxruntime/internal/ortlib"
	"lockstep/internal/model"
)

// Built tells whether this program was built with cgo, which ONNX Runtime needs.
const Built = true

// loaded is the library of this process, which can load only one: ONNX Runtime
// keeps global state, and so does its binding. It stays loaded.
var loaded struct {
	sync.Mutex
	path    string
	version string
	file    os.FileInfo
}

// loadLibrary loads a library, or confirms that it is loaded, and returns its
// version.
func loadLibrary(path string) (string, error) {
	loaded.Lock()
	defer loaded.Unlock()
	if err := ortlib.Check(path); err != nil {
		return "", err
	}
	file, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if loaded.file != nil {
		if !os.SameFile(file, loaded.file) {
			return "", fmt.Errorf(
				"%s: this process has loaded %s already and can load only one ONNX Runtime: name "+
					"that one, or begin another process",
				path, loaded.path,
			)
		}
		return loaded.version, nil
	}
	ort.SetSharedLibraryPath(path)
	if err := ort.InitializeEnvironment(ort.WithLogLevelError()); err != nil {
		return "", fmt.Errorf(
			"%s: this ONNX Runtime cannot be used, want version %s: %w", path, ortlib.Version, err,
		)
	}
	loaded.path, loaded.version, loaded.file = path, ort.GetVersion(), file
	return loaded.version, nil
}

// session runs one graph, for one goroutine at a time, on the thread that calls
// it. Its tensors hold up to capacity sequences.
type session struct {
	network
	ort *ort.DynamicAdvancedSession

	states []float32 // (n, 20, 4), or (20, n, 4)
	tokens []int64   // (n, 20), or (20, n)
	output []float32 // (n, positions, 1024)
	pinner runtime.Pinner

	bindings []*binding // by the number of sequences
}

// binding ties the tensors' first sequences to the session's inputs and output,
// so that a run allocates nothing.
type binding struct {
	ort     *ort.IoBinding
	tensors []ort.Value
}

// openSession makes a session of a network.
func openSession(g network, capacity int) (*session, error) {
	options, err := sessionOptions()
	if err != nil {
		return nil, err
	}
	defer options.Destroy()
	s := &session{
		network:  g,
		states:   make([]float32, capacity*model.Context*model.StateSize),
		tokens:   make([]int64, capacity*model.Context),
		output:   make([]float32, capacity*g.positions*model.Vocabulary),
		bindings: make([]*binding, capacity+1),
	}
	s.ort, err = ort.NewDynamicAdvancedSessionWithONNXData(
		g.data, []string{"states", "tokens"}, []string{"output"}, options,
	)
	if err != nil {
		return nil, ortError(err)
	}
	// The library keeps the tensors' addresses between calls.
	s.pinner.Pin(&s.states[0])
	s.pinner.Pin(&s.tokens[0])
	s.pinner.Pin(&s.output[0])
	return s, nil
}

// sessionOptions are those of all sessions: what the bits are known for.
func sessionOptions() (*ort.SessionOptions, error) {
	o, err := ort.NewSessionOptions()
	if err != nil {
		return nil, ortError(err)
	}
	err = errors.Join(
		o.SetIntraOpNumThreads(1),
		o.SetInterOpNumThreads(1),
		o.SetGraphOptimizationLevel(ort.GraphOptimizationLevelEnableAll),
		o.SetLogSeverityLevel(ort.LoggingLevelError),
	)
	if err != nil {
		o.Destroy()
		return nil, ortError(err)
	}
	return o, nil
}

// run computes the output of the first n sequences.
func (s *session) run(n int) error {
	if s.bindings[n] == nil {
		b, err := s.bind(n)
		if err != nil {
			return ortError(err)
		}
		s.bindings[n] = b
	}
	if err := s.ort.RunWithBinding(s.bindings[n].ort); err != nil {
		return ortError(err)
	}
	return nil
}

// bind ties so many sequences. What it returns with an error has been freed.
func (s *session) bind(n int) (b *binding, err error) {
	b = &binding{}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.ort, err = s.ort.CreateIoBinding(); err != nil {
		return b, err
	}
	outer, inner, outputOuter, outputInner := int64(n), int64(model.Context), int64(n),
		int64(s.positions)
	if s.positionsFirst {
		outer, inner, outputOuter, outputInner = inner, outer, outputInner, outputOuter
	}
	states, err := ort.NewTensor(ort.NewShape(outer, inner, model.StateSize), s.states)
	if err != nil {
		return b, err
	}
	b.tensors = append(b.tensors, states)
	tokens, err := ort.NewTensor(ort.NewShape(outer, inner), s.tokens)
	if err != nil {
		return b, err
	}
	b.tensors = append(b.tensors, tokens)
	output, err := ort.NewTensor(ort.NewShape(outputOuter, outputInner, model.Vocabulary), s.output)
	if err != nil {
		return b, err
	}
	b.tensors = append(b.tensors, output)
	return b, errors.Join(
		b.ort.BindInput("states", states),
		b.ort.BindInput("tokens", tokens),
		b.ort.BindOutput("output", output),
	)
}

func (b *binding) close() {
	if b.ort != nil {
		b.ort.Destroy()
	}
	for _, t := range b.tensors {
		t.Destroy()
	}
}

func (s *session) close() {
	for _, b := range s.bindings {
		if b != nil {
			b.close()
		}
	}
	s.ort.Destroy()
	s.pinner.Unpin()
}

// runRow computes y, of shape (1, outputs), of one row x, of shape (1, n), in a model of
// one input x and one output y.
func runRow(data []byte, row []float32, outputs int) ([]float32, error) {
	options, err := sessionOptions()
	if err != nil {
		return nil, err
	}
	defer options.Destroy()
	s, err := ort.NewDynamicAdvancedSessionWithONNXData(data, []string{"x"}, []string{"y"}, options)
	if err != nil {
		return nil, ortError(err)
	}
	defer s.Destroy()
	x, err := ort.NewTensor(ort.NewShape(1, int64(len(row))), row)
	if err != nil {
		return nil, ortError(err)
	}
	defer x.Destroy()
	y, err := ort.NewEmptyTensor[float32](ort.NewShape(1, int64(outputs)))
	if err != nil {
		return nil, ortError(err)
	}
	defer y.Destroy()
	if err := s.Run([]ort.Value{x}, []ort.Value{y}); err != nil {
		return nil, ortError(err)
	}
	return y.GetData(), nil
}

// ortError makes the library's errors one line and names their origin.
func ortError(err error) error {
	return fmt.Errorf("ONNX Runtime: %s", strings.Join(strings.Fields(err.Error()), " "))
}
