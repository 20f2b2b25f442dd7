package module_test

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"lockstep/gpu/kernels"
	"lockstep/gpu/module"
)

// TestManifest is red when the kernels were changed, or their flags, and not
// compiled again.
func TestManifest(t *testing.T) {
	m, err := module.ReadManifest()
	if err != nil {
		t.Fatal(err)
	}
	hash, err := module.HashSources(kernels.Sources)
	if err != nil {
		t.Fatal(err)
	}
	if hash != m.Sources {
		t.Errorf("the kernels have the hash %.12s, but those that were compiled had %.12s: run `make kernels`", hash, m.Sources)
	}
	if !slices.Equal(m.Flags, module.AllFlags()) {
		t.Errorf("compiled with the flags %q, now they are %q: run `make kernels`", m.Flags, module.AllFlags())
	}
	if !strings.Contains(m.Compiler, "V13.0.") {
		t.Errorf("compiler %q, want 13.0: drivers of that version take no PTX of a newer one", m.Compiler)
	}
	for name, unpacked := range map[string]func() (string, error){"rollout.ptx": module.PTX, "rollout.sm_90.cubin": module.Cubin} {
		text, err := unpacked()
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256([]byte(text)); hex.EncodeToString(sum[:]) != m.Files[name] {
			t.Errorf("%s is not the file that the manifest describes: run `make kernels`", name)
		}
		for _, want := range []string{"lockstep_rollout_r1", "lockstep_layout"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s has no %s", name, want)
			}
		}
	}
}

// forbidden are instructions that round otherwise, approximate, or add in no fixed
// order: those of integers included, since no block needs another.
var forbidden = regexp.MustCompile(`(?m)^.*(\.approx|\.ftz|\bdiv\.full|\bmad(\.rn)?\.f(32|64)|\b(atom|red)\.).*$`)

// TestPTX holds the compiled code to what the bits depend on: no product is fused
// that the source does not fuse by name, nothing is approximate, nothing flushed.
func TestPTX(t *testing.T) {
	text, err := module.PTX()
	if err != nil {
		t.Fatal(err)
	}
	if line := forbidden.FindString(text); line != "" {
		t.Errorf("the PTX has %q", line)
	}
	for _, line := range []string{"\tred.shared.add.f32 \t[%r1], %f1;", "@%p1 atom.global.add.u32 %r1, [%rd1], 1;", "\tex2.approx.ftz.f32 %f1, %f2;", "\tmad.rn.f32 %f1, %f2, %f3, %f4;"} {
		if !forbidden.MatchString(line) {
			t.Errorf("%q would not be noticed", line)
		}
	}
	for _, want := range []string{"fma.rn.f32", "div.rn.f32", "sqrt.rn.f32", ".target sm_80", ".version 9.0"} {
		if !strings.Contains(text, want) {
			t.Errorf("the PTX has no %q", want)
		}
	}
}

func TestHashSources(t *testing.T) {
	base := fstest.MapFS{"a.cu": {Data: []byte("1")}, "b.h": {Data: []byte("2")}, "cpu/c.h": {Data: []byte("3")}, "x.go": {Data: []byte("4")}}
	hash := func(f fstest.MapFS) string {
		h, err := module.HashSources(f)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	want := hash(base)
	for name, same := range map[string]bool{"a.cu": false, "b.h": false, "cpu/c.h": true, "x.go": true, "new.cuh": false} {
		other := fstest.MapFS{}
		for k, v := range base {
			other[k] = v
		}
		other[name] = &fstest.MapFile{Data: []byte("changed")}
		if (hash(other) == want) != same {
			t.Errorf("after a change of %s the hash is the same: %v", name, !same)
		}
	}
}
