package conformance_test

import (
	"os"
	"testing"

	"lockstep/defaults"
	"lockstep/gpu"
	"lockstep/gpu/driver"
	"lockstep/gpu/driver/emulated"
	"lockstep/gpu/driver/emulated/emulatedtest"
	"lockstep/onnxruntime"
	"lockstep/parity/conformance"
	"lockstep/reference"
)

// TestReference: the reference conforms in the profile of the recordings.
func TestReference(t *testing.T) {
	t.Parallel()
	conformance.Test(t, newReference(t))
}

// TestONNXRuntime: so does the ONNX Runtime engine in the profile that its library has here.
func TestONNXRuntime(t *testing.T) {
	t.Parallel()
	if !onnxruntime.Built {
		t.Skip("not in a build without cgo")
	}
	model, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sim, err := onnxruntime.New(onnxruntime.Config{ModelPath: model, Workers: 2, Chunk: 3})
	if err != nil {
		if os.Getenv("LOCKSTEP_REQUIRE_ASSETS") == "1" {
			t.Fatalf("LOCKSTEP_REQUIRE_ASSETS=1, but %v", err)
		}
		t.Skipf("not run for want of assets: %v", err)
	}
	defer sim.Close()
	if !sim.ProfileKnown() {
		t.Skipf("ONNX Runtime computes here in a way that the reference does not know: parity is not claimed (%v)", sim.Notices())
	}
	conformance.Test(t, sim)
}

// TestEmulated: so does the gpu engine with its kernels on the CPU, threads in another
// order after each barrier and several routes in a block. Whole routes it runs for
// the tests of parity.
func TestEmulated(t *testing.T) {
	t.Parallel()
	emulatedtest.Require(t)
	testGPU(t, func() (driver.Device, error) {
		return emulated.Open(emulated.Options{Order: emulated.Shuffled})
	}, conformance.Brief())
}

// TestGPU: and on a GPU, where there is one.
func TestGPU(t *testing.T) {
	t.Parallel()
	if err := gpu.Available(); err != nil {
		if os.Getenv("LOCKSTEP_REQUIRE_GPU") == "1" {
			t.Fatalf("LOCKSTEP_REQUIRE_GPU=1, but %v", err)
		}
		t.Skipf("not run for want of a GPU: %v", err)
	}
	testGPU(t, gpu.OpenDevice)
}

func testGPU(t *testing.T, open func() (driver.Device, error), opts ...conformance.Option) {
	model, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sim, err := gpu.New(gpu.Config{ModelPath: model, Profile: reference.HostProfile(), RoutesPerBlock: 2, Open: open})
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	conformance.Test(t, sim, opts...)
}

func newReference(t *testing.T) *reference.Simulator {
	t.Helper()
	model, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sim, err := reference.New(model, reference.HostProfile())
	if err != nil {
		t.Fatal(err)
	}
	return sim
}
