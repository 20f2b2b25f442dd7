//go:build cgo

package onnxruntime

import (
	"slices"
	"testing"

	"lockstep"
	"lockstep/golden/goldentest"
	"lockstep/reference"
)

// TestProbeAnswers holds the probes and their answers to those that Python
// recorded.
func TestProbeAnswers(t *testing.T) {
	_, x := layerNormProbe()
	if want := goldentest.Array[float32](t, "probe_layer_norm_x"); !slices.Equal(x, want) {
		t.Errorf("the layer norm's row is %v, Python's %v", x, want)
	}
	_, x = softmaxProbe()
	if want := goldentest.Array[float32](t, "probe_softmax_x"); !slices.Equal(x, want) {
		t.Errorf("the softmax's row is %v, Python's %v", x, want)
	}
	for table, want := range map[string]lockstep.LayerNorm{
		"probe_layer_norm_ort1.30": lockstep.LayerNorm130,
		"probe_layer_norm_ort1.23": lockstep.LayerNorm123,
	} {
		hash := answer(goldentest.Array[float32](t, table))
		if got, ok := layerNormAnswers[hash]; !ok || got != want {
			t.Errorf("%s: answer %#x is %v, %v", table, hash, got, ok)
		}
	}
	for table, want := range map[string]lockstep.Softmax{
		"probe_softmax_avx512": lockstep.SoftmaxAVX512,
		"probe_softmax_avx2":   lockstep.SoftmaxAVX2,
	} {
		hash := answer(goldentest.Array[float32](t, table))
		if got, ok := softmaxAnswers[hash]; !ok || got != want {
			t.Errorf("%s: answer %#x is %v, %v", table, hash, got, ok)
		}
	}
}

// TestProbe asks the library of this machine.
func TestProbe(t *testing.T) {
	s := newSimulator(t, Config{})
	if !s.ProfileKnown() {
		t.Fatalf("unknown: %q", s.Notices())
	}
	if s.Version() == "1.30.0" && s.Profile().LayerNorm != lockstep.LayerNorm130 {
		t.Errorf("profile %v of version %s", s.Profile(), s.Version())
	}
	if got, want := s.Profile().Softmax, reference.HostProfile().Softmax; got != want {
		t.Errorf("softmax %v, this CPU's is %v", got, want)
	}
}

// TestProbeUnknown forgets an answer: the simulator runs and claims no parity.
func TestProbeUnknown(t *testing.T) {
	library(t)
	answers := softmaxAnswers
	defer func() { softmaxAnswers = answers }()
	softmaxAnswers = nil
	s := newSimulator(t, Config{})
	if s.ProfileKnown() || len(s.Notices()) == 0 {
		t.Errorf("profile known %v, notices %q", s.ProfileKnown(), s.Notices())
	}
}
