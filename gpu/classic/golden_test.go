package classic

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"slices"
	"testing"

	"lockstep/classic"
	golden "lockstep/golden/classic"
	"lockstep/gpu/classic/module"
	kernelsources "lockstep/gpu/kernels/classic"
	"lockstep/internal/want"
)

// TestGymnasium compares the kernels, executed on the CPU, with recordings of
// unmodified Gymnasium. Of those in which a launch is one step it takes a seed each.
func TestGymnasium(t *testing.T) {
	want.Compiler.Need(t)
	cases, err := golden.Goldens()
	if err != nil {
		t.Fatal(err)
	}
	engine, err := OnCPU(1)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, c := range cases {
		if c.Autoreset == classic.Disabled.String() && c.Seed != 0 {
			continue
		}
		t.Run(c.Name(), func(t *testing.T) {
			if err := c.Compare(engine); err != nil {
				t.Error(err)
			}
		})
		compared++
	}
	if compared < len(cases)*8/10 {
		t.Errorf("%d of %d recordings were compared", compared, len(cases))
	}
}

// TestModule: the compiled kernels are those of the sources.
func TestModule(t *testing.T) {
	var names []string
	for _, pattern := range []string{"*.cu", "*.cuh", "*.h"} {
		found, err := fs.Glob(kernelsources.Sources, pattern)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	h := sha256.New()
	for _, name := range names {
		data, err := fs.ReadFile(kernelsources.Sources, name)
		if err != nil {
			t.Fatal(err)
		}
		h.Write(data)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != module.Sources() {
		t.Errorf("the kernels' sources have hash %s, the compiled ones %s: run `make kernels`", got, module.Sources())
	}
	for _, text := range []func() (string, error){module.PTX, module.Cubin} {
		if data, err := text(); err != nil || len(data) == 0 {
			t.Errorf("%d bytes, %v", len(data), err)
		}
	}
}
