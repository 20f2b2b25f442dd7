package parity_test

import (
	"os"
	"testing"

	"lockstep"
	"lockstep/gpu"
	"lockstep/gpu/driver"
	"lockstep/gpu/driver/emulated"
	"lockstep/onnxruntime"
)

// An engine is an implementation that is held to the reference. open returns nil,
// having logged the reason, where it cannot run. chunk is how many routes run
// together, workers how many cores are used; 0 is the engine's choice.
type engine struct {
	name string
	open func(t *testing.T, model string, profile lockstep.Profile, chunk, workers int) lockstep.Simulator
}

// engines are all implementations but the reference. The kernels of the gpu engine
// run on the CPU everywhere, and on the GPU where there is one.
var engines = []engine{
	{"onnxruntime", func(t *testing.T, model string, profile lockstep.Profile, chunk, workers int) lockstep.Simulator {
		if b := newONNXRuntime(t, onnxruntime.Config{ModelPath: model, Profile: profile, Chunk: chunk, Workers: workers}); b != nil {
			return b
		}
		return nil
	}},
	{"emulated", func(t *testing.T, model string, profile lockstep.Profile, chunk, workers int) lockstep.Simulator {
		open := func() (driver.Device, error) {
			return emulated.Open(emulated.Options{Order: emulated.Shuffled, Processors: workers})
		}
		return newGPU(t, gpu.Config{ModelPath: model, Profile: profile, RoutesPerBlock: perBlock(chunk), Open: open}, emulated.Available(), "LOCKSTEP_REQUIRE_COMPILER")
	}},
	{"gpu", func(t *testing.T, model string, profile lockstep.Profile, chunk, _ int) lockstep.Simulator {
		return newGPU(t, gpu.Config{ModelPath: model, Profile: profile, RoutesPerBlock: perBlock(chunk)}, gpu.Available(), "LOCKSTEP_REQUIRE_GPU")
	}},
}

// perBlock is a number of routes that the kernels can run in a block.
func perBlock(chunk int) int {
	switch {
	case chunk == 3:
		return 2
	case chunk > 6:
		return 6
	}
	return chunk
}

// newONNXRuntime makes the ONNX Runtime engine, or returns nil where it was built out.
func newONNXRuntime(t *testing.T, config onnxruntime.Config) *onnxruntime.Simulator {
	t.Helper()
	if !onnxruntime.Built {
		t.Log("built without cgo: the ONNX Runtime engine takes no part")
		return nil
	}
	b, err := onnxruntime.New(config)
	if err != nil {
		cannotRun(t, err, "LOCKSTEP_REQUIRE_ASSETS")
		return nil
	}
	closeAfter(t, b)
	return b
}

// newGPU makes the gpu engine, or returns nil where its device is absent. A device
// that is there and fails, as with kernels that do not compile, fails the test.
func newGPU(t *testing.T, config gpu.Config, absent error, required string) lockstep.Simulator {
	t.Helper()
	if absent != nil {
		cannotRun(t, absent, required)
		return nil
	}
	s, err := gpu.New(config)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, s)
	return s
}

// cannotRun says that an engine cannot run here, which fails the test if the variable
// says that it must.
func cannotRun(t *testing.T, err error, required string) {
	t.Helper()
	if os.Getenv(required) == "1" {
		t.Fatalf("%s=1, but %v", required, err)
	}
	what := map[string]string{"LOCKSTEP_REQUIRE_ASSETS": "assets", "LOCKSTEP_REQUIRE_COMPILER": "a compiler", "LOCKSTEP_REQUIRE_GPU": "a GPU"}[required]
	t.Logf("not run for want of %s: %v", what, err)
}

func closeAfter(t *testing.T, s interface{ Close() error }) {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
