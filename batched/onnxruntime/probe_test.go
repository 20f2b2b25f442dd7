//go:build cgo

package onnxruntime

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/fingerprint"
	"lockstep/reference"
)

// TestProbe asks the library of this machine.
func TestProbe(t *testing.T) {
	s := newSimulator(t, Config{})
	if s.About().Unproven != nil {
		t.Fatalf("unknown: %q", s.About().Notices)
	}
	norm, softmax := lockstep.LayerNorm130, reference.HostProfile().Softmax
	if runtime.GOARCH == "arm64" {
		norm, softmax = lockstep.LayerNorm130ARM, lockstep.SoftmaxNEON
	}
	if s.Version() == "1.30.0" && s.Profile().LayerNorm != norm {
		t.Errorf("profile %v of version %s", s.Profile(), s.Version())
	}
	if got := s.Profile().Softmax; got != softmax {
		t.Errorf("softmax %v, this CPU's is %v", got, softmax)
	}
}

// TestProfileIsTheLibrarys: whatever network's arithmetic is asked for, the simulator says the one
// that the library has; what is NumPy's and the reader's stays as asked.
func TestProfileIsTheLibrarys(t *testing.T) {
	here := newSimulator(t, Config{}).Profile()
	for _, norm := range []lockstep.LayerNorm{
		lockstep.LayerNorm130, lockstep.LayerNorm127, lockstep.LayerNorm123,
	} {
		for _, softmax := range []lockstep.Softmax{
			lockstep.SoftmaxAVX512, lockstep.SoftmaxAVX2, lockstep.SoftmaxNEON,
		} {
			asked := lockstep.Profile{
				LayerNorm: norm, Softmax: softmax, Exp: lockstep.ExpF, Sin: here.Sin, CSV: here.CSV,
			}
			want := asked
			want.LayerNorm, want.Softmax = here.LayerNorm, here.Softmax
			s := newSimulator(t, Config{Profile: asked})
			p, err := s.Reset(t.Context(), []lockstep.Job{{Route: routes(t, asked)[0]}},
				lockstep.Options{})
			if err != nil {
				t.Fatal(err)
			}
			shot, err := p.Snapshot(t.Context())
			if err := errors.Join(err, p.Close()); err != nil {
				t.Fatal(err)
			}
			if s.Profile() != want || shot.Profile != want {
				t.Errorf("asked for %v: it says %v, its snapshot %v, want %v", asked, s.Profile(),
					shot.Profile, want)
			}
		}
	}
}

// TestProbeUnknown forgets forms that the library has, one or all: the simulator runs, names the
// answers, and claims no parity.
func TestProbeUnknown(t *testing.T) {
	library(t)
	here := newSimulator(t, Config{}).Profile()
	defer func() { probes = fingerprint.Probes }()
	for _, forgotten := range []string{"softmax", "layer_norm", "softmax layer_norm"} {
		probes = forgetting(here, forgotten)
		s := newSimulator(t, Config{})
		notices := s.About().Notices
		if s.About().Unproven == nil || len(notices) != len(strings.Fields(forgotten)) {
			t.Errorf("%s: unproven %v, notices %q", forgotten, s.About().Unproven, notices)
		}
		for _, name := range strings.Fields(forgotten) {
			if !strings.Contains(strings.Join(notices, "\n"), "probe "+name) {
				t.Errorf("%s: notices %q", forgotten, notices)
			}
		}
	}
}

// forgetting are probes of which some do not know the form of a profile.
func forgetting(here lockstep.Profile, names string) func() ([]*fingerprint.Probe, error) {
	return func() ([]*fingerprint.Probe, error) {
		all, err := fingerprint.Probes()
		for k, p := range all {
			if p.Network() != nil && !slices.Contains(strings.Fields(names), p.Name) {
				continue
			}
			forgetful := *p
			word := strings.Split(here.String(), "-")[k]
			forgetful.Forms = slices.DeleteFunc(
				slices.Clone(p.Forms),
				func(f fingerprint.Form) bool { return f.Word == word },
			)
			all = slices.Clone(all)
			all[k] = &forgetful
		}
		return all, err
	}
}
