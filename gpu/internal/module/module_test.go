package module_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"lockstep/gpu/internal/kernels"
	"lockstep/gpu/internal/kernels/classic"
	"lockstep/gpu/internal/module"
	"lockstep/internal/kernelhash"
	"lockstep/internal/want"
)

// TestManifest is red when the kernels were changed, or their flags, and not
// compiled again.
func TestManifest(t *testing.T) {
	m, err := module.ReadManifest()
	if err != nil {
		t.Fatal(err)
	}
	if got := hash(t, kernels.Sources); got != m.Sources {
		t.Errorf(
			"the kernels have the hash %.12s, but those that were compiled had %.12s: run `make "+
				"kernels`",
			got, m.Sources,
		)
	}
	if !slices.Equal(m.Flags, module.AllFlags()) {
		t.Errorf(
			"compiled with the flags %q, now they are %q: run `make kernels`", m.Flags,
			module.AllFlags(),
		)
	}
	if !strings.Contains(m.Compiler, "V13.0.") {
		t.Errorf(
			"compiler %q, want 13.0: drivers of that version take no PTX of a newer one",
			m.Compiler,
		)
	}
	for name, unpacked := range map[string]func() (string, error){
		"rollout.ptx":         module.PTX,
		"rollout.sm_90.cubin": module.Cubin,
	} {
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
var forbidden = regexp.MustCompile(
	`(?m)^.*(\.approx|\.ftz|\bdiv\.full|\bmad(\.rn)?\.f(32|64)|\b(atom|red)\.).*$`,
)

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
	for _, line := range []string{
		"\tred.shared.add.f32 \t[%r1], %f1;", "@%p1 atom.global.add.u32 %r1, [%rd1], 1;",
		"\tex2.approx.ftz.f32 %f1, %f2;", "\tmad.rn.f32 %f1, %f2, %f3, %f4;",
	} {
		if !forbidden.MatchString(line) {
			t.Errorf("%q would not be noticed", line)
		}
	}
	for _, want := range []string{
		"fma.rn.f32", "div.rn.f32", "sqrt.rn.f32", ".target sm_80", ".version 9.0",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the PTX has no %q", want)
		}
	}
}

// hash is that of some sources.
func hash(t *testing.T, files fs.FS) string {
	t.Helper()
	h, err := kernelhash.Sources(files)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

var pragma = regexp.MustCompile(`(?m)^#pragma once$`)

// TestHashComments: what another compiler leaves of the kernels when it takes their comments
// away has the same hash.
func TestHashComments(t *testing.T) {
	compiler := want.Compiler.Need(t)
	for name, folder := range map[string]fs.FS{
		"rollout": kernels.Sources,
		"classic": classic.Sources,
	} {
		kept, stripped := fstest.MapFS{}, fstest.MapFS{}
		files, err := fs.Glob(folder, "*")
		if err != nil || len(files) < 5 {
			t.Fatalf("%s: %d files, %v", name, len(files), err)
		}
		for _, file := range files {
			data, err := fs.ReadFile(folder, file)
			if err != nil {
				continue // a folder
			}
			c := exec.Command(compiler, "-fpreprocessed", "-dD", "-E", "-P", "-x", "c++", "-")
			c.Stdin = bytes.NewReader(pragma.ReplaceAll(data, nil)) // which it would not print
			kept[file] = &fstest.MapFile{Data: pragma.ReplaceAll(data, nil)}
			if data, err = c.Output(); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			stripped[file] = &fstest.MapFile{Data: data}
		}
		if hash(t, stripped) != hash(t, kept) {
			t.Errorf("%s: the compiler sees something else than what is hashed", name)
		}
	}
}
