package gpu

import (
	"fmt"
	"testing"

	"lockstep/gpu/hardware"
	"lockstep/gpu/internal/driver/emulated"
	"lockstep/gpu/internal/module"
	"lockstep/internal/want"
)

// TestDevice says on what the tests run, for the evidence in gpu/hardware.
func TestDevice(t *testing.T) {
	d, err := device(t, emulated.Options{})()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	i := d.Info()
	t.Attr("device", i.Name)
	t.Attr("driver", i.Driver)
	t.Attr("compute_capability", fmt.Sprintf("%d.%d", i.Major, i.Minor))
	t.Attr("kernels", i.Kernels)
	t.Attr("module", module.Hash())
	if i.Name == "" || i.Driver == "" || i.Kernels == "" {
		t.Errorf("it says %+v", i)
	}
}

// TestChallenge rolls out what follows from the hash of the kernels, and says the answer, which
// the gate computes, too.
func TestChallenge(t *testing.T) {
	want.Skip(t, want.GPU.Denied(Available()))
	s := newSimulator(t, Config{})
	info, err := s.Info()
	if err != nil {
		t.Fatal(err)
	}
	got, err := hardware.Answer(t.Context(), s, info.Kernels)
	if err != nil {
		t.Fatal(err)
	}
	want, err := hardware.Answer(t.Context(), newReference(t, s.Profile()), info.Kernels)
	if err != nil || got != want {
		t.Errorf("the answer is %s, the reference's %s, %v", got, want, err)
	}
	t.Attr("challenge", got)
}
