package conformance_test

import (
	"os"
	"testing"

	"lockstep/batched"
	"lockstep/defaults"
	"lockstep/parity/conformance"
	"lockstep/reference"
)

// TestReference: the reference conforms in the profile of the recordings.
func TestReference(t *testing.T) {
	t.Parallel()
	conformance.Test(t, newReference(t))
}

// TestBatched: so does the batched engine in the profile that its library has here.
func TestBatched(t *testing.T) {
	t.Parallel()
	if !batched.Built {
		t.Skip("not in a build without cgo")
	}
	model, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sim, err := batched.New(batched.Config{ModelPath: model, Workers: 2, Chunk: 3})
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
